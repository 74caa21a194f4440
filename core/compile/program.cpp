// TreeEnsemble → Program.

#include "compile/program.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "compile/parts.hpp"
#include "compile/tree_compiler.hpp"

namespace linear_treeshap {
namespace {

// Working memory of a thread is bounded by this, with the size of trees (parts.hpp): φ and x of a chunk for 64 rows.
constexpr std::size_t kMaxChunkSlots = std::size_t{1} << 14;

// Up to this code a set of categories is a bitset.
constexpr std::int32_t kMaxBitsetCode = 1 << 20;

// A chunk is closed when its trees have this many leaves: long enough to make
// what is done once per chunk and row block cheap, short enough to keep sums accurate and to give
// threads something to share when there are few rows.
constexpr std::size_t kChunkLeaves = 8192;
// A tree that is one table costs far less than its leaves: each condition counts for so many. Values gain with fewer of
// these, but interactions, which have no tables, lose: more sets meet in a chunk than fit into a cache (measured).
constexpr std::size_t kLeavesPerCondition = 4;
// But while a chunk is open, its trees are there twice.
constexpr std::size_t kMaxChunkLeaves = 4 * kChunkLeaves;

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

template <class T>
std::span<const T> append(const std::vector<T>& from, std::vector<T>& to) {
    to.insert(to.end(), from.begin(), from.end());
    return std::span<const T>(to).last(from.size());
}

// Trees that will be a chunk, or several chunks of different outputs.
class OpenChunk {
  public:
    explicit OpenChunk(std::int32_t output) : output_(output) {}

    std::int32_t output() const { return output_; }
    bool is_full(std::int32_t n_outputs) const {
        const std::size_t slots = forest_.players.size() * static_cast<std::size_t>(n_outputs);
        return n_walked_ >= kChunkLeaves || leaf_node_.size() >= kMaxChunkLeaves ||
               std::max(slots, forest_.columns.size()) >= kMaxChunkSlots;
    }

    void add(const EnsembleView& e, std::int64_t tree, const Parts& parts, std::int32_t root, const RuleOf& rule_of) {
        auto compiled = TreeCompiler(e, tree, parts, root, leaf_node_.size(), columns_, players_, rule_of).run();
        if (compiled.splits.empty()) return;  // a tree that is a single leaf says nothing of any player
        append(compiled.leaf_node, leaf_node_);
        n_walked_ +=
            compiled.lookup ? kLeavesPerCondition * at(compiled.lookup->n_conditions) : compiled.leaf_node.size();
        trees_.push_back(std::move(compiled));
    }

    void close(const EnsembleView& e, std::int32_t max_outputs, Program& program) {
        if (trees_.empty()) return;
        gather();
        program.forests.push_back(std::move(forest_));
        for (std::int32_t value = 0; value < e.width; value += max_outputs)
            add_chunk(e, value, std::min(max_outputs, e.width - value), program);
    }

