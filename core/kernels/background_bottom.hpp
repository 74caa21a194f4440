// Bottoms, where a scan ends: subtrees of a few splits, before which those that are alike are counted as one.
//
// Rows are alike, as background rows are, if they fail the same players above a bottom and go the same way through it.
// That leaves some hundred kinds, which go few ways through the bottom.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/background_kernel.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "run/buffer.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

constexpr std::size_t kSetPlayers = 32;   // players in one word of a set; longer paths have several words
constexpr std::size_t kBottomSplits = 3;  // at most: their edges, and two sums, fill eight lanes
constexpr std::size_t kBottomEdges = 2 * kBottomSplits;

struct alignas(64) Sets : std::array<std::uint32_t, kBlockRows> {};

constexpr std::size_t block_of(std::size_t row) { return row / kBlockRows; }
constexpr std::size_t lane_of(std::size_t row) { return row % kBlockRows; }
constexpr std::size_t n_set_words(std::size_t n_players) { return (n_players + kSetPlayers - 1) / kSetPlayers; }

// A subtree, its splits and edges numbered from zero from the top down.
class Bottom {
  public:
    struct Leaf {
        std::int32_t leaf;
        std::uint32_t edges;  // on the way to it, of each player the last one
    };
    std::size_t n_splits = 0, n_players = 0;
    std::array<std::int32_t, kBottomSplits> split;  // of the tree
    std::array<std::size_t, kBottomSplits> place;   // of each split's player, new ones after those above

    std::span<const Leaf> leaves() const { return std::span(leaf_).first(n_leaves_); }

    std::int32_t edge(std::size_t e) const { return 2 * split[e / 2] + static_cast<std::int32_t>(e % 2); }

    // Its leaves that are in no table, below a split or ~leaf; `place_of(edge)` is where an edge's player is among the
    // `n_above` of the path.
    template <class PlaceOf>
    void begin(const Tree& tree, const BackgroundTree& plan, std::int32_t node, std::size_t n_above,
               const PlaceOf& place_of) {
        n_splits = n_leaves_ = n_repeated_ = 0;
        n_players = n_above;
        std::array<std::uint32_t, kBottomSplits> edges_to;
        const auto add = [&](std::int32_t child, std::uint32_t edges) {
            if (child < 0) {
                leaf_[n_leaves_++] = {~child, edges};
            } else {
                edges_to[n_splits] = edges;
                split[n_splits++] = child;
            }
        };
        add(node, 0);
        for (std::size_t i = 0; i < n_splits; ++i) {
            const auto above = tree[split[i]].above;
            std::uint32_t edges = edges_to[i];
            const auto inside =
                static_cast<std::size_t>(std::find(split.begin(), split.begin() + i, above / 2) - split.begin());
            const bool is_inside = above >= 0 && inside < i;
            if (is_inside) {
                edges &= ~(1U << (2 * inside + at(above % 2)));
                place[i] = place[inside];
            } else {
                place[i] = above < 0 ? n_players++ : place_of(above);
            }
            for (std::size_t r = 0; r < n_repeated_; ++r)
                if (is_inside && place[i] == repeated_[r].place) repeated_[r].edges |= 3U << (2 * i);
            if (above >= 0 && !is_inside) repeated_[n_repeated_++] = {place[i], 3U << (2 * i), 3U << (2 * i)};
            for (std::size_t side = 0; side < 2; ++side)
                if (const auto child = plan.scan_child[2 * at(split[i]) + side]; child != kNothing)
                    add(child, edges | 1U << (2 * i + side));
        }
    }

    // Of edges that are failed, those whose players are not failed above: no split's edges are both failed otherwise.
    std::uint32_t fresh(std::uint32_t failed) const {
        std::uint32_t out = failed;
        for (std::size_t r = 0; r < n_repeated_; ++r)
            if ((failed & repeated_[r].both) == repeated_[r].both) out &= ~repeated_[r].edges;
        return out;
    }

  private:
    // A player's topmost split, if there are edges of the same player above the bottom.
    struct Repeated {
        std::size_t place;
        std::uint32_t both, edges;  // its own edges; and those further down
    };
    std::array<Leaf, kBottomSplits + 1> leaf_;
    std::array<Repeated, kBottomSplits> repeated_;
    std::size_t n_leaves_ = 0, n_repeated_ = 0;
};

// Those of a crowd that are alike, in the order of their last members.
//
// All write their numbers to places that their words decide, and read who wrote there last: one of their kind, or,
// which is rare, of another, and then they try again. So nobody waits for anybody, nor is a branch guessed wrong.
class Kinds {
  public:
    std::size_t n = 0;
    const std::uint32_t* member = nullptr;  // by kind, the last
    const std::uint32_t* number = nullptr;  // by row: 1 + its kind; 0 of rows that are not there

    std::span<const std::uint32_t> there() const { return {there_.data(), n_there_}; }

