// The walk of one row through bunches of trees (compile/bunches.hpp): lanes are quadrature points.
//
// The two edges of a split are one number. Of its two sides, fewer training rows took the rare one. With w the cover
// ratio of that, let δ be 1 - w where the row goes there, -w where it does not, and 0 where its player is already
// unsatisfied above. Then
//
//   over an edge   C_rare = C · (w + τ·δ)     C_common = C · (1 - w - τ·δ)
//   at a leaf      G = value
//   at a split     G = (w + τ·δ) · G_rare + (1 - w - τ·δ) · G_common
//                  φ += δ · κ · C · (G_rare - G_common), summed over points at the end
//
// where C at the root is ω. For a new player τ = t and κ = 1. For one that splits above, with absent weight c there,
// τ = t/u and κ = c/u² with u = t + (1-t)·c; and because τ may then be so near to 1 that 1 - τ has no digits left,
// w - τ·w is computed as w·(1-τ), with 1 - τ = (1-t)·c/u.
//
// Each split has a slot of points, which holds C, after the way down δ·κ·C, and after the way up G. Points beyond those
// that there are have weight zero.
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
#include "compile/tiles.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "run/worker.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

inline constexpr int kMaxPointsAtOnce = 16;

// Points are in the lanes of quads or, where they are more than four, of whatever is wider.
template <class Lanes>
struct In;
template <>
struct In<Quad> {
    static constexpr int kPoints = 4;
    LTS_INLINE static Quad load(const double* from) { return load_quad(from); }
    LTS_INLINE static void store(double* to, Quad a) { store_quad(to, a); }
    LTS_INLINE static Quad all(double x) { return spread(x); }
};
template <>
struct In<Vec> {
    static constexpr int kPoints = kLanes;
    LTS_INLINE static Vec load(const double* from) { return LTS_ISA::load(from); }
    LTS_INLINE static void store(double* to, Vec a) { LTS_ISA::store(to, a); }
    LTS_INLINE static Vec all(double x) { return broadcast(x); }
};
using Wide = std::conditional_t<(kLanes > 4), Vec, Quad>;
inline constexpr int kPhiLanes = In<Wide>::kPoints;  // of each player: all walks add to the same

template <class Lanes>
constexpr int n_vectors(int n_points) {
    return (n_points + In<Lanes>::kPoints - 1) / In<Lanes>::kPoints;
}

// V vectors of points: from the first on, as many as there are and fit.
template <class Lanes, int V>
struct PointLanes {
    std::array<Lanes, V> t, absent, weight;

    LTS_INLINE PointLanes(const Rule& rule, int first, int n_points) {
        constexpr int kPoints = In<Lanes>::kPoints;
        const auto take = [&](const std::vector<double>& from, double otherwise, std::array<Lanes, V>& to) LTS_INLINED {
            alignas(64) std::array<double, V * kPoints> numbers;
            numbers.fill(otherwise);
            std::copy_n(from.begin() + first, n_points, numbers.begin());
            for (int v = 0; v < V; ++v) to[at(v)] = In<Lanes>::load(&numbers[at(v * kPoints)]);
        };
        take(rule.point, 0.5, t);
        take(rule.absent, 0.5, absent);
        take(rule.weight, 0.0, weight);
    }
};

// What a walk reads and writes, beside the bunch.
struct RowMemory {
    const std::uint8_t* answers;  // by condition of the chunk: does the row go left, and does it go right?
    std::uint8_t* satisfied;      // by repeat of the chunk, of trees that were met: are all edges of its player above?
    const double* values;         // of the leaves, of one output, `n_outputs` apart
    double* phi;                  // kPhiLanes of each player, `n_outputs` apart
    std::size_t n_outputs;
    double* slots;  // of every split
    double* delta;  // of every split that is met again on the way up
};

