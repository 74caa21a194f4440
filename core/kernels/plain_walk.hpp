// The walk of a block of rows through a tree as it is compiled, without any constants made for it: lanes are rows.
//
// The recurrence is that of one row (point_walk.hpp): the two edges of a split are one number δ. Splits are met
// depth-first. All rows take a step before the next one, so that what it needs to know is read once, and what is kept
// of each level, C and then G of both children, stays in a near cache. Points are summed up at every split.
//
// Nothing is carried down into a clean bottom: all of its players are new, so G is a polynomial in t there, and of C
// three sums are enough, Σ C, Σ t·C and Σ t²·C. All that a row does there is a byte, whose bits are its answers at the
// bottom's splits. Where a repeated player splits, what a row does is one of four outcomes, and factors are looked up.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "compile/program.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// What the rows of a block do at a split: which go left, and which satisfy their player's edges above.
struct SplitRows {
    std::uint64_t left, satisfied;
};

// Some quadrature points; those that are not there have no weight.
template <int K>
struct PlainPoints {
    std::array<double, K> t, square, absent, weight;

    PlainPoints(const Rule& rule, int first, int n_points) {
        t.fill(0.5);
        absent.fill(0.5);
        weight.fill(0.0);
        std::copy_n(rule.point.begin() + first, n_points, t.begin());
        std::copy_n(rule.absent.begin() + first, n_points, absent.begin());
        std::copy_n(rule.weight.begin() + first, n_points, weight.begin());
        std::transform(t.begin(), t.end(), square.begin(), [](double x) { return x * x; });
    }
};

// Calls a function whose template argument is a number of points, of which there is room for these: a walk for each
// number would take long to compile, and gain little where there are many.
template <class Function>
void with_plain_points(int n_points, const Function& function) {
    if (n_points <= 1) return function.template operator()<1>();
    if (n_points <= 2) return function.template operator()<2>();
    if (n_points <= 3) return function.template operator()<3>();
    if (n_points <= 4) return function.template operator()<4>();
    if (n_points <= 5) return function.template operator()<5>();
    n_points <= 6 ? function.template operator()<6>() : function.template operator()<8>();
}

// In registers or on the stack, where no store can change them.
template <std::size_t K>
LTS_INLINE std::array<Vec, K> broadcast_all(const std::array<double, K>& numbers) {
    std::array<Vec, K> out;
    for (std::size_t k = 0; k < K; ++k) out[k] = broadcast(numbers[k]);
    return out;
}

// Blocks of rows that walk together: the more, the less it matters what a step costs by itself; but what is kept of
// them should stay in a near cache.
inline constexpr int kPlainBlocks = 2;

// Where a walk takes its rows from, and puts what it finds.
struct PlainRows {
    const SplitRows* splits;  // [split of the tree][block]
    int n_blocks;
    int first, n_rows;   // of these blocks
    double* phi;         // [player][output][row of these blocks]
    std::size_t stride;  // of outputs, in doubles

    const SplitRows* at_split(std::int32_t split) const { return splits + at(split) * at(n_blocks); }
};

// A byte for each row: what it does at some splits.
class BlockStates {
  public:
    // Bit i: does the i-th split send it left? A leaf is none.
    template <std::size_t n>
    LTS_INLINE BlockStates(const PlainRows& rows, const std::array<std::int32_t, n>& splits) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            for (std::size_t i = 0; i < n; ++i)
                if (splits[i] >= 0) bytes.add(rows.at_split(splits[i])[b].left, static_cast<std::uint8_t>(1 << i));
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    // Which outcome it has at the split of a repeated player.
    LTS_INLINE BlockStates(const PlainRows& rows, std::int32_t split) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            bytes.add(rows.at_split(split)[b].left, kStateBit[0]);
            bytes.add(rows.at_split(split)[b].satisfied, kStateBit[1]);
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    const std::uint8_t* at_vector(int v) const { return state_.data() + first_ + v * kLanes; }

  private:
    int first_;
    alignas(64) std::array<std::uint8_t, kPlainBlocks * kBlockRows> state_;
};

// A split of a new player, as the rows meet it.
template <int K>
class MetNew {
  public:
    LTS_INLINE MetNew(const PlainPoints<K>& points, const Split& split, std::int32_t number, const PlainRows& rows)
        : t_(broadcast_all(points.t)),
          delta_(-split.ratio[0], split.ratio[1]),
          ratio_{broadcast(split.ratio[0]), broadcast(split.ratio[1])},
          states_(rows, std::array{number}) {}

