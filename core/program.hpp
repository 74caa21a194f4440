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
// alone. Values are summed within a chunk first, and then over chunks in order: the result does not
// depend on threads or on how rows are cut into calls, and rounding errors do not grow with the
// number of trees.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ensemble.hpp"
#include "quadrature.hpp"

namespace linear_treeshap {

inline constexpr int kBlockRows = 64;        // rows whose conditions are evaluated at once: bits of a word
inline constexpr int kMinWalkRows = 16;      // rows that walk together at least, if there are so many
inline constexpr int kMaxTreeletBits = 4;    // 16 states: what one register permutation can look up
inline constexpr int kMaxTile = 4;           // quadrature points walked at once: what registers can hold
inline constexpr int kMaxChunkOutputs = 16;  // outputs of a vector leaf explained at once
inline constexpr int kMaxLookupBits = 8;     // distinct conditions of a tree that becomes one table

// An inner node. Its edges are numbered 2·split + side (0: left, 1: right).
struct Split {
    double threshold;
    double absent_above;        // c of this player's edges above; 1 if there are none
    double ratio[2];            // w of the left and the right edge
    double rest[2];             // 1 - w of both, from the covers: where w is near 1, all of its digits would cancel
    std::int32_t feature;       // column, in the chunk's numbering
    std::int32_t slot;          // where φ of its player begins: player · outputs, in the chunk's numbering
    std::int32_t above;         // the closest edge above of the same player; -1 if there is none
    std::int32_t child[2];      // a split, or ~leaf
    std::int32_t category_set;  // -1: numeric
    bool missing_left;
    bool in_treelet;
};

// A subtree whose outcome depends on at most 4 bits: its conditions, and for each player that also
// occurs above it, whether the row satisfied that player's edges there.
struct Treelet {
    std::int8_t n_splits, n_bits, n_players;
    std::array<std::int32_t, kMaxTreeletBits> split;  // from its root down
    std::array<std::int32_t, kMaxTreeletBits> bit;    // edges whose bit makes up the state; conditions first
    std::array<std::int32_t, kMaxTreeletBits> slot;   // of its players

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

// Quadrature points walked together, and where their constants lie in the tree's expansion: first
// scalars, which are broadcast, then the treelets' tables, which are aligned; both in step order.
struct PointTile {
    int first, n_points;
    std::size_t begin;   // in the tree's expansion, in doubles
    std::size_t tables;  // from `begin`
    std::size_t size;
};

struct Tree {
    std::vector<Split> splits;  // parents before children
    std::vector<Treelet> treelets;
    std::vector<Step> steps;
    std::vector<double> leaf_value;          // (n_leaves, chunk outputs)
    std::vector<std::int32_t> conditions;    // lookup trees: one split for each distinct condition
    std::vector<std::int32_t> condition_of;  // lookup trees: which of them each split is
    std::vector<std::int32_t> lookup_slot;   // lookup trees: players' slots in the order of the table
    std::vector<PointTile> tiles;
    std::size_t expansion_size = 0;   // doubles
    std::size_t expansion_begin = 0;  // where they lie if those of all trees are kept
    int n_points = 0;
    int n_levels = 0;

    // A tree with few distinct conditions (a symmetric tree, a stump) has few outcomes: the walk is
    // done once for each of them, and rows look their values up.
    bool is_lookup() const { return !conditions.empty(); }
};

struct Chunk {
    std::vector<Tree> trees;
    std::size_t first_tree = 0;         // how many trees the chunks before this one have
    std::vector<std::int32_t> columns;  // chunk's numbering → model's
    std::vector<std::int32_t> players;  // chunk's numbering → model's
    std::int32_t output = 0;            // first output
    std::int32_t n_outputs = 1;
    std::int32_t max_splits = 0;    // of a tree
    std::int32_t max_treelets = 0;  // of a tree
    std::int32_t max_levels = 0;    // of a tree
    std::int32_t max_points = 0;    // of a tile
    std::size_t max_expansion = 0;  // doubles made at once: of a tile, or of a table
    std::size_t n_leaves = 0;

    std::size_t end_tree() const { return first_tree + trees.size(); }
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
    std::vector<Chunk> chunks;
    std::vector<CategorySet> category_sets;
    Rules rules;
    std::int32_t n_columns = 0;
    std::int32_t n_players = 0;
    std::int32_t n_outputs = 1;
    bool is_float32 = false;         // what the rows are made of
    std::size_t n_leaves = 0;        // over all chunks
    std::size_t expansion_size = 0;  // doubles, of all trees together
};

// Calls a function whose template argument is the number of points of a tile.
template <class Function>
void with_points(int n_points, const Function& function) {
    static_assert(kMaxTile == 4);
    switch (n_points) {
        case 1:
            return function.template operator()<1>();
        case 2:
            return function.template operator()<2>();
        case 3:
            return function.template operator()<3>();
        default:
            return function.template operator()<4>();
    }
}

Program compile(const EnsembleView& ensemble, const RuleFor& rule_for);

inline std::size_t factor_scalars(const Split& split, int n_points) {
    return 2 * static_cast<std::size_t>(n_points) + (split.above >= 0 ? 1 : 0);
}
inline std::size_t treelet_doubles(const Treelet& treelet, int n_points) {
    return static_cast<std::size_t>((1 + treelet.n_players) * n_points * treelet.n_states());
}

}  // namespace linear_treeshap
