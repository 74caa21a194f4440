// Leaves that are in no table: every pair of a row and a background row, 64 by 64 at a time.
//
// At a leaf each row has α, the set of players it fails, and each background row has β, both as bits in the
// order in which the path meets its players. The pairs that count are those whose sets do not meet, which
// is one instruction for sixteen of them; hardly any do at a deep leaf. A pair pays the players of β and
// charges those of α. While the leaves are visited from left to right, what the players of the current path
// have is kept by their place on it, so that a vector of them is paid at once.

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "kernels/background_kernel.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

constexpr std::size_t kWorkAtOnce = std::size_t{1} << 14;  // players of leaves for a block of rows: some milliseconds
constexpr std::size_t kSetPlayers = 32;  // players in one word of a set; longer paths have several words

struct alignas(64) AlignedSets : std::array<std::uint32_t, kBlockRows> {};

class Scan {
  public:
    Scan(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const Moments& moments,
         const RowPairs& row_pairs, const Worker& worker)
        : chunk_(chunk),
          tree_(tree),
          plan_(plan),
          moments_(moments),
          n_outputs_(at(chunk.n_outputs)),
          row_pairs_(row_pairs),
          worker_(worker),
          n_set_words_((at(plan.n_players_on_path) + kSetPlayers - 1) / kSetPlayers),
          row_sets_(n_set_words_),
          background_sets_(n_set_words_),
          n_places_(n_set_words_ * kSetPlayers) {
        const std::size_t per_row = row_pairs.pairs == nullptr ? n_places_ : n_places_ * n_places_;
        paid_ = worker.workspace().stack.reserve(n_outputs_ * kBlockRows * per_row);
        std::fill_n(paid_, n_outputs_ * kBlockRows * per_row, 0.0);
    }

    // From left to right over the leaves, with the players of the path at hand. Returns false if the work must stop.
    bool run() {
        struct Visit {
            std::int32_t split;
            int side;  // to be visited next
        };
        std::vector<Visit> pending;
        std::vector<std::size_t> place(tree_.splits.size());  // of each split's player on the path
        const auto enter = [&](std::int32_t split) {
            const auto above = tree_.splits[at(split)].above;
            place[at(split)] = above < 0 ? edge_.size() : place[at(above / 2)];
            if (above < 0) edge_.push_back(-1);
            pending.push_back({split, 0});
        };
        enter(0);
        while (!pending.empty()) {
            auto& [split, side] = pending.back();
            const std::size_t here = place[at(split)];
            if (side == 2) {
                const auto above = tree_.splits[at(split)].above;
                if (above < 0) {
                    row_pairs_.pairs == nullptr ? flush(here) : flush_pairs(here);
                    edge_.pop_back();
                } else {
                    edge_[here] = above;
                }
                pending.pop_back();
                continue;
            }
            edge_[here] = 2 * split + side;
            const auto child = plan_.scan_child[at(edge_[here])];
            ++side;
            if (child == kNothing) continue;
            if (child >= 0) {
                enter(child);
                continue;
            }
            visit_leaf(~child);
            if (work_ < kWorkAtOnce) continue;
            work_ = 0;
            if (!worker_.advance(0)) return false;
        }
        return worker_.advance(0);
    }

