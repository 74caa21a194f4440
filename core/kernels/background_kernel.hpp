// The kernels of background data as their callers see them: one source for each idea (background_kernel.cpp,
// background_scan.cpp), compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compile/background_plan.hpp"
#include "kernels/kernel.hpp"

namespace linear_treeshap {

// Rows, and background rows, that are scanned at once.
inline constexpr std::size_t kScanRows = 1024;
inline constexpr std::size_t kScanBackground = 1024;

// Some rows and background rows, before the leaves of a tree that are in no table.
struct RowPairs {
    const std::uint64_t* row_words;  // [block][n_words(tree)]
    const std::uint64_t* background_words;
    std::size_t words_per_block;
    std::size_t n_rows;           // of up to kScanRows
    std::size_t n_background;     // of up to kScanBackground
    const double* weights;        // of the background rows; null: ones
    std::size_t weights_per_row;  // 0 if all rows share their weights, else how far apart those of two rows are
    double scale;
    double* phi;  // [block][slot][64 rows], added to
    std::size_t phi_per_block;
    const Pairs* pairs;  // null: values of players
};

// What the rows of a block count for in a sum over them: one, one more with the first bit, two more with the second.
// All are positive, so errors of one sign do not cancel, and rows that take each other's place mostly differ.
struct BlockWeights {
    std::uint64_t once = 0x9E3779B97F4A7C15, twice = 0xD1B54A32D192ED03;

    int of(std::size_t row) const { return static_cast<int>(1 + (once >> row & 1) + 2 * (twice >> row & 1)); }
};

// A tree of more splits is walked row by row; a block would ask all of them.
inline constexpr std::size_t kMaxBlockSplits = 512;

// Blocks that go through a tree together: it is read from afar once.
inline constexpr std::size_t kSumBlocks = 4;

struct BackgroundKernel {
    // The columns a chunk reads, transposed: [block][column][64 rows].
    void (*transpose)(const Program&, const Chunk&, const RowsView&, void* x);
    // [block][n_words(tree)]
    void (*evaluate)(const Program&, const Chunk&, const Tree&, const void* x, std::size_t n_blocks,
                     std::uint64_t* words);
    // Of a tree that is one table, the outcome of each of 64 rows, transposed.
    void (*find_outcomes)(const Program&, const Chunk&, const Tree&, const void* x, std::uint8_t* out);
    // Adds the weighted sum over each of up to kSumBlocks blocks of what the trees of up to kMaxBlockSplits splits
    // predict, to sums[block][output]. `x` has room for these blocks, of the columns that the chunk reads.
    void (*add_block_sums)(const Program&, const Chunk&, const RowsView&, const BlockWeights&, void* x, double* sums);
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
