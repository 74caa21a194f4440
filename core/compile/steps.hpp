// What a walk of blocks of rows (kernels/block_walk.hpp) does, in the order in which it does it. No branch of the walk
// depends on a tree: all that there is to decide has been decided here.
//
// Of the two sides of a split, fewer training rows took the rare one; the other one is common.
#pragma once

#include <cstdint>
#include <span>

namespace linear_treeshap {

// Points at which a block of rows walks a tree at once, at most.
inline constexpr int kMaxBlockPoints = 8;

// What is below a split: anything, two leaves, or a clean bottom of two or three levels of splits at most, whose
// players have none above, there or in it.
enum class Below : std::uint8_t { anything, leaves, two, three };

// Bottoms are taken in one step.
enum class Bottom : std::uint8_t { leaves, leaves_again, two, three };
inline constexpr int kBottoms = 4;
// Of clean ones, at most.
constexpr int splits_of(Bottom bottom) {
    return bottom == Bottom::three ? 7 : bottom == Bottom::two ? 3 : bottom == Bottom::leaves ? 1 : 0;
}

// Where a bottom is. It has been given C; or it takes that over the edge from a split of a new player above it, and
// closes that split if its sibling is known.
enum class Place : std::uint8_t {
    alone,
    rare_first,  // its sibling is a bottom that comes next
    rare_closing,
    rare_beside_leaf,
    common_closing,
    common_beside_leaf,
};
inline constexpr int kPlaces = 6;

// Which sides of a split C is carried to, and which of its children is a leaf when it is closed.
enum class Sides : std::uint8_t { both, rare, common };
enum class Leaf : std::uint8_t { none, rare, common };

// How rows meet a split. Its player is new; or repeated; or it is new, as all above it are, and leads to ends of the
// walk's longest paths, for which leading coefficients are kept.
enum class Met : std::uint8_t { anew, again, on_longest };

using Op = std::uint8_t;
inline constexpr Op carry_op(Met met, Sides sides) {
    return static_cast<Op>(3 * static_cast<int>(met) + static_cast<int>(sides));
}
inline constexpr Op close_op(Met met, Leaf leaf) {
    return static_cast<Op>(9 + 3 * static_cast<int>(met) + static_cast<int>(leaf));
}
// `met`: the split above it, which is repeated, or is not there, if the bottom is alone.
inline constexpr Op bottom_op(Bottom bottom, Place place, Met met) {
    const int first = 18 + (met == Met::on_longest ? kPlaces * kBottoms - 1 : 0);
    const int n_places = met == Met::on_longest ? kPlaces - 1 : kPlaces;
    return static_cast<Op>(first + n_places * static_cast<int>(bottom) + static_cast<int>(place));
}
inline constexpr int kOps = 18 + (2 * kPlaces - 1) * kBottoms;

inline constexpr bool is_carry(Op op) { return op < 9; }

struct Step {
    std::uint32_t split : 23;  // whose C is at hand
    std::uint32_t op : 6;
    std::uint32_t side : 1;  // which child of its parent the split is: 0, rare; 1, common
    // Levels are counted on the way: what comes after a carry is one further down, until a step returns to its split.
    std::uint32_t returns : 1;
    // Where it might be beside a leaf, this is another walk's, or a split that only those meet.
    std::uint32_t is_beside_nothing : 1;

    static constexpr std::uint32_t kMaxSplit = (1U << 23) - 1;

    Step(std::int32_t number, std::uint8_t which_child)
        : split(0), op(0), side(which_child & 1U), returns(0), is_beside_nothing(0) {
        set_split(number);
    }
    void set_split(std::int32_t number) { split = static_cast<std::uint32_t>(number) & kMaxSplit; }
};
static_assert(sizeof(Step) == 4 && kOps <= 64);

// At 0 there is a division by the absent weight above a repeated player's split. With next to none, or none at all,
// digits are lost there, and such a tree has a rule without ends. Covers that are numbers of rows never leave so
// little.
inline constexpr double kLeastAbsentWithEnds = 0x1p-40;

// Leaves of a tree that are walked to together (walks.hpp).
struct Walk {
    const Step* first_step;
    std::int32_t n_steps;
    std::uint32_t n_points : 31;
    std::uint32_t has_ends : 1;  // its rule

    Walk(std::size_t steps, int points, bool with_ends)
        : first_step(nullptr),
          n_steps(static_cast<std::int32_t>(steps)),
          n_points(static_cast<std::uint32_t>(points) & 0x7FFFFFFFU),
          has_ends(with_ends) {}

    std::span<const Step> steps() const { return {first_step, static_cast<std::size_t>(n_steps)}; }
};

}  // namespace linear_treeshap
