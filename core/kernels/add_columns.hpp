// From numbers of a row side by side to lanes of rows.
#pragma once

#include <cstddef>

#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Adds the first n numbers, up to kLanes, of the rows at row_at(0), row_at(1), … to the lanes at to(0), to(1), …
template <class RowAt, class To>
LTS_INLINE void add_columns(std::size_t n, const RowAt& row_at, const To& to) {
    const auto add = [&](const auto& column) LTS_INLINED {
        for (std::size_t i = 0; i < column.size(); ++i)
            if (i < n) store(to(i), load(to(i)) + column[i]);
    };
    n <= kLanes / 2 ? add(columns<kLanes / 2>(row_at)) : add(columns(row_at));
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
