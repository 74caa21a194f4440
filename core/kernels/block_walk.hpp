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

#include "compile/program.hpp"
#include "compile/steps.hpp"
#include "kernels/isa.hpp"
#include "kernels/many.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Some quadrature points; those that are not there have no weight.
template <int K>
struct BlockPoints {
    static constexpr std::size_t kNumbers = (K + 3) / 4 * 4;  // whole quads
    alignas(32) std::array<double, kNumbers> t, absent;
    alignas(32) std::array<double, kNumbers> square, weight;

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
template <int K>
LTS_INLINE std::array<Vec, K> broadcast_all(const std::array<double, BlockPoints<K>::kNumbers>& numbers) {
    std::array<Vec, K> out;
    for (std::size_t k = 0; k < K; ++k) out[k] = broadcast(numbers[k]);
    return out;
}

// Blocks of rows that walk together: the more, the less it matters what a step costs by itself; but what is kept of
// them should stay in a near cache.
inline constexpr int kWalkBlocks = 2;

// Where a walk takes its rows from, and puts what it finds.
struct BlockRows {
    const std::uint64_t* left;       // [condition of the chunk][block] which rows go left
    const std::uint64_t* satisfied;  // [repeat of the tree][block] which satisfy their player's edges above
    int n_blocks;                    // of 64 rows
    int first, n_rows;               // of these
    double* phi;                     // [output][player][row]
    std::size_t stride;              // of players, in doubles
    std::size_t n_players;

    LTS_INLINE std::uint64_t goes_left(std::int32_t asks, int block) const { return left[at(asks * n_blocks + block)]; }
    LTS_INLINE std::uint64_t is_satisfied(std::int32_t repeat, int block) const {
        return satisfied[at(repeat * n_blocks + block)];
    }
};

// A byte for each row: what it does at some splits.
class BlockStates {
  public:
    // Bit i: does it go left at the i-th split?
    template <std::size_t n>
    LTS_INLINE BlockStates(const BlockRows& rows, const std::array<std::int32_t, n>& asks) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            for (std::size_t i = 0; i < n; ++i)
                bytes.add(rows.goes_left(asks[i], b), static_cast<std::uint8_t>(1 << i));
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    // Which outcome it has at the split of a repeated player.
    LTS_INLINE BlockStates(const BlockRows& rows, std::int32_t repeat, std::int32_t asks) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            bytes.add(rows.goes_left(asks, b), kStateBit[0]);
            bytes.add(rows.is_satisfied(repeat, b), kStateBit[1]);
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    const std::uint8_t* from(int row) const { return state_.data() + first_ + row; }

  private:
    int first_;
    alignas(64) std::array<std::uint8_t, kWalkBlocks * kBlockRows> state_;
};

// δ and f of a split of a new player, whose answer is a bit.
template <int kBit>
class New {
  public:
    LTS_INLINE explicit New(const PackedSplit& split)
        : ratio_(broadcast(split.rare_ratio)), delta_(split.delta(0), split.delta(1)) {}

    template <int W, int kBits>
    LTS_INLINE Many<W> delta(const ManyAnswers<W, kBits>& answers) const {
        return answers.among(delta_);
    }
    template <int W>
    LTS_INLINE Many<W> over_rare(const Many<W>& delta, Vec t) const {
        return fma(delta, t, ratio_);
    }

  private:
    Vec ratio_;
    Either<kBit> delta_;
};

// A split of a new player, as the rows meet it.
template <int K, int W>
class MetNew {
  public:
    using Rows = Many<W>;

    LTS_INLINE MetNew(const BlockPoints<K>& points, const Tree&, const PackedSplit& split, const BlockRows& rows)
        : split_(split), t_(broadcast_all<K>(points.t)), states_(rows, std::array{split.asks()}) {}
    LTS_INLINE static std::int32_t player_of(const Tree&, const PackedSplit& split) { return split.who; }