// kOne: leaves have one value each.
template <class Lanes, int V, bool kOne>
class PointWalk {
  public:
    // `section` is memory that all sections but the first one share: what they keep stays near.
    LTS_INLINE PointWalk(const Bunch& bunch, const PointLanes<Lanes, V>& points, const RowMemory& memory,
                         const RowMemory& section)
        : bunch_(bunch), p_(points), m_(memory), section_(section) {}

    void run() const {
        for (std::int32_t tree = 0; tree < bunch_.n_trees; ++tree)
            for (int v = 0; v < V; ++v)
                In<Lanes>::store(slot_at(m_, bunch_.order[at(tree)]) + v * kPoints, p_.weight[at(v)]);
        const std::int32_t* order = bunch_.order.data();
        const BunchGroup* group = bunch_.groups.data();
        const std::span top(group, at(bunch_.sections[0].n_groups));
        const std::int32_t* const end_of_top = order = go_down(m_, top, order);
        group += top.size();
        for (const auto& section : bunch_.sections.subspan(1)) {
            const std::span groups(group, at(section.n_groups));
            RowMemory m = section_;
            m.slots -= at(*order) * kSlot;
            m.delta -= *order;
            double *const from = slot_at(m_, *order), *const to = slot_at(m, *order);
            const std::size_t n_doubles = at(section.n_roots) * kSlot;
            std::copy_n(from, n_doubles, to);
            order = go_down(m, groups, order);
            go_up(m, groups, order);
            std::copy_n(to, n_doubles, from);
            group += groups.size();
        }
        go_up(m_, top, end_of_top);
    }

  private:
    static constexpr int kPoints = In<Lanes>::kPoints;
    static constexpr std::size_t kSlot = std::size_t{V} * kPoints;