  private:
    // Puts the trees' lists one after the other.
    void gather() {
        const auto total = [&](const auto& size_of) {
            return std::transform_reduce(trees_.begin(), trees_.end(), std::size_t{0}, std::plus<>(), size_of);
        };
        number_conditions();
        number_players();
        forest_.columns.shrink_to_fit();
        forest_.players.shrink_to_fit();
        forest_.trees.reserve(trees_.size());
        forest_.splits.reserve(total([](const auto& tree) { return tree.splits.size(); }));
        forest_.steps.reserve(total([](const auto& tree) { return tree.steps.size(); }));
        forest_.walks.reserve(total([](const auto& tree) { return tree.walks.size(); }));
        forest_.repeats.reserve(total([](const auto& tree) {
            return static_cast<std::size_t>(std::count_if(tree.splits.begin(), tree.splits.end(),
                                                          [](const auto& split) { return split.is_repeated; }));
        }));
        forest_.outcomes.reserve(total([](const auto& tree) { return tree.outcomes.size(); }));
        forest_.lookups.reserve(total([](const auto& tree) { return std::size_t{tree.lookup.has_value()}; }));
        for (const auto& from : trees_) place(from);
        forest_.bunches = Bunches::of(trees_, forest_.splits, forest_.repeats.data());
    }
    void place(const CompiledTree& from) {
        Tree& tree = forest_.trees.emplace_back(from.tree);
        tree.first_split = forest_.splits.data() + forest_.splits.size();
        tree.n_splits = static_cast<std::int32_t>(from.splits.size());
        tree.chunk_repeats = forest_.repeats.data();
        tree.first_repeat = static_cast<std::int32_t>(forest_.repeats.size());
        for (const auto& split : from.splits) pack(split);
        tree.n_repeats = static_cast<std::int32_t>(forest_.repeats.size()) - tree.first_repeat;
        tree.first_walk = append(from.walks, forest_.walks).data();
        tree.n_walks = static_cast<std::int32_t>(from.walks.size());
        const Step* step = append(from.steps, forest_.steps).data();
        for (auto& walk : std::span(forest_.walks).last(from.walks.size())) {
            walk.first_step = step;
            step += walk.n_steps;
        }
        if (!from.lookup) return;
        Lookup& lookup = forest_.lookups.emplace_back(*from.lookup);
        for (std::int32_t i = 0; i < lookup.n_conditions; ++i)
            lookup.condition[at(i)] = from.splits[at(lookup.condition[at(i)])].asks;
        lookup.leaf = append(from.outcomes, forest_.outcomes);
        tree.lookup = &lookup;
    }
    void pack(const CompiledSplit& split) {
        PackedSplit& to = forest_.splits.emplace_back();
        to.rare_ratio = split.ratio[split.rare_side];
        for (std::size_t side = 0; side < 2; ++side) {
            const auto child = split.child_at(side);
            to.child[side] = child < 0 ? child : child - split.number;
        }
        to.ask(at(split.asks), split.rare_side);
        to.is_repeated = split.is_repeated;
        to.who = split.is_repeated ? static_cast<std::int32_t>(forest_.repeats.size()) : split.player;
        if (split.is_repeated)
            forest_.repeats.push_back(
                {split.absent_above, split.number, split.above < 0 ? 0 : 2 * split.number - split.above, split.player});
    }

    // In their order: values of most chunks then lie side by side, in one run.
    void number_players() {
        std::vector<std::int32_t> appeared = forest_.players;
        std::sort(forest_.players.begin(), forest_.players.end());
        for (auto& player : appeared)
            player = static_cast<std::int32_t>(
                std::lower_bound(forest_.players.begin(), forest_.players.end(), player) - forest_.players.begin());
        for (auto& tree : trees_) {
            for (auto& split : tree.splits) split.player = appeared[at(split.player)];
            if (!tree.lookup) continue;
            for (std::int32_t i = 0; i < tree.lookup->n_players; ++i) {
                auto& player = tree.lookup->player[at(i)];
                player = appeared[at(player)];
            }
        }
    }

    // Gives every condition of the chunk its number.
    void number_conditions() {
        const auto key_of = [](const CompiledSplit& split) {
            const auto& asked = split.condition;
            return std::tuple(asked.category_set >= 0, asked.feature, asked.missing_left, asked.category_set,
                              asked.threshold);
        };
        std::vector<CompiledSplit*> splits;
        for (auto& tree : trees_)
            for (auto& split : tree.splits) splits.push_back(&split);
        std::sort(splits.begin(), splits.end(), [&](const auto* a, const auto* b) { return key_of(*a) < key_of(*b); });
        const CompiledSplit* last = nullptr;
        std::int32_t n_conditions = 0;
        for (CompiledSplit* split : splits) {
            if (last == nullptr || key_of(*last) != key_of(*split)) {
                add_condition(split->condition);
                ++n_conditions;
            }
            split->asks = n_conditions - 1;
            last = split;
        }
        forest_.column_conditions.shrink_to_fit();
        forest_.thresholds.shrink_to_fit();
        forest_.column_of_threshold.shrink_to_fit();
        forest_.category_conditions.shrink_to_fit();
    }
    void add_condition(const Condition& asked) {
        if (asked.category_set >= 0) {
            forest_.category_conditions.push_back({asked.feature, asked.category_set, asked.missing_left});
            return;
        }
        auto& columns = forest_.column_conditions;
        if (columns.empty() || columns.back().feature != asked.feature ||
            columns.back().missing_left != asked.missing_left)
            columns.push_back({asked.feature, asked.missing_left, 0});
        forest_.thresholds.push_back(asked.threshold);
        forest_.column_of_threshold.push_back(static_cast<std::int32_t>(columns.size()) - 1);
        columns.back().end = forest_.thresholds.size();
    }

