// Rows as they come from the user, row after row, and runs of them.
#pragma once

#include <algorithm>
#include <cstddef>

namespace linear_treeshap {

inline constexpr int kBlockRows = 64;  // rows whose conditions are evaluated at once: bits of a word

inline std::size_t n_blocks(std::size_t n_rows) { return (n_rows + kBlockRows - 1) / kBlockRows; }

struct RowsView {
    const void* data;  // (n_rows, n_columns) row-major, float or double
    std::size_t n_rows;
    std::size_t n_columns;
    bool is_float32;

    std::size_t n_bytes() const { return n_rows * n_columns * (is_float32 ? sizeof(float) : sizeof(double)); }

    // Up to n rows from the first.
    RowsView slice(std::size_t first, std::size_t n) const {
        const RowsView before{data, first, n_columns, is_float32};
        return {static_cast<const std::byte*>(data) + before.n_bytes(), std::min(n, n_rows - first), n_columns,
                is_float32};
    }
};

}  // namespace linear_treeshap
