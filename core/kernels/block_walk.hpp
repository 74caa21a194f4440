// The recurrence for a block of rows, rows in SIMD lanes.
//
//   descend   C_child[k] = C[k] · factor_k            (product over the players on the path)
//   leaf      H[k] = C[k] · value                     ascend   H = H_left + H_right
//   return    φ_player += Σ_k H[k] · difference_k     (over the edge just left)
//
// Factor and difference are constants, selected by the state that the row is in (expansion.hpp): the
// walk only selects and multiplies, and looks treelets up. A step is taken by all rows of the block
// before the next one, so that what it needs to know is read once.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "compile/program.hpp"
#include "compile/tiles.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Vectors that take a step together and share the tables they load. Narrow machines have too few registers for two.
inline constexpr int kVectors = kLanes == 8 ? 2 : 1;

// Numbers of K points for V vectors of rows; in memory, a vector's points lie side by side.
template <int K, int V>
using Tile = std::array<std::array<Vec, V>, K>;

template <int K, int V>
LTS_INLINE Tile<K, V> load_tile(const double* from, int first) {
    Tile<K, V> out;
    for (int k = 0; k < K; ++k)
        for (int v = 0; v < V; ++v) out[at(k)][at(v)] = load(from + ((first + v) * K + k) * kLanes);
    return out;
}
template <int K, int V>
LTS_INLINE void store_tile(double* to, int first, const Tile<K, V>& tile) {
    for (int k = 0; k < K; ++k)
        for (int v = 0; v < V; ++v) store(to + ((first + v) * K + k) * kLanes, tile[at(k)][at(v)]);
}

// What a walk knows of its rows: `n_blocks` blocks of 64, whose words lie side by side.
struct WalkRows {
    const std::uint64_t* satisfied;  // [edge][block] a bit per row
    const std::uint8_t* states;      // [treelet][row]
    double* phi;                     // [player][output][row]
    int n_blocks;

    int stride() const { return n_blocks * kBlockRows; }
};

// Which rows satisfy an edge, and which satisfied its player's edges above.
template <bool kRepeated>
struct EdgeRows {
    const std::uint8_t *here, *above;

    LTS_INLINE EdgeRows(const WalkRows& rows, int first_row, const Split& split, std::int32_t edge)
        : here(bits(rows, first_row, edge)), above(kRepeated ? bits(rows, first_row, split.above) : nullptr) {}
    LTS_INLINE Mask is_here(int v) const { return mask_at(here, v); }
    LTS_INLINE Mask is_above(int v) const { return mask_at(above, v); }

    LTS_INLINE static const std::uint8_t* bits(const WalkRows& rows, int first_row, std::int32_t edge) {
        static_assert(std::endian::native == std::endian::little);
        return reinterpret_cast<const std::uint8_t*>(rows.satisfied + at(edge * rows.n_blocks)) + first_row / 8;
    }
    LTS_INLINE static Mask mask_at(const std::uint8_t* bits, int v) {
        return mask_of(std::uint64_t{bits[v * kLanes / 8]} >> (v * kLanes % 8));
    }
};

// A constant for each point, by whether the row satisfies the edge.
template <int K>
struct EdgeConstant {
    std::array<Vec, K> satisfied, unsatisfied;

    LTS_INLINE explicit EdgeConstant(const double* from) {
        for (int k = 0; k < K; ++k) {
            unsatisfied[at(k)] = broadcast(from[2 * k]);
            satisfied[at(k)] = broadcast(from[2 * k + 1]);
        }
    }
    LTS_INLINE Vec at_point(int k, Mask is_here) const { return select(is_here, satisfied[at(k)], unsatisfied[at(k)]); }
};

// The way down an edge.
template <int K, bool kRepeated>
class Over {
  public:
    LTS_INLINE Over(const EdgeRows<kRepeated>& rows, const double* factors) : rows_(rows), factor_(factors) {
        if constexpr (kRepeated) unsatisfied_above_ = broadcast(factors[2 * K]);
    }
    template <int V>
    LTS_INLINE Tile<K, V> operator()(Tile<K, V> c, int first) const {
        for (int v = 0; v < V; ++v) {
            const Mask is_here = rows_.is_here(first + v);
            for (int k = 0; k < K; ++k) {
                Vec factor = factor_.at_point(k, is_here);
                if constexpr (kRepeated) factor = select(rows_.is_above(first + v), factor, unsatisfied_above_);
                c[at(k)][at(v)] = c[at(k)][at(v)] * factor;
            }
        }
        return c;
    }

