// A tree in the paper's terms: a list of its edges, with all that does not depend on the row.
//
// An edge e is named by the node at its lower end, h(e). w_e is its share of its parent's cover, and e↑ the closest
// edge above that asks the same feature, ⊥ if there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/ensemble.hpp"

namespace linear_treeshap::paper {

struct Edge {
    double threshold;           // of the parent's question
    double p;                   // p_e if the row satisfies e and the edges of its feature above: Π 1/w; else p_e is 0
    std::int32_t feature;       // which the parent asks
    std::int32_t category_set;  // -1 where the parent asks for a number
    std::int32_t level;         // edges from the root down to here
    std::int32_t above;         // the level of e↑, 0 for ⊥
    std::int32_t leaf;          // its number if h(e) is a leaf, else -1
    std::int32_t d;             // d_e, the degree of G_h(e)
    std::int32_t d_above;       // that of e↑
    std::int32_t d_parent;
    bool is_left;
    bool missing_left;
};

struct Tree {
    std::vector<Edge> edges;      // each before those below it, left before right; the first is no edge but the root
    std::vector<double> R_empty;  // (n_leaves, width) R^v_∅ = V · Π w
    std::int32_t output = 0;      // the first that the tree adds to
    std::int32_t depth = 0;

    std::size_t degree() const { return static_cast<std::size_t>(edges.front().d); }  // most features on a path
};

Tree tree_of(const EnsembleView& ensemble, std::size_t index);

}  // namespace linear_treeshap::paper
