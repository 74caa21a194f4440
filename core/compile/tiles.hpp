// Tiles: quadrature points that are walked together, as many as registers hold.
#pragma once

#include <cstddef>

namespace linear_treeshap {

inline constexpr int kMaxTile = 4;

// Where the constants of a tile lie, in doubles.
struct PointTile {
    int first, n_points;
    std::size_t begin;  // in the tree's
    std::size_t size;
};

// Calls a function whose template argument is a number of points, at most kMost.
template <int kMost, class Function>
void with_points(int n_points, const Function& function) {
    if constexpr (kMost == 1)
        function.template operator()<1>();
    else
        n_points >= kMost ? function.template operator()<kMost>() : with_points<kMost - 1>(n_points, function);
}

}  // namespace linear_treeshap