    void add_chunk(const EnsembleView& e, std::int32_t first_value, std::int32_t n_outputs, Program& program) const {
        const auto& forest = program.forests.back();
        Chunk chunk;
        chunk.trees = forest.trees;
        chunk.bunches = forest.bunches.all;
        chunk.columns = forest.columns;
        chunk.players = forest.players;
        chunk.conditions = {forest.column_conditions, forest.thresholds, forest.column_of_threshold,
                            forest.category_conditions};
        chunk.table_begin = program.table_size;
        chunk.output = output_ + first_value;
        chunk.n_outputs = n_outputs;
        chunk.n_leaves = leaf_node_.size();
        copy_values(e, first_value, chunk);
        for (const auto& tree : chunk.trees)
            if (tree.is_lookup()) program.table_size += tree.lookup->table_doubles(n_outputs);
        program.n_leaves += chunk.n_leaves;
        program.chunks.push_back(std::move(chunk));
    }

    void copy_values(const EnsembleView& e, std::int32_t first_value, Chunk& chunk) const {
        const auto n_outputs = static_cast<std::size_t>(chunk.n_outputs);
        chunk.leaf_value.resize(leaf_node_.size() * n_outputs);
        double* to = chunk.leaf_value.data();
        for (const auto node : leaf_node_) {
            if (node >= 0) std::copy_n(&e.value[static_cast<std::size_t>(node * e.width + first_value)], n_outputs, to);
            to += n_outputs;
        }
    }

    std::int32_t output_;
    Forest forest_;
    Numbering columns_{{}, forest_.columns};
    Numbering players_{{}, forest_.players};
    std::vector<CompiledTree> trees_;
    std::vector<std::int64_t> leaf_node_;
    std::size_t n_walked_ = 0;  // leaves
};

}  // namespace

Program compile(const EnsembleView& e, const RulesOfIndex& index, const Control::Poll& poll) {
    Program program;
    Listener listener(poll);
    const RuleOf rule_of = [&](int n_players, bool with_ends) -> const Rule& {
        return with_ends && index.rule_with_ends ? program.rules_with_ends.rule_for(n_players, index.rule_with_ends)
                                                 : program.rules.rule_for(n_players, index.rule);
    };
    program.category_sets = category_sets(e);
    program.n_columns = static_cast<std::int32_t>(e.player.size());
    program.n_players = e.n_players;
    program.n_outputs = e.n_outputs;
    program.is_float32 = e.is_float32;

    std::vector<std::int64_t> order(static_cast<std::size_t>(e.n_trees()));
    std::iota(order.begin(), order.end(), 0);
    const auto output_of = [&](std::int64_t tree) { return e.tree_output[static_cast<std::size_t>(tree)]; };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return output_of(a) < output_of(b); });

    const auto n_nodes = [&](std::int64_t tree) {
        const auto i = static_cast<std::size_t>(tree);
        return static_cast<std::size_t>(e.tree_offsets[i + 1] - e.tree_offsets[i]);
    };

    const auto most_outputs = static_cast<std::int32_t>(std::clamp<std::size_t>(
        kMaxChunkSlots / static_cast<std::size_t>(std::max(1, e.n_players)), 1, std::size_t{kMaxChunkOutputs}));
    const auto max_outputs = std::min(most_outputs, e.width);
    std::unique_ptr<OpenChunk> open;
    const auto close = [&] {
        if (open) open->close(e, max_outputs, program);
        open.reset();
    };
    for (const auto tree : order) {
        const Parts parts(e, tree);
        for (const auto root : parts.roots()) {
            if (open && (open->output() != output_of(tree) || open->is_full(max_outputs))) close();
            if (!open) open = std::make_unique<OpenChunk>(output_of(tree));
            open->add(e, tree, parts, root, rule_of);
            listener.tick(n_nodes(tree));
        }
    }
    close();
    return program;
}

}  // namespace linear_treeshap
