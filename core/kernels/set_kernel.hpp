// The kernel of interactions as its callers see it: one source (set_kernel.cpp), compiled once per instruction set.
#pragma once

#include "compile/set_plan.hpp"
#include "kernels/kernel.hpp"

namespace linear_treeshap {

struct SetKernel {
    // Adds the indices that a chunk of trees gives to some rows to values[row][set][output].
    // Returns false if the work must stop.
    bool (*explain)(const SetProgram&, const SetChunk&, const RowsView&, const Worker&, double* values);
};
const SetKernel& set_kernel_of(const Kernel& kernel);

}  // namespace linear_treeshap
