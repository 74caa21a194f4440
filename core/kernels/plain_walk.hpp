// The walk of some rows through a tree as it is compiled, without any constants made for it: lanes are rows.
//
// The recurrence is that of one row (point_walk.hpp): the two edges of a split are one number δ. Splits are met
// depth-first, so that what is kept of each level, C and the G of both children, stays in the nearest cache; and the
// points are summed up at every split. Nothing is carried down into a clean bottom: of C, two sums are enough there.
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

// Some quadrature points.
template <int K>
struct PlainPoints {
    std::array<double, K> t, absent, weight;

    PlainPoints(const Rule& rule, int first) {
        std::copy_n(rule.point.begin() + first, K, t.begin());
        std::copy_n(rule.absent.begin() + first, K, absent.begin());
        std::copy_n(rule.weight.begin() + first, K, weight.begin());
    }
};

// τ, 1 - τ and κ of a repeated player at these points; τ of a new one is t.
template <int K>
struct RepeatedPoints {
    std::array<double, K> tau, rest, kappa;

    LTS_INLINE RepeatedPoints(const PlainPoints<K>& points, double c) {
        for (std::size_t k = 0; k < K; ++k) {
            const double per_u = 1.0 / (points.t[k] + points.absent[k] * c);
            tau[k] = points.t[k] * per_u;
            rest[k] = points.absent[k] * c * per_u;
            kappa[k] = c * per_u * per_u;
        }
    }
};

// A split as the rows of one vector meet it.
template <int K>
struct MetNew {
    const PlainPoints<K>& points;
    Vec w[2], delta;

    LTS_INLINE MetNew(const PlainPoints<K>& at_points, const Split& split, const SplitRows& rows)
        : points(at_points), w{broadcast(split.ratio[0]), broadcast(split.ratio[1])} {
        delta = select(mask_of(rows.left), w[1], broadcast(-split.ratio[0]));
    }
    // The factor of an edge.
    template <int kSide>
    LTS_INLINE Vec over(int k) const {
        const Vec t = broadcast(points.t[at(k)]);
        return kSide == 0 ? fma(delta, t, w[0]) : fnma(delta, t, w[1]);
    }
    // κ·x
    LTS_INLINE Vec by_kappa(Vec x, int) const { return x; }
};

template <int K>
struct MetAgain {
    const RepeatedPoints<K>& points;
    Vec w[2], delta;
    Vec to[2];  // 1 where the row goes, if it is satisfied above
    Mask satisfied;

    LTS_INLINE MetAgain(const RepeatedPoints<K>& at_points, const Split& split, const SplitRows& rows)
        : points(at_points),
          w{broadcast(split.ratio[0]), broadcast(split.ratio[1])},
          satisfied(mask_of(rows.satisfied)) {
        delta = where(satisfied, select(mask_of(rows.left), w[1], broadcast(-split.ratio[0])));
        to[0] = where(mask_of(rows.satisfied & rows.left), broadcast(1.0));
        to[1] = where(mask_of(rows.satisfied & ~rows.left), broadcast(1.0));
    }
    template <int kSide>
    LTS_INLINE Vec over(int k) const {
        const Vec rest = select(satisfied, broadcast(points.rest[at(k)]), broadcast(1.0));
        return fma(to[kSide], broadcast(points.tau[at(k)]), w[kSide] * rest);
    }
    LTS_INLINE Vec by_kappa(Vec x, int k) const { return x * broadcast(points.kappa[at(k)]); }
};

template <int K>
class PlainWalk {
  public:
    static constexpr std::size_t kVector = std::size_t{K} * kLanes;  // doubles of a vector of rows

    // Walks n_rows of a block from first_row on. `values` are the leaves' of one output, `stride` apart; φ is the
    // block's, of every player, `player_doubles` apart; `stack` has room for stack_doubles(…), `path` for a number of
    // every level.
    PlainWalk(const Tree& tree, const PlainPoints<K>& points, const SplitRows* rows, int first_row, int n_rows,
              const double* values, std::size_t stride, double* phi, std::size_t player_doubles, double* stack,
              std::int32_t* path)
        : tree_(tree),
          p_(points),
          rows_(rows),
          first_row_(first_row),
          n_vectors_((n_rows + kLanes - 1) / kLanes),
          size_(at(n_vectors_) * kVector),
          values_(values),
          stride_(stride),
          phi_(phi),
          player_doubles_(player_doubles),
          stack_(stack),
          path_(path) {}

    static std::size_t stack_doubles(std::size_t n_levels, int n_rows) {
        return 3 * (n_levels + 1) * at((n_rows + kLanes - 1) / kLanes) * kVector;
    }

