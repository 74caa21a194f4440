// Which tables are kept, and how rows are cut into tasks.

#include "values/value_engine.hpp"

#include <algorithm>
#include <vector>

#include "run/schedule.hpp"
#include "run/tasks.hpp"

namespace linear_treeshap {
namespace {

// Rows of a task: enough to read a tree from afar once and use it many times...
constexpr std::size_t kTaskRows = 512;
// ...and, where some finish earlier, so few at last...
constexpr std::size_t kLastTaskRows = 192;
// ...but never so many that nobody hears Ctrl-C for long.
constexpr std::size_t kMaxTaskWork = 50'000'000;  // leaves · outputs · points · rows of a chunk: a tenth of a second

// Tables of up to this size are kept: larger ones would not stay in any cache, and making them again costs little
// against the rows of a task.
constexpr std::size_t kMaxKeptBytes = std::size_t{32} << 20;

// What a leaf costs that is met by rows at all, in rows of a full block.
constexpr std::size_t kRowsPerMeeting = 16;

}  // namespace

ValueEngine::ValueEngine(const Program& program, const Kernel& kernel) : program_(program), kernel_(kernel) {
    task_rows_ = rows_per_task();
    most_ = find_most_rows();
    if (program_.table_size * sizeof(double) > kMaxKeptBytes) return;
    Workspace work;
    double* to = tables_.reserve(program_.table_size);
    for (const auto& chunk : program_.chunks)
        for (const auto& tree : chunk.trees)
            if (tree.is_lookup()) {
                kernel_.tabulate(program_, chunk, tree, work, to);
                to += tree.lookup->table_doubles(chunk.n_outputs);
            }
}

Way ValueEngine::way_for(std::size_t n_rows) const {
    return n_rows <= most_.one_by_one ? Way::one_by_one : n_rows <= most_.in_lanes ? Way::in_lanes : Way::in_blocks;
}

MostRows ValueEngine::find_most_rows() const {
    if (program_.rules.differences_lose_digits()) return {0, 0};  // bunches take the common edge by a difference
    std::size_t n_splits = 0, n_points = 0;
    for (const auto& chunk : program_.chunks)
        for (const auto& tree : chunk.trees) {
            n_splits += at(tree.n_splits);
            n_points += at(tree.n_splits) * at(tree.n_points);
        }
    const bool are_many = n_points > n_splits * at(kMaxBlockPoints);
    return are_many ? kernel_.of_many_points : kernel_.of_few_points;
}

std::size_t ValueEngine::rows_per_task() const {
    std::size_t bytes_per_row = 1, work_per_row = 1;
    for (const auto& chunk : program_.chunks) {
        const auto n_outputs = at(chunk.n_outputs);
        bytes_per_row = std::max(bytes_per_row, 8 * (chunk.columns.size() + chunk.players.size() * n_outputs));
        std::size_t work = 0;
        for (const auto& tree : chunk.trees)
            work += n_outputs * (tree.is_lookup() ? at(tree.lookup->n_conditions)
                                                  : (at(tree.n_splits) + 1) * at((tree.n_points + 3) / 4));
        work_per_row = std::max(work_per_row, work);
    }
    const std::size_t rows = std::min(rows_that_fit(kTaskRows, bytes_per_row), kMaxTaskWork / work_per_row);
    return rows >= kBlockRows ? round_to_blocks(rows) : std::max<std::size_t>(rows, kMinWalkRows);
}

// Where tasks begin, and the end. A task takes longer for each row the fewer it has, so every thread gets one if its
// share is not larger; else the last ones are smaller, so that threads finish together.
std::vector<std::size_t> ValueEngine::cuts(std::size_t n_rows, int n_threads) const {
    std::vector<std::size_t> out{0};
    const auto threads = static_cast<std::size_t>(n_threads);
    const std::size_t fewest = n_blocks(n_rows) * program_.chunks.size() < threads ? kMinWalkRows : kBlockRows;
    const std::size_t even = std::max((n_rows + threads - 1) / threads, fewest);
    while (out.back() < n_rows) {
        const std::size_t left = n_rows - out.back();
        const bool is_even = threads == 1 || even <= task_rows_;
        const std::size_t share = is_even ? even : std::max(round_to_blocks(left / (2 * threads)), kLastTaskRows);
        out.push_back(out.back() + std::min({left, task_rows_, share}));
    }
    return out;
}

template <class Value>
void ValueEngine::explain(const RowsView& rows, std::span<Value> values, int n_threads, const Control::Poll& poll,
                          bool among_many) const {
    const std::size_t row_values =
        static_cast<std::size_t>(program_.n_players) * static_cast<std::size_t>(program_.n_outputs);
    if (rows.n_rows == 0 || program_.chunks.empty()) {
        std::fill(values.begin(), values.end(), Value(0));
        return;
    }
    const Way way = among_many ? Way::in_blocks : way_for(rows.n_rows);
    n_threads = threads_for(program_.n_leaves * (rows.n_rows + kRowsPerMeeting), n_threads);
    Control control(poll, program_.n_leaves * rows.n_rows);
    explain_by_chunks(cuts(rows.n_rows, n_threads), program_.chunks.size(), row_values, values, n_threads, control,
                      [&](std::size_t first, std::size_t n, std::size_t c, double* to, const Worker& worker) {
                          const auto& chunk = program_.chunks[c];
                          const double* const tables =
                              tables_.data() == nullptr ? nullptr : tables_.data() + chunk.table_begin;
                          kernel_.explain(program_, chunk, rows.slice(first, n), way, tables, worker.workspace(), to);
                          return worker.advance(chunk.n_leaves * n);
                      });
}

template void ValueEngine::explain(const RowsView&, std::span<double>, int, const Control::Poll&, bool) const;
template void ValueEngine::explain(const RowsView&, std::span<float>, int, const Control::Poll&, bool) const;

}  // namespace linear_treeshap
