// The constants of the recurrence, precomputed per edge and quadrature point.
//
// Factor and difference (see value_kernel.cpp) depend on the row only through the state of the edge's
// player: already unsatisfied above, unsatisfied here, or satisfied. With c_above and c the player's
// absent weights above and including this edge, u_above = t + (1-t)·c_above and u = t + (1-t)·c:
//
//   state               factor            difference  ω·[(a-c)/u - (a_above-c_above)/u_above]
//   unsatisfied above   w                 0
//   unsatisfied here    (1-t)·c/u_above   -ω / ((1-t)·u_above)
//   satisfied           u/u_above         ω·(c_above - c) / (u·u_above)
//
// The last column is simplified by hand, so nothing cancels; with no edge above, c_above = 1. A
// treelet is walked here, once for each state its rows can be in; rows then look it up.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "compile/program.hpp"
#include "compile/tiles.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

enum State { kUnsatisfiedAbove, kUnsatisfied, kSatisfied };

struct EdgeConstants {
    double factor[3];
    double difference[3];
};

inline EdgeConstants edge_constants(const Split& split, int side, const Rule& rule, int k) {
    const auto point = at(k);
    const double t = rule.point[point], absent = rule.absent[point], weight = rule.weight[point];
    const double w = split.ratio[side];
    const double c = split.absent_above * w;
    const double u = t + absent * c;
    const double per_u_above = split.above < 0 ? 1.0 : 1.0 / (t + absent * split.absent_above);
    return {{w, absent * c * per_u_above, u * per_u_above},
            {0.0, -rule.weight_per_absent[point] * per_u_above,
             weight * (split.absent_above * split.ratio[1 - side]) * per_u_above / u}};
}

// Writes the constants of a tile in the order in which `walk` reads them.
class Expander {
  public:
    Expander(const Chunk& chunk, const Tree& tree, const Rule& rule, const PointTile& tile, double* out)
        : chunk_(chunk),
          tree_(tree),
          rule_(rule),
          first_(tile.first),
          n_points_(tile.n_points),
          n_outputs_(chunk.n_outputs),
          scalars_(out),
          tables_(out + tile.tables) {}

    void run() {
        for (const auto& step : tree_.steps) write_scalars(step);
        for (const auto& step : tree_.steps) {
            if (step.kind == Step::Kind::descend) continue;
            for (std::size_t side = 0; side < 2; ++side)
                if (step.kind == Step::Kind::whole ? side == 0 : step.child[side] == Child::treelet)
                    write_tables(tree_.treelets[at(step.target[side])]);
        }
    }

  private:
    void write_scalars(const Step& step) {
        if (step.kind == Step::Kind::whole) return;
        const auto& split = tree_.splits[at(step.split)];
        if (step.kind == Step::Kind::descend) return write_factors(split, step.side);
        for (int side = 0; side < 2; ++side) {
            const auto child = step.child[at(side)];
            if (child != Child::inner) write_factors(split, side);
            if (child == Child::leaf) {
                const double* value = chunk_.values_of(tree_, step.target[at(side)]);
                scalars_ = std::copy(value, value + n_outputs_, scalars_);
            }
            for (int k = 0; k < n_points_; ++k) {
                const auto constants = edge_constants(split, side, rule_, first_ + k);
                *scalars_++ = constants.difference[kUnsatisfied];
                *scalars_++ = constants.difference[kSatisfied];
            }
        }
    }

    void write_factors(const Split& split, int side) {
        for (int k = 0; k < n_points_; ++k) {
            const auto constants = edge_constants(split, side, rule_, first_ + k);
            *scalars_++ = constants.factor[kUnsatisfied];
            *scalars_++ = constants.factor[kSatisfied];
        }
        if (split.above >= 0) *scalars_++ = split.ratio[side];
    }

