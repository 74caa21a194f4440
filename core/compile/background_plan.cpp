// Which leaves share a table, and how a histogram of background rows becomes one.

#include <algorithm>
#include <bit>
#include <cmath>

#include "background/background_engine.hpp"

namespace linear_treeshap {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// What a look-up costs: an entry of eight lanes is loaded, transposed and added at once, and a state is put
// together bit by bit. Measured in units of one entry (benchmarks: background-100x6).
double look_up_cost(int n_lanes, int n_bits) {
    const int vectors = (n_lanes + 7) / 8;
    // Tables that leave the nearest cache.
    const bool is_large = vectors << n_bits > 512;
    return vectors * (is_large ? 1.5 : 1.0) + 0.05 * n_bits;
}

class Planner {
  public:
    Planner(const Tree& tree, int n_outputs, int max_bits, Couples* couples, Listener& listener)
        : tree_(tree), n_outputs_(n_outputs), max_bits_(max_bits), couples_(couples), listener_(listener) {}

    BackgroundTree run() {
        measure();
        choose();
        place();
        return std::move(plan_);
    }

  private:
    // Players above each split and splits below it, itself included: together the bits of its table.
    void measure() {
        const std::size_t n = tree_.splits.size();
        n_above_.assign(n, 0);
        n_below_.assign(n, 1);
        for (std::size_t i = 0; i < n; ++i)
            for (const auto child : tree_.splits[i].child) {
                if (child >= 0) n_above_[at(child)] = n_above_below(i);
                plan_.n_players_on_path = std::max(plan_.n_players_on_path, n_above_below(i));
            }
        for (std::size_t i = n; i-- > 0;)
            for (const auto child : tree_.splits[i].child)
                if (child >= 0) n_below_[i] += n_below_[at(child)];
    }
    // Distinct players on the path that ends below split i.
    int n_above_below(std::size_t i) const { return n_above_[i] + (tree_.splits[i].above < 0 ? 1 : 0); }

    // Bottom up: one table for all leaves below a split, or the tables of both of its sides?
    void choose() {
        const std::size_t n = tree_.splits.size();
        is_root_.assign(n, false);
        std::vector<double> cost(n, 0.0);
        for (std::size_t i = n; i-- > 0;) {
            for (const auto child : tree_.splits[i].child) {
                const int d = n_above_below(i);
                cost[i] += child >= 0 ? cost[at(child)] : d <= max_bits_ ? look_up_cost(n_lanes(d), d) : 0.0;
            }
            const int n_bits = n_above_[i] + n_below_[i];
            if (n_bits > max_bits_) continue;
            const double whole = look_up_cost(n_lanes(n_above_[i] + n_new_players(i)), n_bits);
            if (whole > cost[i]) continue;
            cost[i] = whole;
            is_root_[i] = true;
        }
    }
    int n_lanes(int n_players) const {
        return (couples_ == nullptr ? n_players : n_players * (n_players - 1) / 2) * n_outputs_;
    }
    int n_new_players(std::size_t root) const {
        std::vector<std::int32_t> players;
        for_each_below(root, [&](const Split& split) {
            if (split.above < 0 && std::find(players.begin(), players.end(), split.player) == players.end())
                players.push_back(split.player);
        });
        return static_cast<int>(players.size());
    }
    template <class Visit>
    void for_each_below(std::size_t root, const Visit& visit) const {
        std::vector<std::size_t> pending{root};
        while (!pending.empty()) {
            const auto& split = tree_.splits[pending.back()];
            pending.pop_back();
            visit(split);
            listener_.tick();
            for (const auto child : split.child)
                if (child >= 0) pending.push_back(at(child));
        }
    }

