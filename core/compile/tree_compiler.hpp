// A tree of a TreeEnsemble, or one of its parts → CompiledTree: splits, treelets, and the steps of the walk.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/parts.hpp"
#include "compile/program.hpp"
#include "compile/tiles.hpp"
#include "model/ensemble.hpp"

namespace linear_treeshap {

struct Numbering {  // global numbers → 0, 1, 2… in order of appearance
    std::unordered_map<std::int32_t, std::int32_t> local;
    std::vector<std::int32_t>& global;

    std::int32_t operator()(std::int32_t number) {
        const auto [it, is_new] = local.try_emplace(number, static_cast<std::int32_t>(global.size()));
        if (is_new) global.push_back(number);
        return it->second;
    }
};

// The largest float that is not above `threshold`: for a float x, x <= threshold iff x <= this.
inline double round_down(double threshold) {
    const auto rounded = static_cast<float>(threshold);
    if (static_cast<double>(rounded) <= threshold) return rounded;
    return std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

using PointsFor = std::function<int(int n_players_on_path)>;

// A tree before it has its place in a Forest, which its spans will point to.
struct CompiledTree : TreeLists {
    Tree tree;
    std::optional<Lookup> lookup;
    std::vector<std::int64_t> leaf_node;  // in the ensemble; -1: its value is another part's
};

class TreeCompiler {
  public:
    TreeCompiler(const EnsembleView& ensemble, std::int64_t tree, const Parts& parts, std::int32_t part_root,
                 Numbering& columns, Numbering& players, const PointsFor& points_for)
        : e_(ensemble),
          root_(ensemble.tree_offsets[static_cast<std::size_t>(tree)]),
          parts_(parts),
          path_(parts.path_to(part_root)),
          columns_(columns),
          players_(players),
          points_for_(points_for) {}

    CompiledTree run() {
        number_splits();
        if (out_.splits.empty()) return std::move(out_);
        find_players_above();
        find_bottoms();
        plan_steps();
        count_constants();
        find_lookup();
        return std::move(out_);
    }

  private:
    std::size_t node_at(std::int32_t node) const { return static_cast<std::size_t>(root_ + node); }

    // Splits and leaves get their numbers from the top down, left before right.
    void number_splits() {
        struct Visit {
            std::int32_t node, parent;
            int side;
            std::size_t depth;
        };
        std::vector<Visit> pending{{0, -1, 0, 0}};
        bool has_own_leaf = false;
        while (!pending.empty()) {
            const auto [node, parent, side, depth] = pending.back();
            pending.pop_back();
            const auto at = node_at(node);
            const bool is_other = is_of_other_part(node, depth);
            const bool is_leaf = is_other || e_.left[at] < 0;
            const auto number = is_leaf ? ~static_cast<std::int32_t>(out_.leaf_node.size())
                                        : static_cast<std::int32_t>(out_.splits.size());
            if (parent >= 0) out_.splits[static_cast<std::size_t>(parent)].child[side] = number;
            if (is_leaf) {
                out_.leaf_node.push_back(is_other ? -1 : static_cast<std::int64_t>(at));
                has_own_leaf = has_own_leaf || !is_other;
                continue;
            }
            const auto column = e_.feature[at];
            Split split{};
            split.threshold = e_.is_float32 ? round_down(e_.threshold[at]) : e_.threshold[at];
            const auto ratio = e_.cover_ratios(node_at(e_.left[at]), node_at(e_.right[at]));
            std::copy(ratio.begin(), ratio.end(), split.ratio);
            split.feature = columns_(column);
            split.player = players_(e_.player[static_cast<std::size_t>(column)]);
            split.category_set = e_.category_set[at];
            split.missing_left = e_.missing_left[at];
            out_.splits.push_back(split);
            pending.push_back({e_.right[at], number, 1, depth + 1});
            pending.push_back({e_.left[at], number, 0, depth + 1});
        }
        if (!has_own_leaf) out_.splits.clear();
    }

    // Beside the path to this part, or where another one begins.
    bool is_of_other_part(std::int32_t node, std::size_t depth) const {
        return depth < path_.size() ? node != path_[depth] : parts_.begins_at(node);
    }

    // e↑ of every split, its absent weight, and the largest number of players on a path.
    void find_players_above() {
        struct Visit {
            std::int32_t split;
            bool entering;
        };
        std::vector<std::int32_t> last_edge(players_.global.size(), -1);  // by player
        std::vector<Visit> pending{{0, true}};
        int n_on_path = 0, most = 0;
        // A split is visited on the way down, between its children, and on the way up: `edge` says
        // which of its edges the path takes.
        while (!pending.empty()) {
            const auto [at, entering] = pending.back();
            pending.pop_back();
            auto& split = out_.splits[static_cast<std::size_t>(at)];
            auto& last = last_edge[static_cast<std::size_t>(split.player)];
            if (entering) {
                split.above = last;
                std::tie(split.absent_above, split.rest_above) = absent_weight(last);
                if (last < 0) ++n_on_path;
                most = std::max(most, n_on_path);
                last = 2 * at;
                pending.push_back({at, false});
                if (split.child[0] >= 0) pending.push_back({split.child[0], true});
            } else if (last == 2 * at) {
                last = 2 * at + 1;
                pending.push_back({at, false});
                if (split.child[1] >= 0) pending.push_back({split.child[1], true});
            } else {
                last = split.above;
                if (last < 0) --n_on_path;
            }
        }
        out_.tree.n_points = points_for_(most);
    }

    void find_bottoms() {
        struct Bottom {
            std::uint8_t n_levels = 0, n_splits = 0;  // up to what a bottom may have, and one more
            bool is_clean = true;
        };
        const auto some = [](int n) { return static_cast<std::uint8_t>(std::min(n, 8)); };
        std::vector<Bottom> bottoms(out_.splits.size());
        for (std::size_t i = bottoms.size(); i-- > 0;) {
            Split& split = out_.splits[i];
            Bottom& here = bottoms[i];
            here.is_clean = split.above < 0;
            for (const auto child : split.child) {
                if (child < 0) continue;
                const Bottom& below = bottoms[static_cast<std::size_t>(child)];
                here.is_clean = here.is_clean && below.is_clean;
                here.n_levels = std::max(here.n_levels, below.n_levels);
                here.n_splits = some(here.n_splits + below.n_splits);
            }
            here.n_levels = some(here.n_levels + 1);
            here.n_splits = some(here.n_splits + 1);
            split.below = Below::anything;
            if (here.n_levels == 1) split.below = Below::leaves;
            if (here.is_clean && here.n_levels == 2) split.below = Below::two;
            // Three splits take as long in a step that has room for seven as they do in two steps.
            if (here.is_clean && here.n_levels == 3 && here.n_splits > 3) split.below = Below::three;
        }
    }

    // c of an edge, and 1 - c; of no edge, 1.
    std::pair<double, double> absent_weight(std::int32_t edge) const {
        if (edge < 0) return {1.0, 0.0};
        const auto& split = out_.splits[static_cast<std::size_t>(edge / 2)];
        return {split.absent_above * split.ratio[edge % 2], split.rest_with(edge % 2)};
    }

    // The subtree at `root` as a treelet, if it is small enough.
    bool try_treelet(std::int32_t root, Treelet& treelet) const {
        treelet = {};
        std::vector<std::int32_t> inside{root};
        for (std::size_t i = 0; i < inside.size(); ++i) {
            if (inside.size() > kMaxTreeletBits) return false;
            for (const auto child : out_.splits[static_cast<std::size_t>(inside[i])].child)
                if (child >= 0) inside.push_back(child);
        }
        if (inside.size() > kMaxTreeletBits) return false;
        std::vector<std::int32_t> bits, players;
        for (const auto at : inside) bits.push_back(2 * at);
        for (const auto at : inside) {
            const auto& split = out_.splits[static_cast<std::size_t>(at)];
            const bool above_is_inside =
                split.above >= 0 && std::find(inside.begin(), inside.end(), split.above / 2) != inside.end();
            if (split.above >= 0 && !above_is_inside && std::find(bits.begin(), bits.end(), split.above) == bits.end())
                bits.push_back(split.above);
            if (std::find(players.begin(), players.end(), split.player) == players.end())
                players.push_back(split.player);
        }
        if (bits.size() > kMaxTreeletBits) return false;
        treelet.n_splits = static_cast<std::int8_t>(inside.size());
        treelet.n_bits = static_cast<std::int8_t>(bits.size());
        treelet.n_players = static_cast<std::int8_t>(players.size());
        std::copy(inside.begin(), inside.end(), treelet.split.begin());
        std::copy(bits.begin(), bits.end(), treelet.bit.begin());
        std::copy(players.begin(), players.end(), treelet.player.begin());
        return true;
    }

    std::int32_t add(const Treelet& treelet) {
        for (int i = 0; i < treelet.n_splits; ++i)
            out_.splits[static_cast<std::size_t>(treelet.split[static_cast<std::size_t>(i)])].in_treelet = true;
        out_.treelets.push_back(treelet);
        return static_cast<std::int32_t>(out_.treelets.size()) - 1;
    }

    void plan_steps() {
        Treelet treelet;
        if (try_treelet(0, treelet)) {
            add(treelet);
            out_.steps.push_back({Step::Kind::whole, 0, {}, 0, 0, {0, -1}});
            out_.tree.n_levels = 1;
            return;
        }
        struct Visit {
            Step close;
            int next_child;
        };
        std::vector<Visit> pending{{{Step::Kind::close, 0, {}, 0, 0, {-1, -1}}, 0}};
        while (!pending.empty()) {
            auto& visit = pending.back();
            const auto& split = out_.splits[static_cast<std::size_t>(visit.close.split)];
            if (visit.next_child == 2) {
                out_.steps.push_back(visit.close);
                pending.pop_back();
                continue;
            }
            const int side = visit.next_child++;
            const auto child = split.child[side];
            if (child < 0) {
                visit.close.child[static_cast<std::size_t>(side)] = Child::leaf;
                visit.close.target[static_cast<std::size_t>(side)] = ~child;
            } else if (try_treelet(child, treelet)) {
                visit.close.child[static_cast<std::size_t>(side)] = Child::treelet;
                visit.close.target[static_cast<std::size_t>(side)] = add(treelet);
            } else {
                visit.close.child[static_cast<std::size_t>(side)] = Child::inner;
                const auto level = visit.close.level;
                out_.steps.push_back(
                    {Step::Kind::descend, static_cast<std::uint8_t>(side), {}, visit.close.split, level, {-1, -1}});
                out_.tree.n_levels = std::max(out_.tree.n_levels, level + 1);
                pending.push_back(
                    {{Step::Kind::close, static_cast<std::uint8_t>(side), {}, child, level + 1, {-1, -1}}, 0});
            }
        }
        ++out_.tree.n_levels;
    }

    // As the walk reads them, and as `Expander` writes them.
    void count_constants() {
        auto& counts = out_.tree.counts;
        const auto add_factors = [&](const Split& split) {
            counts.scalars_per_point += 2;
            if (split.above >= 0) ++counts.scalars;
        };
        const auto add_tables = [&](std::int32_t treelet) {
            counts.table_per_point_and_output +=
                static_cast<std::uint32_t>(treelet_doubles(out_.treelets[static_cast<std::size_t>(treelet)], 1));
        };
        for (const auto& step : out_.steps) {
            const auto& split = out_.splits[static_cast<std::size_t>(step.split)];
            if (step.kind == Step::Kind::descend) add_factors(split);
            if (step.kind == Step::Kind::whole) add_tables(0);
            if (step.kind != Step::Kind::close) continue;
            for (std::size_t side = 0; side < 2; ++side) {
                counts.scalars_per_point += 2;
                if (step.child[side] != Child::inner) add_factors(split);
                if (step.child[side] == Child::leaf) ++counts.scalars_per_output;
                if (step.child[side] == Child::treelet) add_tables(step.target[side]);
            }
        }
    }

    // Few distinct conditions and many leaves: one table for the whole tree.
    void find_lookup() {
        using Condition = std::tuple<std::int32_t, double, std::int32_t, bool>;
        std::map<Condition, std::uint8_t> seen;
        Lookup lookup;
        for (std::size_t i = 0; i < out_.splits.size(); ++i) {
            auto& s = out_.splits[i];
            const auto [it, is_new] =
                seen.try_emplace({s.feature, s.category_set < 0 ? s.threshold : 0.0, s.category_set, s.missing_left},
                                 static_cast<std::uint8_t>(seen.size()));
            if (seen.size() > kMaxLookupBits) return;
            s.condition = it->second;
            if (!is_new) continue;
            lookup.condition[static_cast<std::size_t>(lookup.n_conditions++)] = static_cast<std::int32_t>(i);
            const auto players = lookup.players();
            if (std::find(players.begin(), players.end(), s.player) == players.end())
                lookup.player[static_cast<std::size_t>(lookup.n_players++)] = s.player;
        }
        // A look-up costs about as much as walking six leaves (measured), per player.
        if (out_.splits.size() < 6 * lookup.players().size()) return;
        out_.lookup = lookup;
        for (std::size_t state = 0; state < lookup.n_states(); ++state) {
            std::int32_t node = 0;
            while (node >= 0) {
                const auto& split = out_.splits[static_cast<std::size_t>(node)];
                node = split.child[(state >> split.condition & 1) != 0 ? 0 : 1];
            }
            out_.outcomes.push_back(~node);
        }
    }

    const EnsembleView& e_;
    std::int64_t root_;
    const Parts& parts_;
    std::vector<std::int32_t> path_;  // to the root of the part
    Numbering& columns_;
    Numbering& players_;
    const PointsFor& points_for_;
    CompiledTree out_;
};

}  // namespace linear_treeshap
