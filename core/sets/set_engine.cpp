// How rows become tasks, and indices of sets the answer that was asked for: sets, matrices, or sums over rows.

#include "sets/set_engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "run/parallel.hpp"
#include "run/tasks.hpp"

namespace linear_treeshap {

namespace {

// A block already keeps a thread busy for long enough.
constexpr std::size_t kTaskRows = kBlockRows;
// Sums of blocks of rows wait in memory of this size, if that is enough for sixteen blocks.
constexpr std::size_t kMaxSumBytes = std::size_t{16} << 20;

}  // namespace

SetEngine::SetEngine(SetProgram program, const Kernel& kernel)
    : program_(std::move(program)), kernel_(set_kernel_of(kernel)) {}

void SetEngine::for_blocks(const RowsView& rows, double* out, int n_threads, const Control::Poll& poll,
                           const Use& use) const {
    const Program& model = *program_.program;
    const std::size_t row_doubles = program_.sets.size() * at(model.n_outputs);
    const std::size_t task_rows = rows_that_fit(kTaskRows, 8 * row_doubles);
    const std::size_t n_tasks = (rows.n_rows + task_rows - 1) / task_rows;
    Control control(poll, rows.n_rows * program_.chunks.size());
    parallel_for(n_tasks, n_threads, control, [&](std::size_t task, const Worker& worker) {
        const std::size_t first = task * task_rows, n = std::min(task_rows, rows.n_rows - first);
        double* const values =
            out == nullptr ? worker.workspace().values.reserve(n * row_doubles) : out + first * row_doubles;
        std::fill_n(values, n * row_doubles, 0.0);
        for (const auto& chunk : program_.chunks) {
            if (!kernel_.explain(program_, chunk, rows.slice(first, n), worker, values)) return;
            if (!worker.advance(n)) return;
        }
        use(first, n, values);
    });
}

template <class Value>
void SetEngine::explain(const RowsView& rows, std::span<Value> out, int n_threads, const Control::Poll& poll) const {
    const std::size_t row_doubles = program_.sets.size() * at(program_.program->n_outputs);
    if constexpr (std::is_same_v<Value, double>)
        return for_blocks(rows, out.data(), n_threads, poll, [](std::size_t, std::size_t, const double*) {});
    for_blocks(rows, nullptr, n_threads, poll, [&](std::size_t first, std::size_t n, const double* values) {
        std::transform(values, values + n * row_doubles, out.data() + first * row_doubles,
                       [](double v) { return static_cast<Value>(v); });
    });
}

template <class Value>
void SetEngine::explain_dense(const RowsView& rows, std::span<Value> out, int n_threads,
                              const Control::Poll& poll) const {
    const std::size_t n_outputs = at(program_.program->n_outputs), n_players = at(program_.program->n_players);
    const std::size_t matrix = n_players * n_players * n_outputs, n_sets = program_.sets.size();
    // Of each set, its place in the matrix and the mirror image of that; single players, which come first, are both.
    std::vector<std::array<std::size_t, 2>> places;
    std::size_t n_single = 0;
    for (const auto& set : program_.sets) {
        const std::size_t i = at(set.front()), j = at(set.back());
        places.push_back({(i * n_players + j) * n_outputs, (j * n_players + i) * n_outputs});
        if (i == j) ++n_single;
    }
    for_blocks(rows, nullptr, n_threads, poll, [&](std::size_t first, std::size_t n, const double* values) {
        std::fill_n(out.data() + first * matrix, n * matrix, Value(0));
        for (std::size_t r = first; r < first + n; ++r) {
            Value* const to = out.data() + r * matrix;
            for (std::size_t s = 0; s < n_sets; ++s)
                for (std::size_t o = 0; o < n_outputs; ++o) {
                    const auto entry = static_cast<Value>(s < n_single ? *values : 0.5 * *values);
                    to[places[s][0] + o] = to[places[s][1] + o] = entry;
                    ++values;
                }
        }
    });
}

void SetEngine::add_up(const RowsView& rows, std::span<double> sum, std::span<double> sum_abs, int n_threads,
                       const Control::Poll& poll) const {
    const Program& model = *program_.program;
    const std::size_t row_doubles = program_.sets.size() * at(model.n_outputs);
    // Each block of rows leaves its own sums, and those are added in order: threads do not change a bit. So many
    // blocks at a time that their sums fit into memory.
    const std::size_t most_blocks =
        std::clamp<std::size_t>(kMaxSumBytes / (16 * std::max<std::size_t>(1, row_doubles)), 16, 1024);
    std::vector<double> sums;
    for (std::size_t begin = 0; begin < rows.n_rows; begin += most_blocks * kBlockRows) {
        const std::size_t n_rows = std::min(most_blocks * kBlockRows, rows.n_rows - begin);
        sums.assign(n_blocks(n_rows) * 2 * row_doubles, 0.0);
        for_blocks(rows.slice(begin, n_rows), nullptr, n_threads, poll,
                   [&](std::size_t first, std::size_t n, const double* values) {
                       for (std::size_t r = 0; r < n; ++r, values += row_doubles) {
                           double* const plain = sums.data() + (first + r) / kBlockRows * 2 * row_doubles;
                           for (std::size_t s = 0; s < row_doubles; ++s) {
                               plain[s] += values[s];
                               plain[row_doubles + s] += std::abs(values[s]);
                           }
                       }
                   });
        for (std::size_t block = 0; block < n_blocks(n_rows); ++block)
            for (std::size_t s = 0; s < row_doubles; ++s) {
                sum[s] += sums[block * 2 * row_doubles + s];
                sum_abs[s] += sums[(block * 2 + 1) * row_doubles + s];
            }
    }
}

template void SetEngine::explain(const RowsView&, std::span<double>, int, const Control::Poll&) const;
template void SetEngine::explain(const RowsView&, std::span<float>, int, const Control::Poll&) const;
template void SetEngine::explain_dense(const RowsView&, std::span<double>, int, const Control::Poll&) const;
template void SetEngine::explain_dense(const RowsView&, std::span<float>, int, const Control::Poll&) const;

}  // namespace linear_treeshap
