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
            [](LinearTreeShap* forest, const Trees& trees, std::int32_t n_features, std::int32_t n_outputs) {
                EnsembleView view = trees.view();  // without players: the paper gives values to features
                view.n_players = n_features;
                view.n_outputs = n_outputs;
                const WithoutGil no_gil;
                new (forest) LinearTreeShap(view);
            },
            "trees"_a, nb::kw_only(), "n_features"_a, "n_outputs"_a)
        .def_prop_ro("degrees",
                     [](const LinearTreeShap& forest) {
                         std::vector<std::size_t> degrees;
                         for (const paper::Tree& tree : forest.trees()) degrees.push_back(tree.degree());
                         return degrees;
                     })
        .def("explain", &explain, "rows"_a, "phi"_a);
}

}  // namespace linear_treeshap
