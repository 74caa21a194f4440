// How rows and chunks of trees become tasks. A task is a run of rows; where there are fewer of those than
// threads, it is one chunk of trees for one run of rows, and the chunks' values are added up in order
// afterwards, which gives the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "run/parallel.hpp"

namespace linear_treeshap {

// Doubles that a thread may keep beside the values it writes.
inline constexpr std::size_t kMaxKeptDoubles = std::size_t{2} << 20;

// Which run of rows is taken i-th. Memory that is new to the process is cleared page by page, of megabytes perhaps, by
// whoever writes there first, and once more by everybody who comes before that is done; so threads begin far apart. The
// last runs, which are shorter so that all threads end together, stay the last ones.
class OrderOfRuns {
  public:
    OrderOfRuns(const std::vector<std::size_t>& begin, int n_threads)
        : n_threads_(static_cast<std::size_t>(n_threads)) {
        std::size_t n_equal = 0;
        while (n_equal + 1 < begin.size() && begin[n_equal + 1] - begin[n_equal] == begin[1]) ++n_equal;
        n_each_ = n_equal / n_threads_;
    }
    std::size_t operator[](std::size_t i) const {
        return i < n_each_ * n_threads_ ? i % n_threads_ * n_each_ + i / n_threads_ : i;
    }

  private:
    std::size_t n_threads_, n_each_;
};

// Writes `row_values` values of every row. Run i of rows begins at begin[i] and ends at begin[i + 1].
// explain_chunk(first_row, n_rows, chunk, double* to, worker) adds what a chunk gives to a run of rows, and
// returns false if the work must stop.
template <class Value, class ExplainChunk>
void explain_by_chunks(const std::vector<std::size_t>& begin, std::size_t n_chunks, std::size_t row_values,
                       std::span<Value> values, int n_threads, Control& control, const ExplainChunk& explain_chunk) {
    if (values.empty()) return;  // pairs of a single player
    constexpr bool is_double = std::is_same_v<Value, double>;
    const std::size_t n_runs = begin.size() - 1;
    const std::size_t most_kept = kMaxKeptDoubles * static_cast<std::size_t>(n_threads);
    if (n_runs >= static_cast<std::size_t>(n_threads) || n_chunks == 1 || values.size() > most_kept) {
        // Values are summed in double, where they belong or, if they are to be float, on the way there.
        const auto explain_run = [&](std::size_t first, std::size_t n_rows, double* sum, const Worker& worker) {
            std::fill_n(sum, n_rows * row_values, 0.0);
            for (std::size_t c = 0; c < n_chunks; ++c)
                if (!explain_chunk(first, n_rows, c, sum, worker)) return;
        };
        const OrderOfRuns order(begin, n_threads);
        parallel_for(n_runs, n_threads, control, [&](std::size_t place, const Worker& worker) {
            const std::size_t i = order[place];
            if constexpr (is_double) {
                explain_run(begin[i], begin[i + 1] - begin[i], values.data() + begin[i] * row_values, worker);
            } else {
                const std::size_t most_rows = std::max<std::size_t>(1, kMaxKeptDoubles / row_values);
                std::vector<double> sum(std::min(most_rows, begin[i + 1] - begin[i]) * row_values);
                for (std::size_t first = begin[i]; first < begin[i + 1]; first += most_rows) {
                    const std::size_t n_rows = std::min(most_rows, begin[i + 1] - first);
                    explain_run(first, n_rows, sum.data(), worker);
                    std::transform(sum.data(), sum.data() + n_rows * row_values, values.data() + first * row_values,
                                   [](double v) { return static_cast<Value>(v); });
                }
            }
        });
        return;
    }
    // Few rows, many trees: every chunk writes values of its own, as many chunks at a time as there is room for.
    const std::size_t n_at_once = std::clamp<std::size_t>(most_kept / values.size(), 1, n_chunks);
    std::vector<double> by_chunk(n_at_once * values.size()), sum(values.size(), 0.0);
    for (std::size_t first = 0; first < n_chunks; first += n_at_once) {
        const std::size_t n = std::min(n_at_once, n_chunks - first);
        std::fill(by_chunk.begin(), by_chunk.end(), 0.0);
        parallel_for(n_runs * n, n_threads, control, [&](std::size_t task, const Worker& worker) {
            const std::size_t i = task / n, c = task % n;
            double* const to = by_chunk.data() + c * values.size() + begin[i] * row_values;
            explain_chunk(begin[i], begin[i + 1] - begin[i], first + c, to, worker);
        });
        for (std::size_t c = 0; c < n; ++c)
            for (std::size_t i = 0; i < values.size(); ++i) sum[i] += by_chunk[c * values.size() + i];
    }
    std::transform(sum.begin(), sum.end(), values.begin(), [](double v) { return static_cast<Value>(v); });
}

}  // namespace linear_treeshap
