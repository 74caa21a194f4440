// Path-dependent values.

#include <nanobind/stl/unique_ptr.h>

#include "bindings/bindings.hpp"
#include "values/value_engine.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

template <class Number, class Value>
void explain(const ValueEngine& engine, const Matrix<Number>& rows, const Values<Value>& out, int n_threads,
             const Progress& progress, bool among_many) {
    const Program& program = engine.program();
    const RowsView view = rows_of(program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == static_cast<std::size_t>(program.n_players) &&
            out.shape(2) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const WithoutGil no_gil;
    engine.explain<Value>(view, {out.data(), out.size()}, n_threads, poll, among_many);
}

}  // namespace

void bind_values(nb::module_& m) {
    auto engine = nb::class_<ValueEngine>(m, "ValueEngine");
    engine.def(
        "__init__",
        [](ValueEngine* self, const Compiled& compiled) {
            const WithoutGil no_gil;
            new (self) ValueEngine(compiled.program, compiled.kernel);
        },
        "program"_a, nb::keep_alive<1, 2>());
    const auto def_explain = [&](auto* one) {
        engine.def("explain", one, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a, "progress"_a.none(),
                   "among_many"_a);
    };
    def_explain(&explain<float, double>);
    def_explain(&explain<double, double>);
    def_explain(&explain<float, float>);
    def_explain(&explain<double, float>);
}

}  // namespace linear_treeshap