    class Here {  // some rows
      public:
        LTS_INLINE Here(const MetNew& met, int v)
            : met_(met), delta_(met.split_.delta(ManyAnswers<W, 1>(met.states_.from(v * W * kLanes)))) {}
        LTS_INLINE Rows delta() const { return delta_; }
        LTS_INLINE Rows to_rare(const Rows& c, int k) const { return c * over(k); }
        LTS_INLINE Rows to_common(const Rows& c, int k) const { return fnma(c, over(k), c); }
        LTS_INLINE Rows together(const Rows& rare, const Rows& common, int k) const {
            return fma(over(k), rare - common, common);
        }
        // κ·x
        LTS_INLINE Rows by_kappa(const Rows& x, int) const { return x; }

      private:
        LTS_INLINE Rows over(int k) const { return met_.split_.over_rare(delta_, met_.t_[at(k)]); }

        const MetNew& met_;
        Rows delta_;
    };

  private:
    New<0> split_;
    std::array<Vec, K> t_;
    BlockStates states_;
};

// What a repeated player's split does to a row: unsatisfied above, it goes right or left; satisfied, either.
struct alignas(32) Outcomes : std::array<double, 4> {};
inline constexpr Outcomes kIsUnsatisfied{{1.0, 1.0, 0.0, 0.0}}, kIsSatisfied{{0.0, 0.0, 1.0, 1.0}};
inline constexpr Outcomes kGoes[2] = {{{0.0, 0.0, 0.0, 1.0}}, {{0.0, 0.0, 1.0, 0.0}}};  // left; right

// A split of a repeated player. With u = t + (1-t)·c, τ = t/u and κ = c/u². As τ may be so near to 1 that 1 - τ has no
// digits left, that is computed as (1-t)·c/u, and both edges have factors of their own.
template <int K, int W>
class MetAgain {
  public:
    using Rows = Many<W>;

    LTS_INLINE MetAgain(const BlockPoints<K>& points, const Tree& tree, const PackedSplit& split, const BlockRows& rows)
        : states_(rows, split.who - tree.first_repeat, split.asks()) {
        constexpr std::size_t kNumbers = BlockPoints<K>::kNumbers;
        alignas(32) std::array<double, kNumbers> tau, rest;
        const Quad c = spread(tree.chunk_repeats[split.who].absent_above);
        for (std::size_t k = 0; k < kNumbers; k += 4) {
            const Quad t = load_quad(&points.t[k]), absent = load_quad(&points.absent[k]) * c;
            const Quad per_u = spread(1.0) / (t + absent);
            store_quad(&tau[k], t * per_u);
            store_quad(&rest[k], absent * per_u);
            store_quad(&kappa_[k], c * per_u * per_u);
        }
        const Quad unsatisfied = load_quad(kIsUnsatisfied.data()), satisfied = load_quad(kIsSatisfied.data());
        const auto write = [&](std::size_t side, std::array<Outcomes, K>& to) LTS_INLINED {
            const Quad ratio = spread(split.ratio_at(side)), goes = load_quad(kGoes[side ^ split.rare_side()].data());
            const Quad above = ratio * unsatisfied, here = ratio * satisfied;
            for (std::size_t k = 0; k < K; ++k)
                store_quad(to[k].data(), fma(goes, spread(tau[k]), fma(here, spread(rest[k]), above)));
        };
        write(0, over_rare);
        write(1, over_common);
        const Quad goes = load_quad(kGoes[split.rare_side()].data());
        store_quad(delta_.data(), fnma(spread(split.rare_ratio), satisfied, goes));
    }
    LTS_INLINE static std::int32_t player_of(const Tree& tree, const PackedSplit& split) {
        return tree.chunk_repeats[split.who].player;
    }