    // The groups of a section, whose order begins here; returns its end.
    const std::int32_t* go_down(const RowMemory& m, std::span<const BunchGroup> groups,
                                const std::int32_t* order) const {
        for (const auto& group : groups) {
            const std::span here(order, group.n_splits);
            with(group, [&]<bool kRepeated, bool kRareLeaf, bool kCommonLeaf>() {
                down<kRepeated, kRareLeaf, kCommonLeaf>(m, here);
            });
            order += group.n_splits;
        }
        return order;
    }
    void go_up(const RowMemory& m, std::span<const BunchGroup> groups, const std::int32_t* end_of_order) const {
        for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
            end_of_order -= group->n_splits;
            const std::span here(end_of_order, group->n_splits);
            with(*group, [&]<bool kRepeated, bool kRareLeaf, bool kCommonLeaf>() {
                if constexpr (!(kRareLeaf && kCommonLeaf)) up<kRepeated, kRareLeaf, kCommonLeaf>(m, here);
            });
        }
    }

    LTS_INLINE static double* slot_at(const RowMemory& m, std::int32_t place) { return m.slots + at(place) * kSlot; }
    LTS_INLINE static std::size_t times_outputs(const RowMemory& m, std::int32_t i) {
        return kOne ? at(i) : at(i) * m.n_outputs;
    }
    LTS_INLINE static double* phi_at(const RowMemory& m, std::int32_t player) {
        return m.phi + times_outputs(m, player) * kPhiLanes;
    }
    LTS_INLINE static double value_at(const RowMemory& m, std::int32_t leaf) {
        return m.values[times_outputs(m, leaf)];
    }
    // Of the child of a split that has this slot.
    LTS_INLINE static double* child_slot(double* slot, std::int32_t child) {
        return slot + child * static_cast<std::ptrdiff_t>(kSlot);
    }
    template <bool kLeaf>
    LTS_INLINE static Lanes below(const RowMemory& m, double* slot, std::int32_t child, int v) {
        if constexpr (kLeaf)
            return In<Lanes>::all(value_at(m, ~child));
        else
            return In<Lanes>::load(child_slot(slot, child) + v * kPoints);
    }

    // Calls a function whose template arguments say what the splits of a group are.
    template <class Function>
    LTS_INLINE static void with(const BunchGroup& group, const Function& function) {
        const auto with_leaves = [&]<bool kRepeated>() {
            if (group.is_rare_leaf)
                return group.is_common_leaf ? function.template operator()<kRepeated, true, true>()
                                            : function.template operator()<kRepeated, true, false>();
            return group.is_common_leaf ? function.template operator()<kRepeated, false, true>()
                                        : function.template operator()<kRepeated, false, false>();
        };
        group.is_repeated ? with_leaves.template operator()<true>() : with_leaves.template operator()<false>();
    }

    // A split as the row meets it.
    template <bool kRepeated>
    struct Met {
        double* phi;
        Lanes delta, rare, common;    // δ, and the cover ratios of both sides
        Lanes to_rare, to_common, c;  // of a repeated player: 1 where the row goes, if it is satisfied above
        Lanes is_satisfied, is_not;   // 1 or 0

        LTS_INLINE Met(const RowMemory& m, const PackedSplit& split, const Repeat* repeats, double here)
            : delta(In<Lanes>::all(here)), rare(In<Lanes>::all(split.rare_ratio)), common(In<Lanes>::all(1.0) - rare) {
            if constexpr (kRepeated) {
                const unsigned satisfied = m.satisfied[split.who], goes_rare = satisfied & is_rare(m, split);
                const Repeat& repeat = repeats[split.who];
                is_satisfied = In<Lanes>::all(satisfied);
                is_not = In<Lanes>::all(satisfied ^ 1U);
                to_rare = In<Lanes>::all(goes_rare);
                to_common = In<Lanes>::all(satisfied ^ goes_rare);
                c = In<Lanes>::all(repeat.absent_above);
                phi = phi_at(m, repeat.player);
            } else {
                phi = phi_at(m, split.who);
            }
        }
        // The factors of both edges.
        LTS_INLINE std::array<Lanes, 2> over(Lanes t, Lanes absent) const {
            if constexpr (kRepeated) {
                const Lanes per_u = per(t, absent), tau = t * per_u;
                const Lanes rest = fma(is_satisfied, absent * c * per_u, is_not);
                return {fma(rare, rest, to_rare * tau), fma(common, rest, to_common * tau)};
            } else {
                return {fma(delta, t, rare), fnma(delta, t, common)};
            }
        }
        // δ·κ
        LTS_INLINE Lanes slope(Lanes t, Lanes absent) const {
            if constexpr (kRepeated) {
                const Lanes per_u = per(t, absent);
                return delta * c * per_u * per_u;
            } else {
                return delta;
            }
        }

      private:
        LTS_INLINE Lanes per(Lanes t, Lanes absent) const { return In<Lanes>::all(1.0) / fma(absent, c, t); }
    };
    // No branch: where a row goes is as good as random.
    LTS_INLINE static unsigned is_rare(const RowMemory& m, const PackedSplit& split) {
        return m.answers[split.rare_answer];
    }
    // Does the row satisfy all edges of a repeated player above this split?
    LTS_INLINE static unsigned is_satisfied_above(const RowMemory& m, const PackedSplit* splits, std::int32_t place,
                                                  std::int32_t back) {
        const std::int32_t above = 2 * place - back;
        const PackedSplit& there = splits[above / 2];
        const unsigned is_there = m.answers[2 * there.asks() + above % 2];
        const unsigned is_topmost = there.is_repeated ^ 1U;
        return (is_there & (m.satisfied[there.who] | is_topmost)) | unsigned{back == 0};
    }

    template <bool kRepeated, bool kRareLeaf, bool kCommonLeaf>
    [[gnu::noinline]] void down(const RowMemory& memory, std::span<const std::int32_t> order) const {
        const RowMemory m = memory;  // copies, which no store can change
        const std::array<Lanes, V> t = p_.t, absent = p_.absent;
        const PackedSplit* const splits = bunch_.splits.data();
        const Repeat* const repeats = bunch_.repeats;
        for (const std::int32_t place : order) {
            const PackedSplit split = splits[place];
            double* const slot = slot_at(m, place);
            double here = static_cast<double>(is_rare(m, split)) - split.rare_ratio;
            if constexpr (kRepeated) {
                const unsigned satisfied = is_satisfied_above(m, splits, place, repeats[split.who].back);
                m.satisfied[split.who] = static_cast<std::uint8_t>(satisfied);
                here *= satisfied;
            }
            const Met<kRepeated> met(m, split, repeats, here);
            if constexpr (kRareLeaf && kCommonLeaf) {  // nothing is below: G at once
                const Lanes rare = In<Lanes>::all(value_at(m, ~split.child[0])),
                            common = In<Lanes>::all(value_at(m, ~split.child[1]));
                Lanes sum = In<Lanes>::load(slot) * met.slope(t[0], absent[0]);
                for (int v = 1; v < V; ++v)
                    sum = fma(In<Lanes>::load(slot + v * kPoints), met.slope(t[at(v)], absent[at(v)]), sum);
                In<Lanes>::store(met.phi, fma(sum, rare - common, In<Lanes>::load(met.phi)));
                for (int v = 0; v < V; ++v) {
                    const auto over = met.over(t[at(v)], absent[at(v)]);
                    In<Lanes>::store(slot + v * kPoints, fma(over[0], rare, over[1] * common));
                }
            } else {
                m.delta[place] = here;
                for (int v = 0; v < V; ++v) {
                    const Lanes c = In<Lanes>::load(slot + v * kPoints);
                    const auto over = met.over(t[at(v)], absent[at(v)]);
                    if constexpr (!kRareLeaf)
                        In<Lanes>::store(child_slot(slot, split.child[0]) + v * kPoints, c * over[0]);
                    if constexpr (!kCommonLeaf)
                        In<Lanes>::store(child_slot(slot, split.child[1]) + v * kPoints, c * over[1]);
                    In<Lanes>::store(slot + v * kPoints, c * met.slope(t[at(v)], absent[at(v)]));
                }
            }
        }
    }

    template <bool kRepeated, bool kRareLeaf, bool kCommonLeaf>
    [[gnu::noinline]] void up(const RowMemory& memory, std::span<const std::int32_t> order) const {
        const RowMemory m = memory;
        const std::array<Lanes, V> t = p_.t, absent = p_.absent;
        const PackedSplit* const splits = bunch_.splits.data();
        const Repeat* const repeats = bunch_.repeats;
        for (std::size_t i = order.size(); i-- > 0;) {
            const std::int32_t place = order[i];
            const PackedSplit split = splits[place];
            double* const slot = slot_at(m, place);
            const Met<kRepeated> met(m, split, repeats, m.delta[place]);
            Lanes sum = In<Lanes>::load(met.phi);
            for (int v = 0; v < V; ++v) {
                const Lanes rare = below<kRareLeaf>(m, slot, split.child[0], v);
                const Lanes common = below<kCommonLeaf>(m, slot, split.child[1], v);
                sum = fma(In<Lanes>::load(slot + v * kPoints), rare - common, sum);
                const auto over = met.over(t[at(v)], absent[at(v)]);
                In<Lanes>::store(slot + v * kPoints, fma(over[0], rare, over[1] * common));
            }
            In<Lanes>::store(met.phi, sum);
        }
    }

    const Bunch& bunch_;
    const PointLanes<Lanes, V>& p_;
    const RowMemory &m_, &section_;
};

