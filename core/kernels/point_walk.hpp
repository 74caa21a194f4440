// The walk of one row through bunches of trees (compile/bunches.hpp): lanes are quadrature points.
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
// Each split has a slot of points, which holds C, after the way down δ·κ·C, and after the way up G. Points beyond those
// that there are have weight zero.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

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
    const double* numbers;  // of the row
    const double* values;   // of the leaves, of one output, `n_outputs` apart
    double* phi;            // a quad of each player, `n_outputs` apart
    std::size_t n_outputs;
    double* slots;        // of every split
    double* delta;        // of every split
    std::uint8_t* edges;  // of every split: does the row take its left, its right edge, and all of this player above?
};

// kOne: leaves have one value each.
template <int V, bool kOne>
class PointWalk {
  public:
    LTS_INLINE PointWalk(const Bunch& bunch, const PointQuads<V>& points, const RowMemory& memory)
        : bunch_(bunch), p_(points), m_(memory) {}

    void run() const {
        for (std::int32_t tree = 0; tree < bunch_.n_trees; ++tree)
            for (int v = 0; v < V; ++v) store_quad(slot_at(m_, tree) + v * kQuad, p_.weight[at(v)]);
        std::int32_t place = 0, repeat = 0;  // of the first split, and how many repeated players come before it
        for (const auto& group : bunch_.groups) {
            const auto n_splits = static_cast<std::int32_t>(group.n_splits);
            with(group, [&]<bool kRepeated, bool kLeftLeaf, bool kRightLeaf>() {
                down<kRepeated, kLeftLeaf, kRightLeaf>(place, n_splits, repeat);
            });
            place += n_splits;
            if (group.is_repeated) repeat += n_splits;
        }
        for (auto group = bunch_.groups.rbegin(); group != bunch_.groups.rend(); ++group) {
            const auto n_splits = static_cast<std::int32_t>(group->n_splits);
            place -= n_splits;
            if (group->is_repeated) repeat -= n_splits;
            with(*group, [&]<bool kRepeated, bool kLeftLeaf, bool kRightLeaf>() {
                if constexpr (!(kLeftLeaf && kRightLeaf)) up<kRepeated, kLeftLeaf, kRightLeaf>(place, n_splits, repeat);
            });
        }
    }

  private:
    static constexpr std::size_t kSlot = std::size_t{V} * kQuad;

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
    // G of a child.
    template <bool kLeaf>
    LTS_INLINE static Quad below(const RowMemory& m, std::int32_t child, int v) {
        if constexpr (kLeaf)
            return spread(value_at(m, child));
        else
            return load_quad(slot_at(m, child) + v * kQuad);
    }

    // Calls a function whose template arguments say what the splits of a group are.
    template <class Function>
    LTS_INLINE static void with(const BunchGroup& group, const Function& function) {
        const auto with_leaves = [&]<bool kRepeated>() {
            if (group.is_left_leaf)
                return group.is_right_leaf ? function.template operator()<kRepeated, true, true>()
                                           : function.template operator()<kRepeated, true, false>();
            return group.is_right_leaf ? function.template operator()<kRepeated, false, true>()
                                       : function.template operator()<kRepeated, false, false>();
        };
        group.is_repeated ? with_leaves.template operator()<true>() : with_leaves.template operator()<false>();
    }

    // A split as the row meets it, which goes where `edges` say.
    template <bool kRepeated>
    struct Met {
        Quad delta, right, left;    // δ; δ of a row that goes right, or left
        Quad to_left, to_right, c;  // of a repeated player: 1 where the row goes, if it is satisfied above
        Quad is_satisfied, is_not;  // 1 or 0

        LTS_INLINE Met(const BunchSplit& split, const double* absent_above, double here, unsigned go_left,
                       unsigned go_right)
            : delta(spread(here)), right(spread(split.delta[0])), left(spread(split.delta[1])) {
            if constexpr (kRepeated) {
                is_satisfied = spread(go_left | go_right);
                is_not = spread(1U - (go_left | go_right));
                to_left = spread(go_left);
                to_right = spread(go_right);
                c = spread(*absent_above);
            }
        }
        // The factors of both edges.
        LTS_INLINE std::array<Quad, 2> over(const PointQuads<V>& p, int v) const {
            const Quad t = p.t[at(v)];
            if constexpr (kRepeated) {
                const Quad per_u = per(p, v), tau = t * per_u;
                const Quad rest = fma(is_satisfied, p.absent[at(v)] * c * per_u, is_not);
                return {fnma(right, rest, to_left * tau), fma(left, rest, to_right * tau)};
            } else {
                return {fms(delta, t, right), fnma(delta, t, left)};
            }
        }
        // δ·κ
        LTS_INLINE Quad slope(const PointQuads<V>& p, int v) const {
            if constexpr (kRepeated) {
                const Quad per_u = per(p, v);
                return delta * c * per_u * per_u;
            } else {
                return delta;
            }
        }