    // The walk through a treelet with C = 1, for every state at once: lanes are states.
    template <int kStates>
    void write_tables(const Treelet& treelet) {
        constexpr int n = kStates / kLanes;
        using States = std::array<Vec, n>;
        const auto each = [](const auto& make) {
            States out;
            for (int v = 0; v < n; ++v) out[at(v)] = make(v);
            return out;
        };
        const auto satisfied = satisfied_states(treelet);
        const auto split_at = [&](int i) -> const Split& { return tree_.splits[at(treelet.split[at(i)])]; };
        const std::size_t per_output = treelet_doubles(treelet, n_points_);
        std::fill_n(tables_, per_output * at(n_outputs_), 0.0);
        for (int k = 0; k < n_points_; ++k) {
            std::array<std::array<States, 2>, kMaxTreeletBits> factor, difference;
            std::array<States, kMaxTreeletBits> product;  // C of every split, from the root down
            product[0].fill(broadcast(1.0));
            for (int i = 0; i < treelet.n_splits; ++i)
                for (int side = 0; side < 2; ++side) {
                    const auto e = edge_constants(split_at(i), side, rule_, first_ + k);
                    const auto choose = [&](const double* constant) {
                        return each([&](int v) {
                            const Vec here = select(mask_of(satisfied[at(i)][at(side)] >> (v * kLanes)),
                                                    broadcast(constant[kSatisfied]), broadcast(constant[kUnsatisfied]));
                            return select(mask_of(satisfied[at(i)][2] >> (v * kLanes)), here,
                                          broadcast(constant[kUnsatisfiedAbove]));
                        });
                    };
                    difference[at(i)][at(side)] = choose(e.difference);
                    const auto& f = factor[at(i)][at(side)] = choose(e.factor);
                    const int child = position(treelet, split_at(i).child[side]);
                    if (child >= 0) product[at(child)] = each([&](int v) { return product[at(i)][at(v)] * f[at(v)]; });
                }
            for (int output = 0; output < n_outputs_; ++output) {
                double* const table = tables_ + per_output * at(output);
                std::array<States, kMaxTreeletBits> sum;  // H of every split, from the bottom up
                for (int i = treelet.n_splits - 1; i >= 0; --i) {
                    sum[at(i)].fill(broadcast(0.0));
                    double* const phi =
                        table + ((1 + player_position(treelet, split_at(i).player)) * n_points_ + k) * kStates;
                    for (int side = 0; side < 2; ++side) {
                        const auto child = split_at(i).child[side];
                        const int inside = position(treelet, child);
                        const double value = child < 0 ? chunk_.values_of(tree_, ~child)[output] : 0.0;
                        for (int v = 0; v < n; ++v) {
                            const Vec h =
                                inside >= 0 ? sum[at(inside)][at(v)]
                                            : product[at(i)][at(v)] * factor[at(i)][at(side)][at(v)] * broadcast(value);
                            sum[at(i)][at(v)] = sum[at(i)][at(v)] + h;
                            double* const to = phi + v * kLanes;
                            store(to, fma(h, difference[at(i)][at(side)][at(v)], load(to)));
                        }
                    }
                }
                for (int v = 0; v < n; ++v) store(table + k * kStates + v * kLanes, sum[0][at(v)]);
            }
        }
        tables_ += per_output * at(n_outputs_);
    }

    // For each split of a treelet, the states in which its left edge, its right edge and the edge
    // above are satisfied: a bit per state.
    std::array<std::array<std::uint32_t, 3>, kMaxTreeletBits> satisfied_states(const Treelet& treelet) const {
        constexpr std::array<std::uint32_t, kMaxTreeletBits> states_with_bit{0xAAAA, 0xCCCC, 0xF0F0, 0xFF00};
        std::array<std::array<std::uint32_t, 3>, kMaxTreeletBits> out{};
        for (int i = 0; i < treelet.n_splits; ++i) {
            const auto above = tree_.splits[at(treelet.split[at(i)])].above;
            const int inside = above < 0 ? -1 : position(treelet, above / 2);
            std::uint32_t is_above = 0xFFFF;
            if (inside >= 0) {
                is_above = out[at(inside)][at(above % 2)];
            } else if (above >= 0) {
                const auto bit =
                    std::find(treelet.bit.begin() + treelet.n_splits, treelet.bit.begin() + treelet.n_bits, above);
                is_above = states_with_bit[static_cast<std::size_t>(bit - treelet.bit.begin())];
            }
            const std::uint32_t left = states_with_bit[at(i)];
            out[at(i)] = {left & is_above, ~left & is_above, is_above};
        }
        return out;
    }

    void write_tables(const Treelet& treelet) {
        treelet.n_states() == 8 ? write_tables<8>(treelet) : write_tables<16>(treelet);
    }

    static int position(const Treelet& treelet, std::int32_t split) {
        for (int i = 0; i < treelet.n_splits; ++i)
            if (treelet.split[at(i)] == split) return i;
        return -1;
    }

    static int player_position(const Treelet& treelet, std::int32_t player) {
        return static_cast<int>(std::find(treelet.player.begin(), treelet.player.end(), player) -
                                treelet.player.begin());
    }

    const Chunk& chunk_;
    const Tree& tree_;
    const Rule& rule_;
    int first_, n_points_, n_outputs_;
    double* scalars_;
    double* tables_;
};

inline void expand_tile(const Program& program, const Chunk& chunk, const Tree& tree, const PointTile& tile,
                        double* out) {
    Expander(chunk, tree, program.rules.at(tree.n_points), tile, out).run();
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
