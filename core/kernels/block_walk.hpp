// The walk of a block of rows through a tree as it is compiled: lanes are rows.
//
// The recurrence is that of one row (point_walk.hpp), with one product less. Of the two sides of a split, fewer
// training rows took the rare one. With w its cover ratio, let δ be 1 - w where a row goes there, -w where it does not,
// and 0 where its player is already unsatisfied above, and f = w + τ·δ. Then
//
//   over an edge   C_rare = C · f     C_common = C - C_rare
//   at a split     G = G_common + f · (G_rare - G_common)     φ += δ · Σ κ · C · (G_rare - G_common)
//
// No digit is lost in these differences: 1 - f is at least (1-t)/2. The other way round, f = w of a leaf that few rows
// reached would be what is left of 1, and its value may be as large as f is small.
//
// Splits are met depth-first, in steps that have been planned (compile/steps.hpp). All rows take a step before the next
// one, so that what it needs to know is read once, and what is kept of each level, C and then G of both children, stays
// in a near cache. Points are summed up at every split.
//
// Nothing is carried down into a clean bottom: all of its players are new, so G is a polynomial in t there, and of C
// three sums are enough, Σ C, Σ t·C and Σ t²·C. All that a row does there is a byte, whose bits are its answers at the
// bottom's splits. A bottom takes C over the edge to it by itself and, if its sibling is known, closes the split above
// it, so that most splits near the leaves need no step of their own. Where a repeated player splits, what a row does is
// one of four outcomes, and factors are looked up.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "compile/bottoms.hpp"
#include "compile/program.hpp"
#include "compile/steps.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Some quadrature points; those that are not there have no weight.
template <int K>
struct BlockPoints {
    std::array<double, K> t, square, absent, weight;

