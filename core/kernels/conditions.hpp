// What rows look like to a kernel, and which way they go at a split: rows are read in blocks of 64,
// transposed, and a split's answer is a word with a bit per row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compile/program.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "model/at.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// The columns the chunk reads, transposed; rows beyond the last are zeros that nobody looks at.
template <class Number>
void transpose_block(const Program& program, const Chunk& chunk, const Number* rows, std::size_t n_rows, Number* x) {
    if (n_rows < kBlockRows) std::fill_n(x, chunk.columns.size() * kBlockRows, Number(0));
    for (std::size_t r = 0; r < n_rows; ++r, rows += program.n_columns)
        for (std::size_t c = 0; c < chunk.columns.size(); ++c) x[c * kBlockRows + r] = rows[chunk.columns[c]];
}

template <int kRows, class Number>
std::uint64_t in_set(const Number* x, const CategorySet& set, bool missing_left) {
    if constexpr (kRows > 1)
        if (set.sorted.empty() && set.words.size() <= kMaxSetWords)
            return in_words<kRows>(x, SetWords(set.words), missing_left);
    std::uint64_t bits = 0;
    for (int r = 0; r < kRows; ++r) {
        // Codes lie below 2^31; anything else, infinities included, is in no set.
        const bool is_code = x[r] >= Number(0) && x[r] < Number(2147483648.0);
        const bool left = x[r] != x[r] ? missing_left : is_code && set.contains(static_cast<std::int64_t>(x[r]));
        bits |= static_cast<std::uint64_t>(left) << r;
    }
    return bits;
}

// Bit r: does row r, of the first kRows of the block, go left?
template <int kRows, class Number>
LTS_INLINE std::uint64_t goes_left(const Program& program, const Split& split, const Number* x) {
    const Number* column = x + at(split.feature) * kBlockRows;
    if (split.category_set >= 0) [[unlikely]]
        return in_set<kRows>(column, program.category_sets[at(split.category_set)], split.missing_left);
    return at_most<kRows>(column, static_cast<Number>(split.threshold), split.missing_left);
}

// The outcome of a tree that is one table, for each row.
template <int kRows, class Number>
LTS_INLINE Bytes outcomes(const Program& program, const Tree& tree, const Number* x) {
    Bytes out;
    const auto conditions = tree.lookup->conditions();
    for (std::size_t bit = 0; bit < conditions.size(); ++bit)
        out.add(goes_left<kRows>(program, tree.splits[at(conditions[bit])], x), static_cast<std::uint8_t>(1 << bit));
    return out;
}

// Does a row whose number in the split's column is x go left?
template <class Number>
LTS_INLINE bool row_goes_left(const Program& program, const Split& split, Number x) {
    if (split.category_set >= 0) [[unlikely]]
        return in_set<1>(&x, program.category_sets[at(split.category_set)], split.missing_left) != 0;
    // No branch: which way a row goes, and where missing values do, is as good as random.
    return (x <= static_cast<Number>(split.threshold)) | (split.missing_left & (x != x));
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
