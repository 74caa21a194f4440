// Background data: interventional values, in which an absent player takes the values of background rows.
//
// For one leaf of value v, a row and a background row, player j has two bits: does the row satisfy all of
// its conditions on the path, and does the background row? A coalition is worth v if the row satisfies
// the players in it and the background row all others. So only two sets matter: α, the players the row
// fails, and β, those the background row fails. Where they meet, the leaf says nothing. Otherwise, with
// q = |α|, p = |β| and M(k, l) = ∫ t^k (1-t)^l dμ,
//
//   φ_i = -v·M(p, q-1) for i in α,   φ_i = +v·M(p-1, q) for i in β,   0 for the rest.
//
// A couple of players has an interaction index: with both in α it is v·M(p, q-2), with one in each set
// -v·M(p-1, q-1), with both in β v·M(p-2, q).
//
// Leaves that few bits decide are put into tables (background_tables.cpp): the background becomes a
// histogram of states, the histogram a table of φ for every state a row can be in, and a row is a look-up
// however large the background is. The other leaves look at each pair of a row and a background row, by
// way of the bits of α and β (background_scan.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/kernel.hpp"
#include "run/parallel.hpp"

namespace linear_treeshap {

inline constexpr int kMaxTableBits = 16;
inline constexpr std::int32_t kNothing = std::numeric_limits<std::int32_t>::min();  // no leaf below that is in no table

// Bits of the rows of a block at a tree's splits, a word each: first every edge (2·split + side), set where
// all conditions of its player down to it hold, then every split, set where the row goes left.
inline std::size_t n_words(const Tree& tree) { return 3 * tree.splits.size(); }

// Couples of players that meet on a path, numbered; players in a chunk's numbering.
class Couples {
  public:
    std::int32_t add(std::int32_t one, std::int32_t other) {
        return number_.try_emplace(key(one, other), static_cast<std::int32_t>(number_.size())).first->second;
    }
    std::int32_t at(std::int32_t one, std::int32_t other) const { return number_.at(key(one, other)); }
    // The players of each couple, by number.
    std::vector<std::array<std::int32_t, 2>> list() const;

  private:
    static std::uint64_t key(std::int32_t one, std::int32_t other) {
        const auto [low, high] = std::minmax(one, other);
        return static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high);
    }
    std::unordered_map<std::uint64_t, std::int32_t> number_;
};

// The leaves below one node, which together are one table: [state][lane]. Lanes are players, or couples of
// them, each with its outputs.
struct LeafTable {
    std::int32_t root;          // a split, or ~leaf
    std::int32_t first_bit;     // in BackgroundTree::bit_word
    std::int32_t n_conditions;  // bits that are splits inside; the others are players above
    std::int32_t n_bits;
    std::int32_t first_player;  // in BackgroundTree::player
    std::int32_t n_players;
    std::int32_t first_lane;  // in BackgroundTree::lane_slot
    std::int32_t n_lanes;
    std::size_t begin;  // of its doubles in the chunk's tables

    std::size_t stride() const { return (static_cast<std::size_t>(n_lanes) + 7) / 8 * 8; }
    std::size_t n_states() const { return std::size_t{1} << n_bits; }
    std::size_t size() const { return n_states() * stride(); }
};

struct BackgroundTree {
    std::vector<LeafTable> tables;
    std::vector<std::int32_t> bit_word;    // which word each bit of a state is
    std::vector<std::int32_t> player;      // in the chunk's numbering
    std::vector<std::int32_t> lane_slot;   // where φ of each lane lies
    std::vector<std::int32_t> scan_child;  // by edge: a split, or ~leaf, or kNothing; empty if tables have all leaves
    int n_players_on_path = 0;             // at most
};

// M(k, l) for all k + l below the number of players on a path.
class Moments {
  public:
    explicit Moments(const Rule& rule, int n_players);
    double operator()(int k, int l) const { return moment_[static_cast<std::size_t>(l * n_ + k)]; }
    const double* of_absent(int l) const { return &moment_[static_cast<std::size_t>(l * n_)]; }

  private:
    int n_;
    std::vector<double> moment_;
};

// Which leaves become tables of which shape; `max_bits` is the largest. With `couples` it is them that have
// values, and they are numbered here.
BackgroundTree plan_tables(const Tree& tree, int n_outputs, int max_bits, Couples* couples, Listener& listener);

