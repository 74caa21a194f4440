#include "background/prediction.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "run/parallel.hpp"

namespace linear_treeshap {
namespace {

constexpr std::size_t kTaskRows = 1024;

// A row alone visits a split per level. A block asks all splits of a tree, 64 rows at a time, which is worth it for
// so many rows and so few splits (kMaxBlockSplits).
constexpr std::size_t kMinBlockRows = 8;

template <class Number>
bool goes_left(const Program& program, const Condition& condition, Number x) {
    if (x != x) return condition.missing_left;
    if (condition.category_set < 0) return x <= static_cast<Number>(condition.threshold);
    // Codes lie below 2^31; anything else, infinities included, is in no set.
    return x >= Number(0) && x < Number(2147483648.0) &&
           program.category_sets[at(condition.category_set)].contains(static_cast<std::int64_t>(x));
}

// Calls add(row, value) with the leaf values that each row ends in.
template <class Number, class Add>
void walk(const Program& program, const Chunk& chunk, const Tree& tree, const RowsView& rows, const Add& add) {
    const auto* x = static_cast<const Number*>(rows.data);
    for (std::size_t row = 0; row < rows.n_rows; ++row, x += program.n_columns) {
        std::int32_t node = 0;
        while (node >= 0) {
            const Condition condition = chunk.conditions[at(tree.first_split[node].asks())];
            node = tree.child(node, goes_left(program, condition, x[chunk.columns[at(condition.feature)]]) ? 0 : 1);
        }
        add(row, chunk.values_of(~node));
    }
}

// Calls add(rows, value) with the bits of all rows of a block that end in a leaf, and its values.
template <class Add>
void visit_leaves(const Chunk& chunk, const Tree& tree, const std::uint64_t* words, std::uint64_t rows,
                  std::vector<std::uint64_t>& reached, const Add& add) {
    const std::size_t n_splits = at(tree.n_splits);
    reached.resize(n_splits);
    reached[0] = rows;
    for (std::size_t i = 0; i < n_splits; ++i)
        for (std::size_t side = 0; side < 2; ++side) {
            const std::uint64_t left = words[2 * n_splits + i];
            const std::uint64_t here = reached[i] & (side == 0 ? left : ~left);
            const auto child = tree.child(static_cast<std::int32_t>(i), side);
            if (child >= 0)
                reached[at(child)] = here;
            else if (here != 0)
                add(here, chunk.values_of(~child));
        }
}

void add_to(double* out, const Chunk& chunk, double weight, const double* value) {
    for (std::int32_t o = 0; o < chunk.n_outputs; ++o) out[at(chunk.output + o)] += weight * value[o];
}

template <class Add>
void walk_any(const Program& program, const Chunk& chunk, const Tree& tree, const RowsView& rows, const Add& add) {
    program.is_float32 ? walk<float>(program, chunk, tree, rows, add) : walk<double>(program, chunk, tree, rows, add);
}

// Calls add(row, value) for a tree that is one table, and rows that are transposed.
template <class Add>
void look_up(const Program& program, const BackgroundKernel& kernel, const Chunk& chunk, const Tree& tree,
             const RowsView& rows, const void* x, const Add& add) {
    const std::size_t block_bytes =
        chunk.columns.size() * kBlockRows * (program.is_float32 ? sizeof(float) : sizeof(double));
    alignas(64) std::array<std::uint8_t, kBlockRows> outcome;
    const auto* here = static_cast<const std::byte*>(x);
    for (std::size_t first = 0; first < rows.n_rows; first += kBlockRows, here += block_bytes) {
        kernel.find_outcomes(program, chunk, tree, here, outcome.data());
        const std::size_t n = std::min<std::size_t>(kBlockRows, rows.n_rows - first);
        for (std::size_t r = 0; r < n; ++r) add(first + r, chunk.values_of(tree.lookup->leaf[outcome[r]]));
    }
}

// Adds the weighted sum over each block of what the trees of a chunk predict to sums[block][output].
void add_chunk(const Program& program, const BackgroundKernel& kernel, const Chunk& chunk, const RowsView& rows,
               const BlockWeights& weights, Workspace& work, double* sums) {
    const bool in_blocks = rows.n_rows >= kMinBlockRows;
    if (in_blocks)
        kernel.add_block_sums(program, chunk, rows, weights,
                              work.x.reserve(kSumBlocks * kBlockRows * chunk.columns.size()), sums);
    for (const auto& tree : chunk.trees)
        if (!in_blocks || at(tree.n_splits) > kMaxBlockSplits)
            walk_any(program, chunk, tree, rows, [&](std::size_t row, const double* value) {
                add_to(sums + row / kBlockRows * at(program.n_outputs), chunk, weights.of(row % kBlockRows), value);
            });
}

// The sum of n numbers, every step-th, and, of float32, of their absolute values. Four sums wait less for each other
// than one.
struct Sums {
    double sum = 0.0, absolute = 0.0;