    class Here {  // some rows
      public:
        LTS_INLINE Here(const MetNew& met, int v)
            : met_(met), delta_(met.delta_[answers_of<1>(met.states_.at_vector(v))]) {}
        LTS_INLINE Vec delta() const { return delta_; }
        // The factor of an edge.
        template <int kSide>
        LTS_INLINE Vec over(int k) const {
            return kSide == 0 ? fma(delta_, met_.t_[at(k)], met_.ratio_[0])
                              : fnma(delta_, met_.t_[at(k)], met_.ratio_[1]);
        }

      private:
        const MetNew& met_;
        Vec delta_;
    };
    // κ·x
    LTS_INLINE Vec by_kappa(Vec x, int) const { return x; }

  private:
    std::array<Vec, K> t_;
    Either<0> delta_;
    std::array<Vec, 2> ratio_;
    BlockStates states_;
};

// What a repeated player's split does to a row: unsatisfied above, it goes right or left; satisfied, right or left.
using Outcomes = std::array<double, 4>;

// A split of a repeated player. With u = t + (1-t)·c, τ = t/u and κ = c/u². As τ may be so near to 1 that 1 - τ has no
// digits left, that is computed as (1-t)·c/u.
template <int K>
class MetAgain {
  public:
    LTS_INLINE MetAgain(const PlainPoints<K>& points, const Split& split, std::int32_t number, const PlainRows& rows)
        : states_(rows, number) {
        const double left = split.ratio[0], right = split.ratio[1], c = split.absent_above;
        delta_ = {0.0, 0.0, -left, right};
        for (std::size_t k = 0; k < K; ++k) {
            const double per_u = 1.0 / (points.t[k] + points.absent[k] * c);
            const double tau = points.t[k] * per_u, rest = points.absent[k] * c * per_u;
            over[0][k] = {left, left, left * rest, tau + left * rest};
            over[1][k] = {right, right, tau + right * rest, right * rest};
            kappa_[k] = c * per_u * per_u;
        }
    }

    class Here {
      public:
        LTS_INLINE Here(const MetAgain& met, int v) : met_(met), index_(index_of(met.states_.at_vector(v))) {}
        LTS_INLINE Vec delta() const { return Table<4>(met_.delta_.data())[index_]; }
        template <int kSide>
        LTS_INLINE Vec over(int k) const {
            return among(met_.over[kSide][at(k)]);
        }
        LTS_INLINE Vec among(const Outcomes& outcomes) const { return Table<4>(outcomes.data())[index_]; }

      private:
        const MetAgain& met_;
        Index index_;
    };
    LTS_INLINE Vec by_kappa(Vec x, int k) const { return x * broadcast(kappa_[at(k)]); }

    alignas(32) std::array<Outcomes, K> over[2];  // the factors of both edges

  private:
    alignas(32) Outcomes delta_;
    std::array<double, K> kappa_;
    BlockStates states_;
};

template <int K>
class PlainWalk {
  public:
    // `values` are the leaves', n_outputs each; `stack` has room for stack_doubles(…), `path` for a number of every
    // level.
    PlainWalk(const Tree& tree, const PlainPoints<K>& points, const PlainRows& rows, const double* values,
              int n_outputs, double* stack, std::int32_t* path)
        : tree_(tree),
          p_(points),
          rows_(rows),
          values_(values),
          n_outputs_(n_outputs),
          n_vectors_((rows.n_rows + kLanes - 1) / kLanes),
          size_(at(n_vectors_) * kVector),
          stack_(stack),
          path_(path) {}

    static std::size_t stack_doubles(int n_levels, int n_outputs, int n_rows) {
        return at(n_levels + 1) * at(2 * n_outputs) * at((n_rows + kLanes - 1) / kLanes) * kVector;
    }

    void run() const {
        for (int v = 0; v < n_vectors_; ++v)
            for (int k = 0; k < K; ++k) store(c_at(-1, 0) + place(v, k), broadcast(p_.weight[at(k)]));
        std::int32_t level = 0;
        path_[0] = 0;
        for (;;) {
            // Down to a bottom...
            while (split_at(level).below == Below::anything) {
                const Split& split = split_at(level);
                descend(step_at(level), split);
                path_[++level] = split.child[split.child[0] >= 0 ? 0 : 1];
            }
            for (int output = 0; output < n_outputs_; ++output) bottom(step_at(level), split_at(level), output);
            // ...and up to a split that has a child left.
            for (;;) {
                if (level == 0) return;
                const Split& parent = split_at(--level);
                if (parent.child[1] >= 0 && path_[level + 1] != parent.child[1]) {
                    path_[++level] = parent.child[1];
                    break;
                }
                for (int output = 0; output < n_outputs_; ++output) close(step_at(level), parent, output);
            }
        }
    }

