// The walk of one row through a tree as it is compiled, without any constants made for it: lanes are quadrature points.
//
// The two edges of a split are one number. With w the cover ratios of its edges, which add up to 1, let δ be w_right
// where the row goes left, -w_left where it goes right, and 0 where its player is already unsatisfied above. Then
//
//   over an edge   C_left = C · (w_left + τ·δ)     C_right = C · (w_right - τ·δ)
//   at a leaf      G = value
//   at a split     G = (w_left + τ·δ) · G_left + (w_right - τ·δ) · G_right
//                  φ += δ · κ · C · (G_left - G_right), summed over points at the end
//
// where C at the root is ω. For a new player τ = t and κ = 1. For one that splits above, with absent weight c there,
// τ = t/u and κ = c/u² with u = t + (1-t)·c; and because τ may then be so near to 1 that 1 - τ has no digits left,
// w - τ·w is computed as w·(1-τ), with 1 - τ = (1-t)·c/u.
//
// Splits are met level by level, and those of a group together (`Tree::order`), so that no branch depends on the tree.
// Each has a slot of points, which holds C, after the way down δ·κ·C, and after the way up G. Points beyond those that
// there are have weight zero.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "compile/program.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "run/worker.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// V vectors of points: from the first on, as many as there are and fit.
template <int V>
struct PointVectors {
    std::array<Vec, V> t, absent, weight;

    LTS_INLINE PointVectors(const Rule& rule, int first) {
        const auto take = [&](const std::vector<double>& from, double otherwise, std::array<Vec, V>& to) LTS_INLINED {
            alignas(64) std::array<double, V * kLanes> numbers;
            for (int k = 0; k < V * kLanes; ++k)
                numbers[at(k)] = first + k < rule.n_points() ? from[at(first + k)] : otherwise;
            for (int v = 0; v < V; ++v) to[at(v)] = load(&numbers[at(v * kLanes)]);
        };
        take(rule.point, 0.5, t);
        take(rule.absent, 0.5, absent);
        take(rule.weight, 0.0, weight);
    }
};

// What a row does at the splits of a tree, each 1 or 0: whether it goes left, and whether it satisfies its player's
// edges above.
struct RowStates {
    std::uint8_t *left, *satisfied;
};

template <int V>
class PointWalk {
  public:
    static constexpr std::size_t kSlot = std::size_t{V} * kLanes;

    // φ is a slot of every player, `player_doubles` apart; `values` are the leaves' of one output, `stride` apart;
    // `slots` has room for one of each split.
    PointWalk(const Tree& tree, const PointVectors<V>& points, const RowStates& states, const double* values,
              std::size_t stride, double* phi, std::size_t player_doubles, double* slots)
        : tree_(tree),
          p_(points),
          states_(states),
          values_(values),
          stride_(stride),
          phi_(phi),
          player_doubles_(player_doubles),
          slots_(slots) {}

    void run() const {
        for (int v = 0; v < V; ++v) store(slots_ + v * kLanes, p_.weight[at(v)]);
        std::int32_t first = 0;
        for (const auto& group : tree_.groups) {
            with(group, [&]<bool kRepeated, bool kLeftLeaf, bool kRightLeaf>() {
                down<kRepeated, kLeftLeaf, kRightLeaf>(first, first + group.n_splits);
            });
            first += group.n_splits;
        }
        for (auto group = tree_.groups.rbegin(); group != tree_.groups.rend(); ++group) {
            first -= group->n_splits;
            with(*group, [&]<bool kRepeated, bool kLeftLeaf, bool kRightLeaf>() {
                if constexpr (!(kLeftLeaf && kRightLeaf))
                    up<kRepeated, kLeftLeaf, kRightLeaf>(first, first + group->n_splits);
            });
        }
    }

  private:
    double* slot_of(std::int32_t split) const { return slots_ + at(split) * kSlot; }
    double* phi_of(const Split& split) const { return phi_ + at(split.player) * player_doubles_; }
    double value_of(std::int32_t leaf) const { return values_[at(leaf) * stride_]; }

