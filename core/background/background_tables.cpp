// How a histogram of background rows becomes a table.

#include "background/background_tables.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

namespace linear_treeshap {
namespace {

// A player of a leaf, as seen from a table: it is satisfied in the states whose bits are as wanted.
struct Literal {
    std::uint32_t mask, wanted;
    std::int32_t player;
};

// Calls visit(leaf, literals) for each leaf of a table.
template <class Visit>
void for_each_leaf(const Tree& tree, const BackgroundTree& plan, const LeafTable& table, const Visit& visit) {
    const auto* const bit_word = &plan.bit_word[at(table.first_bit)];
    const auto n_splits = tree.n_splits;
    std::vector<Literal> literals;
    for (int bit = table.n_conditions; bit < table.n_bits; ++bit)
        literals.push_back({1U << bit, 1U << bit, tree[bit_word[bit] / 2].player});
    struct Visited {
        std::int32_t node;
        std::vector<Literal> literals;
    };
    std::vector<Visited> pending{{table.root, std::move(literals)}};
    while (!pending.empty()) {
        const auto [node, path] = std::move(pending.back());
        pending.pop_back();
        if (node < 0) {
            visit(~node, path);
            continue;
        }
        const auto* const found = std::find(bit_word, bit_word + table.n_conditions, 2 * n_splits + node);
        const auto bit = 1U << (found - bit_word);
        const Split split = tree[node];
        for (int side = 1; side >= 0; --side) {
            auto longer = path;
            auto here =
                std::find_if(longer.begin(), longer.end(), [&](const auto& l) { return l.player == split.player; });
            if (here == longer.end()) here = longer.insert(here, {0, 0, split.player});
            here->mask |= bit;
            if (side == 0) here->wanted |= bit;
            pending.push_back({split.child[side], std::move(longer)});
        }
    }
}

// Σ over the background rows whose failed players β lie within `among`, by p = |β|: [among][p].
class CountsWithin {
  public:
    CountsWithin(int n_players, const std::vector<std::uint32_t>& failed, const double* histogram)
        : stride_((static_cast<std::size_t>(n_players) + 4) / 4 * 4), counts_(stride_ << n_players, 0.0) {
        for (std::size_t state = 0; state < failed.size(); ++state)
            counts_[failed[state] * stride_ + static_cast<std::size_t>(std::popcount(failed[state]))] +=
                histogram[state];
        for (std::size_t bit = 1; bit < std::size_t{1} << n_players; bit *= 2)
            for (std::size_t among = 0; among < std::size_t{1} << n_players; ++among)
                if ((among & bit) != 0)
                    for (std::size_t p = 0; p < stride_; ++p)
                        counts_[among * stride_ + p] += counts_[(among ^ bit) * stride_ + p];
    }
    const double* operator[](std::size_t among) const { return &counts_[among * stride_]; }

