// TreeEnsemble → Program.

#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "parts.hpp"

namespace linear_treeshap {
namespace {

std::size_t round_up(std::size_t n) { return (n + 7) / 8 * 8; }  // to a whole vector

// Working memory of a thread is bounded by these, with the size of trees (parts.hpp): the constants of a tile and what
// a walk of 16 rows keeps of every level (trees of many outputs or levels take fewer points at a time), and φ and x of
// a chunk for 64 rows.
constexpr std::size_t kMaxTileDoubles = std::size_t{2} << 20;
constexpr std::size_t kMaxChunkSlots = std::size_t{1} << 14;

// Up to this code a set of categories is a bitset.
constexpr std::int32_t kMaxBitsetCode = 1 << 20;

// A chunk is closed when its trees have this many leaves: long enough to make
// what is done once per chunk and row block cheap, short enough to keep sums accurate and to give
// threads something to share when there are few rows.
constexpr std::size_t kChunkLeaves = 8192;

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
double round_down(double threshold) {
    const auto rounded = static_cast<float>(threshold);
    if (static_cast<double>(rounded) <= threshold) return rounded;
    return std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

using PointsFor = std::function<int(int n_players_on_path)>;

class TreeCompiler {
  public:
    TreeCompiler(const EnsembleView& ensemble, std::int64_t tree, const Parts& parts, std::int32_t part_root,
                 std::int32_t first_value, std::int32_t n_outputs, Numbering& columns, Numbering& players,
                 const PointsFor& points_for)
        : e_(ensemble),
          root_(ensemble.tree_offsets[static_cast<std::size_t>(tree)]),
          parts_(parts),
          path_(parts.path_to(part_root)),
          first_value_(first_value),
          n_outputs_(n_outputs),
          columns_(columns),
          players_(players),
          points_for_(points_for) {}

    Tree run() {
        number_splits();
        if (tree_.splits.empty()) return std::move(tree_);
        find_players_above();
        plan_steps();
        plan_tiles();
        find_lookup();
        tree_.splits.shrink_to_fit();
        tree_.leaf_value.shrink_to_fit();
        tree_.steps.shrink_to_fit();
        tree_.treelets.shrink_to_fit();
        return std::move(tree_);
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
        std::int32_t n_leaves = 0;
        bool has_own_leaf = false;
        while (!pending.empty()) {
            const auto [node, parent, side, depth] = pending.back();
            pending.pop_back();
            const auto at = node_at(node);
            const bool is_other = is_of_other_part(node, depth);
            const bool is_leaf = is_other || e_.left[at] < 0;
            const auto number = is_leaf ? ~n_leaves : static_cast<std::int32_t>(tree_.splits.size());
            if (parent >= 0) tree_.splits[static_cast<std::size_t>(parent)].child[side] = number;
            if (is_leaf) {
                const auto* value =
                    &e_.value[at * static_cast<std::size_t>(e_.width) + static_cast<std::size_t>(first_value_)];
                const auto end = tree_.leaf_value.size();
                tree_.leaf_value.resize(end + static_cast<std::size_t>(n_outputs_), 0.0);
                if (!is_other) std::copy(value, value + n_outputs_, &tree_.leaf_value[end]);
                has_own_leaf = has_own_leaf || !is_other;
                ++n_leaves;
                continue;
            }
            const auto column = e_.feature[at];
            Split split{};
            split.threshold = e_.is_float32 ? round_down(e_.threshold[at]) : e_.threshold[at];
            const std::int32_t child[2] = {e_.left[at], e_.right[at]};
            for (int side = 0; side < 2; ++side) {
                const double parent = e_.cover[at], mine = e_.cover[node_at(child[side])];
                split.ratio[side] = parent > 0 ? mine / parent : 0.5;
                split.rest[side] = parent > 0 ? (parent - mine) / parent : 0.5;
            }
            split.feature = columns_(column);
            split.slot = players_(e_.player[static_cast<std::size_t>(column)]) * n_outputs_;
            split.category_set = e_.category_set[at];
            split.missing_left = e_.missing_left[at];
            tree_.splits.push_back(split);
            pending.push_back({e_.right[at], number, 1, depth + 1});
            pending.push_back({e_.left[at], number, 0, depth + 1});
        }
        if (!has_own_leaf) tree_.splits.clear();
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
        std::vector<std::int32_t> last_edge(players_.global.size() * static_cast<std::size_t>(n_outputs_),
                                            -1);  // by slot
        std::vector<Visit> pending{{0, true}};
        int n_on_path = 0, most = 0;
        // A split is visited on the way down, between its children, and on the way up: `edge` says
        // which of its edges the path takes.
        while (!pending.empty()) {
            const auto [at, entering] = pending.back();
            pending.pop_back();
            auto& split = tree_.splits[static_cast<std::size_t>(at)];
            auto& last = last_edge[static_cast<std::size_t>(split.slot)];
            if (entering) {
                split.above = last;
                split.absent_above = last < 0 ? 1.0 : absent_weight(last);
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
        tree_.n_points = points_for_(most);
    }

    double absent_weight(std::int32_t edge) const {
        const auto& split = tree_.splits[static_cast<std::size_t>(edge / 2)];
        return split.absent_above * split.ratio[edge % 2];
    }

    // The subtree at `root` as a treelet, if it is small enough.
    bool try_treelet(std::int32_t root, Treelet& treelet) const {
        treelet = {};
        std::vector<std::int32_t> inside{root};
        for (std::size_t i = 0; i < inside.size(); ++i) {
            if (inside.size() > kMaxTreeletBits) return false;
            for (const auto child : tree_.splits[static_cast<std::size_t>(inside[i])].child)
                if (child >= 0) inside.push_back(child);
        }
        if (inside.size() > kMaxTreeletBits) return false;
        std::vector<std::int32_t> bits, slots;
        for (const auto at : inside) bits.push_back(2 * at);
        for (const auto at : inside) {
            const auto& split = tree_.splits[static_cast<std::size_t>(at)];
            const bool above_is_inside =
                split.above >= 0 && std::find(inside.begin(), inside.end(), split.above / 2) != inside.end();
            if (split.above >= 0 && !above_is_inside && std::find(bits.begin(), bits.end(), split.above) == bits.end())
                bits.push_back(split.above);
            if (std::find(slots.begin(), slots.end(), split.slot) == slots.end()) slots.push_back(split.slot);
        }
        if (bits.size() > kMaxTreeletBits) return false;
        treelet.n_splits = static_cast<std::int8_t>(inside.size());
        treelet.n_bits = static_cast<std::int8_t>(bits.size());
        treelet.n_players = static_cast<std::int8_t>(slots.size());
        std::copy(inside.begin(), inside.end(), treelet.split.begin());
        std::copy(bits.begin(), bits.end(), treelet.bit.begin());
        std::copy(slots.begin(), slots.end(), treelet.slot.begin());
        return true;
    }

    std::int32_t add(const Treelet& treelet) {
        for (int i = 0; i < treelet.n_splits; ++i)
            tree_.splits[static_cast<std::size_t>(treelet.split[static_cast<std::size_t>(i)])].in_treelet = true;
        tree_.treelets.push_back(treelet);
        return static_cast<std::int32_t>(tree_.treelets.size()) - 1;
    }

    void plan_steps() {
        Treelet treelet;
        if (try_treelet(0, treelet)) {
            add(treelet);
            tree_.steps.push_back({Step::Kind::whole, 0, {}, 0, 0, {0, -1}});
            tree_.n_levels = 1;
            return;
        }
        struct Visit {
            Step close;
            int next_child;
        };
        std::vector<Visit> pending{{{Step::Kind::close, 0, {}, 0, 0, {-1, -1}}, 0}};
        while (!pending.empty()) {
            auto& visit = pending.back();
            const auto& split = tree_.splits[static_cast<std::size_t>(visit.close.split)];
            if (visit.next_child == 2) {
                tree_.steps.push_back(visit.close);
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
                tree_.steps.push_back(
                    {Step::Kind::descend, static_cast<std::uint8_t>(side), {}, visit.close.split, level, {-1, -1}});
                tree_.n_levels = std::max(tree_.n_levels, level + 1);
                pending.push_back(
                    {{Step::Kind::close, static_cast<std::uint8_t>(side), {}, child, level + 1, {-1, -1}}, 0});
            }
        }
        ++tree_.n_levels;
    }

    // Tiles of nearly equal size, smaller ones for trees so large that their constants need much room.
    void plan_tiles() {
        int most = kMaxTile;
        const auto doubles = [&](int n_points) {
            const auto [scalars, tables] = tile_doubles(n_points);
            const std::size_t per_level = static_cast<std::size_t>(n_points * kMinWalkRows * (1 + 2 * n_outputs_));
            return std::max(round_up(scalars) + tables, static_cast<std::size_t>(tree_.n_levels) * per_level);
        };
        while (most > 1 && doubles(most) > kMaxTileDoubles) most /= 2;
        const int n_tiles = (tree_.n_points + most - 1) / most;
        for (int i = 0; i < n_tiles; ++i) {
            const int first = tree_.n_points * i / n_tiles;
            const int n_points = tree_.n_points * (i + 1) / n_tiles - first;
            const auto [scalars, tables] = tile_doubles(n_points);
            const auto begin = tree_.expansion_size;
            tree_.tiles.push_back({first, n_points, begin, round_up(scalars), round_up(scalars) + tables});
            tree_.expansion_size = begin + tree_.tiles.back().size;
        }
    }

    std::pair<std::size_t, std::size_t> tile_doubles(int n_points) const {
        const auto outputs = static_cast<std::size_t>(n_outputs_);
        std::size_t scalars = 0, tables = 0;
        for (const auto& step : tree_.steps) {
            const auto& split = tree_.splits[static_cast<std::size_t>(step.split)];
            if (step.kind == Step::Kind::descend) scalars += factor_scalars(split, n_points);
            if (step.kind == Step::Kind::whole) tables += outputs * treelet_doubles(tree_.treelets[0], n_points);
            if (step.kind != Step::Kind::close) continue;
            for (std::size_t side = 0; side < 2; ++side) {
                scalars += 2 * static_cast<std::size_t>(n_points);
                if (step.child[side] != Child::inner) scalars += factor_scalars(split, n_points);
                if (step.child[side] == Child::leaf) scalars += outputs;
                if (step.child[side] == Child::treelet)
                    tables += outputs *
                              treelet_doubles(tree_.treelets[static_cast<std::size_t>(step.target[side])], n_points);
            }
        }
        return {scalars, tables};
    }

    // Few distinct conditions and many leaves: one table for the whole tree.
    void find_lookup() {
        using Condition = std::tuple<std::int32_t, double, std::int32_t, bool>;
        std::map<Condition, std::int32_t> seen;
        std::vector<std::int32_t> conditions, condition_of, slots;
        for (std::size_t i = 0; i < tree_.splits.size(); ++i) {
            const auto& s = tree_.splits[i];
            const auto [it, is_new] =
                seen.try_emplace({s.feature, s.category_set < 0 ? s.threshold : 0.0, s.category_set, s.missing_left},
                                 static_cast<std::int32_t>(conditions.size()));
            if (is_new) conditions.push_back(static_cast<std::int32_t>(i));
            if (conditions.size() > kMaxLookupBits) return;
            condition_of.push_back(it->second);
            if (std::find(slots.begin(), slots.end(), s.slot) == slots.end()) slots.push_back(s.slot);
        }
        // A look-up costs about as much as walking six leaves (measured), per player.
        if (tree_.splits.size() < 6 * slots.size()) return;
        tree_.conditions = std::move(conditions);
        tree_.condition_of = std::move(condition_of);
        tree_.lookup_slot = std::move(slots);
        tree_.expansion_size = round_up((std::size_t{1} << tree_.conditions.size()) * tree_.lookup_slot.size() *
                                        static_cast<std::size_t>(n_outputs_));
    }

    const EnsembleView& e_;
    std::int64_t root_;
    const Parts& parts_;
    std::vector<std::int32_t> path_;  // to the root of the part
    std::int32_t first_value_;
    std::int32_t n_outputs_;
    Numbering& columns_;
    Numbering& players_;
    const PointsFor& points_for_;
    Tree tree_;
};

std::vector<CategorySet> category_sets(const EnsembleView& e) {
    std::vector<CategorySet> sets(e.category_offsets.size() - 1);
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const auto begin = static_cast<std::size_t>(e.category_offsets[i]);
        const auto end = static_cast<std::size_t>(e.category_offsets[i + 1]);
        if (begin == end) continue;
        if (e.category_codes[end - 1] > kMaxBitsetCode) {
            sets[i].sorted.assign(&e.category_codes[begin], &e.category_codes[begin] + (end - begin));
            continue;
        }
        sets[i].words.resize(static_cast<std::size_t>(e.category_codes[end - 1]) / 32 + 1);
        for (auto j = begin; j < end; ++j) {
            const auto code = static_cast<std::uint32_t>(e.category_codes[j]);
            sets[i].words[code / 32] |= 1U << (code % 32);
        }
    }
    return sets;
}

void add(Tree tree, Chunk& chunk, Program& program) {
    tree.expansion_begin = program.expansion_size;
    program.expansion_size += tree.expansion_size;
    if (tree.is_lookup()) chunk.max_expansion = std::max(chunk.max_expansion, tree.expansion_size);
    for (const auto& tile : tree.tiles) {
        chunk.max_expansion = std::max(chunk.max_expansion, tile.size);
        chunk.max_points = std::max(chunk.max_points, tile.n_points);
    }
    chunk.max_splits = std::max(chunk.max_splits, static_cast<std::int32_t>(tree.splits.size()));
    chunk.max_treelets = std::max(chunk.max_treelets, static_cast<std::int32_t>(tree.treelets.size()));
    chunk.max_levels = std::max(chunk.max_levels, static_cast<std::int32_t>(tree.n_levels));
    chunk.n_leaves += tree.splits.size() + 1;
    program.n_leaves += tree.splits.size() + 1;
    chunk.trees.push_back(std::move(tree));
}

bool is_full(const Chunk& chunk) {
    const std::size_t slots = chunk.players.size() * static_cast<std::size_t>(chunk.n_outputs);
    return chunk.n_leaves >= kChunkLeaves || std::max(slots, chunk.columns.size()) >= kMaxChunkSlots;
}

// The chunk that trees are being added to.
struct OpenChunk {
    Chunk chunk;
    Numbering columns{{}, chunk.columns};
    Numbering players{{}, chunk.players};

    OpenChunk(const Program& program, std::int32_t output, std::int32_t n_outputs) {
        chunk.first_tree = program.chunks.empty() ? 0 : program.chunks.back().end_tree();
        chunk.output = output;
        chunk.n_outputs = n_outputs;
    }
};

}  // namespace

Program compile(const EnsembleView& e, const RuleFor& rule_for) {
    Program program;
    const PointsFor points_for = [&](int n_players) { return program.rules.points_for(n_players, rule_for); };
    program.category_sets = category_sets(e);
    program.n_columns = static_cast<std::int32_t>(e.player.size());
    program.n_players = e.n_players;
    program.n_outputs = e.n_outputs;
    program.is_float32 = e.is_float32;

    std::vector<std::int64_t> order(static_cast<std::size_t>(e.n_trees()));
    std::iota(order.begin(), order.end(), 0);
    const auto output_of = [&](std::int64_t tree) { return e.tree_output[static_cast<std::size_t>(tree)]; };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return output_of(a) < output_of(b); });

    const auto most_outputs = static_cast<std::int32_t>(std::clamp<std::size_t>(
        kMaxChunkSlots / static_cast<std::size_t>(std::max(1, e.n_players)), 1, std::size_t{kMaxChunkOutputs}));
    for (std::int32_t value = 0; value < e.width; value += most_outputs) {
        const auto n_outputs = std::min(most_outputs, e.width - value);
        std::optional<OpenChunk> open;
        const auto close = [&] {
            if (open && !open->chunk.trees.empty()) program.chunks.push_back(std::move(open->chunk));
            open.reset();
        };
        for (const auto tree : order) {
            const auto output = output_of(tree) + value;
            const Parts parts(e, tree);
            for (const auto root : parts.roots()) {
                if (open && (open->chunk.output != output || is_full(open->chunk))) close();
                if (!open) open.emplace(program, output, n_outputs);
                Tree compiled =
                    TreeCompiler(e, tree, parts, root, value, n_outputs, open->columns, open->players, points_for)
                        .run();
                // A tree that is a single leaf says nothing of any player.
                if (!compiled.splits.empty()) add(std::move(compiled), open->chunk, program);
            }
        }
        close();
    }
    return program;
}

}  // namespace linear_treeshap
