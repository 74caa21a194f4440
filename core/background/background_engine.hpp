// Values against background rows, for any number of rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "background/table_lists.hpp"
#include "kernels/background_kernel.hpp"

namespace linear_treeshap {

// A compiled model and a background, ready to explain rows.
class BackgroundEngine {
  public:
    // No weights: every background row counts once. The program must outlive this. `scan_only` makes no tables,
    // for callers who have weights for every pair of a row and a background row. With `of_pairs` it is pairs
    // of players that have values.
    BackgroundEngine(const Program& program, const Kernel& kernel, const RowsView& background,
                     std::span<const double> weights, bool scan_only, bool of_pairs, int n_threads,
                     const Control::Poll& poll);
    BackgroundEngine(const BackgroundEngine&) = delete;

    // Writes values[row][player or pair][output] of all rows: means over the background, or with `row_pair_weights`
    // (rows, background rows) weighted sums, for engines of `scan_only`.
    template <class Value>
    void explain(const RowsView& rows, std::span<Value> values, const double* row_pair_weights, int n_threads,
                 const Control::Poll& poll) const;

    // The same for a device, of an engine of players; it has the background rows and their weights from elsewhere.
    TableLists table_lists() const;
    // Of players on paths, for leaves that are in no table; none without splits.
    const std::optional<Moments>& moments() const { return moments_; }

    const Program& program() const { return program_; }
    std::size_t n_background() const { return n_background_; }
    // Who has values: players, or pairs, which are listed.
    std::size_t n_items() const { return of_pairs_ ? pairs_.size() : static_cast<std::size_t>(program_.n_players); }
    const std::vector<std::array<std::int32_t, 2>>& pairs() const { return pairs_; }

  private:
    struct Plan {  // of a chunk
        std::vector<BackgroundTree> trees;
        Pairs pairs;
        std::vector<std::int32_t> items;  // chunk's numbering of players or pairs → model's
        Buffer<double> tables;
        bool is_scanned = false;
    };

    std::size_t plan_all(int max_bits, Listener& listener);
    void number_items();
    void fill_tables(const Chunk& chunk, Plan& plan, const RowsView& background, int n_threads, Control& control);
    bool explain_chunk(std::size_t chunk, const RowsView& rows, const double* row_pair_weights, double* values,
                       const Worker& worker) const;
    std::size_t rows_per_task(std::size_t n_rows, int n_threads) const;

    const Program& program_;
    const BackgroundKernel& kernel_;
    bool of_pairs_;
    std::vector<Plan> plans_;
    std::vector<std::array<std::int32_t, 2>> pairs_;  // players
    std::optional<Moments> moments_;
    std::vector<std::byte> background_;  // rows, kept only if some leaves are in no table
    std::size_t n_background_;
    std::vector<double> weights_;
    double scale_;
};

}  // namespace linear_treeshap
