// What rows look like to a kernel, and which way they go at a split: rows are read in blocks of 64,
// transposed, and a split's answer is a word with a bit per row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "compile/program.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "model/at.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Fetches what walks will read here and there, while that is still known to be one piece.
template <class T>
LTS_INLINE void fetch(std::span<const T> list) {
    const char* const begin = reinterpret_cast<const char*>(list.data());
    for (std::size_t byte = 0; byte < list.size_bytes(); byte += 64) __builtin_prefetch(begin + byte, 0, 2);
}

// The columns the chunk reads, transposed; rows beyond the last are zeros that nobody looks at.
template <class Number>
[[gnu::noinline]] void transpose_block(const Program& program, const Chunk& chunk, const Number* rows,
                                       std::size_t n_rows, Number* x) {
    if (n_rows < kBlockRows) std::fill_n(x, chunk.columns.size() * kBlockRows, Number(0));
    const std::size_t n_columns = at(program.n_columns);
    for (const auto column : chunk.columns) {
        for (std::size_t r = 0; r < n_rows; ++r) x[r] = rows[r * n_columns + at(column)];
        x += kBlockRows;
    }
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
LTS_INLINE std::uint64_t goes_left(const Program& program, const Condition& condition, const Number* x) {
    const Number* column = x + at(condition.feature) * kBlockRows;
    if (condition.category_set >= 0) [[unlikely]]
        return in_set<kRows>(column, program.category_sets[at(condition.category_set)], condition.missing_left);
    return at_most<kRows>(column, static_cast<Number>(condition.threshold), condition.missing_left);
}

// For every condition of a chunk, which rows of some blocks go left: left[condition][block]. After the last comes
// what nobody asks: no row says yes.
template <int kRows, class Number>
[[gnu::noinline]] void answer(const Program& program, const Conditions& conditions, const Number* x,
                              std::size_t block_numbers, std::size_t n_blocks, std::uint64_t* left) {
    std::size_t i = 0;
    const auto compare = [&](const Number* column, std::size_t end, auto missing_left) LTS_INLINED {
        for (; i < end; ++i) {
            const auto threshold = static_cast<Number>(conditions.thresholds[i]);
            for (std::size_t b = 0; b < n_blocks; ++b)
                put_at_most<kRows>(column + b * block_numbers, threshold, missing_left, left++);
        }
    };
    for (const auto& column : conditions.columns) {
        const Number* const numbers = x + at(column.feature) * kBlockRows;
        column.missing_left ? compare(numbers, column.end, std::true_type())
                            : compare(numbers, column.end, std::false_type());
    }
    for (const auto& question : conditions.categories)
        for (std::size_t b = 0; b < n_blocks; ++b)
            *left++ = in_set<kRows>(x + b * block_numbers + at(question.feature) * kBlockRows,
                                    program.category_sets[at(question.category_set)], question.missing_left);
    std::fill_n(left, n_blocks, 0);
}

// The outcome of a tree that is one table, for each row.
template <int kRows, class Number>
LTS_INLINE Bytes outcomes(const Program& program, const Chunk& chunk, const Tree& tree, const Number* x) {
    Bytes out;
    const auto conditions = tree.lookup->conditions();
    for (std::size_t bit = 0; bit < conditions.size(); ++bit)
        out.add(goes_left<kRows>(program, chunk.conditions[at(conditions[bit])], x),
                static_cast<std::uint8_t>(1 << bit));
    return out;
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
