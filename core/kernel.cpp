// The recurrence: Shapley values of a chunk of trees for many rows, rows in SIMD lanes.
//
//   descend   C_child[k] = C[k] · factor_k            (product over the players on the path)
//   leaf      H[k] = C[k] · value                     ascend   H = H_left + H_right
//   return    φ_player += Σ_k H[k] · difference_k     (over the edge just left)
//
// Factor and difference are constants, selected by the state that the row is in (expansion.hpp): the
// walk only selects and multiplies, and looks treelets up.

#include "kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "conditions.hpp"
#include "expansion.hpp"
#include "row_walk.hpp"
#include "simd.hpp"

namespace linear_treeshap::LTS_ISA {
namespace {

// Vectors walked together: they hide each other's latencies and share every constant loaded. Sixteen rows
// are best on wide and on narrow machines (measured).
constexpr int kVectors = 16 / kLanes;

// Rows whose conditions are evaluated: a whole block, or a single vector where there are no more rows.
template <int V>
constexpr int kRowsAtOnce = V == 1 ? kLanes : kBlockRows;

// ---- conditions -----------------------------------------------------------------------------------

// For every edge, which rows satisfy all conditions of its player down to it. Splits of a treelet
// store their bare condition: the table knows the rest.
LTS_INLINE void satisfy(const Split& split, std::size_t i, std::uint64_t left, std::uint64_t* satisfied) {
    const std::uint64_t above = split.above < 0 || split.in_treelet ? ~std::uint64_t{0} : satisfied[split.above];
    satisfied[2 * i] = left & above;
    satisfied[2 * i + 1] = ~left & above;
}

// For every treelet and row, the state the row is in.
void find_states(const Tree& tree, const std::uint64_t* satisfied, std::uint8_t* states) {
    for (const auto& treelet : tree.treelets) {
        std::fill_n(states, kBlockRows, std::uint8_t{0});
        for (int bit = 0; bit < treelet.n_bits; ++bit) add_bit(states, satisfied[treelet.bit[at(bit)]], bit);
        states += kBlockRows;
    }
}

// ---- the walk -------------------------------------------------------------------------------------

template <int K, int V>
struct Walk {
    const Tree& tree;
    int n_outputs;
    const std::uint64_t* satisfied;
    const std::uint8_t* states;  // [treelet][row]
    int shift;                   // first row of the group within the block
    double* phi;                 // [player][output][V vectors]
    double* stack_c;             // [level][K][V vectors]
    double* stack_h;             // [level][side][output][K][V vectors]

    using Tile = std::array<std::array<Vec, V>, K>;
    using Masks = std::array<Mask, V>;
    static constexpr std::size_t kTileDoubles = std::size_t{K} * V * kLanes;

    LTS_INLINE Masks masks(std::int32_t edge) const {
        Masks out;
        for (int v = 0; v < V; ++v) out[at(v)] = mask_of(satisfied[edge] >> (shift + v * kLanes));
        return out;
    }
    LTS_INLINE static Tile load_tile(const double* p) {
        Tile out;
        for (int k = 0; k < K; ++k)
            for (int v = 0; v < V; ++v) out[at(k)][at(v)] = load(p + (k * V + v) * kLanes);
        return out;
    }
    LTS_INLINE static void store_tile(double* p, const Tile& tile) {
        for (int k = 0; k < K; ++k)
            for (int v = 0; v < V; ++v) store(p + (k * V + v) * kLanes, tile[at(k)][at(v)]);
    }
    LTS_INLINE double* phi_of(std::int32_t slot, int output) const { return phi + at(slot + output) * (V * kLanes); }
    LTS_INLINE double* h_of(std::int32_t level, int side, int output) const {
        return stack_h + ((at(level) * 2 + at(side)) * at(n_outputs) + at(output)) * kTileDoubles;
    }

    // C over one edge.
    template <bool kRepeated>
    LTS_INLINE Tile over(const Tile& c, const Split& split, std::int32_t edge, const double* factors) const {
        const Masks here = masks(edge);
        const Masks above = masks(kRepeated ? split.above : edge);
        Tile out;
        for (int k = 0; k < K; ++k) {
            const Vec unsatisfied = broadcast(factors[2 * k]), satisfied_here = broadcast(factors[2 * k + 1]);
            for (int v = 0; v < V; ++v) {
                Vec factor = select(here[at(v)], satisfied_here, unsatisfied);
                if constexpr (kRepeated) factor = select(above[at(v)], factor, broadcast(factors[2 * K]));
                out[at(k)][at(v)] = c[at(k)][at(v)] * factor;
            }
        }
        return out;
    }

