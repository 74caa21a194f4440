// The trees of an ensemble: the arrays that Python holds → what C++ sees of them.

#include "bindings/bindings.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {

EnsembleView Trees::view() const {
    return {.tree_offsets = span(tree_offsets),
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
            .player = {},
            .width = static_cast<std::int32_t>(value.shape(1)),
            .n_outputs = 0,
            .n_players = 0,
            .is_float32 = false};
}

void bind_trees(nb::module_& m) {
    nb::class_<Trees>(m, "Trees")
        .def(nb::init<Array<std::int64_t>, Array<std::int32_t>, Array<std::int32_t>, Array<std::int32_t>, Array<double>,
                      Array<bool>, Array<std::int32_t>, Array<std::int64_t>, Array<std::int32_t>, Array<double>,
                      Matrix<double>, Array<std::int32_t>>(),
             nb::kw_only(), "tree_offsets"_a, "left"_a, "right"_a, "feature"_a, "threshold"_a, "missing_left"_a,
             "category_set"_a, "category_offsets"_a, "category_codes"_a, "cover"_a, "value"_a, "tree_output"_a);
}

}  // namespace linear_treeshap