// The table of some leaves, from a histogram of the background rows' states.
void fill_table(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const LeafTable& table,
                const double* histogram, const Moments& moments, bool of_couples, double scale, double* out);

// A block of rows and a block of background rows, before the leaves of a tree that are in no table.
struct Pairs {
    const std::uint64_t* row_words;  // of one block each: n_words(tree)
    const std::uint64_t* background_words;
    std::size_t n_rows, n_background;  // of up to 64
    const double* weights;             // of the background rows; null: ones
    std::size_t weights_per_row;       // 0 if all rows share their weights, else how far apart those of two rows are
    double scale;
    double* phi;             // [slot][64 rows], added to
    const Couples* couples;  // null: values of players
};

// One source for each idea (background_kernel.cpp, background_scan.cpp), compiled for each instruction set.
struct BackgroundKernel {
    // The columns a chunk reads, transposed: [block][column][64 rows].
    void (*transpose)(const Program&, const Chunk&, const RowsView&, void* x);
    // [block][n_words(tree)]
    void (*evaluate)(const Program&, const Chunk&, const Tree&, const void* x, std::size_t n_blocks,
                     std::uint64_t* words);
    // Adds the weight of each row to the bin of its state; null weights are ones.
    void (*count)(const BackgroundTree&, const LeafTable&, const std::uint64_t* words, std::size_t words_per_block,
                  std::size_t n_rows, const double* weights, double* histogram);
    // Adds the values of all tables of a tree to φ, [block][slot][64 rows].
    void (*look_up)(const BackgroundTree&, const double* tables, const std::uint64_t* words,
                    std::size_t words_per_block, std::size_t n_rows, double* phi, std::size_t phi_per_block);
    // Adds the values of all leaves that are in no table. Returns false if the work must stop.
    bool (*scan)(const Chunk&, const Tree&, const BackgroundTree&, const Moments&, const Pairs&, const Worker&);
};

const BackgroundKernel& background_kernel_of(const Kernel& kernel);

// Up to n rows from the first.
RowsView cut(const Program& program, const RowsView& rows, std::size_t first, std::size_t n);

// A compiled model and a background, ready to explain rows.
class BackgroundEngine {
  public:
    // No weights: every background row counts once. The program must outlive this. `only_pairs` makes no tables,
    // for callers who have weights for every pair of a row and a background row. With `of_couples` it is couples
    // of players that have values.
    BackgroundEngine(const Program& program, const Kernel& kernel, const RowsView& background,
                     std::span<const double> weights, bool only_pairs, bool of_couples, int n_threads,
                     const Control::Poll& poll);
    BackgroundEngine(const BackgroundEngine&) = delete;

    // Writes values[row][player or couple][output] of all rows: means over the background, or with `pair_weights`
    // (rows, background rows) weighted sums, for engines of `only_pairs`.
    template <class Value>
    void explain(const RowsView& rows, std::span<Value> values, const double* pair_weights, int n_threads,
                 const Control::Poll& poll) const;

    const Program& program() const { return program_; }
    std::size_t n_background() const { return n_background_; }
    // Who has values: players, or couples, which are listed.
    std::size_t n_items() const { return of_couples_ ? couples_.size() : static_cast<std::size_t>(program_.n_players); }
    const std::vector<std::array<std::int32_t, 2>>& couples() const { return couples_; }

  private:
    struct Plan {  // of a chunk
        std::vector<BackgroundTree> trees;
        Couples couples;
        std::vector<std::int32_t> items;  // chunk's numbering of players or couples → model's
        Buffer<double> tables;
        bool is_scanned = false;
    };

    std::size_t plan_all(int max_bits, Listener& listener);
    void number_items();
    void fill_tables(const Chunk& chunk, Plan& plan, const RowsView& background, int n_threads, Control& control);
    bool explain_chunk(std::size_t chunk, const RowsView& rows, const double* pair_weights, double* values,
                       const Worker& worker) const;
    std::size_t rows_per_task(std::size_t n_rows, int n_threads) const;

    const Program& program_;
    const BackgroundKernel& kernel_;
    bool of_couples_;
    std::vector<Plan> plans_;
    std::vector<std::array<std::int32_t, 2>> couples_;  // players
    std::optional<Moments> moments_;
    std::vector<std::byte> background_;  // rows, kept only if some leaves are in no table
    std::size_t n_background_;
    std::vector<double> weights_;
    double scale_;
};

}  // namespace linear_treeshap