    // Rows are alike if all words of their sets are the same: words[word][block]. Those of `rows(block)` are there.
    // `merge`: whether there are to be fewer kinds than members.
    template <class Rows>
    void find(std::size_t n_blocks, const std::vector<const Sets*>& words, bool merge, const Rows& rows) {
        const std::size_t room = n_blocks * kBlockRows + 16;
        std::uint32_t *const members = member_.reserve(room), *const numbers = number_.reserve(room);
        std::uint32_t *const there = there_.reserve(room), *const last = last_.reserve(room);
        again_.reserve(room);
        std::fill_n(numbers, n_blocks * kBlockRows, 0);
        member = members, number = numbers;
        n_there_ = 0;
        for (std::size_t b = 0; b < n_blocks; ++b)
            n_there_ += list_bits(rows(b), static_cast<std::uint32_t>(b * kBlockRows), there + n_there_);
        if (!merge)
            for (std::size_t i = 0; i < n_there_; ++i) last[there[i]] = there[i];
        else
            words.size() == 1 ? find_last<false>(n_there_, words) : find_last<true>(n_there_, words);
        n = 0;
        for (std::size_t i = 0; i < n_there_; ++i) {
            const std::uint32_t row = there[i];
            members[n] = row;
            numbers[row] = static_cast<std::uint32_t>(n + 1);
            n += last[row] == row;
        }
        for (std::size_t i = 0; i < n_there_; ++i) numbers[there[i]] = numbers[last[there[i]]];
    }

  private:
    static constexpr int kSlotBits = 12;
    static_assert(kScanBackground <= std::size_t{1} << kSlotBits && kScanRows <= kScanBackground);
    static constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;

    // The last of each row's kind.
    template <bool kIsLong>
    void find_last(std::size_t n_there, const std::vector<const Sets*>& words) {
        const std::uint32_t* const first_word = words[0]->data();  // the blocks lie side by side
        const std::uint32_t* rows = there_.data();
        std::uint32_t *const last_of = last_.data(), *const again = again_.data();
        for (std::uint64_t spread = kSpread; n_there != 0; spread = spread * kSpread | 1) {
            const auto slot_of = [&](std::uint32_t row) -> std::uint16_t& {
                std::uint64_t hash = first_word[row];
                if constexpr (kIsLong)
                    for (std::size_t word = 1; word < words.size(); ++word)
                        hash = hash * kSpread + words[word]->data()[row];
                return slot_[(hash * spread) >> (64 - kSlotBits)];
            };
            for (std::size_t i = 0; i < n_there; ++i) slot_of(rows[i]) = static_cast<std::uint16_t>(rows[i]);
            std::size_t n_again = 0;
            for (std::size_t i = 0; i < n_there; ++i) {
                const std::uint32_t row = rows[i], last = slot_of(row);
                last_of[row] = last;
                again[n_again] = row;
                bool is_alike = first_word[row] == first_word[last];
                if constexpr (kIsLong)
                    for (std::size_t word = 1; word < words.size(); ++word)
                        is_alike &= words[word]->data()[row] == words[word]->data()[last];
                n_again += !is_alike;
            }
            rows = again;
            n_there = n_again;
        }
    }

    std::size_t n_there_ = 0;
    PageBuffer<std::uint32_t> member_, number_;
    PageBuffer<std::uint32_t> there_, last_, again_;  // rows; by row, the last of its kind; rows that try again
    std::array<std::uint16_t, std::size_t{1} << kSlotBits> slot_;
};

// Rows, or background rows, on their way down: which edges they satisfy, and which players they fail at each depth.
class Crowd {
  public:
    std::size_t n = 0, blocks = 0;
    const std::uint64_t* words = nullptr;  // [edge][block]

    std::uint64_t satisfied(std::size_t block, std::int32_t edge) const { return words[at(edge) * blocks + block]; }
    // Of all blocks; none has anyone beyond the words of the longest path.
    const Sets* sets(std::size_t depth, std::size_t word) const { return sets_[depth].by_word[word]; }
    std::size_t n_words() const { return sets_[0].by_word.size(); }

    // At the root nobody has failed.
    void begin(std::size_t n_words) {
        Sets* const own = sets_of(0, n_words).own.reserve(n_words * blocks);
        std::fill_n(own, n_words * blocks, Sets{});
        for (std::size_t word = 0; word < n_words; ++word) sets_[0].by_word[word] = own + word * blocks;
    }

    void descend(std::size_t depth, std::size_t place, std::int32_t edge) {
        const std::size_t word = place / kSetPlayers;
        DepthSets& to = sets_of(depth + 1, n_words());
        const DepthSets& from = sets_[depth];
        Sets* const own = to.own.reserve(blocks);
        std::copy(from.by_word.begin(), from.by_word.end(), to.by_word.begin());
        to.by_word[word] = own;
        for (std::size_t b = 0; b < blocks; ++b)
            add_player(from.by_word[word][b].data(), ~satisfied(b, edge), static_cast<int>(place % kSetPlayers),
                       own[b].data());
    }

