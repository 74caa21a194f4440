// How tables become lists.

#include "background/table_lists.hpp"

#include <algorithm>

namespace linear_treeshap {

void TableLists::add(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const double* tables) {
    const auto split_base = static_cast<std::int32_t>(feature.size());
    const auto n_splits = tree.n_splits;
    add_splits(chunk, tree);
    for (const auto& table : plan.tables) {
        const auto* const bit_word = &plan.bit_word[at(table.first_bit)];
        for (int bit = 0; bit < table.n_bits; ++bit) {
            if (bit < table.n_conditions) {
                condition.push_back(2 * (split_base + bit_word[bit] - 2 * n_splits));  // the row goes left
                first_condition.push_back(static_cast<std::int64_t>(condition.size()));
            } else {
                add_edge(tree, bit_word[bit], split_base);
            }
        }
        for (int lane = 0; lane < table.n_lanes; ++lane) {
            const auto slot = plan.lane_slot[at(table.first_lane + lane)];
            player.push_back(chunk.players[at(slot / chunk.n_outputs)]);
            output.push_back(chunk.output + slot % chunk.n_outputs);
        }
        number.insert(number.end(), tables + table.begin, tables + table.begin + table.size());
        end_table(false);
    }
    if (!plan.scan_child.empty()) add_leaves(chunk, tree, plan, split_base);
}

void TableLists::add_splits(const Chunk& chunk, const Tree& tree) {
    for (const auto& split : tree.splits()) {
        const Condition asked = chunk.conditions[at(split.asks())];
        feature.push_back(chunk.columns[at(asked.feature)]);
        category_set.push_back(asked.category_set);
        threshold.push_back(asked.threshold);
        missing_left.push_back(asked.missing_left);
    }
}

void TableLists::add_leaves(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, std::int32_t split_base) {
    std::vector<std::int32_t> parent_edge(at(tree.n_splits), -1), players;
    for (std::int32_t i = 0; i < tree.n_splits; ++i)
        for (int side = 0; side < 2; ++side) {
            const auto child = tree.child(i, at(side));
            if (child >= 0) parent_edge[at(child)] = 2 * i + side;
        }
    for (std::size_t leaf_edge = 0; leaf_edge < plan.scan_child.size(); ++leaf_edge) {
        const auto child = plan.scan_child[leaf_edge];
        if (child >= 0 || child == kNothing) continue;
        const double* const value = chunk.values_of(~child);
        if (std::all_of(value, value + chunk.n_outputs, [](double x) { return x == 0.0; })) continue;
        players.clear();
        for (auto edge = static_cast<std::int32_t>(leaf_edge); edge >= 0; edge = parent_edge[at(edge / 2)]) {
            const auto who = tree[edge / 2].player;
            if (std::find(players.begin(), players.end(), who) != players.end()) continue;
            players.push_back(who);
            add_edge(tree, edge, split_base);
            for (std::int32_t o = 0; o < chunk.n_outputs; ++o) {
                player.push_back(chunk.players[at(who)]);
                output.push_back(chunk.output + o);
            }
        }
        number.insert(number.end(), value, value + chunk.n_outputs);
        end_table(true);
    }
}

// A bit that is set where all conditions of the edge's player down to it hold.
void TableLists::add_edge(const Tree& tree, std::int32_t edge, std::int32_t split_base) {
    for (; edge >= 0; edge = tree[edge / 2].above) condition.push_back(2 * split_base + edge);
    first_condition.push_back(static_cast<std::int64_t>(condition.size()));
}

void TableLists::end_table(bool leaf) {
    is_scanned.push_back(leaf);
    first_bit.push_back(static_cast<std::int64_t>(first_condition.size()) - 1);
    first_lane.push_back(static_cast<std::int64_t>(player.size()));
    first_number.push_back(static_cast<std::int64_t>(number.size()));
}

}  // namespace linear_treeshap
