// The kernel as its callers see it: one source (value_kernel.cpp), compiled once per instruction set.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "compile/program.hpp"
#include "run/rows.hpp"
#include "run/worker.hpp"

namespace linear_treeshap {

// How rows go through trees. Each way rounds in an order of its own, whatever the rows beside.
enum class Way {
    one_by_one,  // the lanes of vectors being quadrature points (bunch_walk.hpp)
    in_lanes,    // as many rows together as there are lanes (bunch_walk.hpp)
    in_blocks,   // as many as a cache holds (block_walk.hpp)
};

// So few rows are quickest one by one, and so few in lanes (measured).
struct MostRows {
    std::size_t one_by_one, in_lanes;
};

struct Kernel {
    std::string_view name;
    // Computes the table of a tree that is one; `out` has room for Lookup::table_doubles(…).
    void (*tabulate)(const Program&, const Chunk&, const Tree&, Workspace&, double* out);
    // Adds the values that a chunk of trees gives to some rows to values[row][player][output]. `tables` are those of
    // the chunk's trees, if they are kept.
    void (*explain)(const Program&, const Chunk&, const RowsView&, Way, const double* tables, Workspace&,
                    double* values);
    // In lanes, trees that need many points are walked more than once; blocks walk only to the leaves that need them.
    MostRows of_few_points, of_many_points;
};

// The kernels that this machine can run, the best first.
std::span<const Kernel* const> kernels();

}  // namespace linear_treeshap
