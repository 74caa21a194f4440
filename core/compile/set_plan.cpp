// Program → SetProgram: which sets of players meet on a path, and the walk that adds to them.

#include "compile/set_plan.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace linear_treeshap {
namespace {

// Places where a step adds to a set, over all trees: half a gigabyte of numbers. Beyond lie orders that no one waits
// for.
constexpr std::size_t kMaxPlaces = std::size_t{1} << 27;

// A chunk is closed when it has this many sets, so that φ of 16 rows stays in a cache near by.
constexpr std::size_t kChunkSets = std::size_t{1} << 13;

// Numbers sets in order of appearance: a tree of players, in which a set is the path to a node.
class SetNumbers {
  public:
    std::int32_t operator()(std::span<const std::int32_t> players) {
        std::int32_t node = -1;
        for (const auto player : players) {
            const auto key = std::uint64_t{static_cast<std::uint32_t>(node)} << 32 | static_cast<std::uint32_t>(player);
            const auto [it, is_new] = child_.try_emplace(key, static_cast<std::int32_t>(nodes_.size()));
            if (is_new) nodes_.push_back({node, player, node < 0 ? 1 : nodes_[at(node)].size + 1});
            node = it->second;
        }
        return node;
    }
    std::size_t size() const { return nodes_.size(); }
    int order(std::int32_t node) const { return nodes_[at(node)].size; }
    std::vector<std::int32_t> players(std::int32_t node) const {
        std::vector<std::int32_t> out(at(order(node)));
        for (auto it = out.rbegin(); it != out.rend(); ++it, node = nodes_[at(node)].parent)
            *it = nodes_[at(node)].player;
        return out;
    }

  private:
    struct Node {
        std::int32_t parent, player;
        int size;
    };
    std::vector<Node> nodes_;
    std::unordered_map<std::uint64_t, std::int32_t> child_;
};

class Planner {
  public:
    Planner(const Program& program, const RuleFor& rule_for, int min_order, int max_order,
            std::span<const double> spread, const Control::Poll& poll)
        : rule_for_(rule_for), spread_(spread), listener_(poll), out_{&program, min_order, max_order, {}, {}, {}} {}

    SetProgram run() {
        for (const auto& chunk : out_.program->chunks) {
            last_place_.assign(chunk.players.size(), 0);
            for (std::size_t next = 0; next < chunk.trees.size();) {
                SetChunk group{&chunk, {}, {}, {}};
                local_.clear();
                for (; next < chunk.trees.size() && group.sets.size() < kChunkSets; ++next)
                    add(chunk.trees[next], group);
                out_.chunks.push_back(std::move(group));
            }
        }
        number_sets();
        return std::move(out_);
    }

  private:
    void add(const Tree& tree, SetChunk& group) {
        SetTree planned{&tree, {}, {}, {}, 0, 0};
        walk(tree, group, planned);
        n_places_ += planned.slots.size();
        const Rule& rule = out_.rules.rule_for(most_players_, rule_for_);
        planned.n_points = rule.n_points();
        // Differences would do for the edges of new players, if the rule allows.
        if (rule.differences_lose_digits())
            for (auto& step : planned.steps) step.op |= kSetIsRepeated;
        group.trees.push_back(std::move(planned));
    }

    // Each split is met on the way down, between its children, and on the way up, as in TreeCompiler; rare sides first.
    void walk(const Tree& tree, SetChunk& group, SetTree& planned) {
        struct Visit {
            SetStep step;
            std::size_t next_side;
        };
        const auto visit = [&](std::int32_t split, std::int32_t place, std::int32_t level) {
            const PackedSplit& here = tree.first_split[split];
            const std::int32_t above = last_place_[at(tree.player_of(here))];
            const bool has[2] = {here.child[0] >= 0, here.child[1] >= 0};
            const int op =
                (above != 0 ? kSetIsRepeated : 0) + (has[0] ? 0 : kSetRareIsLeaf) + (has[1] ? 0 : kSetCommonIsLeaf);
            const SetStep step{static_cast<SetOp>(op), split, place, level, above, 0};
            if (has[0] || has[1]) planned.steps.push_back(step);
            planned.n_levels = std::max(planned.n_levels, level + 1);
            return Visit{step, 0};
        };
        most_players_ = 0;
        std::vector<Visit> path{visit(0, 0, 0)};
        while (!path.empty()) {
            auto& [step, side] = path.back();
            const PackedSplit& split = tree.first_split[step.split];
            const std::int32_t player = tree.player_of(split);
            edges_.resize(at(step.level));
            while (side < 2 && split.child[side] < 0) ++side;
            if (side < 2) {
                const std::int32_t place = place_below(step.level, side);
                edges_.push_back({player, place});
                last_place_[at(player)] = place;
                path.push_back(visit(split.child_at(step.split, side++), place, step.level + 1));
                continue;
            }
            last_place_[at(player)] = step.above;
            step.op |= kSetCloses;
            step.n_above = collect(player, group, planned);
            planned.steps.push_back(step);
            path.pop_back();
        }
    }

