// The kernels of background data as their callers see them: one source for each idea (background_kernel.cpp,
// background_scan.cpp), compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compile/background_plan.hpp"
#include "kernels/kernel.hpp"

namespace linear_treeshap {

// A block of rows and a block of background rows, before the leaves of a tree that are in no table.
struct RowPairs {
    const std::uint64_t* row_words;  // of one block each: n_words(tree)
    const std::uint64_t* background_words;
    std::size_t n_rows, n_background;  // of up to 64
    const double* weights;             // of the background rows; null: ones
    std::size_t weights_per_row;       // 0 if all rows share their weights, else how far apart those of two rows are
    double scale;
    double* phi;         // [slot][64 rows], added to
    const Pairs* pairs;  // null: values of players
};

struct BackgroundKernel {
    // The columns a chunk reads, transposed: [block][column][64 rows].
    void (*transpose)(const Program&, const Chunk&, const RowsView&, void* x);
    // [block][n_words(tree)]
    void (*evaluate)(const Program&, const Chunk&, const Tree&, const void* x, std::size_t n_blocks,
                     std::uint64_t* words);
    // Adds the weight of each row to the bin of its state; null weights are ones.
    void (*count)(const BackgroundTree&, const LeafTable&, const std::uint64_t* words, std::size_t words_per_block,
                  std::size_t n_rows, const double* weights, double* histogram);
    // Adds the values of all tables of a tree to φ, [block][slot][64 rows].
    void (*look_up)(const BackgroundTree&, const double* tables, const std::uint64_t* words,
                    std::size_t words_per_block, std::size_t n_rows, double* phi, std::size_t phi_per_block);
    // Adds the values of all leaves that are in no table. Returns false if the work must stop.
    bool (*scan)(const Chunk&, const Tree&, const BackgroundTree&, const Moments&, const RowPairs&, const Worker&);
};

const BackgroundKernel& background_kernel_of(const Kernel& kernel);

}  // namespace linear_treeshap
