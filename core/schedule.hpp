// How rows and chunks of trees become tasks. A task is a run of rows; where there are fewer of those than
// threads, it is one chunk of trees for one run of rows, and the chunks' values are added up in order
// afterwards, which gives the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "parallel.hpp"

namespace linear_treeshap {

// Writes `row_values` values of every row. Run i of rows begins at begin[i] and ends at begin[i + 1].
// explain_chunk(first_row, n_rows, chunk, double* to, is_caller) adds what a chunk gives to a run of rows, and
// returns false if the work must stop.
template <class Value, class ExplainChunk>
void explain_by_chunks(const std::vector<std::size_t>& begin, std::size_t n_chunks, std::size_t row_values,
                       std::span<Value> values, int n_threads, Control& control, const ExplainChunk& explain_chunk) {
    constexpr bool is_double = std::is_same_v<Value, double>;
    const std::size_t n_parts = begin.size() - 1;
    if (n_parts >= static_cast<std::size_t>(n_threads) || n_chunks == 1) {
        parallel_for(n_parts, n_threads, control, [&](std::size_t i, bool is_caller) {
            const std::size_t n_rows = begin[i + 1] - begin[i], n_values = n_rows * row_values;
            Value* const to = values.data() + begin[i] * row_values;
            std::vector<double> exact(is_double ? 0 : n_values);
            double* sum;
            if constexpr (is_double) {
                sum = to;
                std::fill_n(sum, n_values, 0.0);
            } else {
                sum = exact.data();
            }
            for (std::size_t c = 0; c < n_chunks; ++c)
                if (!explain_chunk(begin[i], n_rows, c, sum, is_caller)) return;
            if constexpr (!is_double)
                std::transform(exact.begin(), exact.end(), to, [](double v) { return static_cast<Value>(v); });
        });
        return;
    }
    // Few rows, many trees: every chunk writes values of its own.
    std::vector<double> by_chunk(n_chunks * values.size());
    parallel_for(n_parts * n_chunks, n_threads, control, [&](std::size_t task, bool is_caller) {
        const std::size_t i = task / n_chunks, c = task % n_chunks;
        double* const to = by_chunk.data() + c * values.size() + begin[i] * row_values;
        explain_chunk(begin[i], begin[i + 1] - begin[i], c, to, is_caller);
    });
    for (std::size_t i = 0; i < values.size(); ++i) {
        double sum = 0.0;
        for (std::size_t c = 0; c < n_chunks; ++c) sum += by_chunk[c * values.size() + i];
        values[i] = static_cast<Value>(sum);
    }
}

}  // namespace linear_treeshap