  private:
    EdgeRows<kRepeated> rows_;
    EdgeConstant<K> factor_;
    Vec unsatisfied_above_;
};

// Where a split puts what comes back over an edge.
struct Return {
    double* phi;            // of its player
    const double* sibling;  // H of the left edge, for the right one; null for the left one
    double* h;              // where to leave H, or the sum of both; null if it is where it should be
};

// The way back over an edge.
template <int K, bool kRepeated>
class Back {
  public:
    LTS_INLINE Back(const EdgeRows<kRepeated>& rows, const double* differences, const Return& to)
        : rows_(rows), difference_(differences), phi_(to.phi), sibling_(to.sibling), h_(to.h) {}
    template <int V>
    LTS_INLINE void operator()(Tile<K, V> h, int first) const {
        for (int v = 0; v < V; ++v) {
            const Mask is_here = rows_.is_here(first + v);
            Vec sum = h[0][at(v)] * difference_.at_point(0, is_here);
            for (int k = 1; k < K; ++k) sum = fma(h[at(k)][at(v)], difference_.at_point(k, is_here), sum);
            if constexpr (kRepeated) sum = where(rows_.is_above(first + v), sum);
            double* const phi = phi_ + (first + v) * kLanes;
            store(phi, load(phi) + sum);
        }
        if (sibling_ != nullptr) {
            const auto left = load_tile<K, V>(sibling_, first);
            for (int k = 0; k < K; ++k)
                for (int v = 0; v < V; ++v) h[at(k)][at(v)] = left[at(k)][at(v)] + h[at(k)][at(v)];
        }
        if (h_ != nullptr) store_tile<K, V>(h_, first, h);
    }

  private:
    EdgeRows<kRepeated> rows_;
    EdgeConstant<K> difference_;
    double* phi_;
    const double* sibling_;
    double* h_;
};

// The way through a treelet: from C to H, with contributions to φ.
template <int K, int kStates, int kPlayers>
class Through {
  public:
    LTS_INLINE Through(const std::uint8_t* states, const Treelet& treelet, double* phi, std::size_t player_doubles,
                       const double* table)
        : states_(states), table_(table) {
        for (int p = 0; p < kPlayers; ++p) phi_[at(p)] = phi + at(treelet.player[at(p)]) * player_doubles;
    }
    template <int V>
    LTS_INLINE Tile<K, V> operator()(Tile<K, V> c, int first) const {
        std::array<Index, V> index;
        for (int v = 0; v < V; ++v) index[at(v)] = index_of(states_ + (first + v) * kLanes);
        for (int p = 0; p < kPlayers; ++p) {
            std::array<Vec, V> sum;
            for (int k = 0; k < K; ++k) {
                const Table<kStates> contribution(table_ + ((1 + p) * K + k) * kStates);
                for (int v = 0; v < V; ++v) {
                    const Vec term = contribution[index[at(v)]];
                    sum[at(v)] = k == 0 ? c[0][at(v)] * term : fma(c[at(k)][at(v)], term, sum[at(v)]);
                }
            }
            double* const phi = phi_[at(p)] + first * kLanes;
            for (int v = 0; v < V; ++v) store(phi + v * kLanes, load(phi + v * kLanes) + sum[at(v)]);
        }
        for (int k = 0; k < K; ++k) {
            const Table<kStates> factor(table_ + k * kStates);
            for (int v = 0; v < V; ++v) c[at(k)][at(v)] = c[at(k)][at(v)] * factor[index[at(v)]];
        }
        return c;
    }

  private:
    const std::uint8_t* states_;
    std::array<double*, kPlayers> phi_;
    const double* table_;
};

// Calls a function for all vectors, as many at once as pays.
template <class Function>
LTS_INLINE void each_vector(int n_vectors, const Function& function) {
    int v = 0;
    for (; v + kVectors <= n_vectors; v += kVectors) function.template operator()<kVectors>(v);
    if constexpr (kVectors > 1)
        for (; v < n_vectors; ++v) function.template operator()<1>(v);
}

