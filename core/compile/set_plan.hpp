// Interactions: indices of sets of players, of every order that is asked for, in one walk over the trees.
//
// The index of a set T is Σ_v V ∫ Π_{i∈T}(a_i-c_i) Π_{j∉T} u_j dμ, summed over the leaves v below which all of
// T's players occur. With γ = (a-c)/u of a player's last edge on the path, the product of the set's γ changes at
// each edge of one of its players, and only that factor changes; so, as for values, split by split:
//
//   at a split of player i    for every choice of other players above:
//                             φ_{i, j, …} += δ · Σ_k κ_k · C_k · (G_rare - G_common)_k · γ_j[k] · …
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

namespace linear_treeshap {

// Where C and G of a split are kept, and what the edge to it says of its player: that of the root, to which no edge
// leads, is 0.
constexpr std::int32_t place_below(std::int32_t level, std::size_t side) {
    return 1 + 2 * level + static_cast<std::int32_t>(side);
}

// C is carried to the children of a split that are splits; and the split is closed when G of both is known.
using SetOp = std::uint8_t;
inline constexpr SetOp kSetCloses = 8, kSetIsRepeated = 4, kSetRareIsLeaf = 2, kSetCommonIsLeaf = 1;

struct SetStep {
    SetOp op;  // some of these, added up
    std::int32_t split;
    std::int32_t place, level;
    std::int32_t above;    // the place below its player's closest edge above; 0 if there is none
    std::int32_t n_above;  // of one that closes: distinct players above, without its own
};

struct SetTree {
    const Tree* tree;
    std::vector<SetStep> steps;
    std::vector<std::int32_t> above;  // of each step that closes: the places below the last edges of the players above
    std::vector<std::int32_t> slots;  // of each step that closes: the sets it adds to, see `Planner::collect`
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
};

struct SetProgram {
    const Program* program;
    int min_order, max_order;
    Rules rules;
    std::vector<SetChunk> chunks;
    std::vector<std::vector<std::int32_t>> sets;  // players, increasing; smaller sets first, then by players
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
