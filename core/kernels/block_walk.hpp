// The walk of a block of rows through a tree as it is compiled: lanes are rows.
//
// The recurrence is that of a few rows (bunch_walk.hpp). Of the two sides of a split, fewer training rows took the rare
// one. With w its cover ratio, let δ be 1 - w where a row goes there, -w where it does not, and 0 where its player is
// already unsatisfied above, and f = w + τ·δ. Then
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
//
// Two more points cost next to nothing (compile/quadrature.hpp). At 0 all rows are alike, since f = w there: what it
// adds to a sum is one number for each split. And what C · G is at ∞, its leading coefficient, is not zero but for
// paths of as many players as only the longest have. It is kept on the way to these, where f = δ over the rare edge and
// -δ over the common one.
//
// Nothing is carried near the root either, where one instruction chooses among eight numbers: C depends on the answers
// to at most three questions there, so it is found for each state that these make, as if that were a row, and looked
// up.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "compile/program.hpp"
#include "compile/steps.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Some quadrature points; those that are not there have no weight.
template <int K>
struct BlockPoints {
    static constexpr std::size_t kNumbers = (K + 3) / 4 * 4;  // whole quads
    alignas(32) std::array<double, kNumbers> t, absent;
    alignas(32) std::array<double, kNumbers> square, weight;
    double zero_weight = 0.0, leading_weight = 0.0;  // the first points' alone
    int most_players;                                // on a path: where leading coefficients count