    // Calls a function whose template arguments say what the splits of a group are.
    template <class Function>
    static void with(const Group& group, const Function& function) {
        const auto with_leaves = [&]<bool kRepeated>() {
            if (group.is_leaf[0])
                return group.is_leaf[1] ? function.template operator()<kRepeated, true, true>()
                                        : function.template operator()<kRepeated, true, false>();
            return group.is_leaf[1] ? function.template operator()<kRepeated, false, true>()
                                    : function.template operator()<kRepeated, false, false>();
        };
        group.is_repeated ? with_leaves.template operator()<true>() : with_leaves.template operator()<false>();
    }

    // A split as the row meets it. There is no branch on where it goes, which is as good as random.
    template <bool kRepeated>
    struct Met {
        Vec delta, left, right;    // δ, and the ratios
        Vec to_left, to_right, c;  // of a repeated player: 1 where the row goes, if it is satisfied above
        Vec is_satisfied, is_not;  // 1 or 0

        LTS_INLINE Met(const Split& split, std::uint8_t goes_left, std::uint8_t satisfied)
            : left(broadcast(split.ratio[0])), right(broadcast(split.ratio[1])) {
            const double here = with_sign(split.ratio[goes_left], goes_left);
            if constexpr (kRepeated) {
                is_satisfied = broadcast(satisfied);
                is_not = broadcast(satisfied ^ 1);
                delta = broadcast(here) * is_satisfied;
                to_left = broadcast(satisfied & goes_left);
                to_right = broadcast(satisfied & (goes_left ^ 1));
                c = broadcast(split.absent_above);
            } else {
                delta = broadcast(here);
            }
        }
        // The factors of both edges.
        LTS_INLINE std::array<Vec, 2> over(const PointVectors<V>& p, int v) const {
            const Vec t = p.t[at(v)];
            if constexpr (kRepeated) {
                const Vec per_u = per(p, v), tau = t * per_u;
                const Vec rest = fma(is_satisfied, p.absent[at(v)] * c * per_u, is_not);
                return {fma(to_left, tau, left * rest), fma(to_right, tau, right * rest)};
            } else {
                return {fma(delta, t, left), fnma(delta, t, right)};
            }
        }
        // δ·κ
        LTS_INLINE Vec slope(const PointVectors<V>& p, int v) const {
            if constexpr (kRepeated) {
                const Vec per_u = per(p, v);
                return delta * c * per_u * per_u;
            } else {
                return delta;
            }
        }

      private:
        LTS_INLINE static double with_sign(double number, std::uint8_t is_positive) {
            return std::bit_cast<double>(std::bit_cast<std::uint64_t>(number) ^
                                         (std::uint64_t{is_positive ^ 1U} << 63));
        }
        LTS_INLINE Vec per(const PointVectors<V>& p, int v) const {
            return broadcast(1.0) / fma(p.absent[at(v)], c, p.t[at(v)]);
        }
    };

    template <bool kRepeated, bool kLeftLeaf, bool kRightLeaf>
    [[gnu::noinline]] void down(std::int32_t first, std::int32_t end) const {
        for (std::int32_t next = first; next < end; ++next) {
            const std::int32_t i = tree_.order[at(next)];
            const Split& split = tree_.splits[at(i)];
            const Met<kRepeated> met(split, states_.left[i], states_.satisfied[i]);
            double* const slot = slot_of(i);
            for (int v = 0; v < V; ++v) {
                const Vec c = load(slot + v * kLanes), by_slope = c * met.slope(p_, v);
                const auto over = met.over(p_, v);
                if constexpr (kLeftLeaf && kRightLeaf) {  // nothing is below: G at once
                    const Vec left = below<true>(split.child[0], v), right = below<true>(split.child[1], v);
                    double* const phi = phi_of(split) + v * kLanes;
                    store(phi, fma(by_slope, left - right, load(phi)));
                    store(slot + v * kLanes, fma(over[0], left, over[1] * right));
                } else {
                    if constexpr (!kLeftLeaf) store(slot_of(split.child[0]) + v * kLanes, c * over[0]);
                    if constexpr (!kRightLeaf) store(slot_of(split.child[1]) + v * kLanes, c * over[1]);
                    store(slot + v * kLanes, by_slope);
                }
            }
        }
    }

