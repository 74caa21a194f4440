// A model once more, as one row reads it: quick for a single row, and made only of models so small
// that it is worth the memory.
//
// With one row every state is known before the walk, so a step reads only the constants of the state
// it is in. They are the numbers that many rows share, in another order: lanes are quadrature points,
// or the players of a treelet.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/program.hpp"

namespace linear_treeshap {

struct alignas(32) Four {
    double lane[4];
};
static_assert(kMaxTile <= 4 && kMaxTreeletBits <= 4);

// What a row satisfies is a byte per edge, after one that is never satisfied.
inline constexpr std::int32_t kNever = 0, kFirstEdge = 1;

// A dummy slot of φ, for players that a treelet does not have: it lies before all others.
inline constexpr std::int32_t kNobody = -kMaxChunkOutputs;

struct OneRowTree {
    struct Split {
        double threshold;
        std::int32_t column;  // in the chunk's numbering
    };
    struct Repeated {
        std::int32_t split;
        std::int32_t above;  // the edge above that must be satisfied as well
    };
    struct Treelet {
        std::array<std::int32_t, kMaxTreeletBits> bit;
        std::int32_t states_before;  // of the tree's treelets before this one
    };
    struct Step {
        enum class Kind : std::uint8_t { descend, whole, close };  // close + 3 · left child + right child
        std::uint8_t kind;
        std::uint8_t side;
        std::uint8_t n_states;  // of its edges: unsatisfied, satisfied; before these, if repeated, unsatisfied above
        std::int32_t level;
        std::int32_t edge;   // descend: of its side; close: the left one
        std::int32_t above;  // kNever if there is none
        std::int32_t slot;
        std::array<std::int32_t, 2> treelet;
    };
    struct Tile {
        int n_points;
        std::size_t steps;   // where the constants of the steps begin
        std::size_t tables;  // where those of the treelets begin: [state][output][points of players, and H]
    };
    bool has_categories = false;
    std::vector<Split> splits;
    std::vector<Repeated> repeated;  // splits outside treelets
    std::vector<Treelet> treelets;
    std::vector<std::array<std::int32_t, kMaxTreeletBits>> slots;  // of the treelets' players
    std::vector<Step> steps;
    std::vector<Tile> tiles;
    std::vector<Four> constants;
    const double* table = nullptr;  // lookup trees: where it is kept, and nothing else is known here
};

// `expanded` are the constants of the tree as the kernels for many rows read them.
OneRowTree for_one_row(const Tree& tree, int n_outputs, const double* expanded);

}  // namespace linear_treeshap
