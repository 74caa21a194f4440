// The compiled model: what the kernel needs to know of every tree, compactly.
//
// `compile` walks each tree once and writes down
//   - its splits, with the quantities of the recurrence that do not depend on the row: the cover
//     ratios w of both edges, the absent weight c of the same player above, and where that is;
//   - the steps in which blocks of rows walk it (steps.hpp), and what they need to know of its bottoms (bottoms.hpp).
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

// An inner node. Its edges are numbered 2·split + side (0: left, 1: right). It fills a line of a cache, because steps
// come from all over a tree.
struct alignas(64) Split {
    double threshold;
    double absent_above;        // c of this player's edges above; 1 if there are none
    double ratio[2];            // w of the left and the right edge, each 1 - the other, with all of its digits
    std::int32_t feature;       // column, in the chunk's numbering
    std::int32_t player;        // in the chunk's numbering
    std::int32_t above;         // the closest edge above of the same player; -1 if there is none
    std::int32_t child[2];      // a split, or ~leaf
    std::int32_t category_set;  // -1: numeric
    std::int32_t asks;          // a condition, in the chunk's numbering
    bool missing_left;
    std::uint8_t rare_side;
    std::uint8_t bit;  // lookup trees: which of the tree's conditions this is
    Below below;

    // With the rare side as 0, and the common one as 1.
    std::int32_t child_at(std::size_t side) const { return child[side ^ rare_side]; }
    double ratio_at(std::size_t side) const { return ratio[side ^ rare_side]; }
    // δ of a row that goes to the left (0) or right side (1): by how much it is surer of the rare one than all rows
    // are.
    double delta(std::size_t side) const { return side == rare_side ? ratio_at(1) : -ratio_at(0); }
};

// What the splits of a chunk ask of a row, each condition once: first numbers, column by column, then categories.
struct ColumnConditions {
    std::int32_t feature;
    bool missing_left;
    std::size_t end;  // of its thresholds
};
struct Conditions {
    std::span<const ColumnConditions> columns;
    std::span<const double> thresholds;
    std::span<const CategoryQuestion> categories;

    std::size_t size() const { return thresholds.size() + categories.size(); }
};

// A tree with few distinct conditions (a symmetric tree, most of all) has few outcomes: the walk is
// done once for each of them, and rows look their values up.
struct Lookup {
    std::int32_t n_conditions = 0, n_players = 0;
    std::array<std::int32_t, kMaxLookupBits> condition;  // a split that asks it
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
    std::span<const Split> splits;  // parents before children
    std::span<const Step> steps;
    std::span<const Asked> asked;            // by clean bottoms
    std::span<const std::int32_t> repeated;  // splits whose players have edges above, or that are walked as if
    const Lookup* lookup = nullptr;          // null: rows are walked
    std::int32_t first_leaf = 0;             // in the chunk's numbering
    std::int32_t first_number = 0;           // of clean bottoms, in the chunk's
    std::int32_t n_points = 0;
    std::int32_t n_levels = 0;

    bool is_lookup() const { return lookup != nullptr; }
};

// What the spans of a tree point to.
struct TreeLists {
    std::vector<Split> splits;
    std::vector<Step> steps;
    std::vector<Asked> asked;
    std::vector<std::int32_t> repeated;
    std::vector<std::int32_t> outcomes;  // the leaf of each, where there is a lookup
};

// What chunks of the same trees share. The trees' lists lie side by side, each as large as they are together.
struct Forest : TreeLists {
    std::vector<Tree> trees;
    std::vector<Lookup> lookups;
    Bunches bunches;
    std::vector<ColumnConditions> column_conditions;
    std::vector<double> thresholds;
    std::vector<CategoryQuestion> category_conditions;
    std::vector<std::int32_t> columns, players;
};

struct Chunk {
    std::span<const Tree> trees;                  // of a Forest
    std::span<const Bunch> bunches;               // the same trees, for one row
    std::span<const CategoryQuestion> questions;  // that these ask
    std::span<const std::int32_t> columns;        // chunk's numbering → model's
    std::span<const std::int32_t> players;        // chunk's numbering → model's
    Conditions conditions;
    std::vector<double> leaf_value;     // (n_leaves, n_outputs), tree after tree
    std::vector<double> bottom_number;  // of clean bottoms, if there is one output
    std::size_t table_begin = 0;        // where its tables lie if they are kept
    std::int32_t output = 0;            // first output
    std::int32_t n_outputs = 1;
    std::size_t n_leaves = 0;

    const double* values_of(const Tree& tree, std::int32_t leaf) const {
        return &leaf_value[static_cast<std::size_t>(tree.first_leaf + leaf) * static_cast<std::size_t>(n_outputs)];
    }
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
    Rules rules;
    std::int32_t n_columns = 0;
    std::int32_t n_players = 0;
    std::int32_t n_outputs = 1;
    bool is_float32 = false;     // what the rows are made of
    std::size_t n_leaves = 0;    // over all chunks
    std::size_t table_size = 0;  // doubles, of all trees together

    Program() = default;
    Program(Program&&) = default;  // a copy would point to the lists of the original
};

// `poll` is asked now and then, and may throw: nothing is left behind.
Program compile(const EnsembleView& ensemble, const RuleFor& rule_for, const Control::Poll& poll);

}  // namespace linear_treeshap