    // Adds a treelet's contributions to φ and returns its H.
    template <int kStates>
    LTS_INLINE Tile through(const Tile& c, const Treelet& treelet, int output, const double* table) const {
        const std::uint8_t* const state = states + (&treelet - tree.treelets.data()) * kBlockRows + shift;
        std::array<Index, V> index;
        for (int v = 0; v < V; ++v) index[at(v)] = index_of(state + v * kLanes);
        const double* contributions = table + K * kStates;
        for (int p = 0; p < treelet.n_players; ++p) {
            double* const to = phi_of(treelet.slot[at(p)], output);
            // φ joins at the end: it may come straight from another treelet's store.
            std::array<Vec, V> sum;
            for (int k = 0; k < K; ++k, contributions += kStates) {
                const Table<kStates> contribution(contributions);
                for (int v = 0; v < V; ++v) {
                    const Vec term = contribution[index[at(v)]];
                    sum[at(v)] = k == 0 ? c[0][at(v)] * term : fma(c[at(k)][at(v)], term, sum[at(v)]);
                }
            }
            for (int v = 0; v < V; ++v) store(to + v * kLanes, load(to + v * kLanes) + sum[at(v)]);
        }
        Tile h;  // last, when C is no longer needed and its registers are free
        for (int k = 0; k < K; ++k) {
            const Table<kStates> factor(table + k * kStates);
            for (int v = 0; v < V; ++v) h[at(k)][at(v)] = c[at(k)][at(v)] * factor[index[at(v)]];
        }
        return h;
    }
    LTS_INLINE Tile through(const Tile& c, const Treelet& treelet, int output, const double* table) const {
        return treelet.n_states() == 8 ? through<8>(c, treelet, output, table) : through<16>(c, treelet, output, table);
    }

    struct Side {
        const double* factors = nullptr;
        const double* values = nullptr;
        const double* differences = nullptr;
        const double* table = nullptr;
    };

    // Reads the places of one side's constants off the streams.
    LTS_INLINE Side side_constants(const Step& step, const Split& split, std::size_t side, const double*& scalars,
                                   const double*& tables) const {
        Side out;
        if (step.child[side] != Child::inner) {
            out.factors = scalars;
            scalars += factor_scalars(split, K);
        }
        if (step.child[side] == Child::leaf) {
            out.values = scalars;
            scalars += n_outputs;
        }
        out.differences = scalars;
        scalars += 2 * K;
        if (step.child[side] == Child::treelet) {
            out.table = tables;
            tables += treelet_doubles(tree.treelets[at(step.target[side])], K) * at(n_outputs);
        }
        return out;
    }

    template <bool kRepeated>
    LTS_INLINE Tile h_of_side(const Step& step, const Split& split, int side, int output, const Side& constants) const {
        if (step.child[at(side)] == Child::inner) return load_tile(h_of(step.level + 1, side, output));
        const Tile above = load_tile(stack_c + at(step.level) * kTileDoubles);
        const Tile c = over<kRepeated>(above, split, 2 * step.split + side, constants.factors);
        if (step.child[at(side)] == Child::treelet) {
            const auto& treelet = tree.treelets[at(step.target[at(side)])];
            return through(c, treelet, output, constants.table + treelet_doubles(treelet, K) * at(output));
        }
        Tile h;
        for (int k = 0; k < K; ++k)
            for (int v = 0; v < V; ++v) h[at(k)][at(v)] = c[at(k)][at(v)] * broadcast(constants.values[output]);
        return h;
    }

    // Σ_k H[k]·difference_k over one edge.
    template <bool kRepeated>
    LTS_INLINE std::array<Vec, V> contribution(const Tile& h, const Split& split, std::int32_t edge,
                                               const double* differences) const {
        const Masks here = masks(edge);
        std::array<Vec, V> sum;
        for (int k = 0; k < K; ++k) {
            const Vec unsatisfied = broadcast(differences[2 * k]), satisfied_here = broadcast(differences[2 * k + 1]);
            for (int v = 0; v < V; ++v) {
                const Vec difference = select(here[at(v)], satisfied_here, unsatisfied);
                sum[at(v)] = k == 0 ? h[0][at(v)] * difference : fma(h[at(k)][at(v)], difference, sum[at(v)]);
            }
        }
        if constexpr (kRepeated) {
            const Masks above = masks(split.above);
            for (int v = 0; v < V; ++v) sum[at(v)] = where(above[at(v)], sum[at(v)]);
        }
        return sum;
    }