    template <class Value>
    Sums(const Value* numbers, std::size_t n, std::size_t step) {
        std::array<double, 4> sums{}, absolutes{};
        const auto add = [&](std::size_t to, double number) {
            sums[to] += number;
            if constexpr (std::is_same_v<Value, float>) absolutes[to] += std::abs(number);
        };
        std::size_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (std::size_t j = 0; j < 4; ++j) add(j, numbers[(i + j) * step]);
        for (; i < n; ++i) add(i % 4, numbers[i * step]);
        sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        absolute = (absolutes[0] + absolutes[1]) + (absolutes[2] + absolutes[3]);
    }
};

}  // namespace

void predict(const Program& program, const BackgroundKernel& kernel, const RowsView& rows, std::span<double> out,
             int n_threads, const Control::Poll& poll) {
    std::fill(out.begin(), out.end(), 0.0);
    const std::size_t n_outputs = at(program.n_outputs);
    Control control(poll, program.n_leaves * rows.n_rows);
    parallel_for(
        (rows.n_rows + kTaskRows - 1) / kTaskRows, n_threads, control, [&](std::size_t task, const Worker& worker) {
            const RowsView here = rows.slice(task * kTaskRows, kTaskRows);
            Workspace& work = worker.workspace();
            std::vector<std::uint64_t> reached;
            const std::size_t blocks = n_blocks(here.n_rows);
            double* const to = out.data() + task * kTaskRows * n_outputs;
            const bool in_blocks = here.n_rows >= kMinBlockRows;
            for (const auto& chunk : program.chunks) {
                double* const x = work.x.reserve(blocks * kBlockRows * chunk.columns.size());
                if (in_blocks) kernel.transpose(program, chunk, here, x);
                const auto add = [&](std::size_t row, const double* value) {
                    add_to(to + row * n_outputs, chunk, 1.0, value);
                };
                for (const auto& tree : chunk.trees) {
                    if (!in_blocks || at(tree.n_splits) > kMaxBlockSplits) {
                        walk_any(program, chunk, tree, here, add);
                        continue;
                    }
                    if (tree.is_lookup()) {
                        look_up(program, kernel, chunk, tree, here, x, add);
                        continue;
                    }
                    std::uint64_t* const bits = work.satisfied.reserve(blocks * n_words(tree));
                    kernel.evaluate(program, chunk, tree, x, blocks, bits);
                    for (std::size_t b = 0; b < blocks; ++b) {
                        const std::size_t n = std::min<std::size_t>(kBlockRows, here.n_rows - b * kBlockRows);
                        visit_leaves(chunk, tree, bits + b * n_words(tree), ~std::uint64_t{0} >> (kBlockRows - n),
                                     reached, [&](std::uint64_t ended, const double* value) {
                                         for (; ended != 0; ended &= ended - 1)
                                             add(b * kBlockRows + static_cast<std::size_t>(std::countr_zero(ended)),
                                                 value);
                                     });
                    }
                }
                if (!worker.advance(chunk.n_leaves * here.n_rows)) return;
            }
        });
}

template <class Value>
bool adds_up(const Program& program, const BackgroundKernel& kernel, const RowsView& rows,
             std::span<const Value> values, std::span<const double> base, double tolerance, int n_threads,
             const Control::Poll& poll) {
    constexpr double kRounding = std::numeric_limits<Value>::epsilon();
    const std::size_t n_outputs = at(program.n_outputs);
    const std::size_t per_row = rows.n_rows == 0 ? 0 : values.size() / rows.n_rows;
    const BlockWeights weights;
    std::atomic<bool> is_fine{true};
    Control control(poll, program.n_leaves * rows.n_rows);
    // Of the rows from `first`, a few blocks.
    const auto are_fine = [&](std::size_t first, const RowsView& some, const Worker& worker) {
        std::vector<double> predicted(n_blocks(some.n_rows) * n_outputs);
        for (const auto& chunk : program.chunks) {
            add_chunk(program, kernel, chunk, some, weights, worker.workspace(), predicted.data());
            if (!worker.advance(chunk.n_leaves * some.n_rows)) return true;  // nobody waits for the answer
        }
        for (std::size_t i = 0; i < predicted.size(); ++i) {
            const std::size_t begin = i / n_outputs * kBlockRows, o = i % n_outputs;
            double found = 0.0, absolute = 0.0;
            for (std::size_t r = 0; r < std::min<std::size_t>(kBlockRows, some.n_rows - begin); ++r) {
                const Sums of_row(values.data() + (first + begin + r) * per_row + o, per_row / n_outputs, n_outputs);
                found += weights.of(r) * (of_row.sum + base[o]);
                absolute += weights.of(r) * of_row.absolute;
            }
            if (!(std::abs(found - predicted[i]) <= tolerance + kRounding * absolute)) return false;  // NaN as well
        }
        return true;
    };
    parallel_for((rows.n_rows + kTaskRows - 1) / kTaskRows, n_threads, control,
                 [&](std::size_t task, const Worker& worker) {
                     constexpr std::size_t kStep = kSumBlocks * kBlockRows;
                     const std::size_t end = std::min(rows.n_rows, (task + 1) * kTaskRows);
                     for (std::size_t row = task * kTaskRows; row < end && is_fine; row += kStep)
                         if (!are_fine(row, rows.slice(row, kStep), worker)) is_fine = false;
                 });
    return is_fine;
}

template bool adds_up(const Program&, const BackgroundKernel&, const RowsView&, std::span<const float>,
                      std::span<const double>, double, int, const Control::Poll&);
template bool adds_up(const Program&, const BackgroundKernel&, const RowsView&, std::span<const double>,
                      std::span<const double>, double, int, const Control::Poll&);

}  // namespace linear_treeshap
