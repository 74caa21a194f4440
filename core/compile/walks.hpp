// Which leaves of a tree blocks of rows walk to together. A path of few players needs few points, and a walk takes as
// many as its longest path; so leaves at the ends of long paths are left to another walk, where that costs less than
// the splits do that both walks meet.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compile/steps.hpp"

namespace linear_treeshap {

// Numbers of players on a path that are not told apart are one class: a bit.
using PathClasses = std::uint32_t;

class ClassesOfPaths {
  public:
    explicit ClassesOfPaths(int most_players) : most_(most_players), n_(std::min(kMost, most_players)) {}

    int size() const { return n_; }
    // Of a number of players, 1 at least.
    int operator()(int n_players) const { return (n_players * n_ + most_ - 1) / most_ - 1; }
    // The largest number of players of a class.
    int most_players(int i) const { return most_ * (i + 1) / n_; }

  private:
    static constexpr int kMost = 32;

    int most_, n_;
};

struct PlannedWalk {
    PathClasses classes, earlier;  // its own; of the walks before it
    int most_players;              // on its paths
};

// `classes`: what is below each split, or 0 if that does not count. n_points_of(n) is about what paths of n players
// need. The walks of fewer players come first.
inline std::vector<PlannedWalk> plan_walks(std::span<const PathClasses> classes, const ClassesOfPaths& class_of,
                                           const std::function<int(int n_players)>& n_points_of) {
    const auto n = static_cast<std::size_t>(class_of.size());
    // How many splits have something below of class `first` to `last`: met[last][first].
    std::vector<std::vector<double>> met(n, std::vector<double>(n, 0.0));
    for (const auto below : classes)
        for (std::size_t last = 0; last < n; ++last) {
            const int n_up_to = std::bit_width(below & (~PathClasses{0} >> (31 - last)));
            if (n_up_to > 0) ++met[last][static_cast<std::size_t>(n_up_to - 1)];
        }
    std::vector<int> n_points;
    for (int i = 0; i < class_of.size(); ++i) n_points.push_back(n_points_of(class_of.most_players(i)));
    // The least that walks to the classes up to each one cost, and where the last of them begins.
    std::vector<double> least(n + 1, 0.0);
    std::vector<std::size_t> begin(n, 0);
    for (std::size_t last = 0; last < n; ++last) {
        // A split takes as long as its points, and one more each time that it is met.
        const int n_times = (n_points[last] + kMaxBlockPoints - 1) / kMaxBlockPoints;
        double n_met = 0.0;
        for (std::size_t first = last + 1; first-- > 0;) {
            n_met += met[last][first];
            const double cost = least[first] + n_met * (n_points[last] + n_times);
            if (first == last || cost <= least[last + 1]) {  // no walk of its own for classes that nothing is of
                least[last + 1] = cost;
                begin[last] = first;
            }
        }
    }
    std::vector<PlannedWalk> out;
    for (std::size_t end = n; end > 0; end = begin[end - 1]) {
        const PathClasses earlier = (PathClasses{1} << begin[end - 1]) - 1, all = ~PathClasses{0} >> (32 - end);
        out.push_back({all & ~earlier, earlier, class_of.most_players(static_cast<int>(end) - 1)});
    }
    std::reverse(out.begin(), out.end());
    return out;
}

}  // namespace linear_treeshap