    BlockPoints(const Rule& rule, int first, int n_points) {
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
void with_block_points(int n_points, const Function& function) {
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
inline constexpr int kWalkBlocks = 2;

// Where a walk takes its rows from, and puts what it finds.
struct BlockRows {
    const std::uint64_t* words;  // [condition of the chunk][block]: which rows go left
    const std::uint64_t*
        satisfied;  // [split of the tree][block]: which satisfy their player's edges above, if repeated
    int n_blocks;
    int first, n_rows;   // of these blocks
    double* phi;         // [player][output][row of these blocks]
    std::size_t stride;  // of outputs, in doubles

    // Which rows of a block go to the rare side of a split that asks this.
    LTS_INLINE std::uint64_t to_rare(std::int32_t asks, int block) const {
        const auto number = static_cast<std::uint32_t>(asks);
        return words[std::size_t{number >> 1} * at(n_blocks) + at(block)] ^ -std::uint64_t{number & 1};
    }
};

// A byte for each row: what it does at some splits.
class BlockStates {
  public:
    // Bit i: does the i-th split send it to its rare side?
    template <std::size_t n>
    LTS_INLINE BlockStates(const BlockRows& rows, const std::array<std::int32_t, n>& asks) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            for (std::size_t i = 0; i < n; ++i) bytes.add(rows.to_rare(asks[i], b), static_cast<std::uint8_t>(1 << i));
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    // Which outcome it has at the split of a repeated player.
    LTS_INLINE BlockStates(const BlockRows& rows, std::int32_t number, std::int32_t asks) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            bytes.add(rows.to_rare(asks, b), kStateBit[0]);
            bytes.add(rows.satisfied[at(number) * at(rows.n_blocks) + at(b)], kStateBit[1]);
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    const std::uint8_t* at_vector(int v) const { return state_.data() + first_ + v * kLanes; }

  private:
    int first_;
    alignas(64) std::array<std::uint8_t, kWalkBlocks * kBlockRows> state_;
};

// δ and f of a split of a new player, whose answer is a bit.
template <int K, int kBit>
class New {
  public:
    LTS_INLINE New(const BlockPoints<K>& points, const Split& split)
        : t_(broadcast_all(points.t)),
          ratio_(broadcast(split.ratio_at(0))),
          delta_(-split.ratio_at(0), split.ratio_at(1)) {}

    LTS_INLINE Vec delta(const Answers& answers) const { return delta_[answers]; }
    LTS_INLINE Vec over_rare(Vec delta, int k) const { return fma(delta, t_[at(k)], ratio_); }

  private:
    std::array<Vec, K> t_;
    Vec ratio_;
    Either<kBit> delta_;
};

// A split of a new player, as the rows meet it.
template <int K>
class MetNew {
  public:
    LTS_INLINE MetNew(const BlockPoints<K>& points, const Split& split, std::int32_t, const BlockRows& rows)
        : split_(points, split), states_(rows, std::array{split.asks}) {}

    class Here {  // some rows
      public:
        LTS_INLINE Here(const MetNew& met, int v)
            : met_(met), delta_(met.split_.delta(answers_of<1>(met.states_.at_vector(v)))) {}
        LTS_INLINE Vec delta() const { return delta_; }
        LTS_INLINE Vec to_rare(Vec c, int k) const { return c * over(k); }
        LTS_INLINE Vec to_common(Vec c, int k) const { return fnma(c, over(k), c); }
        LTS_INLINE Vec together(Vec rare, Vec common, int k) const { return fma(over(k), rare - common, common); }
        // κ·x
        LTS_INLINE Vec by_kappa(Vec x, int) const { return x; }

      private:
        LTS_INLINE Vec over(int k) const { return met_.split_.over_rare(delta_, k); }

        const MetNew& met_;
        Vec delta_;
    };

  private:
    New<K, 0> split_;
    BlockStates states_;
};

// What a repeated player's split does to a row: unsatisfied above, it goes to the common or to the rare side;
// satisfied, to either.
using Outcomes = std::array<double, 4>;

// A split of a repeated player. With u = t + (1-t)·c, τ = t/u and κ = c/u². As τ may be so near to 1 that 1 - τ has no
// digits left, that is computed as (1-t)·c/u, and both edges have factors of their own.
template <int K>
class MetAgain {
  public:
    LTS_INLINE MetAgain(const BlockPoints<K>& points, const Split& split, std::int32_t number, const BlockRows& rows)
        : states_(rows, number, split.asks) {
        const double rare = split.ratio_at(0), common = split.ratio_at(1), c = split.absent_above;
        delta_ = {0.0, 0.0, -rare, common};
        for (std::size_t k = 0; k < K; ++k) {
            const double per_u = 1.0 / (points.t[k] + points.absent[k] * c);
            const double tau = points.t[k] * per_u, rest = points.absent[k] * c * per_u;
            over_rare[k] = {rare, rare, rare * rest, tau + rare * rest};
            over_common[k] = {common, common, tau + common * rest, common * rest};
            kappa_[k] = c * per_u * per_u;
        }
    }

    class Here {
      public:
        LTS_INLINE Here(const MetAgain& met, int v) : met_(met), index_(index_of(met.states_.at_vector(v))) {}
        LTS_INLINE Vec delta() const { return among(met_.delta_); }
        LTS_INLINE Vec to_rare(Vec c, int k) const { return c * among(met_.over_rare[at(k)]); }
        LTS_INLINE Vec to_common(Vec c, int k) const { return c * among(met_.over_common[at(k)]); }
        LTS_INLINE Vec together(Vec rare, Vec common, int k) const {
            return fma(among(met_.over_rare[at(k)]), rare, among(met_.over_common[at(k)]) * common);
        }
        LTS_INLINE Vec by_kappa(Vec x, int k) const { return x * broadcast(met_.kappa_[at(k)]); }
        LTS_INLINE Vec among(const Outcomes& outcomes) const { return Table(outcomes.data())[index_]; }

      private:
        const MetAgain& met_;
        Index index_;
    };

    alignas(32) std::array<Outcomes, K> over_rare, over_common;  // factors of both edges

  private:
    alignas(32) Outcomes delta_;
    std::array<double, K> kappa_;
    BlockStates states_;
};

template <int K>
class BlockWalk {
  public:
    // `stack` has room for stack_doubles(…).
    BlockWalk(const Chunk& chunk, const Tree& tree, const BlockPoints<K>& points, const BlockRows& rows, double* stack)
        : tree_(tree),
          p_(points),
          rows_(rows),
          values_(chunk.values_of(tree, 0)),
          numbers_(chunk.bottom_number.data() + tree.first_number),
          n_outputs_(chunk.n_outputs),
          n_vectors_((rows.n_rows + kLanes - 1) / kLanes),
          size_(at(n_vectors_) * kVector),
          stack_(stack) {}

    static std::size_t stack_doubles(int n_levels, int n_outputs, int n_rows) {
        return at(n_levels + 1) * at(2 * n_outputs) * at((n_rows + kLanes - 1) / kLanes) * kVector;
    }

    void run() const {
        for (int v = 0; v < n_vectors_; ++v)
            for (int k = 0; k < K; ++k) store(c_at(-1, 0) + place(v, k), broadcast(p_.weight[at(k)]));
        for (const auto& step : tree_.steps) (this->*kActions[step.op])(step);
    }

  private:
    using AtPoints = std::array<Vec, K>;
    using Action = void (BlockWalk::*)(const Step&) const;

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
    double* phi_of(std::int32_t player, int output) const {
        return rows_.phi + at(player * n_outputs_ + output) * rows_.stride + at(rows_.first);
    }
    const Split& split_of(const Step& step) const { return tree_.splits[at(step.split)]; }

    // φ += a·b
    LTS_INLINE static void add(double* phi, int v, Vec a, Vec b) {
        store(phi + v * kLanes, fma(a, b, load(phi + v * kLanes)));
    }
    LTS_INLINE static AtPoints load_points(const double* from, int v) {
        AtPoints out;
        for (int k = 0; k < K; ++k) out[at(k)] = load(from + place(v, k));
        return out;
    }
    LTS_INLINE static void store_points(double* to, int v, const AtPoints& points) {
        for (int k = 0; k < K; ++k) store(to + place(v, k), points[at(k)]);
    }

    // ---- splits -----------------------------------------------------------------------------------

    // C, over the edges to children that have steps of their own.
    template <class Met, Sides kSides>
    void carry(const Step& step) const {
        const Met met(p_, split_of(step), step.split, rows_);
        const double* const from = c_of(step);
        double *const rare = c_at(step.level, 0), *const common = c_at(step.level, 1);
        for (int v = 0; v < n_vectors_; ++v) {
            const typename Met::Here here(met, v);
            for (int k = 0; k < K; ++k) {
                const Vec c = load(from + place(v, k));
                if constexpr (kSides != Sides::common) store(rare + place(v, k), here.to_rare(c, k));
                if constexpr (kSides != Sides::rare) store(common + place(v, k), here.to_common(c, k));
            }
        }
    }

    // G, from that of both children.
    template <class Met, Leaf kLeaf>
    void close(const Step& step) const {
        const Split& split = split_of(step);
        const Met met(p_, split, step.split, rows_);
        const double* const c = c_of(step);
        for (int output = 0; output < n_outputs_; ++output) {
            const Vec leaf =
                broadcast(kLeaf == Leaf::none ? 0.0 : value_of(split.child_at(kLeaf == Leaf::rare ? 0 : 1), output));
            const double *const g_rare = g_at(step.level, 0, output), *const g_common = g_at(step.level, 1, output);
            double *const g = g_of(step, output), *const phi = phi_of(split.player, output);
            for (int v = 0; v < n_vectors_; ++v) {
                const typename Met::Here here(met, v);
                Vec sum = broadcast(0.0);
                for (int k = 0; k < K; ++k) {
                    const Vec rare = kLeaf == Leaf::rare ? leaf : load(g_rare + place(v, k));
                    const Vec common = kLeaf == Leaf::common ? leaf : load(g_common + place(v, k));
                    const Vec weight = here.by_kappa(load(c + place(v, k)), k);
                    sum = k == 0 ? weight * (rare - common) : fma(weight, rare - common, sum);
                    store(g + place(v, k), here.together(rare, common, k));
                }
                add(phi, v, here.delta(), sum);
            }
        }
    }

    // ---- bottoms ----------------------------------------------------------------------------------
    //
    // Each turns C of some rows into G, and gives its players their due.

    // A bottom whose C is at hand.
    template <class Bottom>
    void alone(const Step& step) const {
        const double* const c = c_of(step);
        for (int output = 0; output < n_outputs_; ++output) {
            const Bottom bottom(*this, step, output);
            const BlockStates states(rows_, bottom.asks);
            double* const g = g_of(step, output);
            for (int v = 0; v < n_vectors_; ++v) {
                AtPoints points = load_points(c, v);
                bottom(points, v, answers_of<Bottom::kBits>(states.at_vector(v)));
                store_points(g, v, points);
            }
        }
    }

    // A bottom below a split of a new player, whose C is at hand.
    template <class Bottom, Place kPlace>
    void below(const Step& step) const {
        constexpr int kBits = Bottom::kBits;
        constexpr bool is_rare = kPlace < Place::common_closing, is_closing = kPlace != Place::rare_first;
        constexpr bool is_beside_leaf = kPlace == Place::rare_beside_leaf || kPlace == Place::common_beside_leaf;
        const Split& split = split_of(step);
        const New<K, kBits> edge(p_, split);
        const double* const c = c_of(step);
        for (int output = 0; output < n_outputs_; ++output) {
            const Bottom bottom(*this, step, output);
            std::array<std::int32_t, kBits + 1> asks;
            std::copy_n(bottom.asks.begin(), kBits, asks.begin());
            asks[kBits] = split.asks;
            const BlockStates states(rows_, asks);
            const Vec leaf = broadcast(is_beside_leaf ? value_of(split.child_at(is_rare ? 1 : 0), output) : 0.0);
            const double* const sibling = g_at(step.level, is_rare ? 1 : 0, output);
            double* const g = is_closing ? g_of(step, output) : g_at(step.level, 0, output);
            double* const phi = phi_of(split.player, output);
            for (int v = 0; v < n_vectors_; ++v) {
                const Answers answers = answers_of<kBits + 1>(states.at_vector(v));
                const Vec delta = edge.delta(answers);
                AtPoints points = load_points(c, v);
                for (int k = 0; k < K; ++k) {
                    const Vec over = edge.over_rare(delta, k);
                    points[at(k)] = is_rare ? points[at(k)] * over : fnma(points[at(k)], over, points[at(k)]);
                }
                bottom(points, v, answers);
                if constexpr (is_closing) {
                    Vec sum = broadcast(0.0);
                    for (int k = 0; k < K; ++k) {
                        const Vec other = is_beside_leaf ? leaf : load(sibling + place(v, k));
                        const Vec rare = is_rare ? points[at(k)] : other, common = is_rare ? other : points[at(k)];
                        const Vec weight = load(c + place(v, k));
                        sum = k == 0 ? weight * (rare - common) : fma(weight, rare - common, sum);
                        points[at(k)] = fma(edge.over_rare(delta, k), rare - common, common);
                    }
                    add(phi, v, delta, sum);
                }
                store_points(g, v, points);
            }
        }
    }

    // What is known of a clean bottom (compile/bottoms.hpp). Numbers of leaves with several outputs would be most of a
    // model, and are found when they are needed.
    struct Record {
        const Asked* asked;
        const double* number;
        double* phi;  // of the first player
        std::size_t stride;
        std::array<double, numbers_of(Bottom::three)> made;

        LTS_INLINE Record(const BlockWalk& walk, const Step& step, Bottom bottom, int output)
            : asked(&walk.tree_.asked[at(step.bottom)]),
              number(walk.numbers_ + step.numbers),
              phi(walk.phi_of(0, output)),
              stride(at(walk.n_outputs_) * walk.rows_.stride) {
            if (walk.n_outputs_ == 1) return;
            CleanBottom(walk.tree_.splits, root_of(step.op, step.split, walk.split_of(step)), bottom)
                .number([&](std::int32_t leaf) { return walk.value_of(~leaf, output); }, made.data());
            number = made.data();
        }

        LTS_INLINE double* phi_of(int i) const { return phi + at(asked[i].player) * stride; }
        template <int n>
        LTS_INLINE std::array<std::int32_t, n> asks() const {
            std::array<std::int32_t, n> out;
            for (int i = 0; i < n; ++i) out[at(i)] = asked[i].asks;
            return out;
        }
    };

    // A split of two leaves: G = mean + t·slope, and what its player gets is slope · Σ C.
    template <int kBit>
    struct Tip {
        double* phi;
        Either<kBit> slope;

        LTS_INLINE Tip(const Record& record, int i) : phi(record.phi_of(i)), slope(record.number + 2 * i) {}
    };

    // Two leaves.
    class Leaves {
      public:
        static constexpr int kBits = 1;
        std::array<std::int32_t, kBits> asks;

        LTS_INLINE Leaves(const BlockWalk& walk, const Step& step, int output)
            : Leaves(walk.p_, Record(walk, step, Bottom::leaves, output)) {}
        LTS_INLINE void operator()(AtPoints& points, int v, const Answers& answers) const {
            Vec sum = points[0];
            for (int k = 1; k < K; ++k) sum = sum + points[at(k)];
            const Vec slope = tip_.slope[answers];
            add(tip_.phi, v, slope, sum);
            for (int k = 0; k < K; ++k) points[at(k)] = fma(slope, t_[at(k)], mean_);
        }

      private:
        LTS_INLINE Leaves(const BlockPoints<K>& points, const Record& record)
            : asks(record.template asks<kBits>()),
              tip_(record, 0),
              t_(broadcast_all(points.t)),
              mean_(broadcast(record.number[2])) {}

        Tip<0> tip_;
        AtPoints t_;
        Vec mean_;
    };

    // Two leaves of a repeated player.
    class LeavesAgain {
      public:
        static constexpr int kBits = 1;  // which nobody looks at
        std::array<std::int32_t, kBits> asks{0};

        LTS_INLINE LeavesAgain(const BlockWalk& walk, const Step& step, int output)
            : LeavesAgain(walk, step.bottom, walk.tree_.splits[at(step.bottom)], output) {}
        LTS_INLINE void operator()(AtPoints& points, int v, const Answers&) const {
            const typename MetAgain<K>::Here here(met_, v);
            Vec sum = here.by_kappa(points[0], 0);
            for (int k = 1; k < K; ++k) sum = sum + here.by_kappa(points[at(k)], k);
            add(phi_, v, here.delta() * apart_, sum);
            for (int k = 0; k < K; ++k) points[at(k)] = here.among(value_[at(k)]);
        }

      private:
        LTS_INLINE LeavesAgain(const BlockWalk& walk, std::int32_t number, const Split& split, int output)
            : met_(walk.p_, split, number, walk.rows_), phi_(walk.phi_of(split.player, output)) {
            const double rare = walk.value_of(split.child_at(0), output);
            const double common = walk.value_of(split.child_at(1), output);
            apart_ = broadcast(rare - common);
            for (std::size_t k = 0; k < K; ++k)
                for (std::size_t o = 0; o < 4; ++o)
                    value_[k][o] = met_.over_rare[k][o] * rare + met_.over_common[k][o] * common;
        }

        MetAgain<K> met_;
        double* phi_;
        Vec apart_;
        alignas(32) std::array<Outcomes, K> value_;
    };

    // A split of two tips, in three bits: G = mean + t·slope + t²·curve.
    template <int kBit>
    struct Twig {
        Vec ratio, apart;
        double* phi;
        Either<kBit> delta;
        Tip<kBit + 1> rare;
        Tip<kBit + 2> common;

        LTS_INLINE Twig(const Record& record, int i, double difference)
            : ratio(broadcast(-record.number[2 * i])),
              apart(broadcast(difference)),
              phi(record.phi_of(i)),
              delta(record.number + 2 * i),
              rare(record, i + 1),
              common(record, i + 2) {}

        // Gives three players their due, from Σ C and Σ t·C; returns slope and curve.
        LTS_INLINE std::array<Vec, 2> operator()(const Answers& answers, int v, Vec sum, Vec sum_t) const {
            const Vec here = delta[answers], slope_rare = rare.slope[answers], slope_common = common.slope[answers];
            const Vec bend = slope_rare - slope_common, sum_rare = fma(here, sum_t, ratio * sum);
            add(phi, v, here, fma(bend, sum_t, apart * sum));
            add(rare.phi, v, slope_rare, sum_rare);
            add(common.phi, v, slope_common, sum - sum_rare);
            return {fma(ratio, bend, fma(here, apart, slope_common)), here * bend};
        }
    };

    // Up to three splits.
    class Two {
      public:
        static constexpr int kBits = 3;
        std::array<std::int32_t, kBits> asks;

        LTS_INLINE Two(const BlockWalk& walk, const Step& step, int output)
            : Two(walk.p_, Record(walk, step, Bottom::two, output)) {}
        LTS_INLINE void operator()(AtPoints& points, int v, const Answers& answers) const {
            Vec sum = points[0], sum_t = sum * t_[0];
            for (int k = 1; k < K; ++k) {
                sum = sum + points[at(k)];
                sum_t = fma(points[at(k)], t_[at(k)], sum_t);
            }
            const auto [slope, curve] = twig_(answers, v, sum, sum_t);
            for (int k = 0; k < K; ++k) points[at(k)] = fma(t_[at(k)], fma(t_[at(k)], curve, slope), mean_);
        }

      private:
        LTS_INLINE Two(const BlockPoints<K>& points, const Record& record)
            : asks(record.template asks<kBits>()),
              twig_(record, 0, record.number[6]),
              t_(broadcast_all(points.t)),
              mean_(broadcast(record.number[7])) {}

        Twig<0> twig_;
        AtPoints t_;
        Vec mean_;
    };

    // Up to seven.
    class Three {
      public:
        static constexpr int kBits = 7;
        std::array<std::int32_t, kBits> asks;

        LTS_INLINE Three(const BlockWalk& walk, const Step& step, int output)
            : Three(walk.p_, Record(walk, step, Bottom::three, output)) {}
        LTS_INLINE void operator()(AtPoints& points, int v, const Answers& answers) const {
            Vec sum = points[0], sum_t = sum * t_[0], sum_tt = sum * square_[0];
            for (int k = 1; k < K; ++k) {
                sum = sum + points[at(k)];
                sum_t = fma(points[at(k)], t_[at(k)], sum_t);
                sum_tt = fma(points[at(k)], square_[at(k)], sum_tt);
            }
            const Vec here = delta_[answers];
            const Vec sum_rare = fma(here, sum_t, ratio_ * sum), sum_t_rare = fma(here, sum_tt, ratio_ * sum_t);
            const auto [slope_rare, curve_rare] = rare_(answers, v, sum_rare, sum_t_rare);
            const auto [slope_common, curve_common] = common_(answers, v, sum - sum_rare, sum_t - sum_t_rare);
            const Vec bend = slope_rare - slope_common, twist = curve_rare - curve_common;
            add(phi_, v, here, fma(twist, sum_tt, fma(bend, sum_t, apart_ * sum)));
            const Vec slope = fma(ratio_, bend, fma(here, apart_, slope_common));
            const Vec curve = fma(ratio_, twist, fma(here, bend, curve_common));
            const Vec third = here * twist;
            for (int k = 0; k < K; ++k)
                points[at(k)] = fma(t_[at(k)], fma(t_[at(k)], fma(t_[at(k)], third, curve), slope), mean_);
        }

      private:
        LTS_INLINE Three(const BlockPoints<K>& points, const Record& record)
            : asks(record.template asks<kBits>()),
              phi_(record.phi_of(0)),
              rare_(record, 1, record.number[15]),
              common_(record, 4, record.number[16]),
              delta_(record.number),
              ratio_(broadcast(-record.number[0])),
              apart_(broadcast(record.number[14])),
              mean_(broadcast(record.number[17])),
              t_(broadcast_all(points.t)),
              square_(broadcast_all(points.square)) {}

        double* phi_;
        Twig<1> rare_;
        Twig<4> common_;
        Either<0> delta_;
        Vec ratio_, apart_, mean_;
        AtPoints t_, square_;
    };

    // ---- what a step does -------------------------------------------------------------------------

    static constexpr std::array<Action, kOps> actions() {
        std::array<Action, kOps> out{};
        add_splits<MetNew<K>>(out, false);
        add_splits<MetAgain<K>>(out, true);
        add_bottom<Leaves>(out, Bottom::leaves);
        add_bottom<LeavesAgain>(out, Bottom::leaves_again);
        add_bottom<Two>(out, Bottom::two);
        add_bottom<Three>(out, Bottom::three);
        return out;
    }
    template <class Met>
    static constexpr void add_splits(std::array<Action, kOps>& to, bool is_repeated) {
        to[carry_op(is_repeated, Sides::both)] = &BlockWalk::carry<Met, Sides::both>;
        to[carry_op(is_repeated, Sides::rare)] = &BlockWalk::carry<Met, Sides::rare>;
        to[carry_op(is_repeated, Sides::common)] = &BlockWalk::carry<Met, Sides::common>;
        to[close_op(is_repeated, Leaf::none)] = &BlockWalk::close<Met, Leaf::none>;
        to[close_op(is_repeated, Leaf::rare)] = &BlockWalk::close<Met, Leaf::rare>;
        to[close_op(is_repeated, Leaf::common)] = &BlockWalk::close<Met, Leaf::common>;
    }
    template <class Class>
    static constexpr void add_bottom(std::array<Action, kOps>& to, Bottom bottom) {
        to[bottom_op(bottom, Place::alone)] = &BlockWalk::alone<Class>;
        to[bottom_op(bottom, Place::rare_first)] = &BlockWalk::below<Class, Place::rare_first>;
        to[bottom_op(bottom, Place::rare_closing)] = &BlockWalk::below<Class, Place::rare_closing>;
        to[bottom_op(bottom, Place::rare_beside_leaf)] = &BlockWalk::below<Class, Place::rare_beside_leaf>;
        to[bottom_op(bottom, Place::common_closing)] = &BlockWalk::below<Class, Place::common_closing>;
        to[bottom_op(bottom, Place::common_beside_leaf)] = &BlockWalk::below<Class, Place::common_beside_leaf>;
    }
    static const std::array<Action, kOps> kActions;

    const Tree& tree_;
    const BlockPoints<K>& p_;
    BlockRows rows_;
    const double* values_;   // of leaves
    const double* numbers_;  // of clean bottoms
    int n_outputs_;
    int n_vectors_;
    std::size_t size_;
    double* stack_;
};

template <int K>
constexpr std::array<typename BlockWalk<K>::Action, kOps> BlockWalk<K>::kActions = BlockWalk<K>::actions();

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