    template <bool kRepeated>
    LTS_INLINE void close(const Step& step, const Split& split, const double*& scalars, const double*& tables) const {
        const Side left = side_constants(step, split, 0, scalars, tables);
        const Side right = side_constants(step, split, 1, scalars, tables);
        for (int output = 0; output < n_outputs; ++output) {
            Tile h = h_of_side<kRepeated>(step, split, 0, output, left);
            const auto from_left = contribution<kRepeated>(h, split, 2 * step.split, left.differences);
            const Tile h_right = h_of_side<kRepeated>(step, split, 1, output, right);
            const auto from_right = contribution<kRepeated>(h_right, split, 2 * step.split + 1, right.differences);
            for (int k = 0; k < K; ++k)
                for (int v = 0; v < V; ++v) h[at(k)][at(v)] = h[at(k)][at(v)] + h_right[at(k)][at(v)];
            store_tile(h_of(step.level, step.side, output), h);
            double* const to = phi_of(split.slot, output);
            for (int v = 0; v < V; ++v)
                store(to + v * kLanes, load(to + v * kLanes) + (from_left[at(v)] + from_right[at(v)]));
        }
    }

    template <bool kRepeated>
    LTS_INLINE void descend(const Step& step, const Split& split, const double*& scalars) const {
        double* const from = stack_c + at(step.level) * kTileDoubles;
        store_tile(from + kTileDoubles, over<kRepeated>(load_tile(from), split, 2 * step.split + step.side, scalars));
        scalars += 2 * K + (kRepeated ? 1 : 0);
    }

