// The published algorithm: an ensemble → a LinearTreeShap, which explains rows.

#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings/bindings.hpp"
#include "paper/linear_tree_shap.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

using paper::LinearTreeShap;

void explain(const LinearTreeShap& forest, const Matrix<double>& rows, const Values<double>& phi) {
    require(rows.shape(1) == forest.n_features() && phi.shape(0) == rows.shape(0) && phi.shape(1) == rows.shape(1) &&
            phi.shape(2) == forest.n_outputs());
    const Progress nobody;
    const auto poll = poll_for(nobody);
    const WithoutGil no_gil;
    forest.explain({rows.data(), rows.size()}, {phi.data(), phi.size()}, [&] { poll(0); });
}

}  // namespace

void bind_paper(nb::module_& m) {
    nb::class_<LinearTreeShap>(m, "LinearTreeShap")
        .def(
            "__init__",
            [](LinearTreeShap* forest, const Array<std::int64_t>& tree_offsets, const Array<std::int32_t>& left,
               const Array<std::int32_t>& right, const Array<std::int32_t>& feature, const Array<double>& threshold,
               const Array<bool>& missing_left, const Array<std::int32_t>& category_set,
               const Array<std::int64_t>& category_offsets, const Array<std::int32_t>& category_codes,
               const Array<double>& cover, const Matrix<double>& value, const Array<std::int32_t>& tree_output,
               std::int32_t n_features, std::int32_t n_outputs) {
                const EnsembleView view{.tree_offsets = span(tree_offsets),
                                        .left = span(left),
                                        .right = span(right),
                                        .feature = span(feature),
                                        .threshold = span(threshold),
                                        .missing_left = span(missing_left),
                                        .category_set = span(category_set),
                                        .category_offsets = span(category_offsets),
                                        .category_codes = span(category_codes),
                                        .cover = span(cover),
                                        .value = {value.data(), value.size()},
                                        .tree_output = span(tree_output),
                                        .player = {},  // the paper gives values to features
                                        .width = static_cast<std::int32_t>(value.shape(1)),
                                        .n_outputs = n_outputs,
                                        .n_players = n_features,
                                        .is_float32 = false};
                const WithoutGil no_gil;
                new (forest) LinearTreeShap(view);
            },
            nb::kw_only(), "tree_offsets"_a, "left"_a, "right"_a, "feature"_a, "threshold"_a, "missing_left"_a,
            "category_set"_a, "category_offsets"_a, "category_codes"_a, "cover"_a, "value"_a, "tree_output"_a,
            "n_features"_a, "n_outputs"_a)
        .def_prop_ro("degrees",
                     [](const LinearTreeShap& forest) {
                         std::vector<std::size_t> degrees;
                         for (const paper::Tree& tree : forest.trees()) degrees.push_back(tree.degree());
                         return degrees;
                     })
        .def("explain", &explain, "rows"_a, "phi"_a);
}

}  // namespace linear_treeshap
