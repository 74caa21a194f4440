// The kernel as its callers see it: one source (value_kernel.cpp), compiled once per instruction set.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "compile/program.hpp"
#include "run/rows.hpp"
#include "run/worker.hpp"

namespace linear_treeshap {

// How rows go through trees that are not tables. Each way rounds in an order of its own, whatever the rows beside.
enum class Way {
    by_points,       // one row after the other, the lanes of vectors being quadrature points (point_walk.hpp)
    plainly,         // lanes are rows, and all numbers are computed on the way (plain_walk.hpp)
    with_constants,  // lanes are rows, and what does not depend on them is made before (block_walk.hpp)
};

// Of the trees of a chunk, where they are kept; null, and they are made by whoever needs them.
struct Kept {
    const double *constants, *tables;
};

struct Kernel {
    std::string_view name;
    // Precompute a tree's constants, or its table; `out` has room for expansion_doubles(…), or table_doubles(…).
    void (*expand)(const Program&, const Chunk&, const Tree&, double* out);
    void (*tabulate)(const Program&, const Chunk&, const Tree&, double* out);
    // Adds the values that a chunk of trees gives to some rows to values[row][player][output].
    void (*explain)(const Program&, const Chunk&, const RowsView&, Way, const Kept&, Workspace&, double* values);
    // For which models plain walks are quicker however many rows there are (measured): narrow vectors compute sooner
    // than they read constants from afar, and those of AVX2 sooner than they look up.
    bool plain_for_large, plain_for_small;
};

// The kernels that this machine can run, the best first.
std::span<const Kernel* const> kernels();

}  // namespace linear_treeshap
