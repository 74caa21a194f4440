// How large tasks are: the numbers that all engines share.
#pragma once

#include <algorithm>
#include <cstddef>

#include "run/rows.hpp"

namespace linear_treeshap {

// What a task reads and writes is not larger than this, if that is enough for one block of rows.
inline constexpr std::size_t kMaxTaskBytes = std::size_t{8} << 20;

inline std::size_t round_to_blocks(std::size_t n_rows) {
    return std::max<std::size_t>(1, n_rows / kBlockRows) * kBlockRows;
}

// Up to so many rows of so many bytes each.
inline std::size_t rows_that_fit(std::size_t n_rows, std::size_t bytes_per_row) {
    return round_to_blocks(std::min(n_rows, kMaxTaskBytes / std::max<std::size_t>(1, bytes_per_row)));
}

// As many threads as have something to do: below this many leaves · rows one costs more to wake than it saves.
inline int threads_for(std::size_t work, int n_threads) {
    constexpr std::size_t work_per_thread = 50'000;
    return static_cast<int>(std::clamp<std::size_t>(work / work_per_thread, 1, static_cast<std::size_t>(n_threads)));
}

}  // namespace linear_treeshap