    BlockPoints(const Rule& rule, int first, int n_points) : most_players(rule.most_players()) {
        t.fill(0.5);
        absent.fill(0.5);
        weight.fill(0.0);
        std::copy_n(rule.point.begin() + first, n_points, t.begin());
        std::copy_n(rule.absent.begin() + first, n_points, absent.begin());
        std::copy_n(rule.weight.begin() + first, n_points, weight.begin());
        std::transform(t.begin(), t.end(), square.begin(), [](double x) { return x * x; });
        if (first != 0) return;
        zero_weight = rule.zero_weight;
        leading_weight = rule.leading_weight;
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

// Blocks of rows that walk together, at most: the more, the less it matters what a step costs by itself; but what is
// kept of them should stay in a near cache.
inline constexpr int kWalkBlocks = 8;

// Where a walk takes its rows from, and puts what it finds.
struct BlockRows {
    const std::uint64_t* left;       // [condition of the chunk][block] which rows go left
    const std::uint64_t* satisfied;  // [repeat of the tree][block] which satisfy their player's edges above
    int words;                       // of a condition, one for each block there is
    int n_blocks;                    // of 64 rows: those that are walked
    int first, n_rows;               // of these
    double* phi;                     // [output][player][row]
    std::size_t stride;              // of players, in doubles
    std::size_t n_players;

    LTS_INLINE std::uint64_t goes_left(std::int32_t asks, int block) const { return left[at(asks * words + block)]; }
    LTS_INLINE std::uint64_t is_satisfied(std::int32_t repeat, int block) const {
        return satisfied[at(repeat * words + block)];
    }
    // Up to n of the rows, from one on.
    BlockRows slice(int from, int n) const {
        const int block = from / kBlockRows;
        BlockRows out = *this;
        out.left += block;
        if (satisfied != nullptr) out.satisfied += block;  // some trees have no repeated players
        out.phi += block * kBlockRows;
        out.first = from % kBlockRows;
        out.n_rows = std::min(n, n_rows - from);
        out.n_blocks = (out.first + out.n_rows + kBlockRows - 1) / kBlockRows;
        return out;
    }
};

// The states that three answers make, as if each were a row, at a split that asks one of the three.
struct StatesAsRows {
    static constexpr int n_blocks = 1, first = 0;
    static constexpr std::array<std::uint64_t, 3> kGoLeft{0b10101010, 0b11001100, 0b11110000};
    std::uint64_t left, satisfied;

    LTS_INLINE std::uint64_t goes_left(std::int32_t, int) const { return left; }
    LTS_INLINE std::uint64_t is_satisfied(std::int32_t, int) const { return satisfied; }
};

// A byte for each row: what it does at some splits.
class BlockStates {
  public:
    BlockStates() = default;
    // Bit i: does it go left at the i-th split?
    template <std::size_t n>
    LTS_INLINE BlockStates(const auto& rows, const std::array<std::int32_t, n>& asks) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            for (std::size_t i = 0; i < n; ++i)
                bytes.add(rows.goes_left(asks[i], b), static_cast<std::uint8_t>(1 << i));
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    // Which outcome it has at the split of a repeated player.
    LTS_INLINE BlockStates(const auto& rows, std::int32_t repeat, std::int32_t asks) : first_(rows.first) {
        for (int b = 0; b < rows.n_blocks; ++b) {
            Bytes bytes;
            bytes.add(rows.goes_left(asks, b), kStateBit[0]);
            bytes.add(rows.is_satisfied(repeat, b), kStateBit[1]);
            bytes.store(state_.data() + b * kBlockRows);
        }
    }
    const std::uint8_t* from(int row) const { return state_.data() + first_ + row; }

  private:
    int first_ = 0;
    alignas(64) std::array<std::uint8_t, kWalkBlocks * kBlockRows> state_;
};

// δ and f of a split of a new player, whose answer is a bit.
template <int kBit>
class New {
  public:
    LTS_INLINE explicit New(const PackedSplit& split)
        : ratio_(broadcast(split.rare_ratio)), delta_(split.rare_side(), ratio_) {}

    LTS_INLINE Vec delta(const Answers& answers) const { return delta_[answers]; }
    LTS_INLINE Vec over_rare(Vec delta, Vec t) const { return fma(delta, t, ratio_); }

  private:
    Vec ratio_;
    Deltas<kBit> delta_;
};

// A split of a new player, as the rows meet it.
template <int K>
class MetNew {
  public:
    LTS_INLINE MetNew(const BlockPoints<K>& points, const Tree&, const PackedSplit& split, const auto& rows)
        : split_(split), t_(broadcast_all<K>(points.t)), states_(rows, std::array{split.asks()}) {}
    LTS_INLINE static std::int32_t player_of(const Tree&, const PackedSplit& split) { return split.who; }
    LTS_INLINE static double kappa_at_zero(const Tree&, const PackedSplit&) { return 1.0; }

    class Here {  // some rows
      public:
        LTS_INLINE Here(const MetNew& met, int v)
            : met_(met), delta_(met.split_.delta(answers_of<1>(met.states_.from(v * kLanes)))) {}
        LTS_INLINE Vec delta() const { return delta_; }
        LTS_INLINE Vec to_rare(Vec c, int k) const { return c * over(k); }
        LTS_INLINE Vec to_common(Vec c, int k) const { return fnma(c, over(k), c); }
        LTS_INLINE Vec together(Vec rare, Vec common, int k) const { return fma(over(k), rare - common, common); }
        // κ·x
        LTS_INLINE Vec by_kappa(Vec x, int) const { return x; }

      private:
        LTS_INLINE Vec over(int k) const { return met_.split_.over_rare(delta_, met_.t_[at(k)]); }

        const MetNew& met_;
        Vec delta_;
    };
    LTS_INLINE Here of(int v) const { return {*this, v}; }

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
template <int K>
class MetAgain {
  public:
    LTS_INLINE MetAgain(const BlockPoints<K>& points, const Tree& tree, const PackedSplit& split, const auto& rows)
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
    LTS_INLINE static double kappa_at_zero(const Tree& tree, const PackedSplit& split) {
        return 1.0 / std::max(tree.chunk_repeats[split.who].absent_above, kLeastAbsentWithEnds);
    }

    class Here {
      public:
        LTS_INLINE Here(const MetAgain& met, int v) : met_(met), index_(index_of(met.states_.from(v * kLanes))) {}
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
    LTS_INLINE Here of(int v) const { return {*this, v}; }

    std::array<Outcomes, K> over_rare, over_common;  // factors of both edges

  private:
    Outcomes delta_;
    alignas(32) std::array<double, BlockPoints<K>::kNumbers> kappa_;
    BlockStates states_;
};

constexpr std::size_t kept_doubles(int n_points, int n_vectors) { return at(n_vectors * (n_points + 1) + 1) * kLanes; }

// What is kept of a child of a split, first C and then G: at K points, vector of rows after vector; the leading
// coefficients of these rows; and at 0, where they are alike.
template <int K>
class Kept {
  public:
    LTS_INLINE Kept(double* first, int n_vectors) : first_(first), leading_(first + at(n_vectors) * kVector) {
        ends_ = leading_ + at(n_vectors * kLanes);
    }

    LTS_INLINE double* points(int v) const { return first_ + at(v) * kVector; }
    LTS_INLINE double* leading() const { return leading_; }
    LTS_INLINE double& zero() const { return ends_[0]; }
    // Where no path is among the longest, leading coefficients are zero, and not kept.
    LTS_INLINE void set_leads(bool leads) const { ends_[1] = leads ? 1.0 : 0.0; }
    LTS_INLINE bool leads() const { return ends_[1] != 0.0; }

  private:
    static constexpr std::size_t kVector = std::size_t{K} * kLanes;

    double *first_, *leading_, *ends_;
};

// Numbers of a vector of rows after the other, or none: zeros.
class Leading {
  public:
    LTS_INLINE Leading() : first_(kNone.data()), stride_(0) {}
    template <int K>
    LTS_INLINE explicit Leading(const Kept<K>& kept) : Leading() {
        if (!kept.leads()) return;
        first_ = kept.leading();
        stride_ = kLanes;
    }
    LTS_INLINE Vec operator[](int v) const { return load(first_ + v * stride_); }

  private:
    alignas(64) static constexpr std::array<double, kLanes> kNone{};

    const double* first_;
    int stride_;
};

// Doubles that the walk of some rows at some points needs room for.
inline std::size_t stack_doubles(int n_levels, int n_outputs, int n_points, int n_rows) {
    return at(n_levels + 1) * at(2 * n_outputs) * kept_doubles(n_points, (n_rows + kLanes - 1) / kLanes);
}

template <int K>
class BlockWalk {
  public:
    // `stack` has room for stack_doubles(…).
    BlockWalk(const Chunk& chunk, const Tree& tree, const BlockPoints<K>& points, const BlockRows& rows, double* stack)
        : tree_(tree),
          p_(points),
          rows_(rows),
          values_(chunk.leaf_value.data()),
          leaf_(asks_nothing(chunk)),
          n_outputs_(chunk.n_outputs),
          n_vectors_((rows.n_rows + kLanes - 1) / kLanes),
          stack_(stack) {}

    void run(std::span<const Step> steps) {
        if constexpr (kHasTop) {
            start(top_[0].below(0), 1);
            top_[0].states = BlockStates();
        } else {
            start(c_at(-1, 0), n_vectors_);
        }
        c_at(-1, 0).zero() = p_.zero_weight;
        std::int32_t level = 0;
        for (const auto& step : steps) {
            level -= step.returns;
            (this->*kActions[region_at(level)][step.op])(step, level);
            level += is_carry(step.op);
        }
    }

  private:
    using Points = std::array<Vec, K>;
    using ForStates = std::array<Vec, K + 1>;  // the last: leading coefficients
    using Action = void (BlockWalk::*)(const Step&, std::int32_t level);
    using Actions = std::array<Action, kOps>;

    // Where more points are needed trees are deep, and near the root is little of them.
    static constexpr bool kHasTop = kHasStates && K <= 4;

    void start(const Kept<K>& root, int n_vectors) const {
        for (int v = 0; v < n_vectors; ++v) {
            for (int k = 0; k < K; ++k) store(root.points(v) + k * kLanes, broadcast(p_.weight[at(k)]));
            store(root.leading() + v * kLanes, broadcast(p_.leading_weight));
        }
    }
    // Of every level, from the one above the root on: G of both children; and until the last output's is known, C in
    // its place.
    LTS_INLINE Kept<K> g_at(std::int32_t level, int side, int output) const {
        const std::size_t place = at(level + 1) * at(2 * n_outputs_) + at(2 * output + side);
        return {stack_ + place * kept_doubles(K, n_vectors_), n_vectors_};
    }
    LTS_INLINE Kept<K> c_at(std::int32_t level, int side) const { return g_at(level, side, n_outputs_ - 1); }
    // Of a step's split, at this level.
    LTS_INLINE Kept<K> c_of(const Step& step, std::int32_t level) const { return c_at(level - 1, step.side); }
    LTS_INLINE Kept<K> g_of(const Step& step, std::int32_t level, int output) const {
        return g_at(level - 1, step.side, output);
    }
    double value_of(std::int32_t child, int output) const { return values_[at(~child) * at(n_outputs_) + at(output)]; }
    // Of the leaf on one side of a step's split, if it is this walk's.
    double value_beside(const Step& step, std::size_t side, int output) const {
        return step.is_beside_nothing ? 0.0 : value_of(split_of(step).child[side], output);
    }
    double* phi_of(std::int32_t player, int output) const {
        return rows_.phi + (at(output) * rows_.n_players + at(player)) * rows_.stride + at(rows_.first);
    }
    // What is not there asks the condition after the last, to which no row says yes.
    static PackedSplit asks_nothing(const Chunk& chunk) {
        PackedSplit out{};
        out.ask(chunk.conditions.size(), 0);
        return out;
    }
    const PackedSplit& split_of(const Step& step) const { return tree_.first_split[step.split]; }

    // φ += a·b
    LTS_INLINE static void add(double* phi, int v, Vec a, Vec b) {
        store(phi + v * kLanes, fma(a, b, load(phi + v * kLanes)));
    }
    // φ += a·b + c·d
    LTS_INLINE static void add(double* phi, int v, Vec a, Vec b, Vec c, Vec d) {
        store(phi + v * kLanes, fma(c, d, fma(a, b, load(phi + v * kLanes))));
    }

    // ---- C of a split -----------------------------------------------------------------------------
    //
    // of(v)[k] is that of some rows at a point, and of(v).leading() their leading coefficients.

    class OnStack {
      public:
        LTS_INLINE explicit OnStack(const Kept<K>& c) : c_(c) {}
        LTS_INLINE OnStack(const BlockWalk& walk, const Step& step, std::int32_t level)
            : OnStack(walk.c_of(step, level)) {}

        struct Here {
            const double *c, *at_infinity;
            LTS_INLINE Vec operator[](int k) const { return load(c + k * kLanes); }
            LTS_INLINE Vec leading() const { return load(at_infinity); }
        };
        LTS_INLINE Here of(int v) const { return {c_.points(v), c_.leading() + v * kLanes}; }

      private:
        Kept<K> c_;
    };

    // Near the root: by its state, a row's answers to what is asked above.
    template <int kBit>
    class ByState {
      public:
        LTS_INLINE ByState(const BlockWalk& walk, const Step& step, std::int32_t level)
            : states_(walk.top_[at(level)].states), c_(walk.top_[at(level)].by_state(step.side)) {}

        struct Here {
            const ForStates& c;
            Answers state;
            LTS_INLINE Vec operator[](int k) const { return States<kBit>(c[at(k)])[state]; }
            LTS_INLINE Vec leading() const { return (*this)[K]; }
        };
        LTS_INLINE Here of(int v) const { return {c_, answers_of<3>(states_.from(v * kLanes))}; }

      private:
        const BlockStates& states_;
        ForStates c_;
    };

    // The same where there is room for an answer more, the split's own, and so for C of its children: below(k).
    template <int kBit>
    class AboveAndBelow {
      public:
        LTS_INLINE AboveAndBelow(const BlockWalk& walk, const Step& step, std::int32_t level)
            : states_(walk.rows_, walk.asks_down_to(level, walk.split_of(step))),
              c_(walk.top_[at(level)].by_state(step.side)) {
            const MetNew<K> met(walk.p_, walk.tree_, walk.split_of(step),
                                StatesAsRows{StatesAsRows::kGoLeft[at(level)], 0});
            const auto here = met.of(0);
            for (int k = 0; k < K; ++k) {
                rare_[at(k)] = here.to_rare(c_[at(k)], k);
                common_[at(k)] = here.to_common(c_[at(k)], k);
            }
        }

        struct Here {
            const AboveAndBelow& all;
            Answers state;
            LTS_INLINE Vec operator[](int k) const { return States<kBit>(all.c_[at(k)])[state]; }
            LTS_INLINE Vec leading() const { return (*this)[K]; }
            template <bool kIsRare>
            LTS_INLINE Vec below(int k) const {
                return States<kBit>((kIsRare ? all.rare_ : all.common_)[at(k)])[state];
            }
        };
        LTS_INLINE Here of(int v) const { return {*this, answers_of<3>(states_.from(v * kLanes))}; }

      private:
        BlockStates states_;
        ForStates c_;
        Points rare_, common_;
    };

    // What the children of a split near the root have above them.
    struct Top {
        std::array<std::array<double, kept_doubles(K, 1)>, 2> c;  // by state
        BlockStates states;                                       // of the rows
        std::int32_t split;
        std::uint64_t satisfied;  // states in which all edges of its player above the split are

        LTS_INLINE Kept<K> below(std::size_t side) { return {c[side].data(), 1}; }
        LTS_INLINE ForStates by_state(std::size_t side) const {
            ForStates out;
            for (std::size_t k = 0; k <= K; ++k) out[k] = load(c[side].data() + k * kLanes);
            return out;
        }
    };
    static constexpr std::int32_t kTopLevels = 3;  // whose answers a state has

    // ---- splits -----------------------------------------------------------------------------------

    template <Met kMet>
    using AsMet = std::conditional_t<kMet == Met::again, MetAgain<K>, MetNew<K>>;

    template <Met kMet, Sides kSides>
    LTS_INLINE static void carry(const AsMet<kMet>& met, const auto& above, int n_vectors, const Kept<K>& rare,
                                 const Kept<K>& common) {
        for (int v = 0; v < n_vectors; ++v) {
            const auto here = met.of(v);
            const auto from = above.of(v);
            for (int k = 0; k < K; ++k) {
                const Vec c = from[k];
                if constexpr (kSides != Sides::common) store(rare.points(v) + k * kLanes, here.to_rare(c, k));
                if constexpr (kSides != Sides::rare) store(common.points(v) + k * kLanes, here.to_common(c, k));
            }
            if constexpr (kMet == Met::on_longest) {
                const Vec leading = from.leading() * here.delta();
                if constexpr (kSides != Sides::common) store(rare.leading() + v * kLanes, leading);
                if constexpr (kSides != Sides::rare) store(common.leading() + v * kLanes, broadcast(0.0) - leading);
            }
        }
    }
    void carry_zero(const Step& step, std::int32_t level) const {
        for (const int side : {0, 1})
            c_at(level, side).zero() = c_of(step, level).zero() * split_of(step).ratio_at(at(side));
    }

    // C, over the edges to children that have steps of their own.
    template <Met kMet, Sides kSides, class Above>
    void carry(const Step& step, std::int32_t level) {
        carry_zero(step, level);
        const AsMet<kMet> met(p_, tree_, split_of(step), rows_);
        carry<kMet, kSides>(met, Above(*this, step, level), n_vectors_, c_at(level, 0), c_at(level, 1));
    }

    // The same for states, near the root.
    template <Met kMet>
    void carry_states(const Step& step, std::int32_t level) {
        carry_zero(step, level);
        const PackedSplit& split = split_of(step);
        const auto split_at = [&](std::int32_t above) { return top_[at(above + 1)].split; };
        Top& below = top_[at(level + 1)];
        below.split = static_cast<std::int32_t>(step.split);
        below.satisfied = ~std::uint64_t{0};
        if (split.is_repeated && tree_.chunk_repeats[split.who].back != 0) {
            const std::int32_t edge = 2 * below.split - tree_.chunk_repeats[split.who].back;
            std::int32_t above = 0;
            while (split_at(above) != edge / 2) ++above;
            const std::uint64_t left = StatesAsRows::kGoLeft[at(above)];
            below.satisfied = (edge % 2 == 0 ? left : ~left) & top_[at(above + 1)].satisfied;
        }
        const AsMet<kMet> met(p_, tree_, split, StatesAsRows{StatesAsRows::kGoLeft[at(level)], below.satisfied});
        carry<kMet, Sides::both>(met, OnStack(top_[at(level)].below(step.side)), 1, below.below(0), below.below(1));
        below.states = BlockStates(rows_, asks_down_to(level, split));
    }
    // What is asked on the way to a split near the root, and there.
    LTS_INLINE std::array<std::int32_t, kTopLevels> asks_down_to(std::int32_t level, const PackedSplit& split) const {
        std::array<std::int32_t, kTopLevels> out;
        out.fill(leaf_.asks());
        for (std::int32_t i = 0; i < level; ++i) out[at(i)] = tree_.first_split[top_[at(i + 1)].split].asks();
        out[at(level)] = split.asks();
        return out;
    }

    // G, from that of both children.
    template <Met kMet, Leaf kLeaf, class Above>
    void close(const Step& step, std::int32_t level) {
        constexpr bool is_on_longest = kMet == Met::on_longest;
        const PackedSplit& split = split_of(step);
        const AsMet<kMet> met(p_, tree_, split, rows_);
        const Above above(*this, step, level);
        const double c_zero = c_of(step, level).zero() * AsMet<kMet>::kappa_at_zero(tree_, split);
        for (int output = 0; output < n_outputs_; ++output) {
            const double value = kLeaf == Leaf::none ? 0.0 : value_beside(step, kLeaf == Leaf::rare ? 0 : 1, output);
            const Vec leaf = broadcast(value);
            const Kept<K> g_rare = g_at(level, 0, output), g_common = g_at(level, 1, output);
            const Kept<K> g = g_of(step, level, output);
            double* const phi = phi_of(AsMet<kMet>::player_of(tree_, split), output);
            const double common_zero = kLeaf == Leaf::common ? value : g_common.zero();
            const double apart_zero = (kLeaf == Leaf::rare ? value : g_rare.zero()) - common_zero;
            const Vec at_zero = broadcast(c_zero * apart_zero);
            const Leading leading_rare = is_on_longest && kLeaf != Leaf::rare ? Leading(g_rare) : Leading();
            const Leading leading_common = is_on_longest && kLeaf != Leaf::common ? Leading(g_common) : Leading();
            for (int v = 0; v < n_vectors_; ++v) {
                const auto here = met.of(v);
                const auto c = above.of(v);
                Vec sum = at_zero;
                if constexpr (is_on_longest) {
                    const Vec apart = leading_rare[v] - leading_common[v];
                    sum = fma(c.leading(), apart, sum);
                    store(g.leading() + v * kLanes, here.delta() * apart);
                }
                for (int k = 0; k < K; ++k) {
                    const Vec rare = kLeaf == Leaf::rare ? leaf : load(g_rare.points(v) + k * kLanes);
                    const Vec common = kLeaf == Leaf::common ? leaf : load(g_common.points(v) + k * kLanes);
                    sum = fma(here.by_kappa(c[k], k), rare - common, sum);
                    store(g.points(v) + k * kLanes, here.together(rare, common, k));
                }
                add(phi, v, here.delta(), sum);
            }
            g.zero() = common_zero + split.rare_ratio * apart_zero;
            g.set_leads(is_on_longest);
        }
    }

    // ---- bottoms ----------------------------------------------------------------------------------
    //
    // Each turns C of some rows into G, and gives its players their due. What C is at 0 is the same for all rows, and
    // given with κ; it has a leading coefficient where paths are longest. That of G is returned.

    // A bottom whose C is at hand, or that is below a split of a new player whose C is.
    template <class Bottom, Place kPlace, Met kMet, class Above>
    void take(const Step& step, std::int32_t level) {
        constexpr int kBits = Bottom::kBits;
        constexpr bool is_on_longest = kMet == Met::on_longest;
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
        const Above above(*this, step, level);
        const double c_zero = c_of(step, level).zero(), side_ratio = has_edge ? split.ratio_at(is_rare ? 0 : 1) : 1.0;
        // Over δ, the edge at ∞; zero if the bottom is not at the end of a longest path.
        const bool is_longest = Bottom::kLevels > 0 && level + 1 + Bottom::kLevels == p_.most_players;
        const Vec edge_sign = broadcast(!is_longest ? 0.0 : is_rare ? 1.0 : -1.0);
        for (int output = 0; output < n_outputs_; ++output) {
            const Bottom bottom(*this, members, output);
            const double value = is_beside_leaf ? value_beside(step, is_rare ? 1 : 0, output) : 0.0;
            const Vec leaf = broadcast(value);
            const Kept<K> sibling = g_at(level, is_rare ? 1 : 0, output);
            const Kept<K> g = has_edge && !is_closing ? g_at(level, 0, output) : g_of(step, level, output);
            double* const phi = is_closing ? phi_of(split.who, output) : nullptr;
            const double mean = bottom.mean(), other_zero = is_closing && !is_beside_leaf ? sibling.zero() : value;
            const double apart_zero = is_rare ? mean - other_zero : other_zero - mean;
            const Vec below_at_zero = broadcast(c_zero * side_ratio * bottom.kappa_at_zero());
            const Vec at_zero = broadcast(c_zero * apart_zero);
            const Leading leading_other = is_on_longest && is_closing && !is_beside_leaf ? Leading(sibling) : Leading();
            for (int v = 0; v < n_vectors_; ++v) {
                const Answers answers = answers_of<kBits + 1>(states.from(v * kLanes));
                const auto c = above.of(v);
                const Vec delta = edge.delta(answers);
                Points points;
                for (int k = 0; k < K; ++k) {
                    if constexpr (requires { c.template below<is_rare>(k); }) {
                        points[at(k)] = c.template below<is_rare>(k);
                        continue;
                    }
                    const Vec from = c[k], over = edge.over_rare(delta, t[at(k)]);
                    points[at(k)] = !has_edge ? from : is_rare ? from * over : fnma(from, over, from);
                }
                Vec leading;
                if constexpr (is_on_longest)
                    leading = edge_sign * bottom(points, t, v, answers, below_at_zero, c.leading() * delta * edge_sign);
                else
                    bottom(points, t, v, answers, below_at_zero, NoLeading{});
                if constexpr (is_closing) {
                    Vec sum = at_zero;
                    if constexpr (is_on_longest) {
                        leading = is_rare ? leading - leading_other[v] : leading + leading_other[v];
                        sum = fma(c.leading(), leading, sum);
                        leading = delta * leading;
                    }
                    for (int k = 0; k < K; ++k) {
                        const Vec other = is_beside_leaf ? leaf : load(sibling.points(v) + k * kLanes);
                        const Vec rare = is_rare ? points[at(k)] : other, common = is_rare ? other : points[at(k)];
                        sum = fma(c[k], rare - common, sum);
                        points[at(k)] = fma(edge.over_rare(delta, t[at(k)]), rare - common, common);
                    }
                    add(phi, v, delta, sum);
                }
                if constexpr (is_on_longest) store(g.leading() + v * kLanes, leading);
                for (int k = 0; k < K; ++k) store(g.points(v) + k * kLanes, points[at(k)]);
            }
            g.zero() = is_closing ? (is_rare ? other_zero : mean) + split.rare_ratio * apart_zero : mean;
            g.set_leads(is_on_longest);
        }
    }

    // The splits of a clean bottom. Of three levels: those on the rare side of the root, those on the common side, and
    // the root; else the root comes first. Where a leaf stands in the place of a split, that asks nothing and has the
    // leaf on both sides: all differences are zero, and nobody is paid.
    template <Bottom kBottom>
    class MembersOf {
      public:
        LTS_INLINE MembersOf(const BlockWalk& walk, std::int32_t root) {
            member_[kRoot] = walk.tree_.first_split + root;
            const auto put_children = [&](std::size_t i, std::size_t rare, std::size_t common) LTS_INLINED {
                put(i, 0, rare, walk.leaf_);
                put(i, 1, common, walk.leaf_);
            };
            if constexpr (kBottom == Bottom::two) put_children(0, 1, 2);
            if constexpr (kBottom == Bottom::three) {
                put_children(kRoot, 0, 3);
                put_children(0, 1, 2);
                put_children(3, 4, 5);
            }
        }
        MembersOf(const MembersOf&) = delete;
        static constexpr int kRoot = kBottom == Bottom::three ? 6 : 0;
        LTS_INLINE const PackedSplit& operator[](int i) const { return *member_[at(i)]; }
        LTS_INLINE void ask(std::int32_t* to) const {
            for (const auto* const member : member_) *to++ = member->asks();
        }

      private:
        LTS_INLINE void put(std::size_t parent, std::size_t side, std::size_t i, const PackedSplit& leaf) {
            const std::int32_t child = member_[parent]->child[side];
            leaf_[i] = leaf;
            leaf_[i].child = {child, child};
            // Whether it is a leaf is hard to foretell, and a question would make compilers branch.
            const std::array<const PackedSplit*, 2> either{member_[parent] + std::max(child, 0), &leaf_[i]};
            member_[i] = either[child < 0];
        }

        std::array<const PackedSplit*, at(splits_of(kBottom))> member_;
        std::array<PackedSplit, at(splits_of(kBottom))> leaf_;  // some of them are members
    };
    // What is expected on its rare side less what is on the other, and of both.
    struct Expected {
        double apart, mean;
        LTS_INLINE Expected(const PackedSplit& split, double rare, double common)
            : apart(rare - common), mean(common + split.rare_ratio * apart) {}
    };

    // A split of two leaves: G = mean + t·slope, and what its player gets is slope · Σ C.
    template <int kBit>
    struct Tip {
        Expected expected;
        double* phi;
        Deltas<kBit> slope;

        LTS_INLINE Tip(const BlockWalk& walk, const PackedSplit& split, int output)
            : expected(split, walk.value_of(split.child[0], output), walk.value_of(split.child[1], output)),
              phi(walk.phi_of(split.who, output)),
              slope(Deltas<kBit>(split.rare_side(), broadcast(split.rare_ratio)).by(broadcast(expected.apart))) {}
    };

    struct NoLeading {};
    LTS_INLINE static Vec plus(Vec sum, Vec leading) { return sum + leading; }
    LTS_INLINE static Vec plus(Vec sum, NoLeading) { return sum; }

    // A bottom whose players are new.
    struct Clean {
        static double kappa_at_zero() { return 1.0; }
    };

    // Two leaves.
    class Leaves : public Clean {
      public:
        static constexpr int kBits = 1, kLevels = 1;
        using Members = MembersOf<Bottom::leaves>;

        LTS_INLINE Leaves(const BlockWalk& walk, const Members& members, int output)
            : tip_(walk, members[0], output), mean_(broadcast(tip_.expected.mean)) {}
        double mean() const { return tip_.expected.mean; }
        LTS_INLINE Vec operator()(Points& points, const Points& t, int v, const Answers& answers, Vec zero,
                                  auto leading) const {
            Vec sum = plus(zero, leading);
            for (int k = 0; k < K; ++k) sum = sum + points[at(k)];
            const Vec slope = tip_.slope[answers];
            add(tip_.phi, v, slope, sum);
            for (int k = 0; k < K; ++k) points[at(k)] = fma(slope, t[at(k)], mean_);
            return slope;
        }

      private:
        Tip<0> tip_;
        Vec mean_;
    };

    // Two leaves of a repeated player.
    class LeavesAgain {
      public:
        static constexpr int kBits = 0, kLevels = 0;  // of new players
        struct Members {
            const PackedSplit& split;

            LTS_INLINE Members(const BlockWalk& walk, std::int32_t root) : split(walk.tree_.first_split[root]) {}
            LTS_INLINE void ask(std::int32_t*) const {}
        };

        LTS_INLINE LeavesAgain(const BlockWalk& walk, const Members& members, int output)
            : LeavesAgain(walk, members.split, output) {}
        double mean() const { return mean_; }
        double kappa_at_zero() const { return kappa_at_zero_; }
        LTS_INLINE Vec operator()(Points& points, const Points&, int v, const Answers&, Vec zero, auto) const {
            const auto here = met_.of(v);
            Vec sum = zero;
            for (int k = 0; k < K; ++k) sum = sum + here.by_kappa(points[at(k)], k);
            add(phi_, v, here.delta() * apart_, sum);
            for (int k = 0; k < K; ++k) points[at(k)] = here.among(value_[at(k)]);
            return broadcast(0.0);
        }

      private:
        LTS_INLINE LeavesAgain(const BlockWalk& walk, const PackedSplit& split, int output)
            : met_(walk.p_, walk.tree_, split, walk.rows_),
              phi_(walk.phi_of(met_.player_of(walk.tree_, split), output)),
              kappa_at_zero_(met_.kappa_at_zero(walk.tree_, split)) {
            const double rare = walk.value_of(split.child[0], output);
            const double common = walk.value_of(split.child[1], output);
            const Expected expected(split, rare, common);
            mean_ = expected.mean;
            apart_ = broadcast(expected.apart);
            for (std::size_t k = 0; k < K; ++k) {
                const Quad over_rare = load_quad(met_.over_rare[k].data());
                const Quad over_common = load_quad(met_.over_common[k].data());
                store_quad(value_[k].data(), fma(over_rare, spread(rare), over_common * spread(common)));
            }
        }

        MetAgain<K> met_;
        double* phi_;
        double kappa_at_zero_, mean_;
        Vec apart_;
        std::array<Outcomes, K> value_;
    };

    // A split of two tips, in three bits: G = mean + t·slope + t²·curve. Gives three players their due, from Σ C and
    // Σ t·C; returns slope and curve.
    template <int kBit>
    struct TwigByAnswers {
        Tip<kBit + 1> rare;
        Tip<kBit + 2> common;
        Expected expected;
        Vec ratio, apart;
        double* phi;
        Deltas<kBit> delta;

        // Its splits are the i-th, and the next two.
        LTS_INLINE TwigByAnswers(const BlockWalk& walk, const auto& members, int i, int output)
            : rare(walk, members[i + 1], output),
              common(walk, members[i + 2], output),
              expected(members[i], rare.expected.mean, common.expected.mean),
              ratio(broadcast(members[i].rare_ratio)),
              apart(broadcast(expected.apart)),
              phi(walk.phi_of(members[i].who, output)),
              delta(members[i].rare_side(), ratio) {}

        LTS_INLINE std::array<Vec, 2> operator()(const Answers& answers, int v, Vec sum, Vec sum_t) const {
            const Vec here = delta[answers], slope_rare = rare.slope[answers], slope_common = common.slope[answers];
            const Vec bend = slope_rare - slope_common, sum_rare = fma(here, sum_t, ratio * sum);
            add(phi, v, here, fma(bend, sum_t, apart * sum));
            add(rare.phi, v, slope_rare, sum_rare);
            add(common.phi, v, slope_common, sum - sum_rare);
            return {fma(ratio, bend, fma(here, apart, slope_common)), here * bend};
        }
    };

    // The same where three answers are one look-up: all that depends on these has been multiplied before.
    template <int kBit>
    class TwigByState {
      public:
        Expected expected;

        LTS_INLINE TwigByState(const BlockWalk& walk, const auto& members, int i, int output)
            : TwigByState(TwigByAnswers<kBit>(walk, members, i, output)) {}
        LTS_INLINE std::array<Vec, 2> operator()(const Answers& answers, int v, Vec sum, Vec sum_t) const {
            const Vec curve = curve_[answers];
            add(phi_, v, own_[answers], sum, curve, sum_t);
            add(phi_rare_, v, rare_[answers], sum, rare_t_[answers], sum_t);
            add(phi_common_, v, common_[answers], sum, common_t_[answers], sum_t);
            return {slope_[answers], curve};
        }

      private:
        LTS_INLINE explicit TwigByState(const TwigByAnswers<kBit>& twig)
            : TwigByState(twig, twig.delta.states(), twig.rare.slope.states(), twig.common.slope.states()) {}
        LTS_INLINE TwigByState(const TwigByAnswers<kBit>& twig, Vec here, Vec slope_rare, Vec slope_common)
            : expected(twig.expected),
              phi_(twig.phi),
              phi_rare_(twig.rare.phi),
              phi_common_(twig.common.phi),
              own_(here * twig.apart),
              rare_(slope_rare * twig.ratio),
              rare_t_(slope_rare * here),
              common_(slope_common * (broadcast(1.0) - twig.ratio)),
              common_t_(slope_common * (broadcast(0.0) - here)),
              slope_(fma(twig.ratio, slope_rare - slope_common, fma(here, twig.apart, slope_common))),
              curve_(here * (slope_rare - slope_common)) {}

        double *phi_, *phi_rare_, *phi_common_;
        States<kBit> own_, rare_, rare_t_, common_, common_t_, slope_, curve_;
    };
    template <int kBit>
    using Twig = std::conditional_t<kHasStates, TwigByState<kBit>, TwigByAnswers<kBit>>;

    // Up to three splits.
    class Two : public Clean {
      public:
        static constexpr int kBits = 3, kLevels = 2;
        using Members = MembersOf<Bottom::two>;

        LTS_INLINE Two(const BlockWalk& walk, const Members& members, int output)
            : twig_(walk, members, 0, output), mean_(broadcast(twig_.expected.mean)) {}
        double mean() const { return twig_.expected.mean; }
        LTS_INLINE Vec operator()(Points& points, const Points& t, int v, const Answers& answers, Vec zero,
                                  auto leading) const {
            Vec sum = zero + points[0], sum_t = plus(points[0] * t[0], leading);
            for (int k = 1; k < K; ++k) {
                sum = sum + points[at(k)];
                sum_t = fma(points[at(k)], t[at(k)], sum_t);
            }
            const auto [slope, curve] = twig_(answers, v, sum, sum_t);
            for (int k = 0; k < K; ++k) points[at(k)] = fma(t[at(k)], fma(t[at(k)], curve, slope), mean_);
            return curve;
        }

      private:
        Twig<0> twig_;
        Vec mean_;
    };

    // Up to seven.
    class Three : public Clean {
      public:
        static constexpr int kBits = 7, kLevels = 3;
        using Members = MembersOf<Bottom::three>;

        LTS_INLINE Three(const BlockWalk& walk, const Members& members, int output)
            : rare_(walk, members, 0, output),
              common_(walk, members, 3, output),
              expected_(members[kRoot], rare_.expected.mean, common_.expected.mean),
              phi_(walk.phi_of(members[kRoot].who, output)),
              ratio_(broadcast(members[kRoot].rare_ratio)),
              delta_(members[kRoot].rare_side(), ratio_),
              apart_(broadcast(expected_.apart)),
              mean_(broadcast(expected_.mean)),
              square_(broadcast_all<K>(walk.p_.square)) {}
        double mean() const { return expected_.mean; }
        LTS_INLINE Vec operator()(Points& points, const Points& t, int v, const Answers& answers, Vec zero,
                                  auto leading) const {
            Vec sum = zero + points[0], sum_t = points[0] * t[0], sum_tt = plus(points[0] * square_[0], leading);
            for (int k = 1; k < K; ++k) {
                sum = sum + points[at(k)];
                sum_t = fma(points[at(k)], t[at(k)], sum_t);
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
                points[at(k)] = fma(t[at(k)], fma(t[at(k)], fma(t[at(k)], third, curve), slope), mean_);
            return third;
        }

      private:
        static constexpr int kRoot = Members::kRoot;

        Twig<0> rare_;
        Twig<3> common_;
        Expected expected_;
        double* phi_;
        Vec ratio_;
        Deltas<kRoot> delta_;
        Vec apart_, mean_;
        Points square_;
    };

    // ---- what a step does -------------------------------------------------------------------------

    template <class Above>
    static constexpr Actions actions() {
        Actions out{};
        add_splits<Met::anew, Above>(out);
        add_splits<Met::again, Above>(out);
        add_splits<Met::on_longest, Above>(out);
        add_bottoms<Met::anew, Above, Place::alone>(out);
        add_bottoms_below_splits<Above>(out);
        return out;
    }
    template <Met kMet, class Above>
    static constexpr void add_splits(Actions& to) {
        to[carry_op(kMet, Sides::both)] = &BlockWalk::carry<kMet, Sides::both, Above>;
        to[carry_op(kMet, Sides::rare)] = &BlockWalk::carry<kMet, Sides::rare, Above>;
        to[carry_op(kMet, Sides::common)] = &BlockWalk::carry<kMet, Sides::common, Above>;
        to[close_op(kMet, Leaf::none)] = &BlockWalk::close<kMet, Leaf::none, Above>;
        to[close_op(kMet, Leaf::rare)] = &BlockWalk::close<kMet, Leaf::rare, Above>;
        to[close_op(kMet, Leaf::common)] = &BlockWalk::close<kMet, Leaf::common, Above>;
    }
    template <class Above>
    static constexpr void add_bottoms_below_splits(Actions& to) {
        const auto add = [&]<Met kMet>() {
            add_bottoms<kMet, Above, Place::rare_first, Place::rare_closing, Place::rare_beside_leaf,
                        Place::common_closing, Place::common_beside_leaf>(to);
        };
        add.template operator()<Met::anew>();
        add.template operator()<Met::on_longest>();
    }
    template <Met kMet, class Above, Place... kPlaces>
    static constexpr void add_bottoms(Actions& to) {
        ((to[bottom_op(Bottom::leaves, kPlaces, kMet)] = &BlockWalk::take<Leaves, kPlaces, kMet, Above>), ...);
        ((to[bottom_op(Bottom::leaves_again, kPlaces, kMet)] = &BlockWalk::take<LeavesAgain, kPlaces, kMet, Above>),
         ...);
        ((to[bottom_op(Bottom::two, kPlaces, kMet)] = &BlockWalk::take<Two, kPlaces, kMet, Above>), ...);
        ((to[bottom_op(Bottom::three, kPlaces, kMet)] = &BlockWalk::take<Three, kPlaces, kMet, Above>), ...);
    }
    // By the level of a split: below the top; where the top ends; and in it.
    static constexpr std::size_t region_at(std::int32_t level) {
        if constexpr (!kHasTop) return 0;
        return level > kTopLevels ? 0 : level == kTopLevels ? 1 : 2;
    }
    static constexpr auto regions() {
        if constexpr (kHasTop) {
            std::array<Actions, 3> out{actions<OnStack>(), actions<ByState<0>>(), actions<ByState<0>>()};
            add_bottoms_below_splits<AboveAndBelow<0>>(out[2]);
            for (const auto sides : {Sides::both, Sides::rare, Sides::common}) {
                out[2][carry_op(Met::anew, sides)] = &BlockWalk::carry_states<Met::anew>;
                out[2][carry_op(Met::again, sides)] = &BlockWalk::carry_states<Met::again>;
                out[2][carry_op(Met::on_longest, sides)] = &BlockWalk::carry_states<Met::on_longest>;
            }
            return out;
        } else {
            return std::array<Actions, 1>{actions<OnStack>()};
        }
    }
    static const std::array<Actions, kHasTop ? 3 : 1> kActions;

    const Tree& tree_;
    const BlockPoints<K>& p_;
    BlockRows rows_;
    const double* values_;  // of leaves
    PackedSplit leaf_;      // in the place of a split
    int n_outputs_;
    int n_vectors_;
    double* stack_;
    alignas(64) std::array<Top, kHasTop ? kTopLevels + 1 : 0> top_;
};

template <int K>
constexpr std::array<typename BlockWalk<K>::Actions, BlockWalk<K>::kHasTop ? 3 : 1> BlockWalk<K>::kActions =
    BlockWalk<K>::regions();

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
