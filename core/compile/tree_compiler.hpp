// A tree of a TreeEnsemble, or one of its parts → CompiledTree: splits, and the steps of the walk.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/parts.hpp"
#include "compile/program.hpp"
#include "compile/walks.hpp"
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

// One walk for all leaves of a tree that needs no more points, or has no more players, is as good as any.
inline constexpr int kMostOfOneWalk = 4;

// With ends only if the index has such rules.
using RuleOf = std::function<const Rule&(int n_players_on_path, bool with_ends)>;

// A split before it is packed, and its condition before that has a number.
struct CompiledSplit : Split {
    Condition condition;
    std::int32_t number;  // in the tree
    std::uint8_t rare_side;
    bool is_repeated;  // its edges have factors of their own
    Below below;

    // With the rare side as 0, and the common one as 1.
    std::int32_t child_at(std::size_t side) const { return child[side ^ rare_side]; }
};

// A tree before it has its place in a Forest, which it will point to.
struct CompiledTree {
    Tree tree;
    std::vector<CompiledSplit> splits;  // from the top down
    std::vector<Step> steps;
    std::vector<Walk> walks;
    std::optional<Lookup> lookup;         // its conditions are splits that ask them
    std::vector<std::int32_t> outcomes;   // the leaf of each, if there is a lookup
    std::vector<std::int64_t> leaf_node;  // in the ensemble; -1: its value is another part's
    Meetings meetings;                    // of a tree that is a bunch by itself
};

class TreeCompiler {
  public:
    TreeCompiler(const EnsembleView& ensemble, std::int64_t tree, const Parts& parts, std::int32_t part_root,
                 std::size_t first_leaf, Numbering& columns, Numbering& players, const RuleOf& rule_of)
        : e_(ensemble),
          root_(ensemble.tree_offsets[static_cast<std::size_t>(tree)]),
          parts_(parts),
          path_(parts.path_to(part_root)),
          first_leaf_(static_cast<std::int32_t>(first_leaf)),
          columns_(columns),
          players_(players),
          rule_of_(rule_of) {}

    CompiledTree run() {
        number_splits();
        if (out_.splits.empty()) return std::move(out_);
        if (out_.splits.size() > Step::kMaxSplit)
            throw std::length_error("a tree has more splits than can be numbered");
        find_players_above();
        find_bottoms();
        find_walks();
        for (const auto& walk : walks_) plan_steps(walk);
        find_lookup();
        arrange(out_);
        return std::move(out_);
    }

  private:
    std::size_t node_at(std::int32_t node) const { return static_cast<std::size_t>(root_ + node); }

