// The kernel as its callers see it: one source (value_kernel.cpp), compiled once per instruction set.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "compile/one_row.hpp"
#include "compile/program.hpp"
#include "run/rows.hpp"
#include "run/worker.hpp"

namespace linear_treeshap {

// The constants of all trees, where they are kept; null, and they are expanded by whoever needs them.
struct Constants {
    const double* expanded;
    const OneRowTree* one_row;  // of all trees, in order
};

struct Kernel {
    std::string_view name;
    // Precomputes a tree's constants; `out` has room for expansion_doubles(…).
    void (*expand)(const Program&, const Chunk&, const Tree&, double* out);
    // Adds the values that a chunk of trees gives to some rows to values[row][player][output].
    void (*explain)(const Program&, const Chunk&, const RowsView&, const Constants&, Workspace&, double* values);
    // The same without constants, which is quicker for few rows than making them, and rounded in other orders: with
    // rows in the lanes of vectors, and one row after the other with points in them.
    void (*explain_plainly)(const Program&, const Chunk&, const RowsView&, Workspace&, double* values);
    void (*explain_by_points)(const Program&, const Chunk&, const RowsView&, Workspace&, double* values);
    // Whether plain walks are quicker however many rows there are: narrow vectors compute sooner than they look up.
    bool is_narrow;
};

// The kernels that this machine can run, the best first.
std::span<const Kernel* const> kernels();

}  // namespace linear_treeshap