    // Top down, to know the last edge of every player above.
    void place() {
        std::vector<std::int32_t> parent_edge(tree_.splits.size(), -1), scanned;  // edges to leaves in no table
        std::vector<std::int32_t> pending{0};
        while (!pending.empty()) {
            const auto i = pending.back();
            pending.pop_back();
            if (is_root_[at(i)]) {
                add_table(i, parent_edge[at(i)], parent_edge);
                continue;
            }
            for (int side = 0; side < 2; ++side) {
                const auto child = tree_.splits[at(i)].child[side];
                if (child >= 0) {
                    parent_edge[at(child)] = 2 * i + side;
                    pending.push_back(child);
                } else if (n_above_below(at(i)) <= max_bits_) {
                    add_table(child, 2 * i + side, parent_edge);
                } else {
                    scanned.push_back(2 * i + side);
                }
            }
        }
        if (scanned.empty()) return;
        plan_.scan_child.assign(2 * tree_.splits.size(), kNothing);
        for (auto edge : scanned)
            for (; edge >= 0 && plan_.scan_child[at(edge)] == kNothing; edge = parent_edge[at(edge / 2)]) {
                plan_.scan_child[at(edge)] = tree_.splits[at(edge / 2)].child[edge % 2];
                if (couples_ != nullptr) number_couples(edge, parent_edge);
            }
    }

    // The couples that an edge's player makes with those above it.
    void number_couples(std::int32_t edge, const std::vector<std::int32_t>& parent_edge) {
        const auto player = tree_.splits[at(edge / 2)].player;
        if (tree_.splits[at(edge / 2)].above >= 0) return;  // they meet above
        for (; edge >= 0; edge = parent_edge[at(edge / 2)]) {
            listener_.tick();
            const auto other = tree_.splits[at(edge / 2)].player;
            if (other != player) couples_->add(player, other);
        }
    }

    void add_table(std::int32_t root, std::int32_t edge, const std::vector<std::int32_t>& parent_edge) {
        LeafTable table{};
        table.root = root;
        table.first_bit = static_cast<std::int32_t>(plan_.bit_word.size());
        table.first_lane = static_cast<std::int32_t>(plan_.lane_slot.size());
        const auto n_splits = static_cast<std::int32_t>(tree_.splits.size());
        std::vector<std::int32_t> players;
        const auto add_player = [&](std::int32_t player) {
            if (std::find(players.begin(), players.end(), player) != players.end()) return false;
            players.push_back(player);
            return true;
        };
        std::vector<std::int32_t> edges;
        for (; edge >= 0; edge = parent_edge[at(edge / 2)])
            if (add_player(tree_.splits[at(edge / 2)].player)) edges.push_back(edge);
        if (root >= 0)
            for_each_below(at(root), [&](const Split& split) {
                plan_.bit_word.push_back(2 * n_splits + static_cast<std::int32_t>(&split - tree_.splits.data()));
                add_player(split.player);
                ++table.n_conditions;
            });
        plan_.bit_word.insert(plan_.bit_word.end(), edges.begin(), edges.end());
        table.n_bits = table.n_conditions + static_cast<std::int32_t>(edges.size());
        table.first_player = static_cast<std::int32_t>(plan_.player.size());
        table.n_players = static_cast<std::int32_t>(players.size());
        plan_.player.insert(plan_.player.end(), players.begin(), players.end());
        const auto add_lanes = [&](std::int32_t item) {
            for (int output = 0; output < n_outputs_; ++output) plan_.lane_slot.push_back(item * n_outputs_ + output);
        };
        for (std::size_t i = 0; i < players.size(); ++i) {
            if (couples_ == nullptr) add_lanes(players[i]);
            for (std::size_t j = 0; j < i && couples_ != nullptr; ++j) add_lanes(couples_->add(players[i], players[j]));
        }
        table.n_lanes = n_lanes(table.n_players);
        if (table.n_lanes == 0) return;  // a single player makes no couple
        plan_.tables.push_back(table);
    }