  private:
    // A split that is met.
    struct Step {
        std::int32_t split, level;
        int side;  // which child of its parent it is
    };

    static constexpr std::size_t kVector = std::size_t{K} * kLanes;  // doubles of a vector of rows

    static std::size_t place(int v, int k) { return at(v) * kVector + at(k * kLanes); }
    // Of every level, from the one above the root on: G of both children; and until the last output's is known, C in
    // its place.
    double* g_at(std::int32_t level, int side, int output) const {
        return stack_ + (at(level + 1) * at(2 * n_outputs_) + at(2 * output + side)) * size_;
    }
    double* c_at(std::int32_t level, int side) const { return g_at(level, side, n_outputs_ - 1); }
    double* c_of(const Step& step) const { return c_at(step.level - 1, step.side); }
    double* g_of(const Step& step, int output) const { return g_at(step.level - 1, step.side, output); }
    double value_of(std::int32_t child, int output) const { return values_[at(~child) * at(n_outputs_) + at(output)]; }
    double* phi_of(const Split& split, int output) const {
        return rows_.phi + at(split.player * n_outputs_ + output) * rows_.stride + at(rows_.first);
    }
    const Split& split_at(std::int32_t level) const { return tree_.splits[at(path_[level])]; }
    Step step_at(std::int32_t level) const {
        const bool is_right = level > 0 && split_at(level - 1).child[1] == path_[level];
        return {path_[level], level, is_right ? 1 : 0};
    }

    // A leaf passes for its own children.
    LTS_INLINE std::int32_t child_of(std::int32_t child, int side) const {
        return child < 0 ? child : tree_.splits[at(child)].child[side];
    }

    LTS_INLINE void descend(const Step& step, const Split& split) const {
        split.above >= 0 ? descend<MetAgain<K>>(step, split) : descend<MetNew<K>>(step, split);
    }
    template <class Met>
    LTS_INLINE void descend(const Step& step, const Split& split) const {
        if (split.child[0] < 0) return carry<Met, false, true>(step, split);
        split.child[1] < 0 ? carry<Met, true, false>(step, split) : carry<Met, true, true>(step, split);
    }

    // C, over the edges to children that are splits.
    template <class Met, bool kLeft, bool kRight>
    [[gnu::noinline]] void carry(const Step& step, const Split& split) const {
        const Met met(p_, split, step.split, rows_);
        const double* const c = c_of(step);
        double *const left = c_at(step.level, 0), *const right = c_at(step.level, 1);
        for (int v = 0; v < n_vectors_; ++v) {
            const typename Met::Here here(met, v);
            for (int k = 0; k < K; ++k) {
                const Vec above = load(c + place(v, k));
                if constexpr (kLeft) store(left + place(v, k), above * here.template over<0>(k));
                if constexpr (kRight) store(right + place(v, k), above * here.template over<1>(k));
            }
        }
    }

    LTS_INLINE void close(const Step& step, const Split& split, int output) const {
        split.above >= 0 ? close<MetAgain<K>>(step, split, output) : close<MetNew<K>>(step, split, output);
    }
    template <class Met>
    LTS_INLINE void close(const Step& step, const Split& split, int output) const {
        if (split.child[0] < 0) return collect<Met, true, false>(step, split, output);
        split.child[1] < 0 ? collect<Met, false, true>(step, split, output)
                           : collect<Met, false, false>(step, split, output);
    }

    template <class Met, bool kLeftLeaf, bool kRightLeaf>
    [[gnu::noinline]] void collect(const Step& step, const Split& split, int output) const {
        const Met met(p_, split, step.split, rows_);
        const Vec leaf_left = broadcast(kLeftLeaf ? value_of(split.child[0], output) : 0.0);
        const Vec leaf_right = broadcast(kRightLeaf ? value_of(split.child[1], output) : 0.0);
        const double *const c = c_of(step), *const g_left = g_at(step.level, 0, output),
                            *const g_right = g_at(step.level, 1, output);
        double *const g = g_of(step, output), *const phi = phi_of(split, output);
        for (int v = 0; v < n_vectors_; ++v) {
            const typename Met::Here here(met, v);
            Vec sum = broadcast(0.0);
            for (int k = 0; k < K; ++k) {
                const Vec left = kLeftLeaf ? leaf_left : load(g_left + place(v, k));
                const Vec right = kRightLeaf ? leaf_right : load(g_right + place(v, k));
                const Vec weight = met.by_kappa(load(c + place(v, k)), k);
                sum = k == 0 ? weight * (left - right) : fma(weight, left - right, sum);
                store(g + place(v, k), fma(here.template over<0>(k), left, here.template over<1>(k) * right));
            }
            add(phi, v, here.delta(), sum);
        }
    }

