// Which constants are kept, and how rows are cut into tasks.

#include "values/value_engine.hpp"

#include <algorithm>
#include <vector>

#include "compile/tiles.hpp"
#include "run/schedule.hpp"
#include "run/tasks.hpp"

namespace linear_treeshap {
namespace {

// A row of more trees takes a millisecond either way, and preparing them would slow down compiling.
constexpr std::size_t kMaxOneRowTrees = 4096;

// Rows of a task: enough to read a tree's constants from afar once and use them many times...
constexpr std::size_t kTaskRows = 512;
// ...but never so many that nobody hears Ctrl-C for long.
constexpr std::size_t kMaxTaskWork = 50'000'000;  // leaves · outputs · tiles · rows of a chunk: a tenth of a second

// So few rows are walked with no constants where these are not kept: making them costs as much as walking the rows.
// The lanes of a vector are then rows, or points if rows are fewer yet. The rows of the call count, not those of a
// task: a row's bits must not depend on how a call is cut.
constexpr std::size_t kMaxPlainRows = 256, kMaxRowsByPoints = 2;
// What a leaf costs then, in rows of a full block: one that is met by rows at all, and constants that are made again.
constexpr std::size_t kRowsPerMeeting = 16, kRowsPerExpansion = 256;

// Tables are worth making wherever there are many rows.
bool has_lookups(const Program& program) {
    return std::ranges::any_of(program.chunks, [](const Chunk& chunk) {
        return std::ranges::any_of(chunk.trees, [](const Tree& tree) { return tree.is_lookup(); });
    });
}

}  // namespace

ValueEngine::ValueEngine(const Program& program, const Kernel& kernel) : program_(program), kernel_(kernel) {
    if (program_.expansion_size * sizeof(double) <= kMaxCachedBytes)
        keep_constants();
    else if (!kernel_.is_narrow || has_lookups(program_))
        max_plain_rows_ = kMaxPlainRows;
    task_rows_ = rows_per_task();
}

void ValueEngine::keep_constants() {
    const std::size_t n_trees = program_.chunks.empty() ? 0 : program_.chunks.back().end_tree();
    double* expanded = expanded_.reserve(program_.expansion_size);
    for (const auto& chunk : program_.chunks)
        for (const auto& tree : chunk.trees) {
            kernel_.expand(program_, chunk, tree, expanded);
            if (n_trees <= kMaxOneRowTrees) one_row_.push_back(for_one_row(tree, chunk.n_outputs, expanded));
            expanded += expansion_doubles(tree, chunk.n_outputs);
        }
}

std::size_t ValueEngine::rows_per_task() const {
    const bool is_cached = expanded_.data() != nullptr;
    std::size_t bytes_per_row = 1, work_per_row = 1;
    for (const auto& chunk : program_.chunks) {
        const auto n_outputs = static_cast<std::size_t>(chunk.n_outputs);
        bytes_per_row = std::max(bytes_per_row, 8 * (chunk.columns.size() + chunk.players.size() * n_outputs));
        std::size_t work = 0;
        for (const auto& tree : chunk.trees)
            work += n_outputs * (tree.is_lookup() ? at(tree.lookup->n_conditions)
                                                  : (tree.splits.size() + 1) * at(n_tiles(tree, chunk.n_outputs)));
        work_per_row = std::max(work_per_row, work);
    }
    const std::size_t enough = is_cached ? kTaskRows : kTaskRowsExpanding;
    const std::size_t rows = std::min(rows_that_fit(enough, bytes_per_row), kMaxTaskWork / work_per_row);
    return rows >= kBlockRows ? round_to_blocks(rows) : std::max<std::size_t>(rows, kMinWalkRows);
}

// Where tasks begin, and the end. The last ones are smaller, so that threads finish together. Where constants are made
// again for every run of rows, few runs whose chunks are shared among the threads may be done sooner than many.
std::vector<std::size_t> ValueEngine::cuts(std::size_t n_rows, int n_threads, bool is_expanding) const {
    std::vector<std::size_t> out{0};
    const auto threads = static_cast<std::size_t>(n_threads), n_chunks = program_.chunks.size();
    const std::size_t grain = n_blocks(n_rows) * n_chunks < threads ? kMinWalkRows : kBlockRows;
    while (out.back() < n_rows) {
        const std::size_t left = n_rows - out.back();
        const std::size_t share = threads > 1 ? left / (2 * threads) : left;
        out.push_back(out.back() + std::min({left, task_rows_, std::max<std::size_t>(1, share / grain) * grain}));
    }
    if (!is_expanding || n_threads == 1) return out;
    // In rows of one chunk, which a thread walks or makes constants for.
    std::size_t soonest = n_chunks * (n_rows + kRowsPerExpansion * (out.size() - 1)) / threads, best = 0;
    for (std::size_t runs = (n_rows + task_rows_ - 1) / task_rows_; runs < threads; ++runs) {
        const std::size_t rounds = (runs * n_chunks + threads - 1) / threads;
        const std::size_t until = rounds * (n_rows / runs + kRowsPerExpansion);
        if (until < soonest) soonest = until, best = runs;
    }
    if (best == 0) return out;
    out.resize(1);
    const std::size_t step = round_to_blocks((n_rows + best - 1) / best + kBlockRows - 1);
    while (out.back() < n_rows) out.push_back(std::min(n_rows, out.back() + step));
    return out;
}

template <class Value>
void ValueEngine::explain(const RowsView& rows, std::span<Value> values, int n_threads,
                          const Control::Poll& poll) const {
    const std::size_t row_values =
        static_cast<std::size_t>(program_.n_players) * static_cast<std::size_t>(program_.n_outputs);
    if (rows.n_rows == 0 || program_.chunks.empty()) {
        std::fill(values.begin(), values.end(), Value(0));
        return;
    }
    const bool is_expanded = expanded_.data() != nullptr;
    const bool plainly = !is_expanded && rows.n_rows <= max_plain_rows_;
    const auto without_constants =
        rows.n_rows <= kMaxRowsByPoints ? kernel_.explain_by_points : kernel_.explain_plainly;
    const std::size_t rows_worth = rows.n_rows + (is_expanded ? 0 : plainly ? kRowsPerMeeting : kRowsPerExpansion);
    n_threads = threads_for(program_.n_leaves * rows_worth, n_threads);
    Control control(poll, program_.n_leaves * rows.n_rows);
    explain_by_chunks(cuts(rows.n_rows, n_threads, !is_expanded && !plainly), program_.chunks.size(), row_values,
                      values, n_threads, control,
                      [&](std::size_t first, std::size_t n, std::size_t c, double* to, const Worker& worker) {
                          const auto& chunk = program_.chunks[c];
                          if (plainly)
                              without_constants(program_, chunk, rows.slice(first, n), worker.workspace(), to);
                          else
                              kernel_.explain(program_, chunk, rows.slice(first, n),
                                              {expanded_.data(), one_row_.data()}, worker.workspace(), to);
                          return worker.advance(program_.chunks[c].n_leaves * n);
                      });
}

template void ValueEngine::explain(const RowsView&, std::span<double>, int, const Control::Poll&) const;
template void ValueEngine::explain(const RowsView&, std::span<float>, int, const Control::Poll&) const;

}  // namespace linear_treeshap