      private:
        LTS_INLINE Quad per(const PointQuads<V>& p, int v) const {
            return spread(1.0) / fma(p.absent[at(v)], c, p.t[at(v)]);
        }
    };

    template <bool kRepeated, bool kLeftLeaf, bool kRightLeaf>
    [[gnu::noinline]] void down(std::int32_t first, std::int32_t n, std::int32_t repeat) const {
        const RowMemory m = m_;  // copies, which no store can change
        const PointQuads<V> p = p_;
        const BunchSplit* split = &bunch_.splits[at(first)];
        const double* absent_above = bunch_.absent_above.data() + repeat;
        const std::int32_t* above = bunch_.above.data() + repeat;
        double* slot = slot_at(m, first);
        for (std::int32_t i = 0; i < n; ++i, ++split, slot += kSlot, absent_above += kRepeated, above += kRepeated) {
            // No branch: where a row goes is as good as random.
            const unsigned is_left = m.numbers[split->number] <= split->threshold;
            const unsigned satisfied = kRepeated ? m.edges[*above] : 1U;
            const unsigned go_left = satisfied & is_left, go_right = satisfied & (is_left ^ 1U);
            const double here = kRepeated ? split->delta[is_left] * satisfied : split->delta[is_left];
            const Met<kRepeated> met(*split, absent_above, here, go_left, go_right);
            if constexpr (kLeftLeaf && kRightLeaf) {  // nothing is below: G at once
                const double values[2] = {value_at(m, split->child[0]), value_at(m, split->child[1])};
                const Quad left = spread(values[0]), right = spread(values[1]);
                Quad sum = load_quad(slot) * met.slope(p, 0);
                for (int v = 1; v < V; ++v) sum = fma(load_quad(slot + v * kQuad), met.slope(p, v), sum);
                double* const phi = phi_at(m, split->player);
                store_quad(phi, fma(sum, left - right, load_quad(phi)));
                for (int v = 0; v < V; ++v) {
                    const auto over = met.over(p, v);
                    store_quad(slot + v * kQuad, fma(over[0], left, over[1] * right));
                }
            } else {
                m.delta[first + i] = here;
                m.edges[2 * (first + i)] = static_cast<std::uint8_t>(go_left);
                m.edges[2 * (first + i) + 1] = static_cast<std::uint8_t>(go_right);
                for (int v = 0; v < V; ++v) {
                    const Quad c = load_quad(slot + v * kQuad);
                    const auto over = met.over(p, v);
                    if constexpr (!kLeftLeaf) store_quad(slot_at(m, split->child[0]) + v * kQuad, c * over[0]);
                    if constexpr (!kRightLeaf) store_quad(slot_at(m, split->child[1]) + v * kQuad, c * over[1]);
                    store_quad(slot + v * kQuad, c * met.slope(p, v));
                }
            }
        }
    }

    template <bool kRepeated, bool kLeftLeaf, bool kRightLeaf>
    [[gnu::noinline]] void up(std::int32_t first, std::int32_t n, std::int32_t repeat) const {
        const RowMemory m = m_;
        const PointQuads<V> p = p_;
        const BunchSplit* split = &bunch_.splits[at(first)];
        const double* absent_above = bunch_.absent_above.data() + repeat;
        double* slot = slot_at(m, first);
        for (std::int32_t i = first; i < first + n; ++i, ++split, slot += kSlot, absent_above += kRepeated) {
            const Met<kRepeated> met(*split, absent_above, m.delta[i], m.edges[2 * i], m.edges[2 * i + 1]);
            double* const phi = phi_at(m, split->player);
            Quad sum = load_quad(phi);
            for (int v = 0; v < V; ++v) {
                const Quad left = below<kLeftLeaf>(m, split->child[0], v);
                const Quad right = below<kRightLeaf>(m, split->child[1], v);
                sum = fma(load_quad(slot + v * kQuad), left - right, sum);
                const auto over = met.over(p, v);
                store_quad(slot + v * kQuad, fma(over[0], left, over[1] * right));
            }
            store_quad(phi, sum);
        }
    }

    const Bunch& bunch_;
    const PointQuads<V>& p_;
    const RowMemory& m_;
};

