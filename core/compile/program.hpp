// The compiled model: what the kernel needs to know of every tree, compactly.
//
// `compile` walks each tree once and writes down
//   - its splits, with the quantities of the recurrence that do not depend on the row: the cover
//     ratios w of both edges, the absent weight c of the same player above, and where that is;
//   - the steps in which blocks of rows walk it (steps.hpp), and the order in which a few rows do (bunches.hpp).
//
// Trees are explained in chunks. A chunk speaks of one output (or a few, for vector leaves) and
// numbers the columns and players it uses from zero, so its working memory depends on the chunk
// alone. Where leaves have more outputs than that, chunks share their trees and differ in leaf values. Values are
// summed within a chunk first, and then over chunks in order: the result does not depend on threads or on how rows are
// cut into calls, and rounding errors do not grow with the number of trees.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compile/bunches.hpp"
#include "compile/quadrature.hpp"
#include "compile/steps.hpp"
#include "model/at.hpp"
#include "model/ensemble.hpp"
#include "run/control.hpp"
#include "run/rows.hpp"

namespace linear_treeshap {

inline constexpr int kMinWalkRows = 16;      // rows that walk together at least, if there are so many
inline constexpr int kMaxChunkOutputs = 16;  // outputs of a vector leaf explained at once
inline constexpr int kMaxLookupBits = 8;     // distinct conditions of a tree that becomes one table

// An inner node. Its edges are numbered 2·split + side (0: left, 1: right).
struct Split {
    double ratio[2];        // w of the left and the right edge, each 1 - the other, with all of its digits
    double absent_above;    // c of this player's edges above; 1 if there are none
    std::int32_t child[2];  // a split, or ~leaf, in the chunk's numbering
    std::int32_t above;     // the closest edge above of the same player; -1 if there is none
    std::int32_t player;    // in the chunk's numbering
    std::int32_t asks;      // a condition, in the chunk's numbering
};

// A split as it is kept: there may be many millions. Of its two sides, fewer training rows took the rare one; the other
// one is common.
struct PackedSplit {
    double rare_ratio;                  // w of the edge to the rare side
    std::array<std::int32_t, 2> child;  // rare and common: a split that comes so much later, or ~leaf
    std::uint32_t rare_answer : 31;     // 2·condition + the side that is rare (0: left, 1: right)
    std::uint32_t is_repeated : 1;
    std::int32_t who;  // a player; if it is repeated, the split's place among the repeats of all trees of the chunk

    void ask(std::size_t condition, std::size_t side_that_is_rare) {
        rare_answer = static_cast<std::uint32_t>(2 * condition + side_that_is_rare) & 0x7FFFFFFFU;
    }
    std::int32_t asks() const { return static_cast<std::int32_t>(rare_answer / 2); }
    std::size_t rare_side() const { return rare_answer % 2; }
    double ratio_at(std::size_t side) const { return side == 0 ? rare_ratio : 1.0 - rare_ratio; }
    // A split, if this is the i-th of the tree, or ~leaf.
    std::int32_t child_at(std::int32_t i, std::size_t side) const {
        return child[side] < 0 ? child[side] : i + child[side];
    }
};
static_assert(sizeof(PackedSplit) == 24);

// What there is to know of a split whose player has edges above, or that is walked as if.
struct Repeat {
    double absent_above;  // as Split's
    std::int32_t split;   // of the tree
    std::int32_t back;    // 2·split - the closest edge above of the same player; 0 if there is none
    std::int32_t player;
};

// What the splits of a chunk ask of a row, each condition once: first numbers, column by column, then categories.
struct ColumnConditions {
    std::int32_t feature;  // column, in the chunk's numbering
    bool missing_left;
    std::size_t end;  // of its thresholds
};
struct CategoryQuestion {
    std::int32_t feature, category_set;
    bool missing_left;
};
struct Condition {
    double threshold;
    std::int32_t feature;
    std::int32_t category_set;  // -1: numeric
    bool missing_left;
};
struct Conditions {
    std::span<const ColumnConditions> columns;
    std::span<const double> thresholds;
    std::span<const std::int32_t> column_of;  // each threshold
    std::span<const CategoryQuestion> categories;

    std::size_t size() const { return thresholds.size() + categories.size(); }
    Condition operator[](std::size_t i) const {
        if (i >= thresholds.size()) {
            const auto& question = categories[i - thresholds.size()];
            return {0.0, question.feature, question.category_set, question.missing_left};
        }
        const auto& column = columns[at(column_of[i])];
        return {thresholds[i], column.feature, -1, column.missing_left};
    }
};

// A tree with few distinct conditions (a symmetric tree, most of all) has few outcomes: the walk is
// done once for each of them, and rows look their values up.
struct Lookup {
    std::int32_t n_conditions = 0, n_players = 0;
    std::array<std::int32_t, kMaxLookupBits> condition;  // in the chunk's numbering
    std::array<std::int32_t, kMaxLookupBits> player;     // in the order of the table
    std::span<const std::int32_t> leaf;                  // of each outcome

