// Trees as one row meets them: several at once, level by level, and splits that are alike one after the other, so that
// no branch depends on a tree. Everything that a walk reads of a split is in one small record, and records are read in
// the order in which they lie.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace linear_treeshap {

struct CompiledTree;
struct Split;

// A split of a bunch, by its place in it. Every condition is number <= threshold, of a list of numbers that a row is
// read into: two for each column of the chunk, where missing values are NaN, or below all thresholds because they go
// left; and before these, counted backwards, one for each question about categories, which is infinite.
struct BunchSplit {
    double threshold;
    double delta[2];  // δ of a row that goes right and of one that goes left: minus w of the left edge, w of the right
    std::int32_t number;
    std::int32_t player;                // in the chunk's numbering
    std::array<std::int32_t, 2> child;  // a place in the bunch, or a leaf in the chunk's numbering
};

// Splits of a level that are alike: whether their player is repeated, and which of their children are leaves.
struct BunchGroup {
    std::uint32_t n_splits : 29, is_repeated : 1, is_left_leaf : 1, is_right_leaf : 1;
};

struct Bunch {
    std::span<const BunchSplit> splits;
    // Of splits whose player is repeated, in their order: c of the player's edges above, and the closest of these, as
    // 2·place + side.
    std::span<const double> absent_above;
    std::span<const std::int32_t> above;
    std::span<const BunchGroup> groups;
    std::int32_t n_trees;   // whose roots have the first places
    std::int32_t n_points;  // that the tree with the most of them needs
    bool has_tables;        // trees that are one table each, and are walked where that is not at hand
};

struct CategoryQuestion {
    std::int32_t feature, category_set;
    bool missing_left;
};

// What chunks of the same trees share.
struct Bunches {
    std::vector<Bunch> all;
    std::vector<BunchSplit> splits;
    std::vector<double> absent_above;
    std::vector<std::int32_t> above;
    std::vector<BunchGroup> groups;
    std::vector<CategoryQuestion> questions;

    static Bunches of(std::span<const CompiledTree> trees);

  private:
    void add(std::span<const CompiledTree> trees);
    std::int32_t number_of(const Split& split);

    std::map<std::tuple<std::int32_t, std::int32_t, bool>, std::int32_t> seen_;  // the number of each question
};

}  // namespace linear_treeshap
