// Raw predictions: by way of bits, which rows of a block reach which leaf, or row by row. The same leaves are added in
// the same order either way.
#pragma once

#include <span>

#include "background/background_engine.hpp"

namespace linear_treeshap {

// Writes out[row][output], the sum over all trees, without base values.
void predict(const Program& program, const BackgroundKernel& kernel, const RowsView& rows, std::span<double> out,
             int n_threads, const Control::Poll& poll);

}  // namespace linear_treeshap