template <int K>
class BlockWalk {
  public:
    // `stack` has room for stack_doubles(…).
    BlockWalk(const Tree& tree, int n_outputs, const WalkRows& rows, int first_row, int n_rows, double* stack)
        : tree_(tree),
          n_outputs_(n_outputs),
          rows_(rows),
          player_doubles_(at(n_outputs * rows.stride())),
          first_row_(first_row),
          n_vectors_((n_rows + kLanes - 1) / kLanes),
          stack_c_(stack),
          stack_h_(stack + at(tree.n_levels + 1) * level_doubles()) {}

    void run(const double* scalars, const double* tables) {
        scalars_ = scalars;
        tables_ = tables;
        each([&]<int V>(int v) LTS_INLINED { store_tile<K, V>(stack_c_, v, one<V>()); });
        for (const auto& step : tree_.steps) {
            const auto& split = tree_.splits[at(step.split)];
            const bool is_repeated = split.above >= 0;
            switch (step.kind) {
                case Step::Kind::descend:
                    is_repeated ? descend<true>(step, split) : descend<false>(step, split);
                    break;
                case Step::Kind::close:
                    for (int side = 0; side < 2; ++side)
                        is_repeated ? close<true>(step, split, side) : close<false>(step, split, side);
                    break;
                case Step::Kind::whole:
                    for (int output = 0; output < n_outputs_; ++output) whole(output);
                    break;
            }
        }
    }

  private:
    template <int V>
    LTS_INLINE static Tile<K, V> one() {
        Tile<K, V> out;
        for (auto& point : out) point.fill(broadcast(1.0));
        return out;
    }
    template <class Function>
    LTS_INLINE void each(const Function& function) const {
        each_vector(n_vectors_, function);
    }
    std::size_t level_doubles() const { return at(n_vectors_ * K * kLanes); }
    double* c_of(std::int32_t level) const { return stack_c_ + at(level) * level_doubles(); }
    double* h_of(std::int32_t level, int side, int output) const {
        return stack_h_ + ((at(level) * 2 + at(side)) * at(n_outputs_) + at(output)) * level_doubles();
    }
    double* phi_of(std::int32_t player) const { return rows_.phi + at(player) * player_doubles_ + first_row_; }

    const double* next_scalars(std::size_t n) {
        const double* const here = scalars_;
        scalars_ += n;
        return here;
    }

    template <bool kRepeated>
    [[gnu::noinline]] void descend(const Step& step, const Split& split) {
        const EdgeRows<kRepeated> rows(rows_, first_row_, split, 2 * step.split + step.side);
        const Over<K, kRepeated> over(rows, next_scalars(factor_scalars(split, K)));
        const double* const from = c_of(step.level);
        double* const to = c_of(step.level + 1);
        each([&]<int V>(int v)
                 LTS_INLINED { store_tile<K, V>(to, v, over.template operator()<V>(load_tile<K, V>(from, v), v)); });
    }

    // One edge of a split whose children are both known.
    template <bool kRepeated>
    void close(const Step& step, const Split& split, int side) {
        const Child child = step.child[at(side)];
        const EdgeRows<kRepeated> rows(rows_, first_row_, split, 2 * step.split + side);
        const double* const factors = next_scalars(child == Child::inner ? 0 : factor_scalars(split, K));
        const double* const values = next_scalars(child == Child::leaf ? at(n_outputs_) : 0);
        const double* const differences = next_scalars(2 * K);
        const double* const c = c_of(step.level);
        double* phi = phi_of(split.player);
        for (int output = 0; output < n_outputs_; ++output, phi += rows_.stride()) {
            double* const h = h_of(step.level, step.side, output);
            const double* const left = step.child[0] == Child::inner ? h_of(step.level + 1, 0, output) : h;
            const bool is_left_inner = side == 0 && child == Child::inner;
            const Return to{phi, side == 0 ? nullptr : left, is_left_inner ? nullptr : h};
            if (child == Child::inner) {
                from_inner(rows, differences, to, h_of(step.level + 1, side, output));
            } else if (child == Child::leaf) {
                from_leaf(rows, factors, differences, to, c, values[output]);
            } else {
                const auto number = step.target[at(side)];
                with_treelet(tree_.treelets[at(number)], [&]<int kStates, int kPlayers>() LTS_INLINED {
                    from_treelet<kRepeated, kStates, kPlayers>(rows, factors, differences, to, c, number, output);
                });
            }
        }
    }

