// The walk of a few rows through bunches of trees (compile/bunches.hpp). Lanes are quadrature points of one row, or as
// many rows, whose points follow each other.
//
// The two edges of a split are one number. Of its two sides, fewer training rows took the rare one. With w the cover
// ratio of that, let δ be 1 - w where the row goes there, -w where it does not, and 0 where its player is already
// unsatisfied above, and f = w + τ·δ. Then
//
//   over an edge   C_rare = C · f     C_common = C - C_rare
//   at a leaf      G = value
//   at a split     G = G_common + f · (G_rare - G_common)     φ += δ · Σ κ · C · (G_rare - G_common)
//
// where C at the root is ω. For a new player τ = t and κ = 1. For one that splits above, with absent weight c there,
// τ = t/u and κ = c/u² with u = t + (1-t)·c; and because τ may then be so near to 1 that 1 - τ has no digits left,
// that is computed as (1-t)·c/u, and both edges have factors of their own.
//
// At a leaf and at a tip G is a line, mean + t·slope; and at a new player's twig a parabola, for which of C two sums
// are enough, Σ C and Σ t·C.
//
// Each split has a slot of points, which holds C and, after the way up, G. Points beyond those that there are have
// weight zero. Sums over points are taken lane by lane; if these are points, they are added up at the very end.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "compile/program.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/lanes.hpp"
#include "kernels/simd.hpp"
#include "run/worker.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Quads, or whatever is wider.
using Wide = std::conditional_t<(kLanes > 4), Vec, Quad>;
// Where there are registers enough.
using WidestLanes = std::conditional_t<(kLanes > 4), Pair, Vec>;

// One row, whose points are in the lanes of V vectors.
template <class Vector, int V>
struct OneRow {
    using Lanes = Vector;
    using Bits = std::uint8_t;  // one for each row
    static constexpr int kVectors = V;
    static constexpr std::size_t kPoints = at(V * In<Lanes>::kLanes);
    static constexpr unsigned kAllRows = 1;
    static constexpr std::size_t kPhiLanes = In<Wide>::kLanes;  // all walks add to the same

    // 1 where a bit is set.
    LTS_INLINE static Lanes number(unsigned bits) {
        constexpr double kNumber[2] = {0.0, 1.0};
        return In<Lanes>::all(kNumber[bits]);
    }
    // Some of all points, each of which has a number.
    LTS_INLINE static Lanes at_points(const double* numbers, int v) {
        return In<Lanes>::load(numbers + v * In<Lanes>::kLanes);
    }
};

// Rows in the lanes, at V points.
template <class Vector, int V>
struct RowsInLanes {
    using Lanes = Vector;
    static constexpr int kRows = In<Lanes>::kLanes;
    using Bits = std::conditional_t<(kRows > 8), std::uint16_t, std::uint8_t>;
    static constexpr int kVectors = V;
    static constexpr std::size_t kPoints = at((V + kRows - 1) / kRows * kRows);
    static constexpr unsigned kAllRows = (1U << kRows) - 1;
    static constexpr std::size_t kPhiLanes = kRows;

    LTS_INLINE static Lanes number(unsigned bits) { return In<Lanes>::ones(bits); }
    LTS_INLINE static Lanes at_points(const double* numbers, int v) { return In<Lanes>::all(numbers[v]); }
};

// Points that are walked at once, from the first on: as many as there are and fit.
template <class Rows>
struct BunchPoints {
    using Lanes = typename Rows::Lanes;
    struct alignas(64) Numbers : std::array<double, Rows::kPoints> {};
    Numbers t, absent, weight;

    LTS_INLINE BunchPoints(const Rule& rule, int first, int n_points) {
        const auto take = [&](const std::vector<double>& from, double otherwise, Numbers& to) LTS_INLINED {
            to.fill(otherwise);
            std::copy_n(from.begin() + first, n_points, to.begin());
        };
        take(rule.point, 0.5, t);
        take(rule.absent, 0.5, absent);
        take(rule.weight, 0.0, weight);
    }

    // What they are to a player that splits above.
    struct Again {
        Numbers tau, rest, kappa;  // τ, 1 - τ and κ

