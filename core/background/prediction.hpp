// Raw predictions: by way of bits, which rows of a block reach which leaf, or row by row. The same leaves are added in
// the same order either way.
#pragma once

#include <span>

#include "kernels/background_kernel.hpp"

namespace linear_treeshap {

// What the rows of a block count for in a sum over them: one, one more with the first bit, two more with the second.
struct BlockWeights {
    std::uint64_t once, twice;

    double of(std::uint64_t rows) const;  // together
};

// Writes out[row][output], the sum over all trees, without base values; with weights out[block][output], the weighted
// sum over the 64 rows of each block, which takes a fraction of the time.
void predict(const Program& program, const BackgroundKernel& kernel, const RowsView& rows, std::span<double> out,
             const BlockWeights* weights, int n_threads, const Control::Poll& poll);

}  // namespace linear_treeshap