  private:
    void visit_leaf(std::int32_t leaf) {
        const std::size_t n_players = edge_.size();
        work_ += n_players;
        for (std::size_t word = 0; word * kSetPlayers < n_players; ++word) {
            row_sets_[word].fill(0);
            background_sets_[word].fill(0);
            const std::size_t first = word * kSetPlayers;
            for (std::size_t i = first; i < std::min(n_players, first + kSetPlayers); ++i) {
                add_player(row_sets_[word].data(), ~row_pairs_.row_words[edge_[i]], static_cast<int>(i - first));
                add_player(background_sets_[word].data(), ~row_pairs_.background_words[edge_[i]],
                           static_cast<int>(i - first));
            }
        }
        const auto n_words = (n_players + kSetPlayers - 1) / kSetPlayers;
        const std::uint64_t everyone = ~std::uint64_t{0} >> (kBlockRows - row_pairs_.n_background);
        for (std::size_t row = 0; row < row_pairs_.n_rows; ++row) {
            std::uint64_t met = everyone;
            int q = 0;
            for (std::size_t word = 0; word < n_words; ++word) {
                met &= disjoint(background_sets_[word].data(), row_sets_[word][row]);
                q += std::popcount(row_sets_[word][row]);
            }
            if (met == 0) continue;
            if (row_pairs_.pairs != nullptr) {
                for (std::size_t o = 0; o < n_outputs_; ++o) pay_pairs(leaf, row, q, met, o);
            } else if (n_words == 1) {
                n_players <= 8    ? pay<8>(leaf, row, q, met, 0)
                : n_players <= 16 ? pay<16>(leaf, row, q, met, 0)
                : n_players <= 24 ? pay<24>(leaf, row, q, met, 0)
                                  : pay<32>(leaf, row, q, met, 0);
            } else {
                for (std::size_t word = 0; word < n_words; ++word) pay<kSetPlayers>(leaf, row, q, met, word);
            }
        }
    }

    int n_failed(std::size_t z) const {
        int p = std::popcount(background_sets_[0][z]);
        for (std::size_t word = 1; word * kSetPlayers < edge_.size(); ++word)
            p += std::popcount(background_sets_[word][z]);
        return p;
    }

    // What the background rows `met` by a row give to kPlayers of the path, those of one word of the sets.
    template <int kPlayers>
    LTS_INLINE void pay(std::int32_t leaf, std::size_t row, int q, std::uint64_t met, std::size_t word) {
        constexpr int n = kPlayers / kLanes;
        std::array<Vec, n> sum;
        sum.fill(broadcast(0.0));
        double lost = 0.0;
        const double* const to_gain = moments_.of_absent(q);
        const double* const to_lose = moments_.of_absent(q > 0 ? q - 1 : 0);
        const double* const weights =
            row_pairs_.weights == nullptr ? nullptr : row_pairs_.weights + row * row_pairs_.weights_per_row;
        for (; met != 0; met &= met - 1) {
            const auto z = static_cast<std::size_t>(std::countr_zero(met));
            const std::uint32_t beta = background_sets_[word][z];
            const int p = n_failed(z);
            const double weight = weights == nullptr ? 1.0 : weights[z];
            if (q > 0) lost += weight * to_lose[p];
            if (p == 0) continue;
            const Vec gained = broadcast(weight * to_gain[p - 1]);
            for (int v = 0; v < n; ++v) sum[at(v)] = sum[at(v)] + where(mask_of(beta >> (v * kLanes)), gained);
        }
        const std::uint32_t alpha = row_sets_[word][row];
        for (int v = 0; v < n; ++v) sum[at(v)] = sum[at(v)] + where(mask_of(alpha >> (v * kLanes)), broadcast(-lost));
        const double* const values = chunk_.values_of(tree_, leaf);
        for (std::size_t o = 0; o < n_outputs_; ++o) {
            const Vec value = broadcast(row_pairs_.scale * values[o]);
            double* const to = paid(o, word, row);
            for (int v = 0; v < n; ++v) store(to + v * kLanes, load(to + v * kLanes) + value * sum[at(v)]);
        }
    }

    double* paid(std::size_t output, std::size_t word, std::size_t row) const {
        return paid_ + (output * kBlockRows + row) * n_places_ + word * kSetPlayers;
    }
    std::int32_t player_at(std::size_t place) const { return tree_.splits[at(edge_[place] / 2)].player; }
    double* phi_of(std::size_t slot, std::size_t row) const { return row_pairs_.phi + slot * kBlockRows + row; }

    // The path leaves a player behind: what it was paid is added to φ.
    void flush(std::size_t place) {
        for (std::size_t o = 0; o < n_outputs_; ++o)
            for (std::size_t row = 0; row < row_pairs_.n_rows; ++row) {
                double& amount = paid(o, 0, row)[place];
                *phi_of(at(player_at(place)) * n_outputs_ + o, row) += amount;
                amount = 0.0;
            }
    }

