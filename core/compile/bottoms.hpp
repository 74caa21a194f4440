// Clean bottoms: what a walk needs to know of up to seven splits that it takes in one step.
//
// They are listed from the root down, rare sides first. Where a leaf stands in a split's place, that split asks nothing
// and its numbers are zero. Of each split there are two numbers, for rows that go right and for rows that go left: of a
// split of two leaves, how G changes with t, δ times the difference of their values; of others δ itself. Then follow,
// of each split that has splits below, the difference of what is expected on both sides, and what is expected of all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compile/program.hpp"
#include "compile/steps.hpp"

namespace linear_treeshap {

constexpr int splits_of(Bottom bottom) {
    return bottom == Bottom::three ? 7 : bottom == Bottom::two ? 3 : bottom == Bottom::leaves ? 1 : 0;
}
constexpr int numbers_of(Bottom bottom) {
    return bottom == Bottom::three ? 18 : bottom == Bottom::two ? 8 : bottom == Bottom::leaves ? 3 : 0;
}

// The root of the bottom that a step takes, which is at or below a split.
inline std::int32_t root_of(Op op, std::int32_t number, const Split& split) {
    const Place place = place_of(op);
    if (place == Place::alone) return number;
    return split.child_at(place < Place::common_closing ? 0 : 1);
}

class CleanBottom {
  public:
    CleanBottom(std::span<const Split> splits, std::int32_t root, Bottom bottom)
        : splits_(splits), bottom_(bottom), member_{root} {
        if (bottom == Bottom::two) put_children(0, {1, 2});
        if (bottom != Bottom::three) return;
        put_children(0, {1, 4});
        put_children(1, {2, 3});
        put_children(4, {5, 6});
    }

    // `nothing` is what a leaf asks.
    void ask(std::int32_t nothing, std::vector<Asked>& to) const {
        for (int i = 0; i < splits_of(bottom_); ++i) {
            const auto split = member_[at(i)];
            const auto player = splits_[at(split < 0 ? member_[0] : split)].player;
            to.push_back({split < 0 ? nothing : splits_[at(split)].asks, player});
        }
    }

    // value_of(leaf) is its value.
    template <class ValueOf>
    void number(const ValueOf& value_of, double* to) const {
        double* const apart = to + 2 * splits_of(bottom_);
        if (bottom_ == Bottom::leaves) {
            apart[0] = leaves(0, value_of, to);
        } else if (bottom_ == Bottom::two) {
            apart[1] = two(0, value_of, to, apart[0]);
        } else {
            const double rare = two(1, value_of, to, apart[1]), common = two(4, value_of, to, apart[2]);
            apart[3] = join(0, rare, common, to, apart[0]);
        }
    }

  private:
    void put_children(std::size_t i, std::array<std::size_t, 2> places) {
        const auto split = member_[i];
        for (std::size_t side = 0; side < 2; ++side)
            member_[places[side]] = split < 0 ? split : splits_[at(split)].child_at(side);
    }

    // Each returns what is expected of the split at a place.
    template <class ValueOf>
    double leaves(std::size_t i, const ValueOf& value_of, double* to) const {
        const auto number = member_[i];
        to[2 * i] = to[2 * i + 1] = 0.0;
        if (number < 0) return value_of(~number);
        const Split& split = splits_[at(number)];
        const double rare = value_of(~split.child_at(0)), common = value_of(~split.child_at(1));
        to[2 * i] = split.delta(1) * (rare - common);
        to[2 * i + 1] = split.delta(0) * (rare - common);
        return split.ratio_at(0) * rare + split.ratio_at(1) * common;
    }
    template <class ValueOf>
    double two(std::size_t i, const ValueOf& value_of, double* to, double& apart) const {
        const double rare = leaves(i + 1, value_of, to), common = leaves(i + 2, value_of, to);
        return join(i, rare, common, to, apart);
    }
    double join(std::size_t i, double rare, double common, double* to, double& apart) const {
        const auto number = member_[i];
        to[2 * i] = to[2 * i + 1] = apart = 0.0;
        if (number < 0) return common;
        const Split& split = splits_[at(number)];
        to[2 * i] = split.delta(1);
        to[2 * i + 1] = split.delta(0);
        apart = rare - common;
        return split.ratio_at(0) * rare + split.ratio_at(1) * common;
    }

    std::span<const Split> splits_;
    Bottom bottom_;
    std::array<std::int32_t, 7> member_;  // a split, or ~leaf
};

}  // namespace linear_treeshap