// A chunk of trees and a few rows, which go through a bunch one after the other: it is read from afar once.
template <class Number>
class RowsByPoints {
  public:
    // Trees that are tables are looked up in `tables`; if these are not kept, they are walked.
    RowsByPoints(const Program& program, const Chunk& chunk, const double* tables, std::size_t n_rows, Workspace& work)
        : program_(program), chunk_(chunk), tables_(tables), n_outputs_(at(chunk.n_outputs)) {
        std::size_t n_splits = 0, n_doubles = 0;
        for (const auto& bunch : chunk.bunches) {
            n_splits = std::max(n_splits, bunch.splits.size());
            n_doubles = std::max(n_doubles, bunch.splits.size() * slot_doubles(bunch.n_points));
        }
        const auto in_vectors = [](std::size_t n) { return (n + kPhiLanes - 1) / kPhiLanes * kPhiLanes; };
        n_splits = in_vectors(n_splits);
        n_doubles = in_vectors(n_doubles);
        // The memory of sections lies further on than that of whole trees, and begins so many places before.
        constexpr std::size_t kSectionDoubles = kMaxSectionSplits * std::size_t{kMaxPointsAtOnce};
        slots_ = work.stack.reserve(n_doubles + n_splits + kSectionDoubles + kMaxSectionSplits);
        delta_ = slots_ + n_doubles;
        section_slots_ = delta_ + n_splits;
        section_delta_ = section_slots_ + kSectionDoubles;
        // What is read of a player that is not repeated does not matter.
        const std::size_t n_satisfied = std::max(chunk.n_repeats(), chunk.players.size());
        const std::size_t n_bytes = 2 * chunk.conditions.size() + (n_satisfied + 1) / 2 * 2;
        n_phi_ = chunk.players.size() * n_outputs_ * kPhiLanes;
        std::uint8_t* bytes = work.states.reserve(n_rows * n_bytes);
        double* phi = work.phi.reserve(n_rows * n_phi_);
        std::fill_n(bytes, n_rows * n_bytes, std::uint8_t{0});
        std::fill_n(phi, n_rows * n_phi_, 0.0);
        for (; n_rows > 0; --n_rows, bytes += n_bytes, phi += n_phi_)
            rows_.push_back({bytes, bytes + 2 * chunk.conditions.size(), phi});
    }