// A chunk of trees and one row.
template <class Number>
class RowByPoints {
  public:
    // Trees that are tables are looked up in `tables`; if these are not kept, they are walked.
    RowByPoints(const Program& program, const Chunk& chunk, const double* tables, Workspace& work)
        : program_(program), chunk_(chunk), tables_(tables) {
        std::size_t n_splits = 0, n_doubles = 0;
        for (const auto& bunch : chunk.bunches) {
            n_splits = std::max(n_splits, bunch.splits.size());
            n_doubles = std::max(n_doubles, bunch.splits.size() * at(std::min(n_quads(bunch.n_points), kMaxQuads)));
        }
        const std::size_t n_questions = (chunk.questions.size() + 7) / 8 * 8;
        numbers_ = work.x.reserve(n_questions + 2 * chunk.columns.size()) + n_questions;
        n_phi_ = chunk.players.size() * at(chunk.n_outputs) * kQuad;
        memory_.numbers = numbers_;
        memory_.n_outputs = at(chunk.n_outputs);
        memory_.phi = work.phi.reserve(n_phi_);
        memory_.slots = work.stack.reserve(n_doubles * kQuad + n_splits);
        memory_.delta = memory_.slots + n_doubles * kQuad;
        memory_.edges = work.states.reserve(2 * n_splits);
    }

    // Adds what the chunk gives to one row to values[player][output].
    void explain(const Number* row, double* values) {
        read(row);
        double* const phi = memory_.phi;
        std::fill_n(phi, n_phi_, 0.0);
        for (const auto& bunch : chunk_.bunches)
            if (!bunch.has_tables || tables_ == nullptr) walk(bunch);
        if (tables_ != nullptr) look_up();
        const double* from = phi;
        for (const auto player : chunk_.players) {
            double* const to = values + at(player) * at(program_.n_outputs) + at(chunk_.output);
            for (int o = 0; o < chunk_.n_outputs; ++o, from += kQuad)
                to[o] += (from[0] + from[1]) + (from[2] + from[3]);
        }
    }

  private:
    static int n_quads(int n_points) { return (n_points + kQuad - 1) / kQuad; }

    void read(const Number* row) const {
        for (std::size_t c = 0; c < chunk_.columns.size(); ++c) {
            const auto x = static_cast<double>(row[chunk_.columns[c]]);
            numbers_[2 * c] = x;
            numbers_[2 * c + 1] = x == x ? x : -std::numeric_limits<double>::infinity();
        }
        double* to = numbers_;
        for (const auto& question : chunk_.questions) {
            const Number x = row[chunk_.columns[at(question.feature)]];
            const bool is_in =
                in_set<1>(&x, program_.category_sets[at(question.category_set)], question.missing_left) != 0;
            *--to = is_in ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
        }
    }

    void walk(const Bunch& bunch) {
        const Rule& rule = program_.rules.at(bunch.n_points);
        double* const phi = memory_.phi;
        const int n_tiles = (n_quads(bunch.n_points) + kMaxQuads - 1) / kMaxQuads;
        for (int tile = 0; tile < n_tiles; ++tile) {
            const int first = bunch.n_points * tile / n_tiles;
            const int n_points = bunch.n_points * (tile + 1) / n_tiles - first;
            with_points<kMaxQuads>(n_quads(n_points), [&]<int V>() {
                const PointQuads<V> points(rule, first, n_points);
                memory_.values = chunk_.leaf_value.data();
                if (chunk_.n_outputs == 1) return PointWalk<V, true>(bunch, points, memory_).run();
                for (int o = 0; o < chunk_.n_outputs; ++o, ++memory_.values, memory_.phi += kQuad)
                    PointWalk<V, false>(bunch, points, memory_).run();
                memory_.phi = phi;
            });
        }
    }

    void look_up() const {
        const double* table = tables_;
        for (const auto& tree : chunk_.trees)
            if (tree.is_lookup()) {
                look_up(tree, table);
                table += tree.lookup->table_doubles(chunk_.n_outputs);
            }
    }
    void look_up(const Tree& tree, const double* table) const {
        const auto conditions = tree.lookup->conditions();
        const std::size_t n_states = tree.lookup->n_states();
        std::size_t state = 0;
        for (std::size_t bit = 0; bit < conditions.size(); ++bit) {
            const Split& split = tree.splits[at(conditions[bit])];
            const auto x = static_cast<Number>(numbers_[2 * at(split.feature)]);
            state |= std::size_t{row_goes_left(program_, split, x)} << bit;
        }
        table += state;
        for (const auto player : tree.lookup->players())
            for (int o = 0; o < chunk_.n_outputs; ++o, table += n_states)
                memory_.phi[(at(player) * memory_.n_outputs + at(o)) * kQuad] += *table;
    }

    const Program& program_;
    const Chunk& chunk_;
    const double* tables_;
    double* numbers_;
    std::size_t n_phi_;
    RowMemory memory_{};
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
