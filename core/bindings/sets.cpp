// Interactions of sets of players.

#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings/bindings.hpp"
#include "sets/set_engine.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

template <class T>
using Matrices = nb::ndarray<T, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Sums = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Number, class Value>
void explain(const SetEngine& engine, const Matrix<Number>& rows, const Values<Value>& out, int n_threads,
             const Progress& progress) {
    const Program& program = *engine.program().program;
    const RowsView view = rows_of(program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == engine.program().sets.size() &&
            out.shape(2) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const WithoutGil no_gil;
    engine.explain<Value>(view, {out.data(), out.size()}, n_threads, poll);
}

template <class Number, class Value>
void explain_dense(const SetEngine& engine, const Matrix<Number>& rows, const Matrices<Value>& out, int n_threads,
                   const Progress& progress) {
    const Program& program = *engine.program().program;
    const RowsView view = rows_of(program, rows);
    const auto n_players = static_cast<std::size_t>(program.n_players);
    require(engine.program().max_order <= 2 && out.shape(0) == rows.shape(0) && out.shape(1) == n_players &&
            out.shape(2) == n_players && out.shape(3) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const WithoutGil no_gil;
    engine.explain_dense<Value>(view, {out.data(), out.size()}, n_threads, poll);
}

template <class Number>
void add_up(const SetEngine& engine, const Matrix<Number>& rows, const Sums& sum, const Sums& sum_abs, int n_threads,
            const Progress& progress) {
    const Program& program = *engine.program().program;
    const RowsView view = rows_of(program, rows);
    for (const Sums* one : {&sum, &sum_abs})
        require(one->shape(0) == engine.program().sets.size() &&
                one->shape(1) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const WithoutGil no_gil;
    engine.add_up(view, {sum.data(), sum.size()}, {sum_abs.data(), sum_abs.size()}, n_threads, poll);
}

}  // namespace

void bind_sets(nb::module_& m) {
    nb::exception<TooManySets>(m, "TooManySets");
    auto engine = nb::class_<SetEngine>(m, "SetEngine");
    engine.def(
        "__init__",
        [](SetEngine* self, const Compiled& compiled, const nb::callable& rule, int min_order, int max_order,
           const std::vector<double>& spread) {
            const Progress nobody;
            const auto poll = poll_for(nobody);
            const WithoutGil no_gil;
            new (self) SetEngine(plan_sets(compiled.program, rule_for(rule), min_order, max_order, spread, poll),
                                 compiled.kernel);
        },
        "program"_a, nb::kw_only(), "rule"_a, "min_order"_a, "max_order"_a, "spread"_a, nb::keep_alive<1, 2>());
    engine.def_prop_ro("sets", [](const SetEngine& e) { return e.program().sets; });

    const auto def_explain = [&](const char* name, auto* one) {
        engine.def(name, one, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a, "progress"_a.none());
    };
    def_explain("explain", &explain<float, double>);
    def_explain("explain", &explain<double, double>);
    def_explain("explain", &explain<float, float>);
    def_explain("explain", &explain<double, float>);
    def_explain("explain_dense", &explain_dense<float, double>);
    def_explain("explain_dense", &explain_dense<double, double>);
    def_explain("explain_dense", &explain_dense<float, float>);
    def_explain("explain_dense", &explain_dense<double, float>);

    const auto def_add_up = [&](auto* one) {
        engine.def("add_up", one, "rows"_a, "sum"_a, "sum_abs"_a, nb::kw_only(), "n_threads"_a, "progress"_a.none());
    };
    def_add_up(&add_up<float>);
    def_add_up(&add_up<double>);
}

}  // namespace linear_treeshap
