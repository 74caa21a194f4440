// Which rows of a block satisfy which edges of a tree. (The kernel of values asks each condition of a chunk once, and
// needs this of repeated players only.)
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
LTS_INLINE void find_satisfied(const Program& program, const Tree& tree, const Number* x, std::uint64_t* satisfied,
                               const AndLeft& and_left) {
    const auto splits = tree.splits;  // a copy, which no store can change
    for (std::size_t i = 0; i < splits.size(); ++i) {
        const std::uint64_t left = goes_left<kBlockRows>(program, splits[i], x);
        const std::uint64_t above = splits[i].above < 0 ? ~std::uint64_t{0} : satisfied[splits[i].above];
        satisfied[2 * i] = left & above;
        satisfied[2 * i + 1] = ~left & above;
        and_left(i, left);
    }
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
