// What crosses the seam from Python: the arrays of a TreeEnsemble, already validated there, seen as
// spans. Names and meanings are those of ensemble.py.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace linear_treeshap {

struct EnsembleView {
    std::span<const std::int64_t> tree_offsets;
    std::span<const std::int32_t> left;
    std::span<const std::int32_t> right;
    std::span<const std::int32_t> feature;
    std::span<const double> threshold;
    std::span<const bool> missing_left;
    std::span<const std::int32_t> category_set;
    std::span<const std::int64_t> category_offsets;
    std::span<const std::int32_t> category_codes;
    std::span<const double> cover;
    std::span<const double> value;  // (n_nodes, width), row-major
    std::span<const std::int32_t> tree_output;
    std::span<const std::int32_t> player;  // (n_features,) the player each column belongs to
    std::int32_t width;                    // outputs per leaf
    std::int32_t n_outputs;
    std::int32_t n_players;
    bool is_float32;  // numbers are float32 before they meet a threshold

    // w of two siblings: in proportion to their covers, so they add up to 1; one half each if they have none.
    std::array<double, 2> cover_ratios(std::size_t left_node, std::size_t right_node) const {
        const double scale = std::isinf(cover[left_node] + cover[right_node]) ? 0.5 : 1.0;
        const double one = scale * cover[left_node], other = scale * cover[right_node], both = one + other;
        return both > 0 ? std::array{one / both, other / both} : std::array{0.5, 0.5};
    }

    std::int64_t n_trees() const { return static_cast<std::int64_t>(tree_offsets.size()) - 1; }
};

}  // namespace linear_treeshap
