// Trees as a few rows meet them: several at once, from the top down, and splits that are alike one after the other, so
// that no branch depends on a tree. What a row keeps of them should stay in a near cache, so that a large tree is met
// in sections: its top, and then whole subtrees. Its splits lie in that order.
//
// Many splits are tips: those of a new player with two leaves. Twigs, which are splits of tips and leaves alone, are
// met with their tips.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace linear_treeshap {

struct CompiledTree;
struct PackedSplit;
struct Repeat;

// Splits of a section of a large tree, and of a bunch of several trees, at most.
inline constexpr std::size_t kMaxSectionSplits = 256;

// What is below a split; tip: of a twig.
enum class Child : std::uint8_t { split, leaf, tip };
inline constexpr std::uint32_t kChildren = 3;

// Splits that are alike: whether their player is repeated, and what their children are.
struct BunchGroup {
    std::uint32_t n_splits : 27, is_repeated : 1, rare : 2, common : 2;
};

// Subtrees; of the first section of a large tree only the top, and what is below that is in the others.
struct BunchSection {
    std::int32_t n_groups, n_roots;
};

// The order in which a row meets splits, by their places.
struct Meetings {
    std::vector<std::int32_t> order;  // group after group, roots first; without the tips of twigs
    std::vector<BunchGroup> groups;
    std::vector<BunchSection> sections;
};

struct Bunch {
    std::span<const PackedSplit> splits;  // of trees that follow each other: a split's place is that in here
    const Repeat* repeats;                // of all trees of the chunk
    std::span<const std::int32_t> order;  // and what follows: as of Meetings
    std::span<const BunchGroup> groups;
    std::span<const BunchSection> sections;
    std::int32_t n_trees;
    std::int32_t first_leaf;  // in the chunk's numbering; one more than splits follow for each tree
    std::int32_t n_points;    // that the tree with the most of them needs
    bool has_tables;          // trees that are one table each, and are walked where that is not at hand
};

// What chunks of the same trees share.
struct Bunches {
    std::vector<Bunch> all;
    Meetings meetings;

    // `splits` and `repeats` are those of the trees, in their order.
    static Bunches of(std::span<const CompiledTree> trees, std::span<const PackedSplit> splits, const Repeat* repeats);

  private:
    void add(std::span<const CompiledTree> trees);
};

// Numbers the splits of a large tree in the order in which a row meets them.
void arrange(CompiledTree& tree);

}  // namespace linear_treeshap
