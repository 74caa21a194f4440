// The seam to Python for background data; the rest is in module.cpp.

#include <nanobind/stl/array.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "background/background_engine.hpp"
#include "background/prediction.hpp"
#include "bindings/bindings.hpp"
#include "values/value_engine.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

using Predictions = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Number>
std::unique_ptr<BackgroundEngine> with_background(const Engine& engine, const Matrix<Number>& rows,
                                                  const Array<double>& weights, bool only_pairs, bool of_couples,
                                                  int n_threads, const Progress& progress) {
    const RowsView view = rows_of(engine.program(), rows);
    require(weights.size() == 0 || weights.size() == rows.shape(0));
    const auto poll = poll_for(progress);
    const nb::gil_scoped_release no_gil;
    return std::make_unique<BackgroundEngine>(engine.program(), engine.kernel(), view,
                                              std::span(weights.data(), weights.size()), only_pairs, of_couples,
                                              n_threads, poll);
}

template <class Number, class Value>
void explain(const BackgroundEngine& engine, const Matrix<Number>& rows, const Values<Value>& out,
             const std::optional<Matrix<double>>& pair_weights, int n_threads, const Progress& progress) {
    const Program& program = engine.program();
    const RowsView view = rows_of(program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == engine.n_items() &&
            out.shape(2) == static_cast<std::size_t>(program.n_outputs));
    if (pair_weights)
        require(pair_weights->shape(0) == rows.shape(0) && pair_weights->shape(1) == engine.n_background());
    const auto poll = poll_for(progress);
    const nb::gil_scoped_release no_gil;
    engine.explain<Value>(view, {out.data(), out.size()}, pair_weights ? pair_weights->data() : nullptr, n_threads,
                          poll);
}

template <class Number>
void predict_rows(const Engine& engine, const Matrix<Number>& rows, const Predictions& out, int n_threads) {
    const Program& program = engine.program();
    const RowsView view = rows_of(program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == static_cast<std::size_t>(program.n_outputs));
    const Progress nobody;
    const auto poll = poll_for(nobody);
    const nb::gil_scoped_release no_gil;
    predict(program, background_kernel_of(engine.kernel()), view, {out.data(), out.size()}, n_threads, poll);
}

}  // namespace

void bind_background(nb::module_& m) {
    auto engine = nb::class_<BackgroundEngine>(m, "BackgroundEngine");
    const auto def_explain = [&](auto* one) {
        engine.def("explain", one, "rows"_a, "out"_a, nb::kw_only(), "pair_weights"_a.none(), "n_threads"_a,
                   "progress"_a.none());
    };
    engine.def_prop_ro("couples", [](const BackgroundEngine& e) { return e.couples(); });
    def_explain(&explain<float, double>);
    def_explain(&explain<double, double>);
    def_explain(&explain<float, float>);
    def_explain(&explain<double, float>);

    const auto def_with_background = [&](auto* one) {
        m.def("with_background", one, "engine"_a, "rows"_a, "weights"_a, nb::kw_only(), "only_pairs"_a, "of_couples"_a,
              "n_threads"_a, "progress"_a.none(), nb::keep_alive<0, 1>());
    };
    def_with_background(&with_background<float>);
    def_with_background(&with_background<double>);

    const auto def_predict = [&](auto* one) {
        m.def("predict", one, "engine"_a, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a);
    };
    def_predict(&predict_rows<float>);
    def_predict(&predict_rows<double>);
}

}  // namespace linear_treeshap
