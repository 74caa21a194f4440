// The compiled model: what the kernel needs to know of every tree, compactly.
//
// `compile` walks each tree once and writes down
//   - its splits, with the quantities of the recurrence that do not depend on the row: the cover
//     ratios w of both edges, the absent weight c of the same player above, and where that is;
//   - its treelets: subtrees at the bottom, so small that a row's way through them is one of at most
//     16 states, and a table look-up replaces the walk;
//   - the steps in which the rest is walked, children before parents.
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
#include "model/at.hpp"
#include "model/ensemble.hpp"
#include "run/control.hpp"
#include "run/rows.hpp"

namespace linear_treeshap {

inline constexpr int kMinWalkRows = 16;      // rows that walk together at least, if there are so many
inline constexpr int kMaxTreeletBits = 4;    // 16 states: what one register permutation can look up
inline constexpr int kMaxTile = 4;           // quadrature points walked at once: what registers can hold
inline constexpr int kMaxChunkOutputs = 16;  // outputs of a vector leaf explained at once
inline constexpr int kMaxLookupBits = 8;     // distinct conditions of a tree that becomes one table

// What is below a split: anything, two leaves, or a clean bottom of two or three levels of splits at most, whose
// players have none above, there or in it.
enum class Below : std::uint8_t { anything, leaves, two, three };

// An inner node. Its edges are numbered 2·split + side (0: left, 1: right).
struct Split {
    double threshold;
    double absent_above;        // c of this player's edges above; 1 if there are none
    double rest_above;          // 1 - c of them, from the covers: where c is near 1, all of its digits would cancel
    double ratio[2];            // w of the left and the right edge, each 1 - the other, with all of its digits
    std::int32_t feature;       // column, in the chunk's numbering
    std::int32_t player;        // in the chunk's numbering
    std::int32_t above;         // the closest edge above of the same player; -1 if there is none
    std::int32_t child[2];      // a split, or ~leaf
    std::int32_t category_set;  // -1: numeric
    bool missing_left;
    bool in_treelet;
    std::uint8_t condition;  // lookup trees: which of the distinct conditions this is
    Below below;

    // 1 - c with an edge of this split; both terms are positive, so no digit is lost.
    double rest_with(int side) const { return rest_above + absent_above * ratio[1 - side]; }
};

// A subtree whose outcome depends on at most 4 bits: its conditions, and for each player that also
// occurs above it, whether the row satisfied that player's edges there.
struct Treelet {
    std::int8_t n_splits, n_bits, n_players;
    std::array<std::int32_t, kMaxTreeletBits> split;   // from its root down
    std::array<std::int32_t, kMaxTreeletBits> bit;     // edges whose bit makes up the state; conditions first
    std::array<std::int32_t, kMaxTreeletBits> player;  // in the chunk's numbering

    int n_states() const { return n_bits <= 3 ? 8 : 16; }
};

enum class Child : std::uint8_t { inner, leaf, treelet };

struct Step {
    enum class Kind : std::uint8_t {
        descend,  // carry the product C over the edge to an inner child
        close,    // both children are known: collect H and the player's contribution
        whole,    // the tree is one treelet
    };
    Kind kind;
    std::uint8_t side;           // descend: which child; close: which child of its parent this is
    std::array<Child, 2> child;  // close
    std::int32_t split;
    std::int32_t level;                  // where C and H of this split live
    std::array<std::int32_t, 2> target;  // close: leaf or treelet of each child; whole: target[0]
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
};

// How many constants a walk reads at some quadrature points: scalars, and doubles of the treelets' tables.
struct ConstantCounts {
    std::uint32_t scalars = 0;  // whatever the points and outputs
    std::uint32_t scalars_per_output = 0;
    std::uint32_t scalars_per_point = 0;
    std::uint32_t table_per_point_and_output = 0;
};

// Its lists lie in a Forest: there may be millions of trees, each so small that lists of its own would be most of it.
struct Tree {
    std::span<const Split> splits;  // parents before children, left before right
    std::span<const Treelet> treelets;
    std::span<const Step> steps;
    const Lookup* lookup = nullptr;  // null: rows are walked
    std::int32_t first_leaf = 0;     // in the chunk's numbering
    std::int32_t n_points = 0;
    std::int32_t n_levels = 0;
    ConstantCounts counts;

    bool is_lookup() const { return lookup != nullptr; }
};

// What the spans of a tree point to.
struct TreeLists {
    std::vector<Split> splits;
    std::vector<Treelet> treelets;
    std::vector<Step> steps;
    std::vector<std::int32_t> outcomes;  // the leaf of each, where there is a lookup
};

// What chunks of the same trees share. The trees' lists lie side by side, each as large as they are together.
struct Forest : TreeLists {
    std::vector<Tree> trees;
    std::vector<Lookup> lookups;
    Bunches bunches;
    std::vector<std::int32_t> columns, players;
};

struct Chunk {
    std::span<const Tree> trees;                       // of a Forest
    std::span<const Bunch> bunches;                    // the same trees, for one row
    std::span<const CategoryQuestion> questions;       // that these ask
    std::span<const std::int32_t> columns;             // chunk's numbering → model's
    std::span<const std::int32_t> players;             // chunk's numbering → model's
    std::vector<double> leaf_value;                    // (n_leaves, n_outputs), tree after tree
    std::size_t expansion_begin = 0, table_begin = 0;  // where its constants and tables lie if all of them are kept
    std::int32_t output = 0;                           // first output
    std::int32_t n_outputs = 1;
    std::int32_t max_splits = 0;    // of a tree
    std::int32_t max_treelets = 0;  // of a tree
    std::int32_t max_levels = 0;    // of a tree
    std::int32_t max_points = 0;    // of a tile
    std::size_t max_expansion = 0;  // doubles of a tile
    std::size_t max_table = 0;      // doubles
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
    bool is_float32 = false;                         // what the rows are made of
    std::size_t n_leaves = 0;                        // over all chunks
    std::size_t expansion_size = 0, table_size = 0;  // doubles, of all trees together

    Program() = default;
    Program(Program&&) = default;  // a copy would point to the lists of the original
};

// `poll` is asked now and then, and may throw: nothing is left behind.
Program compile(const EnsembleView& ensemble, const RuleFor& rule_for, const Control::Poll& poll);

}  // namespace linear_treeshap