    template <bool kRepeated>
    [[gnu::noinline]] void from_inner(const EdgeRows<kRepeated>& rows, const double* differences, const Return& to,
                                      const double* h) const {
        const Back<K, kRepeated> back(rows, differences, to);
        each([&]<int V>(int v) LTS_INLINED { back.template operator()<V>(load_tile<K, V>(h, v), v); });
    }

    template <bool kRepeated>
    [[gnu::noinline]] void from_leaf(const EdgeRows<kRepeated>& rows, const double* factors, const double* differences,
                                     const Return& to, const double* c, double value) const {
        const Over<K, kRepeated> over(rows, factors);
        const Back<K, kRepeated> back(rows, differences, to);
        const Vec leaf = broadcast(value);
        each([&]<int V>(int v) LTS_INLINED {
            auto h = over.template operator()<V>(load_tile<K, V>(c, v), v);
            for (auto& point : h)
                for (auto& vector : point) vector = vector * leaf;
            back.template operator()<V>(h, v);
        });
    }

    template <bool kRepeated, int kStates, int kPlayers>
    [[gnu::noinline]] void from_treelet(const EdgeRows<kRepeated>& rows, const double* factors,
                                        const double* differences, const Return& to, const double* c,
                                        std::int32_t number, int output) {
        const Over<K, kRepeated> over(rows, factors);
        const Back<K, kRepeated> back(rows, differences, to);
        const auto through = next_treelet<kStates, kPlayers>(number, output);
        each([&]<int V>(int v) LTS_INLINED {
            const auto below = over.template operator()<V>(load_tile<K, V>(c, v), v);
            back.template operator()<V>(through.template operator()<V>(below, v), v);
        });
    }

    // The tree is one treelet.
    void whole(int output) {
        with_treelet(tree_.treelets[0], [&]<int kStates, int kPlayers>() {
            const auto through = next_treelet<kStates, kPlayers>(0, output);
            each([&]<int V>(int v) LTS_INLINED { through.template operator()<V>(one<V>(), v); });
        });
    }

    // What is to be known of a treelet for one output; tables come in this order.
    template <int kStates, int kPlayers>
    LTS_INLINE Through<K, kStates, kPlayers> next_treelet(std::int32_t number, int output) {
        const auto& treelet = tree_.treelets[at(number)];
        const double* const table = tables_;
        tables_ += (1 + kPlayers) * K * kStates;
        const std::uint8_t* const states = rows_.states + at(number) * at(rows_.stride()) + first_row_;
        return {states, treelet, phi_of(0) + output * rows_.stride(), player_doubles_, table};
    }

    // Calls a function whose template arguments are the numbers of states and players of a treelet.
    template <class Function>
    static void with_treelet(const Treelet& treelet, const Function& function) {
        static_assert(kMaxTreeletBits == 4);
        const auto with_players = [&]<int kStates>() LTS_INLINED {
            switch (treelet.n_players) {
                case 1:
                    return function.template operator()<kStates, 1>();
                case 2:
                    return function.template operator()<kStates, 2>();
                case 3:
                    return function.template operator()<kStates, 3>();
                default:
                    return function.template operator()<kStates, 4>();
            }
        };
        treelet.n_states() == 8 ? with_players.template operator()<8>() : with_players.template operator()<16>();
    }

    const Tree& tree_;
    int n_outputs_;
    WalkRows rows_;
    std::size_t player_doubles_;  // of φ
    int first_row_;
    int n_vectors_;
    double* stack_c_;                  // [level][vector][K]
    double* stack_h_;                  // [level][side][output][vector][K]
    const double* scalars_ = nullptr;  // constants still to be read
    const double* tables_ = nullptr;
};

// Doubles of stack that a walk of this many rows needs at most.
inline std::size_t stack_doubles(int n_levels, int n_outputs, int n_points, int n_rows) {
    const int n_lanes = (n_rows + kLanes - 1) / kLanes * kLanes;
    return at(n_levels + 1) * at(n_points) * at(n_lanes) * (1 + 2 * at(n_outputs));
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
