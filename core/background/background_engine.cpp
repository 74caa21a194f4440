// How a background becomes tables, and how rows are explained with them.

#include "background/background_engine.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "background/background_tables.hpp"
#include "run/schedule.hpp"
#include "run/tasks.hpp"

namespace linear_treeshap {

namespace {

// Background rows that are read at once for the tables.
constexpr std::size_t kReadRows = 8192;

// Rows of a task: enough to use each table often while it is near, and to meet alike ones where leaves are scanned.
constexpr std::size_t kTaskRows = 1024;
static_assert(kTaskRows >= kScanRows);

// Tables may be as large as this together, which also bounds the time it takes to fill them.
constexpr std::size_t kMaxTableBytes = std::size_t{256} << 20;

// Doubles that a scan keeps for its rows, if that is enough for one block of them.
constexpr std::size_t kMaxScanDoubles = std::size_t{1} << 19;

// Many at once, since rows that are alike are explained once; fewer where paths are long, or outputs of pairs are many.
std::size_t rows_per_scan(const BackgroundTree& tree, std::int32_t n_outputs, bool of_pairs) {
    const std::size_t n_players = at(tree.n_players_on_path);
    const std::size_t per_row = of_pairs ? at(n_outputs) * n_players * n_players : n_players;
    return round_to_blocks(std::min(kScanRows, kMaxScanDoubles / std::max<std::size_t>(1, per_row)));
}

// The bits of the largest table: its states must be worth their while against the background rows that a
// scan would meet.
int max_table_bits(std::size_t n_background) {
    int bits = 8;
    while (bits < 13 && n_background >> (bits - 1) != 0) ++bits;
    return bits;
}

}  // namespace

BackgroundEngine::BackgroundEngine(const Program& program, const Kernel& kernel, const RowsView& background,
                                   std::span<const double> weights, bool scan_only, bool of_pairs, int n_threads,
                                   const Control::Poll& poll)
    : program_(program),
      kernel_(background_kernel_of(kernel)),
      of_pairs_(of_pairs),
      plans_(program_.chunks.size()),
      n_background_(background.n_rows),
      weights_(weights.begin(), weights.end()),
      scale_(1.0 / (weights.empty() ? static_cast<double>(background.n_rows)
                                    : std::accumulate(weights.begin(), weights.end(), 0.0))) {
    int n_players = 0, n_points = 1;
    bool is_scanned = false;
    int max_bits = scan_only ? 0 : max_table_bits(background.n_rows);
    Listener listener(poll);
    while (plan_all(max_bits, listener) > kMaxTableBytes) --max_bits;
    for (std::size_t c = 0; c < plans_.size(); ++c) {
        std::size_t size = 0;
        for (std::size_t t = 0; t < plans_[c].trees.size(); ++t) {
            auto& planned = plans_[c].trees[t];
            for (auto& table : planned.tables) {
                table.begin = size;
                size += table.size();
            }
            if (planned.n_players_on_path > n_players) {
                n_players = planned.n_players_on_path;
                n_points = program_.chunks[c].trees[t].n_points;
            }
            plans_[c].is_scanned = plans_[c].is_scanned || !planned.scan_child.empty();
        }
        plans_[c].tables.reserve(size);
        is_scanned = is_scanned || plans_[c].is_scanned;
    }
    number_items();
    if (n_players > 0) moments_.emplace(program_.rules.at(n_points), n_players);
    if (is_scanned) {
        background_.resize(background.n_bytes());
        std::memcpy(background_.data(), background.data, background.n_bytes());
    }
    Control control(poll, program_.n_leaves);
    for (std::size_t c = 0; c < plans_.size(); ++c)
        fill_tables(program_.chunks[c], plans_[c], background, n_threads, control);
}

// Plans all trees; returns the bytes of their tables.
std::size_t BackgroundEngine::plan_all(int max_bits, Listener& listener) {
    std::size_t bytes = 0;
    for (std::size_t c = 0; c < plans_.size(); ++c) {
        const auto& chunk = program_.chunks[c];
        auto& plan = plans_[c];
        plan.trees.clear();
        plan.pairs = {};
        for (const auto& tree : chunk.trees) {
            plan.trees.push_back(
                plan_tables(tree, chunk.n_outputs, max_bits, of_pairs_ ? &plan.pairs : nullptr, listener));
            for (const auto& table : plan.trees.back().tables) bytes += table.size() * sizeof(double);
        }
    }
    return bytes;
}

void BackgroundEngine::number_items() {
    if (!of_pairs_) {
        for (std::size_t c = 0; c < plans_.size(); ++c) {
            const auto players = program_.chunks[c].players;
            plans_[c].items.assign(players.begin(), players.end());
        }
        return;
    }
    const auto pairs_of = [&](std::size_t c) {
        auto pairs = plans_[c].pairs.list();
        for (auto& pair : pairs) {
            for (auto& player : pair) player = program_.chunks[c].players[static_cast<std::size_t>(player)];
            std::sort(pair.begin(), pair.end());
        }
        return pairs;
    };
    for (std::size_t c = 0; c < plans_.size(); ++c) {
        const auto pairs = pairs_of(c);
        pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
    }
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
    for (std::size_t c = 0; c < plans_.size(); ++c)
        for (const auto& pair : pairs_of(c))
            plans_[c].items.push_back(
                static_cast<std::int32_t>(std::lower_bound(pairs_.begin(), pairs_.end(), pair) - pairs_.begin()));
}

void BackgroundEngine::fill_tables(const Chunk& chunk, Plan& plan, const RowsView& background, int n_threads,
                                   Control& control) {
    std::vector<std::vector<double>> histograms(chunk.trees.size());
    for (std::size_t t = 0; t < chunk.trees.size(); ++t) {
        std::size_t n_bins = 0;
        for (const auto& table : plan.trees[t].tables) n_bins += table.n_states();
        histograms[t].resize(n_bins);
    }
    Buffer<double> x;
    for (std::size_t first = 0; first < background.n_rows; first += kReadRows) {
        const RowsView read = background.slice(first, kReadRows);
        kernel_.transpose(program_, chunk, read, x.reserve(n_blocks(read.n_rows) * kBlockRows * chunk.columns.size()));
        parallel_for(chunk.trees.size(), n_threads, control, [&](std::size_t t, const Worker& worker) {
            const auto& tree = chunk.trees[t];
            std::uint64_t* const words = worker.workspace().satisfied.reserve(n_blocks(read.n_rows) * n_words(tree));
            kernel_.evaluate(program_, chunk, tree, x.data(), n_blocks(read.n_rows), words);
            double* histogram = histograms[t].data();
            for (const auto& table : plan.trees[t].tables) {
                kernel_.count(plan.trees[t], table, words, n_words(tree), read.n_rows,
                              weights_.empty() ? nullptr : weights_.data() + first, histogram);
                histogram += table.n_states();
                if (!worker.advance(0)) return;
            }
        });
    }
    double* const tables = plan.tables.data();
    parallel_for(chunk.trees.size(), n_threads, control, [&](std::size_t t, const Worker& worker) {
        const double* histogram = histograms[t].data();
        for (const auto& table : plan.trees[t].tables) {
            fill_table(chunk, chunk.trees[t], plan.trees[t], table, histogram, *moments_, of_pairs_, scale_,
                       tables + table.begin);
            histogram += table.n_states();
            if (!worker.advance(0)) return;
        }
        worker.advance(at(chunk.trees[t].n_splits) + 1);
    });
}

// Adds a chunk's values of some rows to values[row][player][output].
bool BackgroundEngine::explain_chunk(std::size_t c, const RowsView& rows, const double* row_pair_weights,
                                     double* values, const Worker& worker) const {
    Workspace& work = worker.workspace();
    const auto& chunk = program_.chunks[c];
    const auto& plan = plans_[c];
    const std::size_t blocks = n_blocks(rows.n_rows);
    const std::size_t n_slots = plan.items.size() * static_cast<std::size_t>(chunk.n_outputs);
    auto* const x = work.x.reserve(blocks * kBlockRows * chunk.columns.size());
    double* const phi = work.phi.reserve(blocks * kBlockRows * n_slots);
    std::fill_n(phi, blocks * kBlockRows * n_slots, 0.0);
    kernel_.transpose(program_, chunk, rows, x);
    const RowsView background{background_.data(), n_background_, rows.n_columns, rows.is_float32};
    for (std::size_t t = 0; t < chunk.trees.size(); ++t) {
        const auto& tree = chunk.trees[t];
        const auto& planned = plan.trees[t];
        std::uint64_t* const words = work.satisfied.reserve(blocks * n_words(tree));
        kernel_.evaluate(program_, chunk, tree, x, blocks, words);
        kernel_.look_up(planned, plan.tables.data(), words, n_words(tree), rows.n_rows, phi, n_slots * kBlockRows);
        if (planned.scan_child.empty()) continue;
        for (std::size_t first = 0; first < n_background_; first += kScanBackground) {
            const RowsView scanned = background.slice(first, kScanBackground);
            const std::size_t z_blocks = n_blocks(scanned.n_rows);
            auto* const z = work.background_x.reserve(z_blocks * kBlockRows * chunk.columns.size());
            kernel_.transpose(program_, chunk, scanned, z);
            auto* const z_words = work.background_satisfied.reserve(z_blocks * n_words(tree));
            kernel_.evaluate(program_, chunk, tree, z, z_blocks, z_words);
            const std::size_t scan_rows = rows_per_scan(planned, chunk.n_outputs, of_pairs_);
            for (std::size_t b = 0; b < blocks; b += scan_rows / kBlockRows) {
                const double* weights = weights_.empty() ? nullptr : weights_.data();
                if (row_pair_weights != nullptr) weights = row_pair_weights + b * kBlockRows * n_background_;
                const RowPairs row_pairs{words + b * n_words(tree),
                                         z_words,
                                         n_words(tree),
                                         std::min<std::size_t>(scan_rows, rows.n_rows - b * kBlockRows),
                                         scanned.n_rows,
                                         weights == nullptr ? nullptr : weights + first,
                                         row_pair_weights == nullptr ? 0 : n_background_,
                                         row_pair_weights == nullptr ? scale_ : 1.0,
                                         phi + b * n_slots * kBlockRows,
                                         n_slots * kBlockRows,
                                         of_pairs_ ? &plan.pairs : nullptr};
                if (!kernel_.scan(chunk, tree, planned, *moments_, row_pairs, worker)) return false;
            }
        }
    }
    const auto n_outputs = static_cast<std::size_t>(program_.n_outputs);
    for (std::size_t r = 0; r < rows.n_rows; ++r) {
        const double* from = phi + r / kBlockRows * n_slots * kBlockRows + r % kBlockRows;
        double* const row = values + r * n_items() * n_outputs;
        for (const auto item : plan.items)
            for (std::size_t o = 0; o < static_cast<std::size_t>(chunk.n_outputs); ++o, from += kBlockRows)
                row[static_cast<std::size_t>(item) * n_outputs + static_cast<std::size_t>(chunk.output) + o] += *from;
    }
    return worker.advance(chunk.n_leaves * rows.n_rows);
}

TableLists BackgroundEngine::table_lists() const {
    TableLists lists;
    for (std::size_t c = 0; c < plans_.size(); ++c)
        for (std::size_t t = 0; t < plans_[c].trees.size(); ++t)
            lists.add(program_.chunks[c], program_.chunks[c].trees[t], plans_[c].trees[t], plans_[c].tables.data());
    return lists;
}

std::size_t BackgroundEngine::rows_per_task(std::size_t n_rows, int n_threads) const {
    std::size_t rows = kTaskRows;
    for (std::size_t c = 0; c < plans_.size(); ++c) {
        const auto& chunk = program_.chunks[c];
        const std::size_t bytes_per_row =
            8 * (chunk.columns.size() + plans_[c].items.size() * static_cast<std::size_t>(chunk.n_outputs));
        rows = rows_that_fit(rows, bytes_per_row);
    }
    if (n_threads > 1) rows = std::min(rows, n_rows / (4 * static_cast<std::size_t>(n_threads)));
    return round_to_blocks(rows);
}

template <class Value>
void BackgroundEngine::explain(const RowsView& rows, std::span<Value> values, const double* row_pair_weights,
                               int n_threads, const Control::Poll& poll) const {
    const std::size_t row_values = n_items() * static_cast<std::size_t>(program_.n_outputs);
    if (rows.n_rows == 0 || plans_.empty()) {
        std::fill(values.begin(), values.end(), Value(0));
        return;
    }
    const std::size_t work = program_.n_leaves * rows.n_rows;
    n_threads = threads_for(work, n_threads);
    const std::size_t task_rows = rows_per_task(rows.n_rows, n_threads);
    std::vector<std::size_t> begin{0};
    while (begin.back() < rows.n_rows) begin.push_back(std::min(rows.n_rows, begin.back() + task_rows));
    Control control(poll, work);
    explain_by_chunks(begin, plans_.size(), row_values, values, n_threads, control,
                      [&](std::size_t first, std::size_t n, std::size_t c, double* to, const Worker& worker) {
                          return explain_chunk(
                              c, rows.slice(first, n),
                              row_pair_weights == nullptr ? nullptr : row_pair_weights + first * n_background_, to,
                              worker);
                      });
}

template void BackgroundEngine::explain(const RowsView&, std::span<double>, const double*, int,
                                        const Control::Poll&) const;
template void BackgroundEngine::explain(const RowsView&, std::span<float>, const double*, int,
                                        const Control::Poll&) const;

}  // namespace linear_treeshap