    // Adds what the chunk gives to values[row][player][output].
    void explain(const Number* data, double* values) const {
        for (const auto& row : rows_) {
            answer(data, row.answers);
            data += program_.n_columns;
        }
        for (const auto& bunch : chunk_.bunches)
            if (!bunch.has_tables || tables_ == nullptr) walk(bunch);
        if (tables_ != nullptr) look_up();
        for (const auto& row : rows_) {
            const double* from = row.phi;
            for (const auto player : chunk_.players) {
                double* const to = values + at(player) * at(program_.n_outputs) + at(chunk_.output);
                for (std::size_t o = 0; o < n_outputs_; ++o, from += kPhiLanes) to[o] += sum_of<kPhiLanes>(from);
            }
            values += at(program_.n_players) * at(program_.n_outputs);
        }
    }

  private:
    struct Row {
        std::uint8_t *answers, *satisfied;
        double* phi;
    };

    // Of a slot, at most.
    static std::size_t slot_doubles(int n_points) {
        if (n_points <= In<Quad>::kPoints) return In<Quad>::kPoints;
        return at(n_vectors<Wide>(std::min(n_points, kMaxPointsAtOnce)) * In<Wide>::kPoints);
    }
    template <int kNumbers>
    static double sum_of(const double* numbers) {
        if constexpr (kNumbers == 1)
            return *numbers;
        else
            return sum_of<kNumbers / 2>(numbers) + sum_of<kNumbers / 2>(numbers + kNumbers / 2);
    }

    // How many of some ascending thresholds, one at least, are below x. No branch depends on it.
    static std::size_t n_below(double x, const double* thresholds, std::size_t n) {
        const double* first = thresholds;
        while (n > 1) {
            const std::size_t half = n / 2;
            first += first[half - 1] < x ? half : 0;
            n -= half;
        }
        return static_cast<std::size_t>(first - thresholds) + (*first < x ? 1 : 0);
    }