        LTS_INLINE Again(const BunchPoints& points, double absent_above) {
            const Lanes c = In<Lanes>::all(absent_above);
            for (std::size_t k = 0; k < Rows::kPoints; k += In<Lanes>::kLanes) {
                const Lanes present = In<Lanes>::load(&points.t[k]), share = In<Lanes>::load(&points.absent[k]) * c;
                const Lanes per_u = In<Lanes>::all(1.0) / (present + share);
                In<Lanes>::store(&tau[k], present * per_u);
                In<Lanes>::store(&rest[k], share * per_u);
                In<Lanes>::store(&kappa[k], c * per_u * per_u);
            }
        }
    };
};

// What a walk reads and writes, beside the bunch.
template <class Bits>
struct RowMemory {
    const Bits* answers;   // 2·condition of the chunk + side: a bit for each row that goes there
    Bits* satisfied;       // by repeat of the chunk, of trees that were met: a bit for each row that satisfies all
                           // edges of its player above
    const double* values;  // of the leaves, of one output, `n_outputs` apart
    double* phi;           // of each player, `n_outputs` apart
    std::size_t n_outputs;
    double* slots;  // of every split
};

// kOne: leaves have one value each.
template <class Rows, bool kOne>
class BunchWalk {
  public:
    using Points = BunchPoints<Rows>;
    using Memory = RowMemory<typename Rows::Bits>;

    // `section` is memory that all sections but the first one share: what they keep stays near.
    LTS_INLINE BunchWalk(const Bunch& bunch, const Points& points, const Memory& memory, const Memory& section)
        : bunch_(bunch), p_(points), m_(memory), section_(section) {}

    void run() const {
        for (const auto root : bunch_.order.first(at(bunch_.n_trees)))
            for (int v = 0; v < V; ++v) store(slot_at(m_, root), v, Rows::at_points(p_.weight.data(), v));
        const std::int32_t* order = bunch_.order.data();
        const BunchGroup* group = bunch_.groups.data();
        const std::span top(group, at(bunch_.sections[0].n_groups));
        const std::int32_t* const end_of_top = order = go_down(m_, top, order);
        group += top.size();
        for (const auto& section : bunch_.sections.subspan(1)) {
            const std::span groups(group, at(section.n_groups));
            const std::span roots(order, at(section.n_roots));
            Memory m = section_;
            m.slots -= at(roots[0]) * kSlot;
            for (const auto root : roots) std::copy_n(slot_at(m_, root), kSlot, slot_at(m, root));
            order = go_down(m, groups, order);
            go_up(m, groups, order);
            for (const auto root : roots) std::copy_n(slot_at(m, root), kSlot, slot_at(m_, root));
            group += groups.size();
        }
        go_up(m_, top, end_of_top);
    }

  private:
    using Lanes = typename Rows::Lanes;
    static constexpr int V = Rows::kVectors;
    static constexpr std::size_t kSlot = at(V * In<Lanes>::kLanes);

