// Values against background rows.

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "background/background_engine.hpp"
#include "bindings/bindings.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

template <class Number>
void make(BackgroundEngine* self, const Compiled& compiled, const Matrix<Number>& rows, const Array<double>& weights,
          bool scan_only, bool of_pairs, int n_threads, const Progress& progress) {
    const RowsView view = rows_of(compiled.program, rows);
    require(weights.size() == 0 || weights.size() == rows.shape(0));
    const auto poll = poll_for(progress);
    const WithoutGil no_gil;
    new (self) BackgroundEngine(compiled.program, compiled.kernel, view, std::span(weights.data(), weights.size()),
                                scan_only, of_pairs, n_threads, poll);
}

template <class Number, class Value>
void explain(const BackgroundEngine& engine, const Matrix<Number>& rows, const Values<Value>& out,
             const std::optional<Matrix<double>>& row_pair_weights, int n_threads, const Progress& progress) {
    const Program& program = engine.program();
    const RowsView view = rows_of(program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == engine.n_items() &&
            out.shape(2) == static_cast<std::size_t>(program.n_outputs));
    if (row_pair_weights)
        require(row_pair_weights->shape(0) == rows.shape(0) && row_pair_weights->shape(1) == engine.n_background());
    const auto poll = poll_for(progress);
    const WithoutGil no_gil;
    engine.explain<Value>(view, {out.data(), out.size()}, row_pair_weights ? row_pair_weights->data() : nullptr,
                          n_threads, poll);
}

// Names and meanings are those of TableLists; `moments` has rows of `n_moments` numbers.
nb::dict table_lists(const BackgroundEngine& engine) {
    TableLists lists;
    {
        const WithoutGil no_gil;
        lists = engine.table_lists();
    }
    nb::dict out;
    out["feature"] = array_of(std::move(lists.feature));
    out["category_set"] = array_of(std::move(lists.category_set));
    out["threshold"] = array_of(std::move(lists.threshold));
    out["missing_left"] = array_of(std::move(lists.missing_left));
    out["condition"] = array_of(std::move(lists.condition));
    out["first_condition"] = array_of(std::move(lists.first_condition));
    out["first_bit"] = array_of(std::move(lists.first_bit));
    out["first_lane"] = array_of(std::move(lists.first_lane));
    out["player"] = array_of(std::move(lists.player));
    out["output"] = array_of(std::move(lists.output));
    out["is_scanned"] = array_of(std::move(lists.is_scanned));
    out["first_number"] = array_of(std::move(lists.first_number));
    out["number"] = array_of(std::move(lists.number));
    const auto& moments = engine.moments();
    out["moments"] = array_of(moments ? moments->numbers() : std::vector<double>());
    out["n_moments"] = moments ? moments->n_columns() : 0;
    return out;
}

}  // namespace

void bind_background(nb::module_& m) {
    auto engine = nb::class_<BackgroundEngine>(m, "BackgroundEngine");
    const auto def_make = [&](auto* one) {
        engine.def("__init__", one, "program"_a, "rows"_a, "weights"_a, nb::kw_only(), "scan_only"_a, "of_pairs"_a,
                   "n_threads"_a, "progress"_a.none(), nb::keep_alive<1, 2>());
    };
    def_make(&make<float>);
    def_make(&make<double>);
    engine.def_prop_ro("pairs", [](const BackgroundEngine& e) { return e.pairs(); });
    engine.def("table_lists", &table_lists);

    const auto def_explain = [&](auto* one) {
        engine.def("explain", one, "rows"_a, "out"_a, nb::kw_only(), "row_pair_weights"_a.none(), "n_threads"_a,
                   "progress"_a.none());
    };
    def_explain(&explain<float, double>);
    def_explain(&explain<double, double>);
    def_explain(&explain<float, float>);
    def_explain(&explain<double, float>);
}

}  // namespace linear_treeshap