    // Every condition of the chunk, once.
    void answer(const Number* row, std::uint8_t* answers) const {
        using Answer = std::array<std::uint8_t, 2>;
        constexpr auto kLeft = std::bit_cast<std::uint16_t>(Answer{1, 0});
        constexpr auto kRight = std::bit_cast<std::uint16_t>(Answer{0, 1});
        const Conditions& conditions = chunk_.conditions;
        const double* const thresholds = conditions.thresholds.data();
        auto* const to = reinterpret_cast<std::uint16_t*>(answers);
        std::size_t i = 0;
        for (const auto& column : conditions.columns) {
            const auto x = static_cast<double>(row[chunk_.columns[at(column.feature)]]);
            const std::size_t n = column.end - i;
            const std::size_t n_right = x == x ? n_below(x, thresholds + i, n) : column.missing_left ? 0 : n;
            std::fill_n(to + i, n_right, kRight);
            std::fill_n(to + i + n_right, n - n_right, kLeft);
            i = column.end;
        }
        for (const auto& question : conditions.categories) {
            const Number x = row[chunk_.columns[at(question.feature)]];
            const auto& set = program_.category_sets[at(question.category_set)];
            to[i++] = in_set<1>(&x, set, question.missing_left) != 0 ? kLeft : kRight;
        }
    }

    void walk(const Bunch& bunch) const {
        const Rule& rule = program_.rules.at(bunch.n_points);
        fetch(bunch.splits);
        fetch(std::span(chunk_.values_of(bunch.first_leaf), (bunch.splits.size() + at(bunch.n_trees)) * n_outputs_));
        const int n_tiles = (bunch.n_points + kMaxPointsAtOnce - 1) / kMaxPointsAtOnce;
        for (int tile = 0; tile < n_tiles; ++tile) {
            const int first = bunch.n_points * tile / n_tiles;
            const int n_points = bunch.n_points * (tile + 1) / n_tiles - first;
            if (n_points <= In<Quad>::kPoints)
                walk(bunch, PointLanes<Quad, 1>(rule, first, n_points));
            else
                with_points<kMaxPointsAtOnce / In<Wide>::kPoints>(n_vectors<Wide>(n_points), [&]<int V>() {
                    walk(bunch, PointLanes<Wide, V>(rule, first, n_points));
                });
        }
    }
    template <class Lanes, int V>
    void walk(const Bunch& bunch, const PointLanes<Lanes, V>& points) const {
        for (const auto& row : rows_)
            for (std::size_t o = 0; o < n_outputs_; ++o) {
                const double* const values = chunk_.leaf_value.data() + o;
                double* const phi = row.phi + o * kPhiLanes;
                const RowMemory whole{row.answers, row.satisfied, values, phi, n_outputs_, slots_, delta_};
                RowMemory section = whole;
                section.slots = section_slots_;
                section.delta = section_delta_;
                n_outputs_ == 1 ? PointWalk<Lanes, V, true>(bunch, points, whole, section).run()
                                : PointWalk<Lanes, V, false>(bunch, points, whole, section).run();
            }
    }

    void look_up() const {
        const double* table = tables_;
        for (const auto& tree : chunk_.trees)
            if (tree.is_lookup()) {
                for (const auto& row : rows_) look_up(tree, table, row);
                table += tree.lookup->table_doubles(chunk_.n_outputs);
            }
    }
    void look_up(const Tree& tree, const double* table, const Row& row) const {
        const auto conditions = tree.lookup->conditions();
        const std::size_t n_states = tree.lookup->n_states();
        std::size_t state = 0;
        for (std::size_t bit = 0; bit < conditions.size(); ++bit)
            state |= std::size_t{row.answers[2 * at(conditions[bit])]} << bit;
        table += state;
        for (const auto player : tree.lookup->players())
            for (std::size_t o = 0; o < n_outputs_; ++o, table += n_states)
                row.phi[(at(player) * n_outputs_ + o) * kPhiLanes] += *table;
    }

    const Program& program_;
    const Chunk& chunk_;
    const double* tables_;
    std::size_t n_outputs_, n_phi_;
    double *slots_, *delta_, *section_slots_, *section_delta_;
    std::vector<Row> rows_;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
