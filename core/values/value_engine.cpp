// Which constants are kept, and how rows are cut into tasks.

#include "values/value_engine.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "compile/tiles.hpp"
#include "run/schedule.hpp"
#include "run/tasks.hpp"

namespace linear_treeshap {
namespace {

// Rows of a task: enough to read a tree's constants from afar once and use them many times...
constexpr std::size_t kTaskRows = 512;
// ...but never so many that nobody hears Ctrl-C for long.
constexpr std::size_t kMaxTaskWork = 50'000'000;  // leaves · outputs · tiles · rows of a chunk: a tenth of a second

// So few rows are quickest one by one; of a large model, whose constants are not kept, a few more.
constexpr std::size_t kMaxRowsByPoints = 4, kMaxRowsByPointsOfLarge = 5;
static_assert(std::max(kMaxRowsByPoints, kMaxRowsByPointsOfLarge) == kFewRows);
// So few are walked with no constants, nor tables, where these are not kept: making them costs as much as walking the
// rows. The rows of the call count, not those of a task: a row's bits must not depend on how a call is cut.
constexpr std::size_t kMaxPlainRows = 256;
// What a leaf costs then, in rows of a full block: one that is met by rows at all, and constants that are made again.
constexpr std::size_t kRowsPerMeeting = 16, kRowsPerExpansion = 256;
// As many as there may be: what such a call does is done for fewer rows, too, that are to have its bits.
constexpr std::size_t kManyRows = std::numeric_limits<std::size_t>::max();

bool is_small(std::size_t n_doubles) { return n_doubles * sizeof(double) <= kMaxCachedBytes; }

}  // namespace

ValueEngine::ValueEngine(const Program& program, const Kernel& kernel)
    : program_(program), kernel_(kernel), touches_ends_(program.rules.touch_ends()) {
    if (is_small(program_.table_size)) keep_tables();
    const bool are_needed = way_for(kManyRows) == Way::with_constants;
    if (is_small(program_.expansion_size) && are_needed) keep_constants();
    task_rows_ = rows_per_task();
}

void ValueEngine::keep_tables() {
    double* to = tables_.reserve(program_.table_size);
    for (const auto& chunk : program_.chunks)
        for (const auto& tree : chunk.trees)
            if (tree.is_lookup()) {
                kernel_.tabulate(program_, chunk, tree, to);
                to += table_doubles(tree, chunk.n_outputs);
            }
}

void ValueEngine::keep_constants() {
    double* to = constants_.reserve(program_.expansion_size);
    for (const auto& chunk : program_.chunks)
        for (const auto& tree : chunk.trees)
            if (!tree.is_lookup()) {
                kernel_.expand(program_, chunk, tree, to);
                to += expansion_doubles(tree, chunk.n_outputs);
            }
}

bool ValueEngine::is_large() const { return !is_small(program_.expansion_size) || !is_small(program_.table_size); }

Way ValueEngine::way_for(std::size_t n_rows) const {
    if (touches_ends_) return Way::with_constants;  // which have all digits there
    if (n_rows <= (is_large() ? kMaxRowsByPointsOfLarge : kMaxRowsByPoints)) return Way::by_points;
    if (is_large() && n_rows <= kMaxPlainRows) return Way::plainly;
    if (!is_small(program_.table_size)) return Way::with_constants;  // and tables, made for as many rows
    return (is_large() ? kernel_.plain_for_large : kernel_.plain_for_small) ? Way::plainly : Way::with_constants;
}

// Must anything be made again for every run of rows?
bool ValueEngine::makes_constants(Way way) const { return way == Way::with_constants && is_large(); }

std::size_t ValueEngine::rows_per_task() const {
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
    const bool is_expanding = makes_constants(way_for(kManyRows));
    const std::size_t enough = is_expanding ? kTaskRowsExpanding : kTaskRows;
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
void ValueEngine::explain(const RowsView& rows, std::span<Value> values, int n_threads, const Control::Poll& poll,
                          bool among_many) const {
    const std::size_t row_values =
        static_cast<std::size_t>(program_.n_players) * static_cast<std::size_t>(program_.n_outputs);
    if (rows.n_rows == 0 || program_.chunks.empty()) {
        std::fill(values.begin(), values.end(), Value(0));
        return;
    }
    const Way way = way_for(among_many ? kManyRows : rows.n_rows);
    const bool is_expanding = makes_constants(way);
    const std::size_t rows_worth = rows.n_rows + (is_expanding                 ? kRowsPerExpansion
                                                  : way == Way::with_constants ? 0
                                                                               : kRowsPerMeeting);
    n_threads = threads_for(program_.n_leaves * rows_worth, n_threads);
    Control control(poll, program_.n_leaves * rows.n_rows);
    explain_by_chunks(cuts(rows.n_rows, n_threads, is_expanding), program_.chunks.size(), row_values, values, n_threads,
                      control, [&](std::size_t first, std::size_t n, std::size_t c, double* to, const Worker& worker) {
                          const auto& chunk = program_.chunks[c];
                          const auto kept = [](const Buffer<double>& all, std::size_t begin) {
                              return all.data() == nullptr ? nullptr : all.data() + begin;
                          };
                          kernel_.explain(program_, chunk, rows.slice(first, n), way,
                                          {kept(constants_, chunk.expansion_begin), kept(tables_, chunk.table_begin)},
                                          worker.workspace(), to);
                          return worker.advance(chunk.n_leaves * n);
                      });
}

template void ValueEngine::explain(const RowsView&, std::span<double>, int, const Control::Poll&, bool) const;
template void ValueEngine::explain(const RowsView&, std::span<float>, int, const Control::Poll&, bool) const;

}  // namespace linear_treeshap
