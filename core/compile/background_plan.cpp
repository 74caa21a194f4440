// Which leaves share a table, and which are in none.

#include "compile/background_plan.hpp"

#include <algorithm>
#include <utility>

namespace linear_treeshap {
namespace {

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
    Planner(const Tree& tree, int n_outputs, int max_bits, Pairs* pairs, Listener& listener)
        : tree_(tree), n_outputs_(n_outputs), max_bits_(max_bits), pairs_(pairs), listener_(listener) {}

    BackgroundTree run() {
        measure();
        choose();
        place();
        return std::move(plan_);
    }

  private:
    // Players above each split and splits below it, itself included: together the bits of its table.
    void measure() {
        const std::size_t n = at(tree_.n_splits);
        n_above_.assign(n, 0);
        n_below_.assign(n, 1);
        for (std::size_t i = 0; i < n; ++i)
            for (const auto child : split(i).child) {
                if (child >= 0) n_above_[at(child)] = n_above_below(i);
                plan_.n_players_on_path = std::max(plan_.n_players_on_path, n_above_below(i));
            }
        for (std::size_t i = n; i-- > 0;)
            for (const auto child : split(i).child)
                if (child >= 0) n_below_[i] += n_below_[at(child)];
    }
    Split split(std::size_t i) const { return tree_[static_cast<std::int32_t>(i)]; }
    // Distinct players on the path that ends below split i.
    int n_above_below(std::size_t i) const { return n_above_[i] + (split(i).above < 0 ? 1 : 0); }

    // Bottom up: one table for all leaves below a split, or the tables of both of its sides?
    void choose() {
        const std::size_t n = at(tree_.n_splits);
        is_root_.assign(n, false);
        std::vector<double> cost(n, 0.0);
        for (std::size_t i = n; i-- > 0;) {
            for (const auto child : split(i).child) {
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
        return (pairs_ == nullptr ? n_players : n_players * (n_players - 1) / 2) * n_outputs_;
    }
    int n_new_players(std::size_t root) const {
        std::vector<std::int32_t> players;
        for_each_below(root, [&](std::size_t, const Split& split) {
            if (split.above < 0 && std::find(players.begin(), players.end(), split.player) == players.end())
                players.push_back(split.player);
        });
        return static_cast<int>(players.size());
    }
    template <class Visit>
    void for_each_below(std::size_t root, const Visit& visit) const {
        std::vector<std::size_t> pending{root};
        while (!pending.empty()) {
            const std::size_t i = pending.back();
            const Split here = split(i);
            pending.pop_back();
            visit(i, here);
            listener_.tick();
            for (const auto child : here.child)
                if (child >= 0) pending.push_back(at(child));
        }
    }

    // Top down, to know the last edge of every player above.
    void place() {
        std::vector<std::int32_t> parent_edge(at(tree_.n_splits), -1), scanned;  // edges to leaves in no table
        std::vector<std::int32_t> pending{0};
        while (!pending.empty()) {
            const auto i = pending.back();
            pending.pop_back();
            if (is_root_[at(i)]) {
                add_table(i, parent_edge[at(i)], parent_edge);
                continue;
            }
            for (int side = 0; side < 2; ++side) {
                const auto child = tree_.child(i, static_cast<std::size_t>(side));
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
        plan_.scan_child.assign(2 * at(tree_.n_splits), kNothing);
        plan_.n_splits_below = n_below_;
        for (auto edge : scanned)
            for (; edge >= 0 && plan_.scan_child[at(edge)] == kNothing; edge = parent_edge[at(edge / 2)]) {
                plan_.scan_child[at(edge)] = tree_.child(edge / 2, at(edge % 2));
                if (pairs_ != nullptr) number_pairs(edge, parent_edge);
            }
    }

    // The pairs that an edge's player makes with those above it.
    void number_pairs(std::int32_t edge, const std::vector<std::int32_t>& parent_edge) {
        const auto player = tree_[edge / 2].player;
        if (tree_[edge / 2].above >= 0) return;  // they meet above
        for (; edge >= 0; edge = parent_edge[at(edge / 2)]) {
            listener_.tick();
            const auto other = tree_[edge / 2].player;
            if (other != player) pairs_->add(player, other);
        }
    }

    void add_table(std::int32_t root, std::int32_t edge, const std::vector<std::int32_t>& parent_edge) {
        LeafTable table{};
        table.root = root;
        table.first_bit = static_cast<std::int32_t>(plan_.bit_word.size());
        table.first_lane = static_cast<std::int32_t>(plan_.lane_slot.size());
        const auto n_splits = tree_.n_splits;
        std::vector<std::int32_t> players;
        const auto add_player = [&](std::int32_t player) {
            if (std::find(players.begin(), players.end(), player) != players.end()) return false;
            players.push_back(player);
            return true;
        };
        std::vector<std::int32_t> edges;
        for (; edge >= 0; edge = parent_edge[at(edge / 2)])
            if (add_player(tree_[edge / 2].player)) edges.push_back(edge);
        if (root >= 0)
            for_each_below(at(root), [&](std::size_t i, const Split& split) {
                plan_.bit_word.push_back(2 * n_splits + static_cast<std::int32_t>(i));
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
            if (pairs_ == nullptr) add_lanes(players[i]);
            for (std::size_t j = 0; j < i && pairs_ != nullptr; ++j) add_lanes(pairs_->add(players[i], players[j]));
        }
        table.n_lanes = n_lanes(table.n_players);
        if (table.n_lanes == 0) return;  // a single player makes no pair
        plan_.tables.push_back(table);
    }

    const Tree& tree_;
    int n_outputs_, max_bits_;
    Pairs* pairs_;
    Listener& listener_;
    std::vector<std::int32_t> n_above_, n_below_;
    std::vector<bool> is_root_;
    BackgroundTree plan_;
};

}  // namespace

Moments::Moments(const Rule& rule, int n_players)
    : stride_(at(std::max(1, n_players)) + 1), moment_((stride_ + 1) * stride_, 0.0) {
    const std::size_t n = stride_ - 1;
    for (std::size_t point = 0; point < rule.point.size(); ++point) {
        double of_absent = rule.weight[point];
        for (std::size_t l = 0; l < n; ++l, of_absent *= rule.absent[point]) {
            double both = of_absent;
            for (std::size_t k = 0; k + l < n; ++k, both *= rule.point[point])
                moment_[(l + 1) * stride_ + k + 1] += both;
        }
    }
}

BackgroundTree plan_tables(const Tree& tree, int n_outputs, int max_bits, Pairs* pairs, Listener& listener) {
    return Planner(tree, n_outputs, max_bits, pairs, listener).run();
}

std::vector<std::array<std::int32_t, 2>> Pairs::list() const {
    std::vector<std::array<std::int32_t, 2>> out(number_.size());
    for (const auto& [players, number] : number_)
        out[static_cast<std::size_t>(number)] = {static_cast<std::int32_t>(players >> 32),
                                                 static_cast<std::int32_t>(players & 0xFFFFFFFF)};
    return out;
}

}  // namespace linear_treeshap
