// Tiles: the quadrature points that are walked together, and where their constants lie.
//
// They follow from the tree and the number of outputs, so they are worked out where they are needed, and
// trees that serve chunks of different outputs need not keep them.
#pragma once

#include <cstddef>

#include "compile/program.hpp"

namespace linear_treeshap {

// The constants of a tile and what a walk of 16 rows keeps of every level are at most this large, if one point is not
// too much by itself: trees of many outputs or levels take fewer points at a time.
inline constexpr std::size_t kMaxTileDoubles = std::size_t{2} << 20;

// First come scalars, which are broadcast, then the treelets' tables, which are aligned; both in step order.
struct PointTile {
    int first, n_points;
    std::size_t begin;   // in the tree's expansion, in doubles
    std::size_t tables;  // from `begin`
    std::size_t size;
};

inline std::size_t round_up(std::size_t n) { return (n + 7) / 8 * 8; }  // to a whole vector

inline std::size_t factor_scalars(const Split& split, int n_points) {
    return 2 * static_cast<std::size_t>(n_points) + (split.above >= 0 ? 1 : 0);
}
inline std::size_t treelet_doubles(const Treelet& treelet, int n_points) {
    return static_cast<std::size_t>((1 + treelet.n_players) * n_points * treelet.n_states());
}

inline PointTile tile_at(const Tree& tree, int n_outputs, int first, int n_points, std::size_t begin) {
    const auto points = static_cast<std::size_t>(n_points), outputs = static_cast<std::size_t>(n_outputs);
    const auto& counts = tree.counts;
    const std::size_t scalars =
        counts.scalars + counts.scalars_per_output * outputs + counts.scalars_per_point * points;
    const std::size_t tables = counts.table_per_point_and_output * points * outputs;
    return {first, n_points, begin, round_up(scalars), round_up(scalars) + tables};
}

inline int n_tiles(const Tree& tree, int n_outputs) {
    const auto fit = [&](int n_points) {
        const auto per_level = static_cast<std::size_t>(n_points * kMinWalkRows * (1 + 2 * n_outputs));
        return tile_at(tree, n_outputs, 0, n_points, 0).size <= kMaxTileDoubles &&
               static_cast<std::size_t>(tree.n_levels) * per_level <= kMaxTileDoubles;
    };
    static_assert(kMaxTile == 4);  // divisors are constants: this is asked of every tree, however small
    if (fit(4)) return (tree.n_points + 3) / 4;
    return fit(2) ? (tree.n_points + 1) / 2 : tree.n_points;
}

// Calls function(tile) for all tiles of a tree, which are nearly equal; returns the doubles of all of them.
template <class Function>
std::size_t for_each_tile(const Tree& tree, int n_outputs, const Function& function) {
    const int n = n_tiles(tree, n_outputs);
    std::size_t begin = 0;
    for (int i = 0, first = 0; i < n; ++i) {
        const int end = i + 1 == n ? tree.n_points : tree.n_points * (i + 1) / n;
        const PointTile tile = tile_at(tree, n_outputs, first, end - first, begin);
        function(tile);
        begin += tile.size;
        first = end;
    }
    return begin;
}

// Doubles of a tree's constants, of all tiles, and of its table: it has one or the other.
inline std::size_t expansion_doubles(const Tree& tree, int n_outputs) {
    return tree.is_lookup() ? 0 : for_each_tile(tree, n_outputs, [](const PointTile&) {});
}
inline std::size_t table_doubles(const Tree& tree, int n_outputs) {
    if (!tree.is_lookup()) return 0;
    return round_up(tree.lookup->n_states() * tree.lookup->players().size() * static_cast<std::size_t>(n_outputs));
}

// Calls a function whose template argument is a number of points, at most kMost.
template <int kMost, class Function>
void with_points(int n_points, const Function& function) {
    if constexpr (kMost == 1)
        function.template operator()<1>();
    else
        n_points >= kMost ? function.template operator()<kMost>() : with_points<kMost - 1>(n_points, function);
}

}  // namespace linear_treeshap
