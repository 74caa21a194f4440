#include "background/prediction.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "run/parallel.hpp"

namespace linear_treeshap {
namespace {

constexpr std::size_t kTaskRows = 1024;

// A row alone visits a split per level. A block asks all splits of a tree, 64 rows at a time, which is worth it for
// so many rows and so few splits.
constexpr std::size_t kMinBlockRows = 8;
constexpr std::size_t kMaxBlockSplits = 512;

template <class Number>
bool goes_left(const Program& program, const Split& split, Number x) {
    if (x != x) return split.missing_left;
    if (split.category_set < 0) return x <= static_cast<Number>(split.threshold);
    // Codes lie below 2^31; anything else, infinities included, is in no set.
    return x >= Number(0) && x < Number(2147483648.0) &&
           program.category_sets[at(split.category_set)].contains(static_cast<std::int64_t>(x));
}

// Calls add(row, value) with the leaf values that each row ends in.
template <class Number, class Add>
void walk(const Program& program, const Chunk& chunk, const Tree& tree, const RowsView& rows, const Add& add) {
    const auto* x = static_cast<const Number*>(rows.data);
    for (std::size_t row = 0; row < rows.n_rows; ++row, x += program.n_columns) {
        std::int32_t node = 0;
        while (node >= 0) {
            const Split& split = tree.splits[at(node)];
            node = split.child[goes_left(program, split, x[chunk.columns[at(split.feature)]]) ? 0 : 1];
        }
        add(row, chunk.values_of(tree, ~node));
    }
}

// Calls add(rows, value) with the bits of all rows of a block that end in a leaf, and its values.
template <class Add>
void visit_leaves(const Chunk& chunk, const Tree& tree, const std::uint64_t* words, std::uint64_t rows,
                  std::vector<std::uint64_t>& reached, const Add& add) {
    const std::size_t n_splits = tree.splits.size();
    reached.resize(n_splits);
    reached[0] = rows;
    for (std::size_t i = 0; i < n_splits; ++i)
        for (int side = 0; side < 2; ++side) {
            const std::uint64_t left = words[2 * n_splits + i];
            const std::uint64_t here = reached[i] & (side == 0 ? left : ~left);
            const auto child = tree.splits[i].child[side];
            if (child >= 0)
                reached[at(child)] = here;
            else if (here != 0)
                add(here, chunk.values_of(tree, ~child));
        }
}

// Where predictions are added to: out[row][output], or out[block][output] where rows are weighted.
struct Predictions {
    double* out;
    std::size_t n_outputs;
    const BlockWeights* weights;

    void add_row(const Chunk& chunk, std::size_t row, const double* value) const {
        if (weights == nullptr) return add(chunk, row, 1.0, value);
        add(chunk, row / kBlockRows, weights->of(std::uint64_t{1} << row % kBlockRows), value);
    }
    void add_rows(const Chunk& chunk, std::size_t block, std::uint64_t rows, const double* value) const {
        if (weights != nullptr) return add(chunk, block, weights->of(rows), value);
        for (; rows != 0; rows &= rows - 1)
            add(chunk, block * kBlockRows + static_cast<std::size_t>(std::countr_zero(rows)), 1.0, value);
    }

  private:
    void add(const Chunk& chunk, std::size_t place, double weight, const double* value) const {
        double* const to = out + place * n_outputs + at(chunk.output);
        for (std::int32_t o = 0; o < chunk.n_outputs; ++o) to[o] += weight * value[o];
    }
};

}  // namespace

double BlockWeights::of(std::uint64_t rows) const {
    return std::popcount(rows) + std::popcount(rows & once) + 2 * std::popcount(rows & twice);
}

void predict(const Program& program, const BackgroundKernel& kernel, const RowsView& rows, std::span<double> out,
             const BlockWeights* weights, int n_threads, const Control::Poll& poll) {
    std::fill(out.begin(), out.end(), 0.0);
    const std::size_t n_outputs = at(program.n_outputs);
    Control control(poll, program.n_leaves * rows.n_rows);
    parallel_for(
        (rows.n_rows + kTaskRows - 1) / kTaskRows, n_threads, control, [&](std::size_t task, const Worker& worker) {
            const RowsView here = rows.slice(task * kTaskRows, kTaskRows);
            Workspace& work = worker.workspace();
            std::vector<std::uint64_t> reached;
            const std::size_t blocks = n_blocks(here.n_rows);
            const std::size_t first = task * kTaskRows / (weights == nullptr ? 1 : kBlockRows);
            const Predictions to{out.data() + first * n_outputs, n_outputs, weights};
            const bool in_blocks = here.n_rows >= kMinBlockRows;
            for (const auto& chunk : program.chunks) {
                double* const x = work.x.reserve(blocks * kBlockRows * chunk.columns.size());
                if (in_blocks) kernel.transpose(program, chunk, here, x);
                for (const auto& tree : chunk.trees) {
                    if (!in_blocks || tree.splits.size() > kMaxBlockSplits) {
                        const auto add = [&](std::size_t row, const double* value) { to.add_row(chunk, row, value); };
                        program.is_float32 ? walk<float>(program, chunk, tree, here, add)
                                           : walk<double>(program, chunk, tree, here, add);
                        continue;
                    }
                    std::uint64_t* const bits = work.satisfied.reserve(blocks * n_words(tree));
                    kernel.evaluate(program, chunk, tree, x, blocks, bits);
                    for (std::size_t b = 0; b < blocks; ++b) {
                        const std::size_t n = std::min<std::size_t>(kBlockRows, here.n_rows - b * kBlockRows);
                        visit_leaves(
                            chunk, tree, bits + b * n_words(tree), ~std::uint64_t{0} >> (kBlockRows - n), reached,
                            [&](std::uint64_t ended, const double* value) { to.add_rows(chunk, b, ended, value); });
                    }
                }
                if (!worker.advance(chunk.n_leaves * here.n_rows)) return;
            }
        });
}

}  // namespace linear_treeshap