    class Here {
      public:
        LTS_INLINE Here(const MetAgain& met, int v) : met_(met), indices_(met.states_.from(v * W * kLanes)) {}
        LTS_INLINE Rows delta() const { return among(met_.delta_); }
        LTS_INLINE Rows to_rare(const Rows& c, int k) const { return c * among(met_.over_rare[at(k)]); }
        LTS_INLINE Rows to_common(const Rows& c, int k) const { return c * among(met_.over_common[at(k)]); }
        LTS_INLINE Rows together(const Rows& rare, const Rows& common, int k) const {
            return fma(among(met_.over_rare[at(k)]), rare, among(met_.over_common[at(k)]) * common);
        }
        LTS_INLINE Rows by_kappa(const Rows& x, int k) const { return x * broadcast(met_.kappa_[at(k)]); }
        LTS_INLINE Rows among(const Outcomes& outcomes) const { return indices_.among(Table(outcomes.data())); }

      private:
        const MetAgain& met_;
        ManyIndices<W> indices_;
    };

    std::array<Outcomes, K> over_rare, over_common;  // factors of both edges

  private:
    Outcomes delta_;
    alignas(32) std::array<double, BlockPoints<K>::kNumbers> kappa_;
    BlockStates states_;
};

template <int K, int W>
class BlockWalk {
  public:
    // `stack` has room for stack_doubles(…).
    BlockWalk(const Chunk& chunk, const Tree& tree, const BlockPoints<K>& points, const BlockRows& rows, double* stack)
        : tree_(tree),
          p_(points),
          rows_(rows),
          values_(chunk.leaf_value.data()),
          asks_nothing_(static_cast<std::int32_t>(chunk.conditions.size())),
          n_outputs_(chunk.n_outputs),
          n_vectors_((rows.n_rows + kRows - 1) / kRows),
          size_(at(n_vectors_) * kVector),
          stack_(stack) {}

    static std::size_t stack_doubles(int n_levels, int n_outputs, int n_rows) {
        return at(n_levels + 1) * at(2 * n_outputs) * at((n_rows + kRows - 1) / kRows) * kVector;
    }

    void run() const {
        for (int v = 0; v < n_vectors_; ++v)
            for (int k = 0; k < K; ++k) store(c_at(-1, 0) + place(v, k), alike(broadcast(p_.weight[at(k)])));
        std::int32_t level = 0;
        for (const auto& step : tree_.steps()) {
            level -= step.returns;
            (this->*kActions[step.op])(step, level);
            level += is_carry(step.op);
        }
    }

  private:
    using Rows = Many<W>;
    using AtPoints = std::array<Rows, K>;
    using Points = std::array<Vec, K>;
    using Action = void (BlockWalk::*)(const Step&, std::int32_t level) const;

    static constexpr int kRows = W * kLanes;                        // that take each operation together
    static constexpr std::size_t kVector = std::size_t{K} * kRows;  // their doubles

    static std::size_t place(int v, int k) { return at(v) * kVector + at(k * kRows); }
    LTS_INLINE static Rows load_rows(const double* from) { return load_many<W>(from); }
    LTS_INLINE static Rows alike(Vec all) {
        return Rows::of([&](int) LTS_INLINED { return all; });
    }
    // Of every level, from the one above the root on: G of both children; and until the last output's is known, C in
    // its place.
    double* g_at(std::int32_t level, int side, int output) const {
        return stack_ + (at(level + 1) * at(2 * n_outputs_) + at(2 * output + side)) * size_;
    }
    double* c_at(std::int32_t level, int side) const { return g_at(level, side, n_outputs_ - 1); }
    // Of a step's split, at this level.
    double* c_of(const Step& step, std::int32_t level) const { return c_at(level - 1, step.side); }
    double* g_of(const Step& step, std::int32_t level, int output) const { return g_at(level - 1, step.side, output); }
    double value_of(std::int32_t child, int output) const { return values_[at(~child) * at(n_outputs_) + at(output)]; }
    double* phi_of(std::int32_t player, int output) const {
        return rows_.phi + (at(output) * rows_.n_players + at(player)) * rows_.stride + at(rows_.first);
    }
    const PackedSplit& split_of(const Step& step) const { return tree_.first_split[step.split]; }

    // φ += a·b
    LTS_INLINE static void add(double* phi, int v, const Rows& a, const Rows& b) {
        store(phi + v * kRows, fma(a, b, load_rows(phi + v * kRows)));
    }