    std::span<const std::int32_t> conditions() const {
        return std::span(condition).first(static_cast<std::size_t>(n_conditions));
    }
    std::span<const std::int32_t> players() const {
        return std::span(player).first(static_cast<std::size_t>(n_players));
    }
    std::size_t n_states() const { return std::size_t{1} << n_conditions; }
    // Doubles of its table: whole vectors.
    std::size_t table_doubles(std::int32_t n_outputs) const {
        return (n_states() * at(n_players) * at(n_outputs) + 7) / 8 * 8;
    }
};

// Its lists lie in a Forest: there may be millions of trees, each so small that lists of its own would be most of it.
struct Tree {
    const PackedSplit* first_split = nullptr;
    const Walk* first_walk = nullptr;
    const Repeat* chunk_repeats = nullptr;  // of all trees of the chunk
    const Lookup* lookup = nullptr;         // null: rows are walked
    std::int32_t n_splits = 0, n_walks = 0;
    std::int32_t first_repeat = 0, n_repeats = 0;
    std::int32_t n_points = 0;  // that the path of most players needs
    std::int32_t n_levels = 0;

    bool is_lookup() const { return lookup != nullptr; }
    std::span<const PackedSplit> splits() const { return {first_split, at(n_splits)}; }  // from the top down
    std::span<const Walk> walks() const { return {first_walk, at(n_walks)}; }
    std::span<const Repeat> repeats() const { return {chunk_repeats + first_repeat, at(n_repeats)}; }

    std::int32_t player_of(const PackedSplit& split) const {
        return split.is_repeated ? chunk_repeats[split.who].player : split.who;
    }
    std::int32_t child(std::int32_t i, std::size_t side) const {
        const PackedSplit& split = first_split[i];
        return split.child_at(i, side ^ split.rare_side());
    }
    Split operator[](std::int32_t i) const {
        const PackedSplit& split = first_split[i];
        const std::size_t left = split.rare_side();
        Split out{{split.ratio_at(left), split.ratio_at(1 - left)},
                  1.0,
                  {child(i, 0), child(i, 1)},
                  -1,
                  player_of(split),
                  split.asks()};
        if (split.is_repeated) {
            const Repeat& repeat = chunk_repeats[split.who];
            out.absent_above = repeat.absent_above;
            out.above = repeat.back == 0 ? -1 : 2 * i - repeat.back;
        }
        return out;
    }
};

// What chunks of the same trees share. The trees' lists lie side by side, each as large as they are together.
struct Forest {
    std::vector<Tree> trees;
    std::vector<PackedSplit> splits;
    std::vector<Step> steps;
    std::vector<Walk> walks;
    std::vector<Repeat> repeats;
    std::vector<Lookup> lookups;
    std::vector<std::int32_t> outcomes;  // the leaf of each, where there is a lookup
    Bunches bunches;
    std::vector<ColumnConditions> column_conditions;
    std::vector<double> thresholds;
    std::vector<std::int32_t> column_of_threshold;
    std::vector<CategoryQuestion> category_conditions;
    std::vector<std::int32_t> columns, players;
};

struct Chunk {
    std::span<const Tree> trees;            // of a Forest
    std::span<const Bunch> bunches;         // the same trees, for a few rows
    std::span<const std::int32_t> columns;  // chunk's numbering → model's
    std::span<const std::int32_t> players;  // chunk's numbering → model's
    Conditions conditions;
    std::vector<double> leaf_value;  // (n_leaves, n_outputs), tree after tree
    std::size_t table_begin = 0;     // where its tables lie if they are kept
    std::int32_t output = 0;         // first output
    std::int32_t n_outputs = 1;
    std::size_t n_leaves = 0;

    std::size_t n_repeats() const {
        return trees.empty() ? 0 : at(trees.back().first_repeat) + at(trees.back().n_repeats);
    }
    const double* values_of(std::int32_t leaf) const { return &leaf_value[at(leaf) * at(n_outputs)]; }
};

// A set of category codes: a bitset, or a sorted list where a code is so large that bits would waste memory.
struct CategorySet {
    std::vector<std::uint32_t> words;
    std::vector<std::int32_t> sorted;

    bool contains(std::int64_t code) const {
        if (!sorted.empty()) return std::binary_search(sorted.begin(), sorted.end(), code);
        const auto word = static_cast<std::size_t>(code >> 5);
        return code >= 0 && word < words.size() && ((words[word] >> (code & 31)) & 1U) != 0;
    }
};

struct Program {
    std::vector<Forest> forests;  // chunks point to them
    std::vector<Chunk> chunks;
    std::vector<CategorySet> category_sets;
    Rules rules, rules_with_ends;
    std::int32_t n_columns = 0;
    std::int32_t n_players = 0;
    std::int32_t n_outputs = 1;
    bool is_float32 = false;     // what the rows are made of
    std::size_t n_leaves = 0;    // over all chunks
    std::size_t table_size = 0;  // doubles, of all trees together

    const Rule& rule_of(const Walk& walk) const { return (walk.has_ends ? rules_with_ends : rules).at(walk.n_points); }

    Program() = default;
    Program(Program&&) = default;  // a copy would point to the lists of the original
};

// `poll` is asked now and then, and may throw: nothing is left behind.
Program compile(const EnsembleView& ensemble, const RulesOfIndex& index, const Control::Poll& poll);

}  // namespace linear_treeshap
