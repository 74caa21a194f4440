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
#include <vector>

#include "compile/program.hpp"
#include "compile/tiles.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "run/worker.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

inline constexpr int kQuad = 4, kMaxQuads = 4;  // points in the lanes of one, and how many are walked at once

// V quads of points: from the first on, as many as there are and fit.
template <int V>
struct PointQuads {
    std::array<Quad, V> t, absent, weight;

    LTS_INLINE PointQuads(const Rule& rule, int first, int n_points) {
        const auto take = [&](const std::vector<double>& from, double otherwise, std::array<Quad, V>& to) LTS_INLINED {
            alignas(64) std::array<double, V * kQuad> numbers;
            numbers.fill(otherwise);
            std::copy_n(from.begin() + first, n_points, numbers.begin());
            for (int v = 0; v < V; ++v) to[at(v)] = load_quad(&numbers[at(v * kQuad)]);
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
    double* phi;                  // a quad of each player, `n_outputs` apart
    std::size_t n_outputs;
    double* slots;  // of every split
    double* delta;  // of every split that is met again on the way up
};

// kOne: leaves have one value each.
template <int V, bool kOne>
class PointWalk {
  public:
    // `section` is memory that all sections but the first one share: what they keep stays near.
    LTS_INLINE PointWalk(const Bunch& bunch, const PointQuads<V>& points, const RowMemory& memory,
                         const RowMemory& section)
        : bunch_(bunch), p_(points), m_(memory), section_(section) {}

    void run() const {
        for (std::int32_t tree = 0; tree < bunch_.n_trees; ++tree)
            for (int v = 0; v < V; ++v) store_quad(slot_at(m_, bunch_.order[at(tree)]) + v * kQuad, p_.weight[at(v)]);
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
    static constexpr std::size_t kSlot = std::size_t{V} * kQuad;

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
        return m.phi + times_outputs(m, player) * kQuad;
    }
    LTS_INLINE static double value_at(const RowMemory& m, std::int32_t leaf) {
        return m.values[times_outputs(m, leaf)];
    }
    // Of the child of a split that has this slot.
    LTS_INLINE static double* child_slot(double* slot, std::int32_t child) {
        return slot + child * static_cast<std::ptrdiff_t>(kSlot);
    }
    template <bool kLeaf>
    LTS_INLINE static Quad below(const RowMemory& m, double* slot, std::int32_t child, int v) {
        if constexpr (kLeaf)
            return spread(value_at(m, ~child));
        else
            return load_quad(child_slot(slot, child) + v * kQuad);
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
        Quad delta, rare, common;    // δ, and the cover ratios of both sides
        Quad to_rare, to_common, c;  // of a repeated player: 1 where the row goes, if it is satisfied above
        Quad is_satisfied, is_not;   // 1 or 0

        LTS_INLINE Met(const RowMemory& m, const PackedSplit& split, const Repeat* repeats, double here)
            : delta(spread(here)), rare(spread(split.rare_ratio)), common(spread(1.0) - rare) {
            if constexpr (kRepeated) {
                const unsigned satisfied = m.satisfied[split.who], goes_rare = satisfied & is_rare(m, split);
                const Repeat& repeat = repeats[split.who];
                is_satisfied = spread(satisfied);
                is_not = spread(satisfied ^ 1U);
                to_rare = spread(goes_rare);
                to_common = spread(satisfied ^ goes_rare);
                c = spread(repeat.absent_above);
                phi = phi_at(m, repeat.player);
            } else {
                phi = phi_at(m, split.who);
            }
        }
        // The factors of both edges.
        LTS_INLINE std::array<Quad, 2> over(Quad t, Quad absent) const {
            if constexpr (kRepeated) {
                const Quad per_u = per(t, absent), tau = t * per_u;
                const Quad rest = fma(is_satisfied, absent * c * per_u, is_not);
                return {fma(rare, rest, to_rare * tau), fma(common, rest, to_common * tau)};
            } else {
                return {fma(delta, t, rare), fnma(delta, t, common)};
            }
        }
        // δ·κ
        LTS_INLINE Quad slope(Quad t, Quad absent) const {
            if constexpr (kRepeated) {
                const Quad per_u = per(t, absent);
                return delta * c * per_u * per_u;
            } else {
                return delta;
            }
        }

      private:
        LTS_INLINE Quad per(Quad t, Quad absent) const { return spread(1.0) / fma(absent, c, t); }
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
        const std::array<Quad, V> t = p_.t, absent = p_.absent;
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
                const Quad rare = spread(value_at(m, ~split.child[0])), common = spread(value_at(m, ~split.child[1]));
                Quad sum = load_quad(slot) * met.slope(t[0], absent[0]);
                for (int v = 1; v < V; ++v)
                    sum = fma(load_quad(slot + v * kQuad), met.slope(t[at(v)], absent[at(v)]), sum);
                store_quad(met.phi, fma(sum, rare - common, load_quad(met.phi)));
                for (int v = 0; v < V; ++v) {
                    const auto over = met.over(t[at(v)], absent[at(v)]);
                    store_quad(slot + v * kQuad, fma(over[0], rare, over[1] * common));
                }
            } else {
                m.delta[place] = here;
                for (int v = 0; v < V; ++v) {
                    const Quad c = load_quad(slot + v * kQuad);
                    const auto over = met.over(t[at(v)], absent[at(v)]);
                    if constexpr (!kRareLeaf) store_quad(child_slot(slot, split.child[0]) + v * kQuad, c * over[0]);
                    if constexpr (!kCommonLeaf) store_quad(child_slot(slot, split.child[1]) + v * kQuad, c * over[1]);
                    store_quad(slot + v * kQuad, c * met.slope(t[at(v)], absent[at(v)]));
                }
            }
        }
    }