    // The groups of a section, whose order begins here; returns its end.
    const std::int32_t* go_down(const Memory& m, std::span<const BunchGroup> groups, const std::int32_t* order) const {
        for (const auto& group : groups) {
            const std::span here(order, group.n_splits);
            with(group,
                 [&]<bool kRepeated, Child kRare, Child kCommon>() { down<kRepeated, kRare, kCommon>(m, here); });
            order += group.n_splits;
        }
        return order;
    }
    void go_up(const Memory& m, std::span<const BunchGroup> groups, const std::int32_t* end_of_order) const {
        for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
            end_of_order -= group->n_splits;
            const std::span here(end_of_order, group->n_splits);
            with(*group, [&]<bool kRepeated, Child kRare, Child kCommon>() {
                if constexpr (kRare == Child::split || kCommon == Child::split) up<kRepeated, kRare, kCommon>(m, here);
            });
        }
    }
    // Calls a function whose template arguments say what the splits of a group are.
    template <class Function>
    LTS_INLINE static void with(const BunchGroup& group, const Function& function) {
        const auto with_child = [](unsigned child, const auto& then) LTS_INLINED {
            if (child == static_cast<unsigned>(Child::split)) return then.template operator()<Child::split>();
            child == static_cast<unsigned>(Child::leaf) ? then.template operator()<Child::leaf>()
                                                        : then.template operator()<Child::tip>();
        };
        with_child(group.rare, [&]<Child kRare>() {
            with_child(group.common, [&]<Child kCommon>() {
                constexpr bool has_split = kRare == Child::split || kCommon == Child::split;
                constexpr bool has_tip = kRare == Child::tip || kCommon == Child::tip;
                if constexpr (!has_split || !has_tip)
                    group.is_repeated ? function.template operator()<true, kRare, kCommon>()
                                      : function.template operator()<false, kRare, kCommon>();
            });
        });
    }

    LTS_INLINE static Lanes load(const double* from, int v) { return In<Lanes>::load(from + v * In<Lanes>::kLanes); }
    LTS_INLINE static void store(double* to, int v, Lanes a) { In<Lanes>::store(to + v * In<Lanes>::kLanes, a); }
    LTS_INLINE static double* slot_at(const Memory& m, std::int32_t place) { return m.slots + at(place) * kSlot; }
    // Of the child of a split that has this slot.
    LTS_INLINE static double* child_slot(double* slot, std::int32_t child) {
        return slot + child * static_cast<std::ptrdiff_t>(kSlot);
    }
    LTS_INLINE static std::size_t times_outputs(const Memory& m, std::int32_t i) {
        return kOne ? at(i) : at(i) * m.n_outputs;
    }
    LTS_INLINE static double value_at(const Memory& m, std::int32_t child) {
        return m.values[times_outputs(m, ~child)];
    }
    // φ += a·b
    LTS_INLINE static void pay(const Memory& m, std::int32_t player, Lanes a, Lanes b) {
        double* const phi = m.phi + times_outputs(m, player) * Rows::kPhiLanes;
        In<Lanes>::store(phi, fma(a, b, In<Lanes>::load(phi)));
    }

    // Which rows go to the rare side? No branch: where a row goes is as good as random.
    LTS_INLINE static unsigned goes_rare(const Memory& m, const PackedSplit& split) {
        return m.answers[split.rare_answer];
    }
    // Which rows satisfy all edges of a repeated player above this split?
    LTS_INLINE static unsigned satisfied_above(const Memory& m, const PackedSplit* splits, std::int32_t place,
                                               std::int32_t back) {
        const std::int32_t above = 2 * place - back;
        const PackedSplit& there = splits[above / 2];
        const unsigned is_there = m.answers[2 * there.asks() + above % 2];
        const unsigned topmost = (there.is_repeated ^ 1U) * Rows::kAllRows;
        return (is_there & (m.satisfied[there.who] | topmost)) | (unsigned{back == 0} * Rows::kAllRows);
    }

    using AtPoints = std::array<Lanes, V>;
    LTS_INLINE AtPoints points() const {
        AtPoints out;
        for (int v = 0; v < V; ++v) out[at(v)] = Rows::at_points(p_.t.data(), v);
        return out;
    }

    // A split of a new player, as rows meet it.
    class MetNew {
      public:
        Lanes ratio, delta;
        std::int32_t player;

        LTS_INLINE MetNew(const Memory& m, const Points&, const AtPoints& t, const PackedSplit& split, const Repeat*)
            : ratio(In<Lanes>::all(split.rare_ratio)),
              delta(Rows::number(goes_rare(m, split)) - ratio),
              player(split.who),
              t_(t) {}
        LTS_INLINE std::array<Lanes, 2> to_children(Lanes c, int v) const {
            const Lanes rare = c * over(v);
            return {rare, c - rare};
        }
        LTS_INLINE Lanes together(Lanes rare, Lanes common, int v) const { return fma(over(v), rare - common, common); }
        // κ·x
        LTS_INLINE Lanes by_kappa(Lanes x, int) const { return x; }

      private:
        LTS_INLINE Lanes over(int v) const { return fma(delta, t_[at(v)], ratio); }

        const AtPoints& t_;
    };

    // And one of a repeated player.
    class MetAgain {
      public:
        Lanes delta;
        std::int32_t player;

        LTS_INLINE MetAgain(const Memory& m, const Points& points, const AtPoints&, const PackedSplit& split,
                            const Repeat* repeats)
            : player(repeats[split.who].player), again_(points, repeats[split.who].absent_above) {
            const unsigned satisfied = m.satisfied[split.who], goes = satisfied & goes_rare(m, split);
            const Lanes ratio = In<Lanes>::all(split.rare_ratio), other = In<Lanes>::all(1.0) - ratio;
            const Lanes is_satisfied = Rows::number(satisfied), is_not = Rows::number(satisfied ^ Rows::kAllRows);
            rare_ = {ratio * is_not, ratio * is_satisfied, Rows::number(goes)};
            common_ = {other * is_not, other * is_satisfied, Rows::number(satisfied ^ goes)};
            delta = rare_.goes - rare_.satisfied;
        }
        LTS_INLINE std::array<Lanes, 2> to_children(Lanes c, int v) const {
            return {c * over(rare_, v), c * over(common_, v)};
        }
        LTS_INLINE Lanes together(Lanes rare, Lanes common, int v) const {
            return fma(over(rare_, v), rare, over(common_, v) * common);
        }
        LTS_INLINE Lanes by_kappa(Lanes x, int v) const { return x * Rows::at_points(again_.kappa.data(), v); }

      private:
        struct Edge {
            Lanes unsatisfied, satisfied;  // its ratio, of rows that are so above, else 0
            Lanes goes;                    // 1 of those that are satisfied and go there
        };
        LTS_INLINE Lanes over(const Edge& edge, int v) const {
            const Lanes rest = fma(edge.satisfied, Rows::at_points(again_.rest.data(), v), edge.unsatisfied);
            return fma(edge.goes, Rows::at_points(again_.tau.data(), v), rest);
        }

        typename Points::Again again_;
        Edge rare_, common_;
    };

    // G of a leaf or of a tip: mean + t·slope.
    template <Child kChild>
    class Line {
      public:
        Lanes mean, slope;

        LTS_INLINE Line(const Memory& m, const PackedSplit& twig, std::size_t side) {
            const std::int32_t child = twig.child[side];
            if constexpr (kChild == Child::leaf) {
                mean = In<Lanes>::all(value_at(m, child));
                slope = In<Lanes>::all(0.0);
            } else {
                const PackedSplit& tip = (&twig)[child];
                const double common = value_at(m, tip.child[1]), apart = value_at(m, tip.child[0]) - common;
                mean = In<Lanes>::all(common + tip.rare_ratio * apart);
                slope = (Rows::number(goes_rare(m, tip)) - In<Lanes>::all(tip.rare_ratio)) * In<Lanes>::all(apart);
                player_ = tip.who;
            }
        }
        // A tip's player gets slope · Σ C.
        LTS_INLINE void pay_for(const Memory& m, Lanes sum) const {
            if constexpr (kChild == Child::tip) pay(m, player_, slope, sum);
        }
        LTS_INLINE Lanes at_point(Lanes t) const { return kChild == Child::leaf ? mean : fma(slope, t, mean); }

      private:
        std::int32_t player_ = -1;
    };

    // C, from a split to its children; and G, where no other split is below.
    template <bool kRepeated, Child kRare, Child kCommon>
    [[gnu::noinline]] void down(const Memory& memory, std::span<const std::int32_t> order) const {
        using Met = std::conditional_t<kRepeated, MetAgain, MetNew>;
        const Memory m = memory;  // copies, which no store can change
        const AtPoints t = points();
        const PackedSplit* const splits = bunch_.splits.data();
        const Repeat* const repeats = bunch_.repeats;
        for (const std::int32_t place : order) {
            const PackedSplit& split = splits[place];
            double* const slot = slot_at(m, place);
            if constexpr (kRepeated)
                m.satisfied[split.who] =
                    static_cast<typename Rows::Bits>(satisfied_above(m, splits, place, repeats[split.who].back));
            const Met met(m, p_, t, split, repeats);
            if constexpr (kRare != Child::split && kCommon != Child::split) {
                finish<kRare, kCommon>(m, t, split, met, slot);
            } else {
                for (int v = 0; v < V; ++v) {
                    const auto children = met.to_children(load(slot, v), v);
                    if constexpr (kRare == Child::split) store(child_slot(slot, split.child[0]), v, children[0]);
                    if constexpr (kCommon == Child::split) store(child_slot(slot, split.child[1]), v, children[1]);
                }
            }
        }
    }
    template <Child kRare, Child kCommon>
    LTS_INLINE static void finish(const Memory& m, const AtPoints& t, const PackedSplit& split, const MetNew& met,
                                  double* slot) {
        const Line<kRare> rare(m, split, 0);
        const Line<kCommon> common(m, split, 1);
        Lanes sum = load(slot, 0), sum_t = sum * t[0];
        for (int v = 1; v < V; ++v) {
            const Lanes c = load(slot, v);
            sum = sum + c;
            sum_t = fma(c, t[at(v)], sum_t);
        }
        const Lanes sum_rare = fma(met.delta, sum_t, met.ratio * sum);
        rare.pay_for(m, sum_rare);
        common.pay_for(m, sum - sum_rare);
        const Lanes apart = rare.mean - common.mean, bend = rare.slope - common.slope;
        pay(m, met.player, met.delta, fma(bend, sum_t, apart * sum));
        const Lanes mean = fma(met.ratio, apart, common.mean), curve = met.delta * bend;
        const Lanes slope = fma(met.ratio, bend, fma(met.delta, apart, common.slope));
        for (int v = 0; v < V; ++v) store(slot, v, fma(t[at(v)], fma(t[at(v)], curve, slope), mean));
    }
    template <Child kRare, Child kCommon>
    LTS_INLINE static void finish(const Memory& m, const AtPoints& t, const PackedSplit& split, const MetAgain& met,
                                  double* slot) {
        const Line<kRare> rare(m, split, 0);
        const Line<kCommon> common(m, split, 1);
        Lanes sum, sum_rare, sum_common;
        for (int v = 0; v < V; ++v) {
            const Lanes c = load(slot, v), g_rare = rare.at_point(t[at(v)]), g_common = common.at_point(t[at(v)]);
            const auto children = met.to_children(c, v);
            const Lanes due = met.by_kappa(c, v) * (g_rare - g_common);
            sum = v == 0 ? due : sum + due;
            sum_rare = v == 0 ? children[0] : sum_rare + children[0];
            sum_common = v == 0 ? children[1] : sum_common + children[1];
            store(slot, v, met.together(g_rare, g_common, v));
        }
        rare.pay_for(m, sum_rare);
        common.pay_for(m, sum_common);
        pay(m, met.player, met.delta, sum);
    }

    // G, where it had to wait for that of a split below.
    template <bool kRepeated, Child kRare, Child kCommon>
    [[gnu::noinline]] void up(const Memory& memory, std::span<const std::int32_t> order) const {
        using Met = std::conditional_t<kRepeated, MetAgain, MetNew>;
        const Memory m = memory;
        const AtPoints t = points();
        const PackedSplit* const splits = bunch_.splits.data();
        const Repeat* const repeats = bunch_.repeats;
        for (std::size_t i = order.size(); i-- > 0;) {
            const PackedSplit& split = splits[order[i]];
            double* const slot = slot_at(m, order[i]);
            const Met met(m, p_, t, split, repeats);
            Lanes sum;
            for (int v = 0; v < V; ++v) {
                const Lanes rare = below<kRare>(m, slot, split.child[0], v);
                const Lanes common = below<kCommon>(m, slot, split.child[1], v);
                const Lanes weight = met.by_kappa(load(slot, v), v);
                sum = v == 0 ? weight * (rare - common) : fma(weight, rare - common, sum);
                store(slot, v, met.together(rare, common, v));
            }
            pay(m, met.player, met.delta, sum);
        }
    }
    template <Child kChild>
    LTS_INLINE static Lanes below(const Memory& m, double* slot, std::int32_t child, int v) {
        if constexpr (kChild == Child::leaf)
            return In<Lanes>::all(value_at(m, child));
        else
            return load(child_slot(slot, child), v);
    }

    const Bunch& bunch_;
    const Points& p_;
    const Memory &m_, &section_;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