    void run() const {
        for (int v = 0; v < n_vectors_; ++v)
            for (int k = 0; k < K; ++k) store(c_at(0) + place(v, k), broadcast(p_.weight[at(k)]));
        int level = 0;
        path_[0] = 0;
        for (;;) {
            // Down to a bottom...
            for (;;) {
                const Split& split = split_at(level);
                if (split.below != Below::anything) break;
                const int side = split.child[0] >= 0 ? 0 : 1;
                descend(level, side);
                path_[++level] = split.child[side];
            }
            bottom(level);
            // ...and up to one that has a child left.
            for (;;) {
                if (level == 0) return;
                const Split& parent = split_at(level - 1);
                if (parent.child[1] >= 0 && path_[level] != parent.child[1]) {
                    descend(level - 1, 1);
                    path_[level] = parent.child[1];
                    break;
                }
                close(--level);
            }
        }
    }

  private:
    const Split& split_at(int level) const { return tree_.splits[at(path_[level])]; }
    // Which child of its parent the split of a level is.
    int side_of(int level) const { return level > 0 && split_at(level - 1).child[1] == path_[level] ? 1 : 0; }
    static std::size_t place(int v, int k) { return at(v) * kVector + at(k * kLanes); }
    double* c_at(int level) const { return stack_ + 3 * at(level) * size_; }
    // G of a child of the split of a level.
    double* g_at(int level, int side) const { return c_at(level) + at(1 + side) * size_; }
    // Where G of the split of a level goes: that of the root is not needed.
    double* g_of(int level) const { return level > 0 ? g_at(level - 1, side_of(level)) : c_at(0); }
    double value_of(std::int32_t child) const { return values_[at(~child) * stride_]; }
    double* phi_of(const Split& split) const { return phi_ + at(split.player) * player_doubles_ + first_row_; }

    template <class Function>
    LTS_INLINE void with_kind(int level, const Function& function) const {
        split_at(level).above >= 0 ? function.template operator()<true>() : function.template operator()<false>();
    }
    SplitRows rows_of(std::int32_t split) const {
        return {rows_[split].left >> first_row_, rows_[split].satisfied >> first_row_};
    }
    // Calls a function for every vector of rows, with its number and the split as they meet it.
    template <bool kRepeated, class Function>
    LTS_INLINE void each(int level, const Function& function) const {
        const Split& split = split_at(level);
        SplitRows rows = rows_of(path_[level]);
        const auto meet = [&]<class Met>(const auto& points) LTS_INLINED {
            for (int v = 0; v < n_vectors_; ++v, rows.left >>= kLanes, rows.satisfied >>= kLanes)
                function(v, Met(points, split, rows));
        };
        if constexpr (kRepeated)
            meet.template operator()<MetAgain<K>>(RepeatedPoints<K>(p_, split.absent_above));
        else
            meet.template operator()<MetNew<K>>(p_);
    }

    LTS_INLINE void descend(int level, int side) const {
        with_kind(level, [&]<bool kRepeated>()
                             LTS_INLINED { side == 0 ? down<kRepeated, 0>(level) : down<kRepeated, 1>(level); });
    }
    LTS_INLINE void close(int level) const {
        const Split& split = split_at(level);
        with_kind(level, [&]<bool kRepeated>() LTS_INLINED {
            if (split.child[0] < 0) return up<kRepeated, true, false>(level);
            split.child[1] < 0 ? up<kRepeated, false, true>(level) : up<kRepeated, false, false>(level);
        });
    }

    template <bool kRepeated, int kSide>
    [[gnu::noinline]] void down(int level) const {
        const double* const c = c_at(level);
        double* const to = c_at(level + 1);
        each<kRepeated>(level, [&](int v, const auto& met) LTS_INLINED {
            for (int k = 0; k < K; ++k) store(to + place(v, k), load(c + place(v, k)) * met.template over<kSide>(k));
        });
    }

    template <bool kRepeated, bool kLeftLeaf, bool kRightLeaf>
    [[gnu::noinline]] void up(int level) const {
        const Split& split = split_at(level);
        const double *const c = c_at(level), *const g_left = g_at(level, 0), *const g_right = g_at(level, 1);
        double *const g = g_of(level), *const phi = phi_of(split);
        each<kRepeated>(level, [&](int v, const auto& met) LTS_INLINED {
            Vec sum = broadcast(0.0);
            for (int k = 0; k < K; ++k) {
                const Vec left = kLeftLeaf ? broadcast(value_of(split.child[0])) : load(g_left + place(v, k));
                const Vec right = kRightLeaf ? broadcast(value_of(split.child[1])) : load(g_right + place(v, k));
                sum = fma(met.by_kappa(load(c + place(v, k)), k), left - right, sum);
                store(g + place(v, k), fma(met.template over<0>(k), left, met.template over<1>(k) * right));
            }
            add(phi, v, met.delta, sum);
        });
    }