    // ---- bottoms ----------------------------------------------------------------------------------

    LTS_INLINE void bottom(const Step& step, const Split& split, int output) const {
        if (split.below == Below::three) return three(step, split, output);
        if (split.below == Below::two) return two(step, split, output);
        split.above >= 0 ? leaves_again(step, split, output) : leaves(step, output);
    }

    // Two leaves.
    [[gnu::noinline]] void leaves(const Step& step, int output) const {
        const BlockStates states(rows_, std::array{step.split});
        const Tip<0> tip(*this, step.split, output, nullptr);
        const double* const c = c_of(step);
        double* const g = g_of(step, output);
        const auto t = broadcast_all(p_.t);
        const Vec mean = broadcast(tip.mean);
        for (int v = 0; v < n_vectors_; ++v) {
            Vec sum = load(c + place(v, 0));
            for (int k = 1; k < K; ++k) sum = sum + load(c + place(v, k));
            const Vec slope = tip.slope[answers_of<1>(states.at_vector(v))];
            add(tip.phi, v, slope, sum);
            for (int k = 0; k < K; ++k) store(g + place(v, k), fma(slope, t[at(k)], mean));
        }
    }

    // Two leaves of a repeated player.
    [[gnu::noinline]] void leaves_again(const Step& step, const Split& split, int output) const {
        const MetAgain<K> met(p_, split, step.split, rows_);
        const double left = value_of(split.child[0], output), right = value_of(split.child[1], output);
        alignas(32) std::array<Outcomes, K> value;
        for (std::size_t k = 0; k < K; ++k)
            for (std::size_t o = 0; o < 4; ++o) value[k][o] = met.over[0][k][o] * left + met.over[1][k][o] * right;
        const Vec apart = broadcast(left - right);
        const double* const c = c_of(step);
        double *const g = g_of(step, output), *const phi = phi_of(split, output);
        for (int v = 0; v < n_vectors_; ++v) {
            const typename MetAgain<K>::Here here(met, v);
            Vec sum = met.by_kappa(load(c + place(v, 0)), 0);
            for (int k = 1; k < K; ++k) sum = sum + met.by_kappa(load(c + place(v, k)), k);
            add(phi, v, here.delta() * apart, sum);
            for (int k = 0; k < K; ++k) store(g + place(v, k), here.among(value[at(k)]));
        }
    }

    // A split of two leaves: G = mean + t·slope, and what its player gets is slope · Σ C. A leaf passes for a split
    // whose slope is zero, and gives that to whom it may.
    template <int kBit>
    struct Tip {
        double mean;
        double* phi;
        Either<kBit> slope;

        LTS_INLINE Tip(const PlainWalk& walk, std::int32_t child, int output, double* anybody)
            : phi(anybody), slope(0.0, 0.0) {
            if (child < 0) {
                mean = walk.value_of(child, output);
                return;
            }
            const Split& split = walk.tree_.splits[at(child)];
            const double left = walk.value_of(split.child[0], output), right = walk.value_of(split.child[1], output);
            mean = split.ratio[0] * left + split.ratio[1] * right;
            slope = Either<kBit>(-split.ratio[0] * (left - right), split.ratio[1] * (left - right));
            phi = walk.phi_of(split, output);
        }
    };

    // A split of two tips, in three bits: G = mean + t·slope + t²·curve. A leaf passes for one whose δ is zero.
    template <int kBit>
    struct Twig {
        double mean;
        Vec ratio[2] = {broadcast(0.0), broadcast(0.0)}, apart = broadcast(0.0);
        double* phi;
        Either<kBit> delta;
        Tip<kBit + 1> left;
        Tip<kBit + 2> right;

        LTS_INLINE Twig(const PlainWalk& walk, std::int32_t child, int output, double* anybody)
            : phi(anybody),
              delta(0.0, 0.0),
              left(walk, walk.child_of(child, 0), output, anybody),
              right(walk, walk.child_of(child, 1), output, anybody) {
            if (child < 0) {
                mean = left.mean;
                return;
            }
            const Split& split = walk.tree_.splits[at(child)];
            mean = split.ratio[0] * left.mean + split.ratio[1] * right.mean;
            for (int side = 0; side < 2; ++side) ratio[side] = broadcast(split.ratio[side]);
            apart = broadcast(left.mean - right.mean);
            phi = walk.phi_of(split, output);
            delta = Either<kBit>(-split.ratio[0], split.ratio[1]);
        }