  private:
    struct DepthSets {
        PageBuffer<Sets> own;              // of the word that changed on the way here
        std::vector<const Sets*> by_word;  // [block] each, this depth's own or one's above
    };
    DepthSets& sets_of(std::size_t depth, std::size_t n_words) {
        if (depth >= sets_.size()) sets_.resize(depth + 1);
        sets_[depth].by_word.resize(n_words);
        return sets_[depth];
    }
    std::vector<DepthSets> sets_;
};

// A crowd before a bottom: its kinds, which players above they fail, and which edges inside.
class Side {
  public:
    Kinds kinds;
    std::vector<std::uint32_t> n_failed;       // by kind, players above
    std::vector<std::uint32_t> failed, fresh;  // by kind, edges inside; without those of players that fail above

    // Of a kind, one word of the set of players above that it fails; those of all kinds lie side by side.
    const std::uint32_t* sets(std::size_t word) const { return sets_[word * set_blocks_].data(); }

    // `rows(block)` are those that are there.
    template <class Rows>
    void begin(const Crowd& crowd, std::size_t depth, std::size_t n_above, const Bottom& bottom, bool merge,
               const Rows& rows) {
        sign(crowd, depth, n_above, bottom);
        kinds.find(crowd.blocks, signature_, merge, rows);
        copy_sets(n_above, bottom.n_players);
        const std::uint32_t all = (1U << 2 * bottom.n_splits) - 1;
        failed.resize(kinds.n);
        fresh.resize(kinds.n);
        for (std::size_t kind = 0; kind < kinds.n; ++kind) {
            failed[kind] = all & ~satisfied(kind, n_above);
            fresh[kind] = bottom.fresh(failed[kind]);
        }
    }

  private:
    // Those who fail the same players above and the same edges inside have the same words: bits of edges that are
    // satisfied follow those of players.
    void sign(const Crowd& crowd, std::size_t depth, std::size_t n_above, const Bottom& bottom) {
        const std::size_t n_edges = 2 * bottom.n_splits, first_word = n_above / kSetPlayers;
        const std::size_t n_words = std::max<std::size_t>(1, n_set_words(n_above + n_edges));
        signature_.resize(n_words);
        Sets* const own = own_.reserve(2 * crowd.blocks);
        if (n_words > crowd.n_words()) std::fill_n(own, 2 * crowd.blocks, Sets{});
        for (std::size_t word = 0; word < n_words; ++word)
            signature_[word] =
                word < crowd.n_words() ? crowd.sets(depth, word) : own + (word - first_word) * crowd.blocks;
        for (std::size_t e = 0; e < n_edges; ++e) {
            const std::size_t word = (n_above + e) / kSetPlayers;
            Sets* const to = own + (word - first_word) * crowd.blocks;
            for (std::size_t b = 0; b < crowd.blocks; ++b)
                add_player(signature_[word][b].data(), crowd.satisfied(b, bottom.edge(e)),
                           static_cast<int>((n_above + e) % kSetPlayers), to[b].data());
            signature_[word] = to;
        }
    }
    // In as many words as those of the bottom's players have.
    void copy_sets(std::size_t n_above, std::size_t n_players) {
        const std::size_t n_words = std::max<std::size_t>(1, n_set_words(n_players));
        set_blocks_ = n_blocks(kinds.n);
        sets_.resize(std::max(sets_.size(), n_words * set_blocks_));
        n_failed.assign(kinds.n, 0);
        for (std::size_t word = 0; word < n_words; ++word) {
            const std::size_t first = word * kSetPlayers;
            const std::size_t n_there = std::clamp(n_above, first, first + kSetPlayers) - first;
            const auto players = static_cast<std::uint32_t>((std::uint64_t{1} << n_there) - 1);
            std::uint32_t* const to = sets_[word * set_blocks_].data();
            for (std::size_t kind = 0; kind < kinds.n; ++kind) {
                to[kind] = signed_with(kind, word) & players;
                n_failed[kind] += static_cast<std::uint32_t>(std::popcount(to[kind]));
            }
        }
    }
    std::uint32_t signed_with(std::size_t kind, std::size_t word) const {
        return signature_[word]->data()[kinds.member[kind]];  // the blocks lie side by side
    }
    // Edges, and beyond them anything.
    std::uint32_t satisfied(std::size_t kind, std::size_t n_above) const {
        const std::size_t word = n_above / kSetPlayers;
        if (word >= signature_.size()) return 0;
        std::uint64_t bits = signed_with(kind, word);
        if (word + 1 < signature_.size()) bits |= std::uint64_t{signed_with(kind, word + 1)} << kSetPlayers;
        return static_cast<std::uint32_t>(bits >> n_above % kSetPlayers);
    }

    std::vector<const Sets*> signature_;  // by word
    PageBuffer<Sets> own_;                // words that are not the crowd's own
    std::vector<Sets> sets_;              // [word][block of kinds]
    std::size_t set_blocks_ = 0;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