    // ---- splits -----------------------------------------------------------------------------------

    // C, over the edges to children that have steps of their own.
    template <class Met, Sides kSides>
    void carry(const Step& step, std::int32_t level) const {
        const Met met(p_, tree_, split_of(step), rows_);
        const double* const from = c_of(step, level);
        double *const rare = c_at(level, 0), *const common = c_at(level, 1);
        for (int v = 0; v < n_vectors_; ++v) {
            const typename Met::Here here(met, v);
            for (int k = 0; k < K; ++k) {
                const Rows c = load_rows(from + place(v, k));
                if constexpr (kSides != Sides::common) store(rare + place(v, k), here.to_rare(c, k));
                if constexpr (kSides != Sides::rare) store(common + place(v, k), here.to_common(c, k));
            }
        }
    }

    // G, from that of both children.
    template <class Met, Leaf kLeaf>
    void close(const Step& step, std::int32_t level) const {
        const PackedSplit& split = split_of(step);
        const Met met(p_, tree_, split, rows_);
        const double* const c = c_of(step, level);
        for (int output = 0; output < n_outputs_; ++output) {
            const Vec leaf =
                broadcast(kLeaf == Leaf::none ? 0.0 : value_of(split.child[kLeaf == Leaf::rare ? 0 : 1], output));
            const double *const g_rare = g_at(level, 0, output), *const g_common = g_at(level, 1, output);
            double *const g = g_of(step, level, output), *const phi = phi_of(Met::player_of(tree_, split), output);
            for (int v = 0; v < n_vectors_; ++v) {
                const typename Met::Here here(met, v);
                Rows sum;
                for (int k = 0; k < K; ++k) {
                    const Rows rare = kLeaf == Leaf::rare ? alike(leaf) : load_rows(g_rare + place(v, k));
                    const Rows common = kLeaf == Leaf::common ? alike(leaf) : load_rows(g_common + place(v, k));
                    const Rows weight = here.by_kappa(load_rows(c + place(v, k)), k);
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

    // A bottom whose C is at hand, or that is below a split of a new player whose C is.
    template <class Bottom, Place kPlace>
    void take(const Step& step, std::int32_t level) const {
        constexpr int kBits = Bottom::kBits;
        constexpr bool has_edge = kPlace != Place::alone, is_rare = kPlace < Place::common_closing;
        constexpr bool is_closing = has_edge && kPlace != Place::rare_first;
        constexpr bool is_beside_leaf = kPlace == Place::rare_beside_leaf || kPlace == Place::common_beside_leaf;
        const PackedSplit& split = split_of(step);
        const typename Bottom::Members members(*this,
                                               has_edge ? split.child_at(step.split, is_rare ? 0 : 1) : step.split);
        std::array<std::int32_t, kBits + 1> asks;
        members.ask(asks.data());
        asks[kBits] = split.asks();
        const BlockStates states(rows_, asks);
        const New<kBits> edge(split);
        const Points t = broadcast_all<K>(p_.t);
        const double* const c = c_of(step, level);
        for (int output = 0; output < n_outputs_; ++output) {
            const Bottom bottom(*this, members, output);
            const Vec leaf = broadcast(is_beside_leaf ? value_of(split.child[is_rare ? 1 : 0], output) : 0.0);
            const double* const sibling = g_at(level, is_rare ? 1 : 0, output);
            double* const g = has_edge && !is_closing ? g_at(level, 0, output) : g_of(step, level, output);
            double* const phi = is_closing ? phi_of(split.who, output) : nullptr;
            for (int v = 0; v < n_vectors_; ++v) {
                const ManyAnswers<W, kBits + 1> answers(states.from(v * kRows));
                const Rows delta = edge.delta(answers);
                AtPoints points;
                for (int k = 0; k < K; ++k) {
                    const Rows above = load_rows(c + place(v, k)), over = edge.over_rare(delta, t[at(k)]);
                    points[at(k)] = !has_edge ? above : is_rare ? above * over : fnma(above, over, above);
                }
                bottom(points, t, v, answers);
                if constexpr (is_closing) {
                    Rows sum;
                    for (int k = 0; k < K; ++k) {
                        const Rows other = is_beside_leaf ? alike(leaf) : load_rows(sibling + place(v, k));
                        const Rows rare = is_rare ? points[at(k)] : other, common = is_rare ? other : points[at(k)];
                        const Rows weight = load_rows(c + place(v, k));
                        sum = k == 0 ? weight * (rare - common) : fma(weight, rare - common, sum);
                        points[at(k)] = fma(edge.over_rare(delta, t[at(k)]), rare - common, common);
                    }
                    add(phi, v, delta, sum);
                }
                for (int k = 0; k < K; ++k) store(g + place(v, k), points[at(k)]);
            }
        }
    }

    // A split of a clean bottom. Where a leaf stands in its place, it asks nothing and has that leaf on both sides: all
    // differences are zero, and nobody is paid.
    struct Member {
        double ratio;  // of the rare side
        int rare_side;
        std::int32_t asks, player;
        std::array<std::int32_t, 2> child;  // rare and common, each a split or ~leaf

        // δ of rows that go right (0) or left (1).
        LTS_INLINE double delta(int goes_left) const { return static_cast<double>(goes_left ^ rare_side) - ratio; }
    };
    LTS_INLINE Member member_at(std::int32_t number, std::int32_t root) const {
        // No branch: whether it is a leaf is hard to foretell.
        const bool is_leaf = number < 0;
        const std::int32_t there = is_leaf ? root : number;
        const PackedSplit& split = tree_.first_split[there];
        const auto child = [&](std::size_t side) LTS_INLINED { return is_leaf ? number : split.child_at(there, side); };
        return {split.rare_ratio,
                static_cast<int>(split.rare_side()),
                is_leaf ? asks_nothing_ : split.asks(),
                split.who,
                {child(0), child(1)}};
    }
    // From the root down, rare sides first.
    template <Bottom kBottom>
    class MembersOf {
      public:
        LTS_INLINE MembersOf(const BlockWalk& walk, std::int32_t root) {
            const auto put = [&](std::size_t i, std::int32_t number)
                                 LTS_INLINED { member_[i] = walk.member_at(number, root); };
            const auto put_children = [&](std::size_t i, std::size_t rare, std::size_t common) LTS_INLINED {
                put(rare, member_[i].child[0]);
                put(common, member_[i].child[1]);
            };
            put(0, root);
            if constexpr (kBottom == Bottom::two) put_children(0, 1, 2);
            if constexpr (kBottom == Bottom::three) {
                put_children(0, 1, 4);
                put_children(1, 2, 3);
                put_children(4, 5, 6);
            }
        }
        LTS_INLINE const Member& operator[](int i) const { return member_[at(i)]; }
        LTS_INLINE void ask(std::int32_t* to) const {
            for (const auto& member : member_) *to++ = member.asks;
        }

      private:
        std::array<Member, at(splits_of(kBottom))> member_;
    };
    // What is expected on its rare side less what is on the other, and of both.
    struct Expected {
        double apart, mean;
        LTS_INLINE Expected(const Member& member, double rare, double common)
            : apart(rare - common), mean(common + member.ratio * apart) {}
    };

    // A split of two leaves: G = mean + t·slope, and what its player gets is slope · Σ C.
    template <int kBit>
    struct Tip {
        Expected expected;
        double* phi;
        Either<kBit> slope;

        LTS_INLINE Tip(const BlockWalk& walk, const Member& member, int output)
            : expected(member, walk.value_of(member.child[0], output), walk.value_of(member.child[1], output)),
              phi(walk.phi_of(member.player, output)),
              slope(member.delta(0) * expected.apart, member.delta(1) * expected.apart) {}
    };

    // Two leaves.
    class Leaves {
      public:
        static constexpr int kBits = 1;
        using Members = MembersOf<Bottom::leaves>;

        LTS_INLINE Leaves(const BlockWalk& walk, const Members& members, int output)
            : tip_(walk, members[0], output), mean_(broadcast(tip_.expected.mean)) {}
        LTS_INLINE void operator()(AtPoints& points, const Points& t, int v, const auto& answers) const {
            Rows sum = points[0];
            for (int k = 1; k < K; ++k) sum = sum + points[at(k)];
            const Rows slope = answers.among(tip_.slope);
            add(tip_.phi, v, slope, sum);
            for (int k = 0; k < K; ++k) points[at(k)] = fma(slope, t[at(k)], mean_);
        }

      private:
        Tip<0> tip_;
        Vec mean_;
    };

    // Two leaves of a repeated player.
    class LeavesAgain {
      public:
        static constexpr int kBits = 0;
        struct Members {
            const PackedSplit& split;

            LTS_INLINE Members(const BlockWalk& walk, std::int32_t root) : split(walk.tree_.first_split[root]) {}
            LTS_INLINE void ask(std::int32_t*) const {}
        };

        LTS_INLINE LeavesAgain(const BlockWalk& walk, const Members& members, int output)
            : LeavesAgain(walk, members.split, output) {}
        LTS_INLINE void operator()(AtPoints& points, const Points&, int v, const auto&) const {
            const typename MetAgain<K, W>::Here here(met_, v);
            Rows sum = here.by_kappa(points[0], 0);
            for (int k = 1; k < K; ++k) sum = sum + here.by_kappa(points[at(k)], k);
            add(phi_, v, here.delta() * apart_, sum);
            for (int k = 0; k < K; ++k) points[at(k)] = here.among(value_[at(k)]);
        }

      private:
        LTS_INLINE LeavesAgain(const BlockWalk& walk, const PackedSplit& split, int output)
            : met_(walk.p_, walk.tree_, split, walk.rows_),
              phi_(walk.phi_of(met_.player_of(walk.tree_, split), output)) {
            const double rare = walk.value_of(split.child[0], output);
            const double common = walk.value_of(split.child[1], output);
            apart_ = broadcast(rare - common);
            for (std::size_t k = 0; k < K; ++k) {
                const Quad over_rare = load_quad(met_.over_rare[k].data());
                const Quad over_common = load_quad(met_.over_common[k].data());
                store_quad(value_[k].data(), fma(over_rare, spread(rare), over_common * spread(common)));
            }
        }

        MetAgain<K, W> met_;
        double* phi_;
        Vec apart_;
        std::array<Outcomes, K> value_;
    };

    // A split of two tips, in three bits: G = mean + t·slope + t²·curve.
    template <int kBit>
    struct Twig {
        Tip<kBit + 1> rare;
        Tip<kBit + 2> common;
        Expected expected;
        Vec ratio, apart;
        double* phi;
        Either<kBit> delta;

        // Its splits are the i-th, and the next two.
        LTS_INLINE Twig(const BlockWalk& walk, const auto& members, int i, int output)
            : rare(walk, members[i + 1], output),
              common(walk, members[i + 2], output),
              expected(members[i], rare.expected.mean, common.expected.mean),
              ratio(broadcast(members[i].ratio)),
              apart(broadcast(expected.apart)),
              phi(walk.phi_of(members[i].player, output)),
              delta(members[i].delta(0), members[i].delta(1)) {}

        // Gives three players their due, from Σ C and Σ t·C; returns slope and curve.
        LTS_INLINE std::array<Rows, 2> operator()(const auto& answers, int v, const Rows& sum,
                                                  const Rows& sum_t) const {
            const Rows here = answers.among(delta), slope_rare = answers.among(rare.slope),
                       slope_common = answers.among(common.slope);
            const Rows bend = slope_rare - slope_common, sum_rare = fma(here, sum_t, ratio * sum);
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
        using Members = MembersOf<Bottom::two>;

        LTS_INLINE Two(const BlockWalk& walk, const Members& members, int output)
            : twig_(walk, members, 0, output), mean_(broadcast(twig_.expected.mean)) {}
        LTS_INLINE void operator()(AtPoints& points, const Points& t, int v, const auto& answers) const {
            Rows sum = points[0], sum_t = sum * t[0];
            for (int k = 1; k < K; ++k) {
                sum = sum + points[at(k)];
                sum_t = fma(points[at(k)], t[at(k)], sum_t);
            }
            const auto [slope, curve] = twig_(answers, v, sum, sum_t);
            for (int k = 0; k < K; ++k) points[at(k)] = fma(t[at(k)], fma(t[at(k)], curve, slope), mean_);
        }

      private:
        Twig<0> twig_;
        Vec mean_;
    };

    // Up to seven.
    class Three {
      public:
        static constexpr int kBits = 7;
        using Members = MembersOf<Bottom::three>;

        LTS_INLINE Three(const BlockWalk& walk, const Members& members, int output)
            : rare_(walk, members, 1, output),
              common_(walk, members, 4, output),
              expected_(members[0], rare_.expected.mean, common_.expected.mean),
              phi_(walk.phi_of(members[0].player, output)),
              delta_(members[0].delta(0), members[0].delta(1)),
              ratio_(broadcast(members[0].ratio)),
              apart_(broadcast(expected_.apart)),
              mean_(broadcast(expected_.mean)),
              square_(broadcast_all<K>(walk.p_.square)) {}
        LTS_INLINE void operator()(AtPoints& points, const Points& t, int v, const auto& answers) const {
            Rows sum = points[0], sum_t = sum * t[0], sum_tt = sum * square_[0];
            for (int k = 1; k < K; ++k) {
                sum = sum + points[at(k)];
                sum_t = fma(points[at(k)], t[at(k)], sum_t);
                sum_tt = fma(points[at(k)], square_[at(k)], sum_tt);
            }
            const Rows here = answers.among(delta_);
            const Rows sum_rare = fma(here, sum_t, ratio_ * sum), sum_t_rare = fma(here, sum_tt, ratio_ * sum_t);
            const auto [slope_rare, curve_rare] = rare_(answers, v, sum_rare, sum_t_rare);
            const auto [slope_common, curve_common] = common_(answers, v, sum - sum_rare, sum_t - sum_t_rare);
            const Rows bend = slope_rare - slope_common, twist = curve_rare - curve_common;
            add(phi_, v, here, fma(twist, sum_tt, fma(bend, sum_t, apart_ * sum)));
            const Rows slope = fma(ratio_, bend, fma(here, apart_, slope_common));
            const Rows curve = fma(ratio_, twist, fma(here, bend, curve_common));
            const Rows third = here * twist;
            for (int k = 0; k < K; ++k)
                points[at(k)] = fma(t[at(k)], fma(t[at(k)], fma(t[at(k)], third, curve), slope), mean_);
        }

      private:
        Twig<1> rare_;
        Twig<4> common_;
        Expected expected_;
        double* phi_;
        Either<0> delta_;
        Vec ratio_, apart_, mean_;
        Points square_;
    };

    // ---- what a step does -------------------------------------------------------------------------

    static constexpr std::array<Action, kOps> actions() {
        std::array<Action, kOps> out{};
        add_splits<MetNew<K, W>>(out, false);
        add_splits<MetAgain<K, W>>(out, true);
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
        const auto add = [&]<Place... kPlace>() {
            ((to[bottom_op(bottom, kPlace)] = &BlockWalk::take<Class, kPlace>), ...);
        };
        add.template operator()<Place::alone, Place::rare_first, Place::rare_closing, Place::rare_beside_leaf,
                                Place::common_closing, Place::common_beside_leaf>();
    }
    static const std::array<Action, kOps> kActions;

    const Tree& tree_;
    const BlockPoints<K>& p_;
    BlockRows rows_;
    const double* values_;       // of leaves
    std::int32_t asks_nothing_;  // the condition after the last, to which no row says yes
    int n_outputs_;
    int n_vectors_;
    std::size_t size_;
    double* stack_;
};

template <int K, int W>
constexpr std::array<typename BlockWalk<K, W>::Action, kOps> BlockWalk<K, W>::kActions = BlockWalk<K, W>::actions();

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