    LTS_INLINE void bottom(int level) const {
        const Split& split = split_at(level);
        if (split.below == Below::leaves)
            return with_kind(level, [&]<bool kRepeated>() LTS_INLINED { pair<kRepeated>(level); });
        if (split.child[0] < 0) return clean<true, false>(level);
        split.child[1] < 0 ? clean<false, true>(level) : clean<false, false>(level);
    }

    // Two leaves.
    template <bool kRepeated>
    [[gnu::noinline]] void pair(int level) const {
        const Split& split = split_at(level);
        const Vec left = broadcast(value_of(split.child[0])), right = broadcast(value_of(split.child[1]));
        const double* const c = c_at(level);
        double *const g = g_of(level), *const phi = phi_of(split);
        each<kRepeated>(level, [&](int v, const auto& met) LTS_INLINED {
            Vec sum = broadcast(0.0);
            for (int k = 0; k < K; ++k) {
                sum = sum + met.by_kappa(load(c + place(v, k)), k);
                store(g + place(v, k), fma(met.template over<0>(k), left, met.template over<1>(k) * right));
            }
            add(phi, v, met.delta * (left - right), sum);
        });
    }

    // A child in a clean bottom: G = mean + t·slope, and what its player gets is slope · Σ C.
    template <bool kLeaf>
    struct CleanChild {
        Vec mean;
        std::array<Vec, 2> slopes;  // of rows that go right and left
        std::uint64_t left = 0;
        double* phi = nullptr;

        LTS_INLINE CleanChild(const PlainWalk& walk, std::int32_t child) {
            if constexpr (kLeaf) {
                mean = broadcast(walk.value_of(child));
            } else {
                const Split& split = walk.tree_.splits[at(child)];
                const double value[2] = {walk.value_of(split.child[0]), walk.value_of(split.child[1])};
                mean = broadcast(split.ratio[0] * value[0] + split.ratio[1] * value[1]);
                slopes = {broadcast(split.ratio[0] * (value[1] - value[0])),
                          broadcast(split.ratio[1] * (value[0] - value[1]))};
                left = walk.rows_of(child).left;
                phi = walk.phi_of(split);
            }
        }
        LTS_INLINE Vec slope(int v) const {
            if constexpr (kLeaf)
                return broadcast(0.0);
            else
                return select(mask_of(left >> (v * kLanes)), slopes[1], slopes[0]);
        }
        LTS_INLINE void give(int v, Vec slope, Vec sum) const {
            if constexpr (!kLeaf) add(phi, v, slope, sum);
        }
    };

    // Σ C and Σ t·C are all that players here need of C, and G is a polynomial in t.
    template <bool kLeftLeaf, bool kRightLeaf>
    [[gnu::noinline]] void clean(int level) const {
        const Split& split = split_at(level);
        const CleanChild<kLeftLeaf> left(*this, split.child[0]);
        const CleanChild<kRightLeaf> right(*this, split.child[1]);
        const Vec difference = left.mean - right.mean;
        const Vec mean = fma(broadcast(split.ratio[0]), left.mean, broadcast(split.ratio[1]) * right.mean);
        const double* const c = c_at(level);
        double *const g = g_of(level), *const phi = phi_of(split);
        each<false>(level, [&](int v, const auto& met) LTS_INLINED {
            Vec sum = broadcast(0.0), sum_t = broadcast(0.0);
            for (int k = 0; k < K; ++k) {
                const Vec here = load(c + place(v, k));
                sum = sum + here;
                sum_t = fma(here, broadcast(p_.t[at(k)]), sum_t);
            }
            const Vec slope_left = left.slope(v), slope_right = right.slope(v), bend = slope_left - slope_right;
            left.give(v, slope_left, fma(met.delta, sum_t, met.w[0] * sum));
            right.give(v, slope_right, fnma(met.delta, sum_t, met.w[1] * sum));
            add(phi, v, met.delta, fma(bend, sum_t, difference * sum));
            const Vec slope = fma(met.w[0], slope_left, fma(met.w[1], slope_right, met.delta * difference));
            const Vec curve = met.delta * bend;
            for (int k = 0; k < K; ++k) {
                const Vec t = broadcast(p_.t[at(k)]);
                store(g + place(v, k), fma(t, fma(t, curve, slope), mean));
            }
        });
    }

    // φ += a·b
    LTS_INLINE static void add(double* phi, int v, Vec a, Vec b) {
        store(phi + v * kLanes, fma(a, b, load(phi + v * kLanes)));
    }

    const Tree& tree_;
    const PlainPoints<K>& p_;
    const SplitRows* rows_;
    int first_row_;
    int n_vectors_;
    std::size_t size_;
    const double* values_;
    std::size_t stride_;
    double* phi_;
    std::size_t player_doubles_;
    double* stack_;
    std::int32_t* path_;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
