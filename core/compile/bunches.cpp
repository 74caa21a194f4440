// Compiled trees → Bunches.

#include "compile/bunches.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "compile/tree_compiler.hpp"

namespace linear_treeshap {
namespace {

// Points are walked so many at a time, so that one more does not matter within these.
constexpr std::int32_t kPointsAtOnce = 4;

// A split's child that is one, in the same tree.
const CompiledSplit& child_of(const CompiledSplit& split, std::size_t side) {
    return *(&split + (split.child_at(side) - split.number));
}
bool is_tip(const CompiledSplit& split) { return split.below == Below::leaves && !split.is_repeated; }
// Are a split's children met with it?
bool is_twig(const CompiledSplit& split) {
    const auto is_met = [&](std::size_t side) { return split.child_at(side) < 0 || is_tip(child_of(split, side)); };
    return is_met(0) && is_met(1);
}
Child child_at(const CompiledSplit& split, std::size_t side) {
    return split.child_at(side) < 0 ? Child::leaf : is_twig(split) ? Child::tip : Child::split;
}

// Splits are alike that have the same number.
constexpr std::uint32_t kKinds = 2 * kChildren * kChildren;
std::uint32_t kind_of(const CompiledSplit& split) {
    const auto number = [&](std::size_t side) { return static_cast<std::uint32_t>(child_at(split, side)); };
    return (split.is_repeated * kChildren + number(0)) * kChildren + number(1);
}
BunchGroup group_of(std::uint32_t kind) {
    return {0, kind / (kChildren * kChildren) & 1, kind / kChildren % kChildren & 3, kind % kChildren & 3};
}
bool has_split_below(std::uint32_t kind) {
    constexpr auto kSplit = static_cast<std::uint32_t>(Child::split);
    return group_of(kind).rare == kSplit || group_of(kind).common == kSplit;
}

std::int32_t n_vectors(const CompiledTree& tree) { return (tree.tree.n_points + kPointsAtOnce - 1) / kPointsAtOnce; }

bool is_large(const CompiledTree& tree) { return tree.splits.size() > kMaxSectionSplits; }

template <class T>
void append(const std::vector<T>& from, std::vector<T>& to) {
    to.insert(to.end(), from.begin(), from.end());
}

struct Member {
    const CompiledSplit* split;
    std::int32_t place;
};

// What is inside of the subtrees at these roots: first the roots, then whichever kind most of those are of whose
// parents have been met, and of their children and so on, for as long as there are any of that kind.
template <class IsInside>
void add_section(std::vector<Member> roots, const IsInside& is_inside, Meetings& to) {
    const std::size_t first_group = to.groups.size();
    std::array<std::vector<Member>, kKinds> waiting;
    std::array<std::size_t, kKinds> n_met{};
    const auto meet = [&](const Member& member) {
        const auto& [split, place] = member;
        ++to.groups.back().n_splits;
        to.order.push_back(place);
        for (std::size_t side = 0; side < 2; ++side) {
            if (child_at(*split, side) != Child::split) continue;
            const CompiledSplit& below = child_of(*split, side);
            const Member child{&below, place + (below.number - split->number)};
            if (is_inside(child)) waiting[kind_of(below)].push_back(child);
        }
    };
    std::stable_sort(roots.begin(), roots.end(),
                     [&](const auto& a, const auto& b) { return kind_of(*a.split) < kind_of(*b.split); });
    for (std::size_t i = 0; i < roots.size(); ++i) {
        const std::uint32_t kind = kind_of(*roots[i].split);
        if (i == 0 || kind != kind_of(*roots[i - 1].split)) to.groups.push_back(group_of(kind));
        meet(roots[i]);
    }
    const auto n_waiting = [&](std::uint32_t kind) { return waiting[kind].size() - n_met[kind]; };
    // Those with no split below are the last: nobody waits for them.
    const auto rank = [&](std::uint32_t kind) {
        return std::pair(has_split_below(kind) && n_waiting(kind) > 0, n_waiting(kind));
    };
    while (true) {
        std::uint32_t most = 0;
        for (std::uint32_t kind = 1; kind < kKinds; ++kind)
            if (rank(kind) > rank(most)) most = kind;
        if (n_waiting(most) == 0) break;
        to.groups.push_back(group_of(most));
        while (n_waiting(most) > 0) meet(Member(waiting[most][n_met[most]++]));  // a copy: the list may grow
    }
    to.sections.push_back(
        {static_cast<std::int32_t>(to.groups.size() - first_group), static_cast<std::int32_t>(roots.size())});
}
void add_section(std::vector<Member> roots, Meetings& to) {
    add_section(std::move(roots), [](const Member&) { return true; }, to);
}

// The top of a large tree; then subtrees that are small enough, one after the other, as many to a section as fit. Its
// splits are numbered depth-first.
Meetings meetings_of_large(const CompiledTree& tree) {
    Meetings out;
    std::vector<std::size_t> n_below(tree.splits.size(), 1);  // itself included
    for (std::size_t i = n_below.size(); i-- > 0;)
        for (const auto child : tree.splits[i].child)
            if (child >= 0) n_below[i] += n_below[at(child)];
    const auto is_top = [&](const Member& member) { return n_below[at(member.place)] > kMaxSectionSplits; };
    add_section({{tree.splits.data(), 0}}, is_top, out);
    std::vector<Member> roots;
    std::size_t n_splits = 0;
    const auto close = [&] {
        if (!roots.empty()) add_section(std::exchange(roots, {}), out);
        n_splits = 0;
    };
    for (std::size_t i = 0; i < n_below.size();) {
        const Member member{&tree.splits[i], static_cast<std::int32_t>(i)};
        if (is_top(member)) {
            ++i;
            continue;
        }
        if (n_splits + n_below[i] > kMaxSectionSplits) close();
        roots.push_back(member);
        n_splits += n_below[i];
        i += n_below[i];
    }
    close();
    return out;
}

}  // namespace

void arrange(CompiledTree& tree) {
    if (!is_large(tree)) return;
    tree.meetings = meetings_of_large(tree);
    std::vector<std::int32_t> order;                       // of twigs, their tips follow them
    std::vector<std::int32_t> number(tree.splits.size());  // by the old one
    const auto put = [&](const CompiledSplit& split) {
        number[at(split.number)] = static_cast<std::int32_t>(order.size());
        order.push_back(split.number);
    };
    for (auto& place : tree.meetings.order) {
        const CompiledSplit& split = tree.splits[at(place)];
        place = static_cast<std::int32_t>(order.size());
        put(split);
        for (std::size_t side = 0; side < 2; ++side)
            if (child_at(split, side) == Child::tip) put(child_of(split, side));
    }
    std::vector<CompiledSplit> splits;
    splits.reserve(order.size());
    for (const auto old : order) {
        CompiledSplit& split = splits.emplace_back(tree.splits[at(old)]);
        split.number = number[at(old)];
        for (auto& child : split.child)
            if (child >= 0) child = number[at(child)];
        if (split.above >= 0) split.above = 2 * number[at(split.above / 2)] + split.above % 2;
    }
    tree.splits = std::move(splits);
    for (auto& step : tree.steps) step.set_split(number[at(step.split)]);
    if (tree.lookup)
        for (std::int32_t i = 0; i < tree.lookup->n_conditions; ++i) {
            auto& split = tree.lookup->condition[at(i)];  // that asks it
            split = number[at(split)];
        }
}

Bunches Bunches::of(std::span<const CompiledTree> trees, std::span<const PackedSplit> splits, const Repeat* repeats) {
    Bunches out;
    std::size_t n_splits = 0, begin = 0;
    for (std::size_t i = 0; i < trees.size(); ++i) {
        const auto &first = trees[begin], &next = trees[i];
        const bool is_alike =
            n_vectors(first) == n_vectors(next) && first.lookup.has_value() == next.lookup.has_value();
        if (i > begin && (!is_alike || n_splits + next.splits.size() > kMaxSectionSplits)) {
            out.add(trees.subspan(begin, i - begin));
            begin = i;
            n_splits = 0;
        }
        n_splits += next.splits.size();
    }
    if (begin < trees.size()) out.add(trees.subspan(begin));
    auto& [order, groups, sections] = out.meetings;
    out.all.shrink_to_fit();
    order.shrink_to_fit();
    groups.shrink_to_fit();
    sections.shrink_to_fit();
    // Where the lists lie is known at last.
    std::size_t tree = 0, split = 0, meeting = 0, group = 0, section = 0;
    for (auto& bunch : out.all) {
        const std::size_t n_met = bunch.order.size(), n_groups = bunch.groups.size(),
                          n_sections = bunch.sections.size();
        bunch.first_leaf = static_cast<std::int32_t>(split + tree);
        const std::size_t first = split;
        for (std::int32_t i = 0; i < bunch.n_trees; ++i) split += trees[tree++].splits.size();
        bunch.splits = splits.subspan(first, split - first);
        bunch.order = std::span(order).subspan(meeting, n_met);
        bunch.groups = std::span(groups).subspan(group, n_groups);
        bunch.sections = std::span(sections).subspan(section, n_sections);
        bunch.repeats = repeats;
        meeting += n_met;
        group += n_groups;
        section += n_sections;
    }
    return out;
}

void Bunches::add(std::span<const CompiledTree> trees) {
    auto& [order, groups, sections] = meetings;
    const std::size_t first = order.size(), first_group = groups.size(), first_section = sections.size();
    if (is_large(trees[0])) {
        append(trees[0].meetings.order, order);
        append(trees[0].meetings.groups, groups);
        append(trees[0].meetings.sections, sections);
    } else {
        std::vector<Member> roots;
        std::int32_t n_splits = 0;
        for (const auto& tree : trees) {
            roots.push_back({tree.splits.data(), n_splits});
            n_splits += static_cast<std::int32_t>(tree.splits.size());
        }
        add_section(std::move(roots), meetings);
    }
    Bunch bunch{};
    for (const auto& tree : trees) bunch.n_points = std::max(bunch.n_points, tree.tree.n_points);
    bunch.n_trees = static_cast<std::int32_t>(trees.size());
    bunch.has_tables = trees[0].lookup.has_value();
    // Their sizes, until the lists do not move any more.
    bunch.order = std::span(order).subspan(first);
    bunch.groups = std::span(groups).subspan(first_group);
    bunch.sections = std::span(sections).subspan(first_section);
    all.push_back(bunch);
}

}  // namespace linear_treeshap
