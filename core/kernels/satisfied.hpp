// Which rows of a block satisfy which edges of a tree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// satisfied[2·split + side]: a bit per row, set where all conditions of the edge's player down to it hold.
// Calls and_left(split, word) with the rows that go left at each split.
template <class Number, class AndLeft>
LTS_INLINE void find_satisfied(const Program& program, const Chunk& chunk, const Tree& tree, const Number* x,
                               std::uint64_t* satisfied, const AndLeft& and_left) {
    const Tree here = tree;  // copies, which no store can change
    const Conditions conditions = chunk.conditions;
    for (std::int32_t i = 0; i < here.n_splits; ++i) {
        const PackedSplit& split = here.first_split[i];
        const std::uint64_t left = goes_left<kBlockRows>(program, conditions[at(split.asks())], x);
        const std::int32_t back = split.is_repeated ? here.chunk_repeats[split.who].back : 0;
        const std::uint64_t above = back == 0 ? ~std::uint64_t{0} : satisfied[2 * i - back];
        satisfied[2 * i] = left & above;
        satisfied[2 * i + 1] = ~left & above;
        and_left(at(i), left);
    }
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