  private:
    std::size_t stride_;
    std::vector<double> counts_;
};

// φ of every player of a leaf of value one, for each set of players a row can fail: [failed][player].
//
// With S the players the row satisfies and q those it fails, player i of S gains the sum over the background
// rows within S less the sum over those within S without i, both weighed for q; where no background row fails
// i the two are the same bits, and the value is exactly zero.
std::vector<double> leaf_values(int n_players, const std::vector<std::uint32_t>& failed, const double* histogram,
                                const Moments& moments) {
    const auto n = static_cast<std::size_t>(n_players);
    const CountsWithin counts(n_players, failed, histogram);
    const std::size_t everyone = (std::size_t{1} << n) - 1;
    std::vector<double> lost(everyone + 1), within(everyone + 1), without_one(everyone + 1);
    for (std::size_t among = 0; among <= everyone; ++among) {
        const int most = std::popcount(among), q = n_players - most;
        double sums[3] = {0.0, 0.0, 0.0};
        for (int p = 0; p <= most; ++p) {
            const double count = counts[among][p];
            if (q > 0) sums[0] += count * moments(p, q - 1);
            if (p > 0) sums[1] += count * moments(p - 1, q);
            if (p > 0 && q > 0) sums[2] += count * moments(p - 1, q - 1);
        }
        lost[among] = -sums[0];
        within[among] = sums[1];
        without_one[among] = sums[2];
    }
    std::vector<double> values(n << n);
    for (std::size_t alpha = 0; alpha <= everyone; ++alpha) {
        const std::size_t among = everyone & ~alpha;
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t bit = std::size_t{1} << i;
            values[alpha * n + i] = (alpha & bit) != 0 ? lost[among] : within[among] - without_one[among & ~bit];
        }
    }
    return values;
}

// Likewise the interaction index of every pair: [failed][pair], pair (i, j < i) at i·(i-1)/2 + j.
std::vector<double> leaf_pairs(int n_players, const std::vector<std::uint32_t>& failed, const double* histogram,
                               const Moments& moments) {
    const auto n = static_cast<std::size_t>(n_players), n_pairs = n * (n - 1) / 2;
    if (n_pairs == 0) return {};
    const CountsWithin counts(n_players, failed, histogram);
    const std::size_t everyone = (std::size_t{1} << n) - 1;
    // Sums over the background rows within a set, weighed for k of the pair in β and for a row that fails as
    // many players as are not in the set, less `without`, those taken out of it below: [k][without][set].
    std::array<std::array<std::vector<double>, 3>, 3> sum;
    for (int k = 0; k < 3; ++k)
        for (int without = 0; without <= k; ++without) {
            auto& to = sum[at(k)][at(without)];
            to.assign(everyone + 1, 0.0);
            for (std::size_t among = 0; among <= everyone; ++among) {
                const int most = std::popcount(among), l = n_players - most - without - (2 - k);
                if (l < 0) continue;
                for (int p = k; p <= most; ++p) to[among] += counts[among][p] * moments(p - k, l);
            }
        }
    std::vector<double> values(n_pairs << n);
    for (std::size_t alpha = 0; alpha <= everyone; ++alpha) {
        const std::size_t among = everyone & ~alpha;
        double* value = &values[alpha * n_pairs];
        for (std::size_t i = 1; i < n; ++i)
            for (std::size_t j = 0; j < i; ++j, ++value) {
                const std::size_t one = std::size_t{1} << i, other = std::size_t{1} << j;
                const bool fails_one = (alpha & one) != 0, fails_other = (alpha & other) != 0;
                if (fails_one && fails_other) {
                    *value = sum[0][0][among];
                } else if (fails_one || fails_other) {
                    *value = sum[1][1][among & ~(fails_one ? other : one)] - sum[1][0][among];
                } else {
                    *value = (sum[2][0][among] - sum[2][1][among & ~one]) -
                             (sum[2][1][among & ~other] - sum[2][2][among & ~(one | other)]);
                }
            }
    }
    return values;
}

}  // namespace

void fill_table(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const LeafTable& table,
                const double* histogram, const Moments& moments, bool of_pairs, double scale, double* out) {
    const std::size_t n_states = table.n_states(), stride = table.stride();
    const auto outputs = static_cast<std::size_t>(chunk.n_outputs);
    const auto* const table_players = &plan.player[at(table.first_player)];
    std::fill_n(out, table.size(), 0.0);
    std::vector<std::uint32_t> failed(n_states);
    for_each_leaf(tree, plan, table, [&](std::int32_t leaf, const std::vector<Literal>& players) {
        const std::size_t n = players.size();
        for (std::uint32_t state = 0; state < n_states; ++state) {
            failed[state] = 0;
            for (std::size_t i = 0; i < n; ++i)
                if ((state & players[i].mask) != players[i].wanted) failed[state] |= 1U << i;
        }
        std::vector<std::size_t> place, lane;  // among the table's players, and in an entry of it
        for (const auto& player : players)
            place.push_back(static_cast<std::size_t>(
                std::find(table_players, table_players + table.n_players, player.player) - table_players));
        for (std::size_t i = 0; i < n; ++i) {
            if (!of_pairs) lane.push_back(place[i] * outputs);
            for (std::size_t j = 0; j < i && of_pairs; ++j) {
                const auto [low, high] = std::minmax(place[i], place[j]);
                lane.push_back((high * (high - 1) / 2 + low) * outputs);
            }
        }
        const auto values = (of_pairs ? leaf_pairs : leaf_values)(static_cast<int>(n), failed, histogram, moments);
        for (std::size_t output = 0; output < outputs; ++output) {
            const double value = chunk.values_of(leaf)[output] * scale;
            for (std::size_t state = 0; state < n_states; ++state)
                for (std::size_t i = 0; i < lane.size(); ++i)
                    out[state * stride + lane[i] + output] += value * values[failed[state] * lane.size() + i];
        }
    });
}

}  // namespace linear_treeshap
