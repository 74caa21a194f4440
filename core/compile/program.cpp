// TreeEnsemble → Program.

#include "compile/program.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "compile/bottoms.hpp"
#include "compile/parts.hpp"
#include "compile/tree_compiler.hpp"

namespace linear_treeshap {
namespace {

// Working memory of a thread is bounded by this, with the size of trees (parts.hpp) and of tiles (tiles.hpp): φ and x
// of a chunk for 64 rows.
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
        auto compiled = TreeCompiler(e, tree, parts, root, columns_, players_, rule_of).run();
        if (compiled.splits.empty()) return;  // a tree that is a single leaf says nothing of any player
        compiled.tree.first_leaf = static_cast<std::int32_t>(leaf_node_.size());
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
        const auto total = [&](auto TreeLists::* list) {
            return std::transform_reduce(trees_.begin(), trees_.end(), std::size_t{0}, std::plus<>(),
                                         [&](const CompiledTree& tree) { return (tree.*list).size(); });
        };
        forest_.columns.shrink_to_fit();
        forest_.players.shrink_to_fit();
        forest_.trees.reserve(trees_.size());
        forest_.splits.reserve(total(&TreeLists::splits));
        forest_.steps.reserve(total(&TreeLists::steps));
        forest_.repeated.reserve(total(&TreeLists::repeated));
        forest_.outcomes.reserve(total(&TreeLists::outcomes));
        forest_.lookups.reserve(static_cast<std::size_t>(
            std::count_if(trees_.begin(), trees_.end(), [](const auto& tree) { return tree.lookup.has_value(); })));
        number_conditions();
        list_what_bottoms_ask();
        forest_.asked.reserve(total(&TreeLists::asked));
        forest_.bunches = Bunches::of(trees_);
        for (const auto& from : trees_) {
            Tree& tree = forest_.trees.emplace_back(from.tree);
            tree.splits = append(from.splits, forest_.splits);
            tree.steps = append(from.steps, forest_.steps);
            tree.asked = append(from.asked, forest_.asked);
            tree.repeated = append(from.repeated, forest_.repeated);
            if (!from.lookup) continue;
            Lookup& lookup = forest_.lookups.emplace_back(*from.lookup);
            lookup.leaf = append(from.outcomes, forest_.outcomes);
            tree.lookup = &lookup;
        }
    }

    // Gives every condition of the chunk its number.
    void number_conditions() {
        const auto condition_of = [](const Split& split) {
            const bool is_number = split.category_set < 0;
            return std::tuple(!is_number, split.feature, split.missing_left, split.category_set,
                              is_number ? split.threshold : 0.0);
        };
        std::vector<Split*> splits;
        for (auto& tree : trees_)
            for (auto& split : tree.splits) splits.push_back(&split);
        std::sort(splits.begin(), splits.end(),
                  [&](const Split* a, const Split* b) { return condition_of(*a) < condition_of(*b); });
        const Split* last = nullptr;
        for (Split* split : splits) {
            if (last == nullptr || condition_of(*last) != condition_of(*split)) add_condition(*split);
            split->asks = n_conditions() - 1;
            last = split;
        }
        forest_.column_conditions.shrink_to_fit();
        forest_.thresholds.shrink_to_fit();
        forest_.category_conditions.shrink_to_fit();
    }
    void add_condition(const Split& split) {
        if (split.category_set >= 0) {
            forest_.category_conditions.push_back({split.feature, split.category_set, split.missing_left});
            return;
        }
        auto& columns = forest_.column_conditions;
        if (columns.empty() || columns.back().feature != split.feature ||
            columns.back().missing_left != split.missing_left)
            columns.push_back({split.feature, split.missing_left, 0});
        forest_.thresholds.push_back(split.threshold);
        columns.back().end = forest_.thresholds.size();
    }
    std::int32_t n_conditions() const {
        return static_cast<std::int32_t>(forest_.thresholds.size() + forest_.category_conditions.size());
    }

    // A leaf in a split's place asks what no row says yes to: the condition after the last.
    void list_what_bottoms_ask() {
        for (auto& tree : trees_) {
            tree.tree.first_number = n_numbers_;
            n_numbers_ += tree.n_numbers;
            for (const auto& [root, bottom] : tree.bottoms)
                CleanBottom(tree.splits, root, bottom).ask(n_conditions(), tree.asked);
        }
    }
    void number_bottoms(Chunk& chunk) const {
        if (chunk.n_outputs > 1) return;
        chunk.bottom_number.resize(at(n_numbers_));
        double* to = chunk.bottom_number.data();
        for (std::size_t i = 0; i < trees_.size(); ++i) {
            const Tree& tree = chunk.trees[i];
            for (const auto& [root, bottom] : trees_[i].bottoms) {
                CleanBottom(tree.splits, root, bottom)
                    .number([&](std::int32_t leaf) { return *chunk.values_of(tree, leaf); }, to);
                to += numbers_of(bottom);
            }
        }
    }

    void add_chunk(const EnsembleView& e, std::int32_t first_value, std::int32_t n_outputs, Program& program) const {
        const auto& forest = program.forests.back();
        Chunk chunk;
        chunk.trees = forest.trees;
        chunk.bunches = forest.bunches.all;
        chunk.questions = forest.bunches.questions;
        chunk.columns = forest.columns;
        chunk.players = forest.players;
        chunk.conditions = {forest.column_conditions, forest.thresholds, forest.category_conditions};
        chunk.table_begin = program.table_size;
        chunk.output = output_ + first_value;
        chunk.n_outputs = n_outputs;
        chunk.n_leaves = leaf_node_.size();
        copy_values(e, first_value, chunk);
        number_bottoms(chunk);
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
    std::size_t n_walked_ = 0;    // leaves
    std::int32_t n_numbers_ = 0;  // of clean bottoms
};

}  // namespace

Program compile(const EnsembleView& e, const RuleFor& rule_for, const Control::Poll& poll) {
    Program program;
    Listener listener(poll);
    const RuleOf rule_of = [&](int n_players) -> const Rule& { return program.rules.rule_for(n_players, rule_for); };
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