    template <bool kRepeated, bool kLeftLeaf, bool kRightLeaf>
    [[gnu::noinline]] void up(std::int32_t first, std::int32_t end) const {
        for (std::int32_t next = end; next-- > first;) {
            const std::int32_t i = tree_.order[at(next)];
            const Split& split = tree_.splits[at(i)];
            const Met<kRepeated> met(split, states_.left[i], states_.satisfied[i]);
            double* const slot = slot_of(i);
            for (int v = 0; v < V; ++v) {
                const Vec left = below<kLeftLeaf>(split.child[0], v), right = below<kRightLeaf>(split.child[1], v);
                double* const phi = phi_of(split) + v * kLanes;
                store(phi, fma(load(slot + v * kLanes), left - right, load(phi)));
                const auto over = met.over(p_, v);
                store(slot + v * kLanes, fma(over[0], left, over[1] * right));
            }
        }
    }

    template <bool kLeaf>
    LTS_INLINE Vec below(std::int32_t child, int v) const {
        if constexpr (kLeaf)
            return broadcast(value_of(~child));
        else
            return load(slot_of(child) + v * kLanes);
    }

    const Tree& tree_;
    const PointVectors<V>& p_;
    RowStates states_;
    const double* values_;
    std::size_t stride_;
    double* phi_;
    std::size_t player_doubles_;
    double* slots_;
};

// A chunk of trees and one row.
template <int V, class Number>
class RowByPoints {
  public:
    static constexpr std::size_t kSlot = PointWalk<V>::kSlot;

    RowByPoints(const Program& program, const Chunk& chunk, Workspace& work)
        : program_(program),
          chunk_(chunk),
          n_outputs_(at(chunk.n_outputs)),
          x_(reinterpret_cast<Number*>(work.x.reserve(chunk.columns.size()))),
          phi_(work.phi.reserve(n_phi())),
          slots_(work.stack.reserve(at(chunk.max_splits) * kSlot)),
          states_{work.states.reserve(2 * at(chunk.max_splits)), nullptr} {
        states_.satisfied = states_.left + chunk.max_splits;
    }

    // Adds what the chunk gives to one row to values[player][output].
    void explain(const Number* row, double* values) const {
        std::fill_n(phi_, n_phi(), 0.0);
        for (std::size_t c = 0; c < chunk_.columns.size(); ++c) x_[c] = row[chunk_.columns[c]];
        for (const auto& tree : chunk_.trees) {
            find_states(tree);
            const Rule& rule = program_.rules.at(tree.n_points);
            for (int first = 0; first < tree.n_points; first += static_cast<int>(kSlot)) {
                const PointVectors<V> points(rule, first);
                for (std::size_t o = 0; o < n_outputs_; ++o)
                    PointWalk<V>(tree, points, states_, chunk_.values_of(tree, 0) + o, n_outputs_, phi_ + o * kSlot,
                                 n_outputs_ * kSlot, slots_)
                        .run();
            }
        }
        const double* from = phi_;
        for (const auto player : chunk_.players) {
            double* const to = values + at(player) * at(program_.n_outputs) + at(chunk_.output);
            for (std::size_t o = 0; o < n_outputs_; ++o, from += kSlot)
                to[o] += std::accumulate(from, from + kSlot, 0.0);
        }
    }

  private:
    std::size_t n_phi() const { return chunk_.players.size() * n_outputs_ * kSlot; }

    void find_states(const Tree& tree) const {
        const auto splits = tree.splits;
        states_.satisfied[0] = 1;  // read, and ignored, where no edge is above
        for (std::size_t i = 0; i < splits.size(); ++i) {
            const auto& split = splits[i];
            states_.left[i] = row_goes_left(program_, split, x_[split.feature]);
            const auto above = at(std::max(split.above, 0));
            const bool is_new = split.above < 0, was_left = states_.left[above / 2] != 0;
            states_.satisfied[i] = is_new | (states_.satisfied[above / 2] & (was_left != (above % 2 != 0)));
        }
    }

    const Program& program_;
    const Chunk& chunk_;
    std::size_t n_outputs_;
    Number* x_;
    double* phi_;
    double* slots_;
    RowStates states_;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