    template <bool kRepeated, bool kRareLeaf, bool kCommonLeaf>
    [[gnu::noinline]] void up(const RowMemory& memory, std::span<const std::int32_t> order) const {
        const RowMemory m = memory;
        const std::array<Quad, V> t = p_.t, absent = p_.absent;
        const PackedSplit* const splits = bunch_.splits.data();
        const Repeat* const repeats = bunch_.repeats;
        for (std::size_t i = order.size(); i-- > 0;) {
            const std::int32_t place = order[i];
            const PackedSplit split = splits[place];
            double* const slot = slot_at(m, place);
            const Met<kRepeated> met(m, split, repeats, m.delta[place]);
            Quad sum = load_quad(met.phi);
            for (int v = 0; v < V; ++v) {
                const Quad rare = below<kRareLeaf>(m, slot, split.child[0], v);
                const Quad common = below<kCommonLeaf>(m, slot, split.child[1], v);
                sum = fma(load_quad(slot + v * kQuad), rare - common, sum);
                const auto over = met.over(t[at(v)], absent[at(v)]);
                store_quad(slot + v * kQuad, fma(over[0], rare, over[1] * common));
            }
            store_quad(met.phi, sum);
        }
    }

    const Bunch& bunch_;
    const PointQuads<V>& p_;
    const RowMemory &m_, &section_;
};

// A chunk of trees and a few rows, which go through a bunch one after the other: it is read from afar once.
template <class Number>
class RowsByPoints {
  public:
    // Trees that are tables are looked up in `tables`; if these are not kept, they are walked.
    RowsByPoints(const Program& program, const Chunk& chunk, const double* tables, std::size_t n_rows, Workspace& work)
        : program_(program), chunk_(chunk), tables_(tables), n_outputs_(at(chunk.n_outputs)) {
        std::size_t n_splits = 0, n_slots = 0;
        for (const auto& bunch : chunk.bunches) {
            n_splits = std::max(n_splits, bunch.splits.size());
            n_slots = std::max(n_slots, bunch.splits.size() * at(std::min(n_quads(bunch.n_points), kMaxQuads)));
        }
        // The memory of sections lies further on than that of whole trees, and begins so many places before.
        constexpr std::size_t kSectionSlots = kMaxSectionSplits * std::size_t{kMaxQuads};
        n_splits = (n_splits + kQuad - 1) / kQuad * kQuad;
        slots_ = work.stack.reserve((n_slots + kSectionSlots) * kQuad + n_splits + kMaxSectionSplits);
        delta_ = slots_ + n_slots * kQuad;
        section_slots_ = delta_ + n_splits;
        section_delta_ = section_slots_ + kSectionSlots * kQuad;
        // What is read of a player that is not repeated does not matter.
        const std::size_t n_satisfied = std::max(chunk.n_repeats(), chunk.players.size());
        const std::size_t n_bytes = 2 * chunk.conditions.size() + (n_satisfied + 1) / 2 * 2;
        n_phi_ = chunk.players.size() * n_outputs_ * kQuad;
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
                for (std::size_t o = 0; o < n_outputs_; ++o, from += kQuad)
                    to[o] += (from[0] + from[1]) + (from[2] + from[3]);
            }
            values += at(program_.n_players) * at(program_.n_outputs);
        }
    }

  private:
    struct Row {
        std::uint8_t *answers, *satisfied;
        double* phi;
    };

    static int n_quads(int n_points) { return (n_points + kQuad - 1) / kQuad; }

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
        const int n_tiles = (n_quads(bunch.n_points) + kMaxQuads - 1) / kMaxQuads;
        for (int tile = 0; tile < n_tiles; ++tile) {
            const int first = bunch.n_points * tile / n_tiles;
            const int n_points = bunch.n_points * (tile + 1) / n_tiles - first;
            with_points<kMaxQuads>(n_quads(n_points), [&]<int V>() {
                const PointQuads<V> points(rule, first, n_points);
                for (const auto& row : rows_) walk(bunch, points, row);
            });
        }
    }
    template <int V>
    void walk(const Bunch& bunch, const PointQuads<V>& points, const Row& row) const {
        for (std::size_t o = 0; o < n_outputs_; ++o) {
            const double* const values = chunk_.leaf_value.data() + o;
            double* const phi = row.phi + o * kQuad;
            const RowMemory memory{row.answers, row.satisfied, values, phi, n_outputs_, slots_, delta_};
            const RowMemory section{row.answers, row.satisfied,  values,        phi,
                                    n_outputs_,  section_slots_, section_delta_};
            n_outputs_ == 1 ? PointWalk<V, true>(bunch, points, memory, section).run()
                            : PointWalk<V, false>(bunch, points, memory, section).run();
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
                row.phi[(at(player) * n_outputs_ + o) * kQuad] += *table;
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