    // Writes down the players above, and the sets of `player` with them in the order in which the kernel makes
    // them: the player alone; then for each player above, that pair, followed by its sets with players further on.
    std::int32_t collect(std::int32_t player, SetChunk& group, SetTree& planned) {
        others_.clear();
        for (const auto& edge : edges_)
            if (edge.player != player && last_place_[at(edge.player)] == edge.place_below) {
                planned.above.push_back(edge.place_below);
                others_.push_back(group.chunk->players[at(edge.player)]);
            }
        const auto n_above = static_cast<std::int32_t>(others_.size());
        most_players_ = std::max(most_players_, n_above + 1);
        if (n_places_ + planned.slots.size() + n_choices(n_above) > kMaxPlaces)
            throw TooManySets("too many sets on the paths");
        members_.assign(1, group.chunk->players[at(player)]);
        add_sets(others_, group, planned);
        return n_above;
    }

    // Choices of up to max_order - 1 out of n players, counted no further than to the limit.
    std::size_t n_choices(std::int32_t n) const {
        std::size_t choices = 1, sum = 1;
        for (std::int32_t r = 1; r < out_.max_order && r <= n && sum <= kMaxPlaces; ++r) {
            choices = choices * at(n - r + 1) / at(r);
            sum += choices;
        }
        return sum;
    }

    void add_sets(std::span<const std::int32_t> others, SetChunk& group, SetTree& planned) {
        const auto order = static_cast<int>(members_.size());
        listener_.tick();
        if (order >= out_.min_order) {
            const auto [it, is_new] =
                local_.try_emplace(numbers_(members_), static_cast<std::int32_t>(group.sets.size()));
            if (is_new) group.sets.push_back(it->first);
            planned.slots.push_back(it->second);
        }
        if (order == out_.max_order) return;
        for (std::size_t i = 0; i < others.size(); ++i) {
            const auto place = std::upper_bound(members_.begin(), members_.end(), others[i]);
            const auto offset = place - members_.begin();
            members_.insert(place, others[i]);
            add_sets(others.subspan(i + 1), group, planned);
            members_.erase(members_.begin() + offset);
        }
    }

    static bool is_before(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    }

    // Sets in their final order: smaller ones first, then by their players.
    void number_sets() {
        std::vector<std::pair<std::vector<std::int32_t>, std::int32_t>> found;
        for (std::int32_t node = 0; node < static_cast<std::int32_t>(numbers_.size()); ++node)
            if (numbers_.order(node) >= out_.min_order) found.emplace_back(numbers_.players(node), node);
        std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
            listener_.tick();
            return is_before(a.first, b.first);
        });
        std::vector<std::int32_t> position(numbers_.size(), -1);
        for (auto& [players, node] : found) {
            position[at(node)] = static_cast<std::int32_t>(out_.sets.size());
            out_.sets.push_back(std::move(players));
        }
        for (auto& group : out_.chunks) {
            sort_sets(group, position);
            if (!spread_.empty()) find_shares(group);
        }
    }

    // The chunk's own numbers follow the final order, so that φ is written out from front to back.
    void sort_sets(SetChunk& group, const std::vector<std::int32_t>& position) {
        std::vector<std::int32_t> order(group.sets.size()), renumbered(group.sets.size());
        for (auto& node : group.sets) node = position[at(node)];
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](auto a, auto b) { return group.sets[at(a)] < group.sets[at(b)]; });
        for (std::size_t i = 0; i < order.size(); ++i) renumbered[at(order[i])] = static_cast<std::int32_t>(i);
        std::sort(group.sets.begin(), group.sets.end());
        for (auto& tree : group.trees) {
            listener_.tick(tree.slots.size());
            for (auto& slot : tree.slots) slot = renumbered[at(slot)];
        }
    }

    // All subsets of a set that meets in this chunk meet here too.
    void find_shares(SetChunk& group) {
        std::vector<std::int32_t> subset;
        for (std::size_t s = 0; s < group.sets.size(); ++s) {
            const auto& set = out_.sets[at(group.sets[s])];
            for (std::size_t bits = 1; bits + 1 < std::size_t{1} << set.size(); ++bits) {
                subset.clear();
                for (std::size_t i = 0; i < set.size(); ++i)
                    if ((bits >> i) & 1U) subset.push_back(set[i]);
                listener_.tick();
                const double share = spread_[set.size() - subset.size()];
                if (share == 0.0) continue;
                const auto found = std::lower_bound(
                    group.sets.begin(), group.sets.end(), subset,
                    [&](std::int32_t number, const auto& b) { return is_before(out_.sets[at(number)], b); });
                group.shares.push_back(
                    {static_cast<std::int32_t>(s), static_cast<std::int32_t>(found - group.sets.begin()), share});
            }
        }
    }

    const RuleFor& rule_for_;
    std::span<const double> spread_;
    Listener listener_;
    SetProgram out_;
    SetNumbers numbers_;
    std::unordered_map<std::int32_t, std::int32_t> local_;  // number of a set → the chunk's own
    struct Edge {
        std::int32_t player, place_below;
    };
    std::vector<Edge> edges_;               // on the path, by level
    std::vector<std::int32_t> last_place_;  // by player: below its last edge on the path; 0 if there is none
    std::vector<std::int32_t> others_;      // the players above, as the model numbers them
    std::vector<std::int32_t> members_;
    int most_players_ = 0;
    std::size_t n_places_ = 0;
};

}  // namespace

SetProgram plan_sets(const Program& program, const RuleFor& rule_for, int min_order, int max_order,
                     std::span<const double> spread, const Control::Poll& poll) {
    return Planner(program, rule_for, min_order, max_order, spread, poll).run();
}

}  // namespace linear_treeshap