        // Gives three players their due, from Σ C and Σ t·C; returns slope and curve.
        LTS_INLINE std::array<Vec, 2> operator()(const Answers& answers, int v, Vec sum, Vec sum_t) const {
            const Vec here = delta[answers], slope_left = left.slope[answers], slope_right = right.slope[answers];
            const Vec bend = slope_left - slope_right;
            add(phi, v, here, fma(bend, sum_t, apart * sum));
            add(left.phi, v, slope_left, fma(here, sum_t, ratio[0] * sum));
            add(right.phi, v, slope_right, fnma(here, sum_t, ratio[1] * sum));
            return {fma(ratio[0], slope_left, fma(ratio[1], slope_right, here * apart)), here * bend};
        }
    };

    [[gnu::noinline]] void two(const Step& step, const Split& split, int output) const {
        const BlockStates states(rows_, std::array{step.split, split.child[0], split.child[1]});
        const Twig<0> twig(*this, step.split, output, phi_of(split, output));
        const double* const c = c_of(step);
        double* const g = g_of(step, output);
        const auto t = broadcast_all(p_.t);
        const Vec mean = broadcast(twig.mean);
        for (int v = 0; v < n_vectors_; ++v) {
            Vec sum = load(c + place(v, 0)), sum_t = sum * t[0];
            for (int k = 1; k < K; ++k) {
                const Vec here = load(c + place(v, k));
                sum = sum + here;
                sum_t = fma(here, t[at(k)], sum_t);
            }
            const auto [slope, curve] = twig(answers_of<3>(states.at_vector(v)), v, sum, sum_t);
            for (int k = 0; k < K; ++k) store(g + place(v, k), fma(t[at(k)], fma(t[at(k)], curve, slope), mean));
        }
    }

    [[gnu::noinline]] void three(const Step& step, const Split& split, int output) const {
        double* const phi = phi_of(split, output);
        const auto [left_child, right_child] = split.child;
        const BlockStates states(
            rows_, std::array{step.split, left_child, child_of(left_child, 0), child_of(left_child, 1), right_child,
                              child_of(right_child, 0), child_of(right_child, 1)});
        const Twig<1> left(*this, left_child, output, phi);
        const Twig<4> right(*this, right_child, output, phi);
        const Either<0> delta(-split.ratio[0], split.ratio[1]);
        const Vec mean = broadcast(split.ratio[0] * left.mean + split.ratio[1] * right.mean);
        const Vec apart = broadcast(left.mean - right.mean);
        const Vec w_left = broadcast(split.ratio[0]), w_right = broadcast(split.ratio[1]);
        const double* const c = c_of(step);
        double* const g = g_of(step, output);
        const auto t = broadcast_all(p_.t), square = broadcast_all(p_.square);
        for (int v = 0; v < n_vectors_; ++v) {
            const Vec first = load(c + place(v, 0));
            Vec sum = first, sum_t = first * t[0], sum_tt = first * square[0];
            for (int k = 1; k < K; ++k) {
                const Vec here = load(c + place(v, k));
                sum = sum + here;
                sum_t = fma(here, t[at(k)], sum_t);
                sum_tt = fma(here, square[at(k)], sum_tt);
            }
            const Answers at_vector = answers_of<7>(states.at_vector(v));
            const Vec here = delta[at_vector];
            const auto [slope_left, curve_left] =
                left(at_vector, v, fma(here, sum_t, w_left * sum), fma(here, sum_tt, w_left * sum_t));
            const auto [slope_right, curve_right] =
                right(at_vector, v, fnma(here, sum_t, w_right * sum), fnma(here, sum_tt, w_right * sum_t));
            const Vec bend = slope_left - slope_right, twist = curve_left - curve_right;
            add(phi, v, here, fma(twist, sum_tt, fma(bend, sum_t, apart * sum)));
            const Vec slope = fma(w_left, slope_left, fma(w_right, slope_right, here * apart));
            const Vec curve = fma(w_left, curve_left, fma(w_right, curve_right, here * bend));
            const Vec third = here * twist;
            for (int k = 0; k < K; ++k)
                store(g + place(v, k), fma(t[at(k)], fma(t[at(k)], fma(t[at(k)], third, curve), slope), mean));
        }
    }

    // φ += a·b
    LTS_INLINE static void add(double* phi, int v, Vec a, Vec b) {
        store(phi + v * kLanes, fma(a, b, load(phi + v * kLanes)));
    }

    const Tree& tree_;
    const PlainPoints<K>& p_;
    PlainRows rows_;
    const double* values_;
    int n_outputs_;
    int n_vectors_;
    std::size_t size_;
    double* stack_;
    std::int32_t* path_;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