    // Splits and leaves get their numbers depth-first, rare sides first: nearly the order of steps.
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
            const auto number = is_leaf ? ~(first_leaf_ + static_cast<std::int32_t>(out_.leaf_node.size()))
                                        : static_cast<std::int32_t>(out_.splits.size());
            if (parent >= 0) out_.splits[static_cast<std::size_t>(parent)].child[side] = number;
            if (is_leaf) {
                out_.leaf_node.push_back(is_other ? -1 : static_cast<std::int64_t>(at));
                has_own_leaf = has_own_leaf || !is_other;
                continue;
            }
            const auto column = e_.feature[at];
            CompiledSplit split{};
            split.number = number;
            const double threshold = e_.category_set[at] >= 0 ? 0.0 : e_.threshold[at];
            split.condition = {e_.is_float32 ? round_down(threshold) : threshold, columns_(column), e_.category_set[at],
                               e_.missing_left[at]};
            const auto ratio = e_.cover_ratios(node_at(e_.left[at]), node_at(e_.right[at]));
            std::copy(ratio.begin(), ratio.end(), split.ratio);
            split.rare_side = ratio[0] <= ratio[1] ? 0 : 1;
            split.player = players_(e_.player[static_cast<std::size_t>(column)]);
            out_.splits.push_back(split);
            const std::array children{e_.left[at], e_.right[at]};
            for (const int last : {1 - split.rare_side, +split.rare_side})
                pending.push_back({children[static_cast<std::size_t>(last)], number, last, depth + 1});
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
        most_players_.resize(out_.splits.size());
        int n_on_path = 0;
        // A split is visited on the way down, between its children, and on the way up: `edge` says
        // which of its edges the path takes.
        while (!pending.empty()) {
            const auto [at, entering] = pending.back();
            pending.pop_back();
            CompiledSplit& split = out_.splits[static_cast<std::size_t>(at)];
            auto& last = last_edge[static_cast<std::size_t>(split.player)];
            if (entering) {
                split.above = last;
                split.absent_above = absent_weight(last);
                if (last < 0) ++n_on_path;
                most_players_[static_cast<std::size_t>(at)] = n_on_path;
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
        for (std::size_t i = out_.splits.size(); i-- > 0;)
            for (const auto child : out_.splits[i].child)
                if (child >= 0)
                    most_players_[i] = std::max(most_players_[i], most_players_[static_cast<std::size_t>(child)]);
        const Rule& rule = rule_of_(most_players_[0], false);
        out_.tree.n_points = rule.n_points();
        // Differences would do for the edges of new players, if the rule allows.
        is_exact_ = rule.differences_lose_digits();
        for (auto& split : out_.splits) split.is_repeated = split.above >= 0 || is_exact_;
    }

    void find_bottoms() {
        struct Subtree {
            std::uint8_t n_levels = 0, n_splits = 0;  // up to what a bottom may have, and one more
            bool is_clean = true;
        };
        const auto some = [](int n) { return static_cast<std::uint8_t>(std::min(n, 8)); };
        std::vector<Subtree> subtrees(out_.splits.size());
        for (std::size_t i = subtrees.size(); i-- > 0;) {
            CompiledSplit& split = out_.splits[i];
            Subtree& here = subtrees[i];
            here.is_clean = split.above < 0;
            for (const auto child : split.child) {
                if (child < 0) continue;
                const Subtree& below = subtrees[static_cast<std::size_t>(child)];
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

    // c of an edge; of no edge, 1.
    double absent_weight(std::int32_t edge) const {
        if (edge < 0) return 1.0;
        const auto& split = out_.splits[static_cast<std::size_t>(edge / 2)];
        return split.absent_above * split.ratio[edge % 2];
    }

    std::optional<Bottom> bottom_at(std::int32_t child) const {
        if (child < 0) return {};
        const CompiledSplit& split = out_.splits[static_cast<std::size_t>(child)];
        if (split.below == Below::leaves) return split.is_repeated ? Bottom::leaves_again : Bottom::leaves;
        if (split.below == Below::anything || is_exact_) return {};
        return split.below == Below::two ? Bottom::two : Bottom::three;
    }

    // Of a bottom: the number of players that it takes points for. Leading coefficients may count for one more, if all
    // players on its path are new; of two numbers that need as many points without, that is the larger one.
    int most_players_by_points(std::size_t bottom) const {
        const int most = most_players_[bottom];
        return has_ends_ && is_clean_path_[bottom] && most >= 4 && most % 2 == 0 ? most - 1 : most;
    }

    // A leaf beside a split goes with the first walk that meets it, whose paths are as long at least.
    void find_walks() {
        const auto n_splits = out_.splits.size();
        is_clean_path_.assign(n_splits, !out_.splits[0].is_repeated);
        for (std::size_t i = 0; i < n_splits; ++i)
            for (const auto child : out_.splits[i].child)
                if (child >= 0) {
                    const auto below = static_cast<std::size_t>(child);
                    is_clean_path_[below] = is_clean_path_[i] && !out_.splits[below].is_repeated;
                }
        has_ends_ = rule_of_(most_players_[0], true).has_ends() &&
                    std::ranges::all_of(out_.splits, [](const CompiledSplit& split) {
                        return split.absent_above >= kLeastAbsentWithEnds;
                    });
        int most = 1;
        for (std::size_t i = 0; i < n_splits; ++i)
            if (bottom_at(static_cast<std::int32_t>(i))) most = std::max(most, most_players_by_points(i));
        const int n_points = rule_of_(most, has_ends_).n_points();
        classes_.assign(n_splits, ~PathClasses{0});
        walks_ = {{~PathClasses{0}, 0, most}};
        if (std::min(n_points, most) <= kMostOfOneWalk) return;
        const ClassesOfPaths class_of(most);
        for (std::size_t i = n_splits; i-- > 0;) {
            const bool is_bottom = bottom_at(static_cast<std::int32_t>(i)).has_value();
            PathClasses below = 0;
            for (const auto child : out_.splits[i].child)
                if (child >= 0) {
                    auto& classes = classes_[static_cast<std::size_t>(child)];
                    below |= classes;
                    if (is_bottom) classes = 0;  // no step speaks of it
                }
            classes_[i] = is_bottom ? PathClasses{1} << class_of(most_players_by_points(i)) : below;
        }
        // To make a rule may take long, so two say what the others need. Two players often need as many points as one:
        // 2n - 1 and 2n, or with ends 2n and 2n + 1.
        const int whole = (most + !has_ends_) / 2 * 2 + has_ends_, half = (most + 3) / 4 * 2 + has_ends_;
        const double per_player = static_cast<double>(n_points - rule_of_(half, has_ends_).n_points()) / (whole - half);
        walks_ = plan_walks(classes_, class_of, [&](int n_players) {
            return std::max(1, static_cast<int>(std::lround(n_points - per_player * (whole - n_players))));
        });
    }
    bool meets(const PlannedWalk& walk, std::int32_t child) const {
        return child >= 0 && (classes_[static_cast<std::size_t>(child)] & walk.classes) != 0;
    }
    bool leads_to_longest(std::int32_t child) const {
        return child >= 0 && leads_to_longest_[static_cast<std::size_t>(child)];
    }
    void find_longest(const PlannedWalk& walk, const Rule& rule) {
        leads_to_longest_.assign(out_.splits.size(), false);
        if (!rule.has_ends()) return;
        for (std::size_t i = out_.splits.size(); i-- > 0;) {
            if (!is_clean_path_[i]) continue;
            const auto number = static_cast<std::int32_t>(i);
            const CompiledSplit& split = out_.splits[i];
            leads_to_longest_[i] = bottom_at(number)
                                       ? meets(walk, number) && most_players_[i] == rule.most_players()
                                       : leads_to_longest(split.child[0]) || leads_to_longest(split.child[1]);
        }
    }

    // Depth-first, rare sides first; but of the children of a new player's split, bottoms come last: they take C over
    // the edge by themselves, and the last of them closes the split.
    void plan_steps(const PlannedWalk& walk) {
        const std::size_t first_step = out_.steps.size();
        const Rule& rule = rule_of_(walk.most_players, has_ends_);
        find_longest(walk, rule);
        struct Visit {
            std::int32_t split, level;
            std::uint8_t side;
            int next_child;
        };
        std::vector<Visit> pending{{0, 0, 0, 0}};
        while (!pending.empty()) {
            const auto [number, level, side, next] = pending.back();
            const CompiledSplit& split = out_.splits[static_cast<std::size_t>(number)];
            out_.tree.n_levels = std::max(out_.tree.n_levels, level + 1);
            if (const auto bottom = bottom_at(number)) {
                add({number, side}, bottom_op(*bottom, Place::alone, Met::anew));
                pending.pop_back();
                continue;
            }
            const auto has_step = [&](std::int32_t child) {
                return meets(walk, child) && (split.is_repeated || !bottom_at(child));
            };
            const bool rare = has_step(split.child_at(0)), common = has_step(split.child_at(1));
            if (next == 0 && (rare || common)) {
                const bool to_longest =
                    (rare && leads_to_longest(split.child_at(0))) || (common && leads_to_longest(split.child_at(1)));
                add({number, side}, carry_op(met(split, to_longest), !common ? Sides::rare
                                                                     : !rare ? Sides::common
                                                                             : Sides::both));
            }
            if (next == 2) {
                Step last(number, side);
                last.returns = rare || common;
                finish(walk, last, split);
                pending.pop_back();
                continue;
            }
            ++pending.back().next_child;
            if (next == 0 ? rare : common)
                pending.push_back(
                    {split.child_at(static_cast<std::size_t>(next)), level + 1, static_cast<std::uint8_t>(next), 0});
        }
        out_.walks.emplace_back(out_.steps.size() - first_step, rule.n_points(), rule.has_ends());
    }
    static Met met(const CompiledSplit& split, bool to_longest) {
        return split.is_repeated ? Met::again : to_longest ? Met::on_longest : Met::anew;
    }
    void finish(const PlannedWalk& walk, Step step, const CompiledSplit& split) {
        const Met met_here = met(split, leads_to_longest(split.number));
        const auto rare = split.child_at(0), common = split.child_at(1);
        const bool has_rare = meets(walk, rare), has_common = meets(walk, common);
        const auto bottom_below = [&](std::int32_t child) {
            return split.is_repeated || !meets(walk, child) ? std::nullopt : bottom_at(child);
        };
        const auto rare_bottom = bottom_below(rare), common_bottom = bottom_below(common);
        if (!has_rare || !has_common) {
            const bool was_met = (classes_[static_cast<std::size_t>(split.number)] & walk.earlier) != 0;
            step.is_beside_nothing = was_met || (has_rare ? common : rare) >= 0;
        }
        if (!rare_bottom && !common_bottom)
            add(step, close_op(met_here, !has_rare ? Leaf::rare : !has_common ? Leaf::common : Leaf::none));
        if (rare_bottom)
            add(step, bottom_op(*rare_bottom,
                                common_bottom ? Place::rare_first
                                : !has_common ? Place::rare_beside_leaf
                                              : Place::rare_closing,
                                met_here));
        if (common_bottom)
            add(step,
                bottom_op(*common_bottom, has_rare ? Place::common_closing : Place::common_beside_leaf, met_here));
    }
    void add(Step step, Op op) {
        step.op = op & 63U;
        out_.steps.push_back(step);
    }

    // Few distinct conditions and many leaves: one table for the whole tree.
    void find_lookup() {
        std::map<std::tuple<std::int32_t, double, std::int32_t, bool>, std::size_t> seen;
        std::vector<std::size_t> bit;  // of each split
        Lookup lookup;
        for (const auto& split : out_.splits) {
            const auto& asked = split.condition;
            const auto [it, is_new] =
                seen.try_emplace({asked.feature, asked.threshold, asked.category_set, asked.missing_left}, seen.size());
            if (seen.size() > kMaxLookupBits) return;
            bit.push_back(it->second);
            if (!is_new) continue;
            lookup.condition[static_cast<std::size_t>(lookup.n_conditions++)] = split.number;
            const auto players = lookup.players();
            if (std::find(players.begin(), players.end(), split.player) == players.end())
                lookup.player[static_cast<std::size_t>(lookup.n_players++)] = split.player;
        }
        // A look-up costs about as much as walking six leaves (measured), per player.
        if (out_.splits.size() < 6 * lookup.players().size()) return;
        out_.lookup = lookup;
        for (std::size_t state = 0; state < lookup.n_states(); ++state) {
            std::int32_t node = 0;
            while (node >= 0) {
                const auto i = static_cast<std::size_t>(node);
                node = out_.splits[i].child[(state >> bit[i] & 1) != 0 ? 0 : 1];
            }
            out_.outcomes.push_back(~node);
        }
    }

    const EnsembleView& e_;
    std::int64_t root_;
    const Parts& parts_;
    std::vector<std::int32_t> path_;  // to the root of the part
    std::int32_t first_leaf_;         // in the chunk's numbering
    Numbering& columns_;
    Numbering& players_;
    const RuleOf& rule_of_;
    CompiledTree out_;
    bool is_exact_ = false, has_ends_ = false;
    std::vector<int> most_players_;       // on a path through each split
    std::vector<bool> is_clean_path_;     // to each split: its player and all above are new
    std::vector<PathClasses> classes_;    // of paths through each split
    std::vector<bool> leads_to_longest_;  // of the walk at hand
    std::vector<PlannedWalk> walks_;
};

}  // namespace linear_treeshap
