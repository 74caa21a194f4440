#include "background/prediction.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace linear_treeshap {
namespace {

constexpr std::size_t kTaskRows = 1024;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// Adds a tree's leaf values to the rows of a block.
void add_leaves(const Chunk& chunk, const Tree& tree, const std::uint64_t* words, std::uint64_t rows,
                std::size_t stride, std::vector<std::uint64_t>& reached, double* out) {
    const std::size_t n_splits = tree.splits.size(), n_outputs = at(chunk.n_outputs);
    reached.resize(n_splits);
    reached[0] = rows;
    for (std::size_t i = 0; i < n_splits; ++i)
        for (int side = 0; side < 2; ++side) {
            const std::uint64_t left = words[2 * n_splits + i];
            std::uint64_t here = reached[i] & (side == 0 ? left : ~left);
            const auto child = tree.splits[i].child[side];
            if (child >= 0) {
                reached[at(child)] = here;
                continue;
            }
            const double* const value = chunk.values_of(tree, ~child);
            for (; here != 0; here &= here - 1) {
                double* const to = out + static_cast<std::size_t>(std::countr_zero(here)) * stride + at(chunk.output);
                for (std::size_t o = 0; o < n_outputs; ++o) to[o] += value[o];
            }
        }
}

}  // namespace

void predict(const Program& program, const BackgroundKernel& kernel, const RowsView& rows, std::span<double> out,
             int n_threads, const Control::Poll& poll) {
    std::fill(out.begin(), out.end(), 0.0);
    const std::size_t n_outputs = at(program.n_outputs);
    Control control(poll, std::max<std::size_t>(1, program.n_leaves * rows.n_rows));
    parallel_for((rows.n_rows + kTaskRows - 1) / kTaskRows, n_threads, control, [&](std::size_t task, bool is_caller) {
        const RowsView part = cut(program, rows, task * kTaskRows, kTaskRows);
        Buffer<double> x;
        Buffer<std::uint64_t> words;
        std::vector<std::uint64_t> reached;
        const std::size_t n_blocks = (part.n_rows + kBlockRows - 1) / kBlockRows;
        for (const auto& chunk : program.chunks) {
            double* const transposed = x.reserve(n_blocks * kBlockRows * chunk.columns.size());
            kernel.transpose(program, chunk, part, transposed);
            for (const auto& tree : chunk.trees) {
                std::uint64_t* const bits = words.reserve(n_blocks * n_words(tree));
                kernel.evaluate(program, chunk, tree, transposed, n_blocks, bits);
                for (std::size_t b = 0; b < n_blocks; ++b) {
                    const std::size_t n = std::min<std::size_t>(kBlockRows, part.n_rows - b * kBlockRows);
                    add_leaves(chunk, tree, bits + b * n_words(tree), ~std::uint64_t{0} >> (kBlockRows - n), n_outputs,
                               reached, out.data() + (task * kTaskRows + b * kBlockRows) * n_outputs);
                }
            }
            if (!control.advance(chunk.n_leaves * part.n_rows, is_caller)) return;
        }
    });
}

}  // namespace linear_treeshap
