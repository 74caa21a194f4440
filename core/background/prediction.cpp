#include "background/prediction.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace linear_treeshap {
namespace {

constexpr std::size_t kTaskRows = 1024;

// A row alone visits a split per level. A block asks all splits of a tree, 64 rows at a time, which is worth it for
// so many rows and so few splits.
constexpr std::size_t kMinBlockRows = 8;
constexpr std::size_t kMaxBlockSplits = 512;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

template <class Number>
bool goes_left(const Program& program, const Split& split, Number x) {
    if (x != x) return split.missing_left;
    if (split.category_set < 0) return x <= static_cast<Number>(split.threshold);
    // Codes lie below 2^31; anything else, infinities included, is in no set.
    return x >= Number(0) && x < Number(2147483648.0) &&
           program.category_sets[at(split.category_set)].contains(static_cast<std::int64_t>(x));
}

// Adds a tree's leaf values to rows that visit it one by one.
template <class Number>
void walk(const Program& program, const Chunk& chunk, const Tree& tree, const RowsView& rows, double* out) {
    const auto* x = static_cast<const Number*>(rows.data);
    for (std::size_t row = 0; row < rows.n_rows; ++row, x += program.n_columns, out += program.n_outputs) {
        std::int32_t node = 0;
        while (node >= 0) {
            const Split& split = tree.splits[at(node)];
            node = split.child[goes_left(program, split, x[chunk.columns[at(split.feature)]]) ? 0 : 1];
        }
        const double* const value = chunk.values_of(tree, ~node);
        for (std::int32_t o = 0; o < chunk.n_outputs; ++o) out[chunk.output + o] += value[o];
    }
}

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
        double* const to = out.data() + task * kTaskRows * n_outputs;
        for (const auto& chunk : program.chunks) {
            const bool in_blocks = part.n_rows >= kMinBlockRows;
            double* const transposed = x.reserve(n_blocks * kBlockRows * chunk.columns.size());
            if (in_blocks) kernel.transpose(program, chunk, part, transposed);
            for (const auto& tree : chunk.trees) {
                if (!in_blocks || tree.splits.size() > kMaxBlockSplits) {
                    program.is_float32 ? walk<float>(program, chunk, tree, part, to)
                                       : walk<double>(program, chunk, tree, part, to);
                    continue;
                }
                std::uint64_t* const bits = words.reserve(n_blocks * n_words(tree));
                kernel.evaluate(program, chunk, tree, transposed, n_blocks, bits);
                for (std::size_t b = 0; b < n_blocks; ++b) {
                    const std::size_t n = std::min<std::size_t>(kBlockRows, part.n_rows - b * kBlockRows);
                    add_leaves(chunk, tree, bits + b * n_words(tree), ~std::uint64_t{0} >> (kBlockRows - n), n_outputs,
                               reached, to + b * kBlockRows * n_outputs);
                }
            }
            if (!control.advance(chunk.n_leaves * part.n_rows, is_caller)) return;
        }
    });
}

}  // namespace linear_treeshap