    const Tree& tree_;
    int n_outputs_, max_bits_;
    Couples* couples_;
    Listener& listener_;
    std::vector<int> n_above_, n_below_;
    std::vector<bool> is_root_;
    BackgroundTree plan_;
};

// A player of a leaf, as seen from a table: it is satisfied in the states whose bits are as wanted.
struct Literal {
    std::uint32_t mask, wanted;
    std::int32_t player;
};

// Calls visit(leaf, literals) for each leaf of a table.
template <class Visit>
void for_each_leaf(const Tree& tree, const BackgroundTree& plan, const LeafTable& table, const Visit& visit) {
    const auto* const bit_word = &plan.bit_word[at(table.first_bit)];
    const auto n_splits = static_cast<std::int32_t>(tree.splits.size());
    std::vector<Literal> literals;
    for (int bit = table.n_conditions; bit < table.n_bits; ++bit)
        literals.push_back({1U << bit, 1U << bit, tree.splits[at(bit_word[bit] / 2)].player});
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
        const auto& split = tree.splits[at(node)];
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

// Likewise the interaction index of every couple: [failed][couple], couple (i, j < i) at i·(i-1)/2 + j.
std::vector<double> leaf_couples(int n_players, const std::vector<std::uint32_t>& failed, const double* histogram,
                                 const Moments& moments) {
    const auto n = static_cast<std::size_t>(n_players), n_couples = n * (n - 1) / 2;
    if (n_couples == 0) return {};
    const CountsWithin counts(n_players, failed, histogram);
    const std::size_t everyone = (std::size_t{1} << n) - 1;
    // Sums over the background rows within a set, weighed for k of the couple in β and for a row that fails as
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
    std::vector<double> values(n_couples << n);
    for (std::size_t alpha = 0; alpha <= everyone; ++alpha) {
        const std::size_t among = everyone & ~alpha;
        double* value = &values[alpha * n_couples];
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

Moments::Moments(const Rule& rule, int n_players)
    : n_(std::max(1, n_players)), moment_(static_cast<std::size_t>(n_) * static_cast<std::size_t>(n_), 0.0) {
    for (std::size_t point = 0; point < rule.point.size(); ++point) {
        double of_absent = rule.weight[point];
        for (int l = 0; l < n_; ++l, of_absent *= rule.absent[point]) {
            double both = of_absent;
            for (int k = 0; k + l < n_; ++k, both *= rule.point[point])
                moment_[static_cast<std::size_t>(l * n_ + k)] += both;
        }
    }
}

BackgroundTree plan_tables(const Tree& tree, int n_outputs, int max_bits, Couples* couples, Listener& listener) {
    return Planner(tree, n_outputs, max_bits, couples, listener).run();
}

std::vector<std::array<std::int32_t, 2>> Couples::list() const {
    std::vector<std::array<std::int32_t, 2>> out(number_.size());
    for (const auto& [players, number] : number_)
        out[static_cast<std::size_t>(number)] = {static_cast<std::int32_t>(players >> 32),
                                                 static_cast<std::int32_t>(players & 0xFFFFFFFF)};
    return out;
}

void fill_table(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const LeafTable& table,
                const double* histogram, const Moments& moments, bool of_couples, double scale, double* out) {
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
            if (!of_couples) lane.push_back(place[i] * outputs);
            for (std::size_t j = 0; j < i && of_couples; ++j) {
                const auto [low, high] = std::minmax(place[i], place[j]);
                lane.push_back((high * (high - 1) / 2 + low) * outputs);
            }
        }
        const auto values = (of_couples ? leaf_couples : leaf_values)(static_cast<int>(n), failed, histogram, moments);
        for (std::size_t output = 0; output < outputs; ++output) {
            const double value = chunk.values_of(tree, leaf)[output] * scale;
            for (std::size_t state = 0; state < n_states; ++state)
                for (std::size_t i = 0; i < lane.size(); ++i)
                    out[state * stride + lane[i] + output] += value * values[failed[state] * lane.size() + i];
        }
    });
}

}  // namespace linear_treeshap
