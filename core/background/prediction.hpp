// Raw predictions: by way of bits, which rows of a block reach which leaf, or row by row. The same leaves are added in
// the same order either way.
#pragma once

#include <span>

#include "kernels/background_kernel.hpp"

namespace linear_treeshap {

// Writes out[row][output], the sum over all trees, without base values.
void predict(const Program& program, const BackgroundKernel& kernel, const RowsView& rows, std::span<double> out,
             int n_threads, const Control::Poll& poll);

// Do values[row][number][output], over all numbers of a row, and base[output] add up to what `predict` writes? Weighted
// sums over 64 rows are compared, which takes a fraction of the time. Rounding of values to their type is allowed for,
// and `tolerance` beside it. A false answer says that something is amiss, or rounded otherwise, in some row.
template <class Value>
bool adds_up(const Program& program, const BackgroundKernel& kernel, const RowsView& rows,
             std::span<const Value> values, std::span<const double> base, double tolerance, int n_threads,
             const Control::Poll& poll);

}  // namespace linear_treeshap
