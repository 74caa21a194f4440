// Interactions: indices of sets of players, of every order that is asked for, in one walk over the trees.
//
// The index of a set T is Σ_v V ∫ Π_{i∈T}(a_i-c_i) Π_{j∉T} u_j dμ, summed over the leaves v below which all of
// T's players occur. With γ = (a-c)/u of a player's last edge on the path, the product of the set's γ changes at
// each edge of one of its players, and only that factor changes; so, as for values, edge by edge:
//
//   return over edge e of player i    for every choice of other players above e:
//                                     φ_{i, j, …} += Σ_k H[k] · difference_k · γ_j[k] · …
//
// `plan_sets` numbers the sets that meet on some path, once, and writes down the walk. Sets that never meet have
// index zero and do not exist here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "compile/program.hpp"
#include "compile/tiles.hpp"

namespace linear_treeshap {

struct SetStep {
    enum class Kind : std::uint8_t {
        descend,  // carry C over the edge to an inner child, and keep the state of its player
        close,    // H of both children is known, or the child is a leaf: collect
        twig,     // both children are leaves: collect, by tables of what the row can do here
    };
    Kind kind;
    std::uint8_t side;  // descend: which child; others: which child of its parent this is
    std::int32_t split;
    std::int32_t level;    // where C and H of this split, and the state of its edge, live
    std::int32_t n_above;  // others: distinct players above, without its own
};

struct SetTree {
    const Tree* tree;
    std::vector<SetStep> steps;
    std::vector<std::int32_t> above;  // of each step that collects: the levels of the last edges of the players above
    std::vector<std::int32_t> slots;  // of each step that collects: the sets it adds to, see `Planner::collect`
    std::vector<PointTile> tiles;
    std::size_t expansion_begin = 0;
    std::size_t expansion_size = 0;  // doubles
    int n_points = 0;
    int n_levels = 0;
};

// What a set gives of its index to one of its subsets.
struct Share {
    std::int32_t set, subset;  // in the chunk's numbering
    double share;
};

// Trees that add to one output (or the same few), and whose sets are numbered from zero.
struct SetChunk {
    const Chunk* chunk;
    std::vector<SetTree> trees;
    std::vector<std::int32_t> sets;  // chunk's numbering → model's, increasing
    std::vector<Share> shares;       // given in this order, smaller sets first
    std::size_t n_splits = 0;
    std::size_t expansion_begin = 0;
    std::size_t expansion_size = 0;  // doubles
    int max_levels = 0;
};

struct SetProgram {
    const Program* program;
    int min_order, max_order;
    Rules rules;
    std::vector<SetChunk> chunks;
    std::vector<std::vector<std::int32_t>> sets;  // players, increasing; smaller sets first, then by players
    std::size_t expansion_size = 0;               // doubles
};

struct TooManySets : std::length_error {
    using std::length_error::length_error;
};

// Sets of min_order to max_order players. `spread[r]`, if any, is what each subset that lacks r players of a set gets
// of the set's index, as a share: with Bernoulli's numbers that turns the Shapley interaction index into k-SII, whose
// sets add up to the prediction. Throws TooManySets if those on all paths are too many to be written down.
// `poll` is asked now and then, and may throw as well: nothing is left behind.
SetProgram plan_sets(const Program& program, const RuleFor& rule_for, int min_order, int max_order,
                     std::span<const double> spread, const Control::Poll& poll);

}  // namespace linear_treeshap
