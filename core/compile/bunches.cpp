// Compiled trees → Bunches.

#include "compile/bunches.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compile/tree_compiler.hpp"

namespace linear_treeshap {
namespace {

// Splits of a bunch of several trees, at most: what a row keeps of them should stay in a near cache.
constexpr std::size_t kMaxBunchSplits = 512;
// Points are walked so many at a time, so that one more does not matter within these.
constexpr std::int32_t kPointsAtOnce = 4;

struct Member {
    std::size_t tree;
    std::int32_t split;
};

std::size_t kind_of(const Split& split) {
    return (split.above >= 0 ? 4U : 0U) + (split.child[0] < 0 ? 2U : 0U) + (split.child[1] < 0 ? 1U : 0U);
}

std::int32_t n_vectors(const CompiledTree& tree) { return (tree.tree.n_points + kPointsAtOnce - 1) / kPointsAtOnce; }

}  // namespace

Bunches Bunches::of(std::span<const CompiledTree> trees) {
    Bunches out;
    const auto total = std::transform_reduce(trees.begin(), trees.end(), std::size_t{0}, std::plus<>(),
                                             [](const CompiledTree& tree) { return tree.splits.size(); });
    out.splits.reserve(total);
    std::size_t n_splits = 0, begin = 0;
    for (std::size_t i = 0; i < trees.size(); ++i) {
        const auto &first = trees[begin], &next = trees[i];
        const bool is_alike =
            n_vectors(first) == n_vectors(next) && first.lookup.has_value() == next.lookup.has_value();
        if (i > begin && (!is_alike || n_splits + next.splits.size() > kMaxBunchSplits)) {
            out.add(trees.subspan(begin, i - begin));
            begin = i;
            n_splits = 0;
        }
        n_splits += next.splits.size();
    }
    if (begin < trees.size()) out.add(trees.subspan(begin));
    out.absent_above.shrink_to_fit();
    out.above.shrink_to_fit();
    out.groups.shrink_to_fit();
    // Where the lists lie is known at last.
    std::size_t split = 0, repeat = 0, above = 0, group = 0;
    for (auto& bunch : out.all) {
        const auto take = [](const auto& list, std::size_t& at, std::size_t n) {
            at += n;
            return std::span(list).subspan(at - n, n);
        };
        bunch.splits = take(out.splits, split, bunch.splits.size());
        bunch.absent_above = take(out.absent_above, repeat, bunch.absent_above.size());
        bunch.above = take(out.above, above, bunch.above.size());
        bunch.groups = take(out.groups, group, bunch.groups.size());
    }
    return out;
}

void Bunches::add(std::span<const CompiledTree> trees) {
    const auto split_of = [&](const Member& member) -> const Split& {
        return trees[member.tree].splits[static_cast<std::size_t>(member.split)];
    };
    std::vector<std::vector<std::int32_t>> place(trees.size());
    std::vector<Member> order, level, next;
    for (std::size_t i = 0; i < trees.size(); ++i) {
        place[i].resize(trees[i].splits.size());
        level.push_back({i, 0});
    }
    const std::size_t first_group = groups.size(), first_repeat = above.size(), first_split = splits.size();
    while (!level.empty()) {
        std::stable_sort(level.begin(), level.end(),
                         [&](const auto& a, const auto& b) { return kind_of(split_of(a)) < kind_of(split_of(b)); });
        next.clear();
        std::size_t last_kind = 8;
        for (const auto& member : level) {
            const Split& split = split_of(member);
            const auto kind = kind_of(split);
            if (kind != last_kind) groups.push_back({0, kind >= 4, (kind & 2) != 0, (kind & 1) != 0});
            last_kind = kind;
            ++groups.back().n_splits;
            place[member.tree][static_cast<std::size_t>(member.split)] = static_cast<std::int32_t>(order.size());
            order.push_back(member);
            for (const auto child : split.child)
                if (child >= 0) next.push_back({member.tree, child});
        }
        level.swap(next);
    }
    Bunch bunch{};
    for (const auto& tree : trees) bunch.n_points = std::max(bunch.n_points, tree.tree.n_points);
    bunch.n_trees = static_cast<std::int32_t>(trees.size());
    bunch.has_tables = trees[0].lookup.has_value();
    for (const auto& member : order) {
        const Split& split = split_of(member);
        const auto& own = place[member.tree];
        BunchSplit& to = splits.emplace_back();
        to.threshold = split.category_set < 0 ? split.threshold : 0.0;
        to.delta[0] = -split.ratio[0];
        to.delta[1] = split.ratio[1];
        to.number = number_of(split);
        to.player = split.player;
        for (std::size_t side = 0; side < 2; ++side) {
            const auto child = split.child[side];
            to.child[side] =
                child < 0 ? trees[member.tree].tree.first_leaf + ~child : own[static_cast<std::size_t>(child)];
        }
        if (split.above < 0) continue;
        absent_above.push_back(split.absent_above);
        above.push_back(2 * own[static_cast<std::size_t>(split.above / 2)] + split.above % 2);
    }
    // Their sizes, until the lists do not move any more.
    bunch.splits = std::span(splits).subspan(first_split);
    bunch.absent_above = std::span(absent_above).subspan(first_repeat);
    bunch.above = std::span(above).subspan(first_repeat);
    bunch.groups = std::span(groups).subspan(first_group);
    all.push_back(bunch);
}

std::int32_t Bunches::number_of(const Split& split) {
    if (split.category_set < 0) return 2 * split.feature + (split.missing_left ? 1 : 0);
    const auto [it, is_new] = seen_.try_emplace({split.feature, split.category_set, split.missing_left},
                                                static_cast<std::int32_t>(questions.size()));
    if (is_new) questions.push_back({split.feature, split.category_set, split.missing_left});
    return ~it->second;
}

}  // namespace linear_treeshap