    static void list(const std::vector<AlignedSets>& sets, std::size_t n_words, std::size_t row,
                     std::vector<std::size_t>& places) {
        places.clear();
        for (std::size_t word = 0; word < n_words; ++word)
            for (std::uint32_t set = sets[word][row]; set != 0; set &= set - 1)
                places.push_back(word * kSetPlayers + static_cast<std::size_t>(std::countr_zero(set)));
    }

    // As `pay`, for pairs of players of the path.
    void pay_pairs(std::int32_t leaf, std::size_t row, int q, std::uint64_t met, std::size_t output) {
        const std::size_t n_words = (edge_.size() + kSetPlayers - 1) / kSetPlayers;
        const double value = row_pairs_.scale * chunk_.values_of(tree_, leaf)[output];
        double* const grid = paid_pairs(output, row);
        const auto pair = [&](std::size_t one, std::size_t other) -> double& {
            return grid[std::max(one, other) * n_places_ + std::min(one, other)];
        };
        const double* const weights =
            row_pairs_.weights == nullptr ? nullptr : row_pairs_.weights + row * row_pairs_.weights_per_row;
        crossed_.assign(edge_.size(), 0.0);  // what a player of β has with each of α
        double both_lost = 0.0;
        for (; met != 0; met &= met - 1) {
            const auto z = static_cast<std::size_t>(std::countr_zero(met));
            const double weight = value * (weights == nullptr ? 1.0 : weights[z]);
            list(background_sets_, n_words, z, beta_);
            const auto p = static_cast<int>(beta_.size());
            work_ += beta_.size() * beta_.size() / kBlockRows;
            if (q >= 2) both_lost += weight * moments_(p, q - 2);
            for (std::size_t i = 0; i < beta_.size(); ++i) {
                if (q >= 1) crossed_[beta_[i]] -= weight * moments_(p - 1, q - 1);
                for (std::size_t j = 0; j < i; ++j) pair(beta_[i], beta_[j]) += weight * moments_(p - 2, q);
            }
        }
        list(row_sets_, n_words, row, alpha_);
        for (std::size_t i = 0; i < alpha_.size(); ++i) {
            for (std::size_t other = 0; other < edge_.size(); ++other)
                if (crossed_[other] != 0.0) pair(alpha_[i], other) += crossed_[other];
            for (std::size_t j = 0; j < i; ++j) pair(alpha_[i], alpha_[j]) += both_lost;
        }
    }

    double* paid_pairs(std::size_t output, std::size_t row) const {
        return paid_ + (output * kBlockRows + row) * n_places_ * n_places_;
    }

    void flush_pairs(std::size_t place) {
        for (std::size_t other = 0; other < place; ++other) {
            const auto slot = at(row_pairs_.pairs->at(player_at(place), player_at(other))) * n_outputs_;
            for (std::size_t o = 0; o < n_outputs_; ++o)
                for (std::size_t row = 0; row < row_pairs_.n_rows; ++row) {
                    double& amount = paid_pairs(o, row)[place * n_places_ + other];
                    *phi_of(slot + o, row) += amount;
                    amount = 0.0;
                }
        }
    }

    const Chunk& chunk_;
    const Tree& tree_;
    const BackgroundTree& plan_;
    const Moments& moments_;
    std::size_t n_outputs_;
    const RowPairs& row_pairs_;
    const Worker& worker_;
    std::size_t work_ = 0;  // since it last looked up
    std::size_t n_set_words_;
    std::vector<AlignedSets> row_sets_, background_sets_;  // by word
    std::vector<std::int32_t> edge_;                       // the last edge of each player of the path
    std::size_t n_places_;                                 // on the longest path, in whole words
    double* paid_;                                         // [output][row][place], or [output][row][place][place]
    std::vector<std::size_t> alpha_, beta_;                // places
    std::vector<double> crossed_;
};

}  // namespace

bool scan(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const Moments& moments,
          const RowPairs& row_pairs, const Worker& worker) {
    return Scan(chunk, tree, plan, moments, row_pairs, worker).run();
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
