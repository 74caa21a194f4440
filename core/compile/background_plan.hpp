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
// A pair of players has an interaction index: with both in α it is v·M(p, q-2), with one in each set
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
#include <unordered_map>
#include <vector>

#include "compile/program.hpp"

namespace linear_treeshap {

inline constexpr int kMaxTableBits = 16;
inline constexpr std::int32_t kNothing = std::numeric_limits<std::int32_t>::min();  // no leaf below that is in no table

// Bits of the rows of a block at a tree's splits, a word each: first every edge (2·split + side), set where
// all conditions of its player down to it hold, then every split, set where the row goes left.
inline std::size_t n_words(const Tree& tree) { return 3 * at(tree.n_splits); }

// Pairs of players that meet on a path, numbered; players in a chunk's numbering.
class Pairs {
  public:
    std::int32_t add(std::int32_t one, std::int32_t other) {
        return number_.try_emplace(key(one, other), static_cast<std::int32_t>(number_.size())).first->second;
    }
    std::int32_t at(std::int32_t one, std::int32_t other) const { return number_.at(key(one, other)); }
    // The players of each pair, by number.
    std::vector<std::array<std::int32_t, 2>> list() const;

  private:
    static std::uint64_t key(std::int32_t one, std::int32_t other) {
        const auto [low, high] = std::minmax(one, other);
        return static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high);
    }
    std::unordered_map<std::uint64_t, std::int32_t> number_;
};

// The leaves below one node, which together are one table: [state][lane]. Lanes are players, or pairs of
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
    std::vector<std::int32_t> n_splits_below;  // by split, itself included; empty as scan_child
    int n_players_on_path = 0;                 // at most
};

// M(k, l) for all k + l below the number of players on a path.
class Moments {
  public:
    explicit Moments(const Rule& rule, int n_players);
    double operator()(int k, int l) const { return gain(l)[k + 1]; }
    // Of p players of β and q of α, by p: M(p-1, q), what each of β gains, and M(p, q-1), what each of α loses; 0 where
    // there is nobody.
    const double* gain(int q) const { return &moment_[(at(q) + 1) * stride_]; }
    const double* loss(int q) const { return &moment_[at(q) * stride_ + 1]; }
    // M(k, l) at [l + 1][k + 1], rows of n_columns() numbers: zeros before the first and after the last.
    const std::vector<double>& numbers() const { return moment_; }
    std::size_t n_columns() const { return stride_; }

  private:
    std::size_t stride_;
    std::vector<double> moment_;
};

// Which leaves become tables of which shape; `max_bits` is the largest. With `pairs` it is them that have
// values, and they are numbered here.
BackgroundTree plan_tables(const Tree& tree, int n_outputs, int max_bits, Pairs* pairs, Listener& listener);

}  // namespace linear_treeshap