    void run(const double* scalars, const double* tables) const {
        Tile one;
        for (auto& k : one) k.fill(broadcast(1.0));
        store_tile(stack_c, one);
        for (const auto& step : tree.steps) {
            const auto& split = tree.splits[at(step.split)];
            const bool is_repeated = split.above >= 0;
            switch (step.kind) {
                case Step::Kind::descend:
                    is_repeated ? descend<true>(step, split, scalars) : descend<false>(step, split, scalars);
                    break;
                case Step::Kind::close:
                    is_repeated ? close<true>(step, split, scalars, tables)
                                : close<false>(step, split, scalars, tables);
                    break;
                case Step::Kind::whole:
                    for (int output = 0; output < n_outputs; ++output)
                        through(one, tree.treelets[0], output,
                                tables + treelet_doubles(tree.treelets[0], K) * at(output));
                    break;
            }
        }
    }
};

// Doubles of stack that a walk through `levels` levels needs at most.
std::size_t stack_doubles(int levels, int n_outputs) {
    return at(levels + 1) * std::size_t{kMaxTile} * kVectors * kLanes * (1 + 2 * at(n_outputs));
}

// Walks a tree at the points of one tile, for one block of rows in groups of V vectors.
template <int V>
void walk_block(const Chunk& chunk, const Tree& tree, const PointTile& tile, const double* constants,
                const std::uint64_t* satisfied, std::uint8_t* states, int n_rows, double* phi, double* stack) {
    find_states(tree, satisfied, states);
    with_points(tile.n_points, [&]<int K>() {
        constexpr int group_rows = V * kLanes;
        double* const stack_h = stack + at(tree.n_levels + 1) * Walk<K, V>::kTileDoubles;
        double* to = phi;
        for (int shift = 0; shift < n_rows; shift += group_rows) {
            Walk<K, V>{tree, chunk.n_outputs, satisfied, states, shift, to, stack, stack_h}.run(
                constants, constants + tile.tables);
            to += chunk.players.size() * at(chunk.n_outputs) * group_rows;
        }
    });
}

// ---- trees that are one table ---------------------------------------------------------------------

// The walk, done for every combination of the tree's conditions as if each were a row.
void expand_lookup(const Program& program, const Chunk& chunk, const Tree& tree, double* out) {
    Buffer<double> constants, stack_buffer, phi_buffer;
    Buffer<std::uint8_t> states;
    std::vector<std::uint64_t> satisfied(2 * tree.splits.size());
    double* const stack = stack_buffer.reserve(stack_doubles(tree.n_levels, chunk.n_outputs));
    const std::size_t n_states = std::size_t{1} << tree.conditions.size();
    const std::size_t n_outputs = at(chunk.n_outputs), n_values = chunk.players.size() * n_outputs;
    const std::size_t block_doubles = n_values * kBlockRows;
    double* const phi = phi_buffer.reserve(block_doubles);
    for (std::size_t first = 0; first < n_states; first += kBlockRows) {
        const auto n_rows = static_cast<int>(std::min<std::size_t>(kBlockRows, n_states - first));
        for (std::size_t i = 0; i < tree.splits.size(); ++i) {
            std::uint64_t left = 0;
            for (std::size_t r = 0; r < kBlockRows; ++r)
                left |= std::uint64_t{((first + r) >> tree.condition_of[i]) & 1} << r;
            satisfy(tree.splits[i], i, left, satisfied.data());
        }
        std::fill_n(phi, block_doubles, 0.0);
        for (const auto& tile : tree.tiles) {
            expand_tile(program, chunk, tree, tile, constants.reserve(tile.size));
            walk_block<1>(chunk, tree, tile, constants.data(), satisfied.data(),
                          states.reserve(tree.treelets.size() * kBlockRows), n_rows, phi, stack);
        }
        for (std::size_t p = 0; p < tree.lookup_slot.size(); ++p)
            for (std::size_t o = 0; o < n_outputs; ++o)
                for (std::size_t r = 0; r < at(n_rows); ++r)
                    out[(p * n_outputs + o) * n_states + first + r] =
                        phi[(r / kLanes * n_values + at(tree.lookup_slot[p]) + o) * kLanes + r % kLanes];
    }
}

template <int V, class Number>
void look_up_block(const Program& program, const Chunk& chunk, const Tree& tree, const double* table, const Number* x,
                   int n_rows, double* phi) {
    alignas(64) std::array<std::uint8_t, kBlockRows> index{};
    for (std::size_t bit = 0; bit < tree.conditions.size(); ++bit) {
        add_bit(index.data(), goes_left<kRowsAtOnce<V>>(program, tree.splits[at(tree.conditions[bit])], x),
                static_cast<int>(bit));
    }
    constexpr int group_rows = V * kLanes;
    const std::size_t n_states = std::size_t{1} << tree.conditions.size();
    for (int shift = 0; shift < n_rows; shift += group_rows) {
        const double* from = table;
        for (const auto slot : tree.lookup_slot) {
            double* to = phi + at(slot) * group_rows;
            for (int output = 0; output < chunk.n_outputs; ++output, from += n_states)
                for (int v = 0; v < V; ++v, to += kLanes)
                    store(to, load(to) + gather(from, index.data() + shift + v * kLanes));
        }
        phi += chunk.players.size() * at(chunk.n_outputs) * group_rows;
    }
}

// ---- a chunk of trees -----------------------------------------------------------------------------

void expand(const Program& program, const Chunk& chunk, const Tree& tree, double* out) {
    if (tree.is_lookup()) return expand_lookup(program, chunk, tree, out);
    for (const auto& tile : tree.tiles) expand_tile(program, chunk, tree, tile, out + tile.begin);
}

template <int V>
void add_to_values(const Program& program, const Chunk& chunk, const double* phi, std::size_t n_rows, double* values) {
    constexpr std::size_t group_rows = std::size_t{V} * kLanes;
    const auto n_outputs = at(chunk.n_outputs);
    const auto row_doubles = at(program.n_players) * at(program.n_outputs);
    for (std::size_t r = 0; r < n_rows; ++r, values += row_doubles) {
        const double* from = phi + r / group_rows * chunk.players.size() * n_outputs * group_rows + r % group_rows;
        for (const auto player : chunk.players) {
            double* const to = values + at(player) * at(program.n_outputs) + at(chunk.output);
            for (std::size_t o = 0; o < n_outputs; ++o, from += group_rows) to[o] += *from;
        }
    }
}

template <int V, class Number>
void explain_rows(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
                  Workspace& work, double* values) {
    const std::size_t n_blocks = (rows.n_rows + kBlockRows - 1) / kBlockRows;
    const std::size_t x_numbers = chunk.columns.size() * kBlockRows;
    const std::size_t phi_doubles = chunk.players.size() * at(chunk.n_outputs) * kBlockRows;
    auto* const x = reinterpret_cast<Number*>(work.x.reserve(n_blocks * x_numbers));
    double* const phi = work.phi.reserve(n_blocks * phi_doubles);
    double* const stack = work.stack.reserve(stack_doubles(chunk.max_levels, chunk.n_outputs));
    std::uint64_t* const satisfied = work.satisfied.reserve(2 * at(chunk.max_splits));
    std::uint8_t* const states = work.states.reserve(at(chunk.max_treelets) * kBlockRows);
    std::fill_n(phi, n_blocks * phi_doubles, 0.0);

    const auto rows_of = [&](std::size_t block) {
        return std::min<std::size_t>(kBlockRows, rows.n_rows - block * kBlockRows);
    };
    const auto* const data = static_cast<const Number*>(rows.data);
    for (std::size_t b = 0; b < n_blocks; ++b)
        transpose_block(program, chunk, data + b * kBlockRows * at(program.n_columns), rows_of(b), x + b * x_numbers);

    // Constants are the kept ones, or made here, a tile at a time, for all rows at hand.
    const auto constants_at = [&](const Tree& tree, std::size_t begin, const auto& make) -> const double* {
        if (constants.expanded != nullptr) return constants.expanded + tree.expansion_begin + begin;
        double* const made = work.expansion.reserve(chunk.max_expansion);
        make(made);
        return made;
    };
    for (const auto& tree : chunk.trees) {
        if (tree.is_lookup()) {
            const double* const table =
                constants_at(tree, 0, [&](double* out) { expand_lookup(program, chunk, tree, out); });
            for (std::size_t b = 0; b < n_blocks; ++b)
                look_up_block<V>(program, chunk, tree, table, x + b * x_numbers, static_cast<int>(rows_of(b)),
                                 phi + b * phi_doubles);
            continue;
        }
        for (const auto& tile : tree.tiles) {
            const double* const tile_constants =
                constants_at(tree, tile.begin, [&](double* out) { expand_tile(program, chunk, tree, tile, out); });
            for (std::size_t b = 0; b < n_blocks; ++b) {
                for (std::size_t i = 0; i < tree.splits.size(); ++i)
                    satisfy(tree.splits[i], i, goes_left<kRowsAtOnce<V>>(program, tree.splits[i], x + b * x_numbers),
                            satisfied);
                walk_block<V>(chunk, tree, tile, tile_constants, satisfied, states, static_cast<int>(rows_of(b)),
                              phi + b * phi_doubles, stack);
            }
        }
    }
    const std::size_t row_doubles = at(program.n_players) * at(program.n_outputs);
    for (std::size_t b = 0; b < n_blocks; ++b)
        add_to_values<V>(program, chunk, phi + b * phi_doubles, rows_of(b), values + b * kBlockRows * row_doubles);
}

template <class Number>
void explain_numbers(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
                     Workspace& work, double* values) {
    // A row's arithmetic does not depend on its neighbours, so all of these give the same bits.
    if (rows.n_rows == 1 && constants.one_row != nullptr)
        return explain_row(program, chunk, static_cast<const Number*>(rows.data), constants, work, values);
    rows.n_rows <= kLanes ? explain_rows<1, Number>(program, chunk, rows, constants, work, values)
                          : explain_rows<kVectors, Number>(program, chunk, rows, constants, work, values);
}

void explain(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
             Workspace& work, double* values) {
    program.is_float32 ? explain_numbers<float>(program, chunk, rows, constants, work, values)
                       : explain_numbers<double>(program, chunk, rows, constants, work, values);
}

// Whether this machine has what this file was compiled for (x86-64-v4, x86-64-v3, or any).
bool is_supported() {
#if defined(__AVX2__)
    bool has_all = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                   __builtin_cpu_supports("bmi2");
#if defined(__AVX512F__)
    has_all = has_all && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd");
#endif
    return has_all;
#else
    return true;
#endif
}

}  // namespace

#define LTS_STRING(x) #x
#define LTS_NAME(x) LTS_STRING(x)
extern const Kernel kernel;
const Kernel kernel{LTS_NAME(LTS_ISA), is_supported, expand, explain};

}  // namespace linear_treeshap::LTS_ISA
