// The walk that collects the indices of sets of players, rows in SIMD lanes (see set_plan.hpp).
//
//   descend   C_child[k] = C[k] · factor_k          keep the state of the edge's player
//   leaf      H[k] = C[k] · value                   ascend   H = H_left + H_right
//   return    D[k] = H[k] · difference_k            φ_{i} += Σ_k D[k]
//             for each other player above: D'[k] = D[k] · γ_k, φ_{i, j} += Σ_k D'[k], and so on from D'
//
// Both edges of a split have the same players above them, so their D are added first. γ is a constant of the edge
// where the row satisfies it, and the same for all edges where it does not: the sum over points of the last γ is
// taken for both, with no γ in lanes, and then selected. What a row can do at a split whose children are both leaves
// is one of three things; H and D are precomputed for each of them.

#include "kernels/set_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/conditions.hpp"
#include "kernels/edge_constants.hpp"
#include "kernels/isa.hpp"
#include "kernels/satisfied.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

constexpr int kVectors = 2;

// ---- constants ------------------------------------------------------------------------------------

// Writes the constants of a tile in the order in which `SetWalk` reads them.
class SetExpander {
  public:
    SetExpander(const Chunk& chunk, const SetTree& tree, const Rule& rule, const PointTile& tile, double* out)
        : chunk_(chunk),
          tree_(tree),
          rule_(rule),
          first_(tile.first),
          n_points_(tile.n_points),
          n_outputs_(chunk.n_outputs),
          out_(out) {
        for (std::int32_t i = 0; i < tree.tree->n_splits; ++i) {
            const auto above = (*tree.tree)[i].above;
            rest_above_.push_back(above < 0 ? 0.0 : rest_with(above));
        }
    }

    void run() {
        for (int k = 0; k < n_points_; ++k) *out_++ = -1.0 / rule_.absent[at(first_ + k)];
        for (const auto& step : tree_.steps) {
            const Split split = (*tree_.tree)[step.split];
            if (step.kind == SetStep::Kind::descend) {
                write_factors(split, step.side);
                for (int k = 0; k < n_points_; ++k) *out_++ = gamma_satisfied(step, k);
            } else if (step.kind == SetStep::Kind::twig) {
                for (int output = 0; output < n_outputs_; ++output) write_twig(split, output);
            } else {
                for (int side = 0; side < 2; ++side) write_side(split, side);
            }
        }
    }

  private:
    // 1 - c with an edge, from the covers: where c is near 1, all of its digits would cancel. Both terms are positive.
    double rest_with(std::int32_t edge) const {
        const Split split = (*tree_.tree)[edge / 2];
        return rest_above_[at(edge / 2)] + split.absent_above * split.ratio[1 - edge % 2];
    }
    // γ of a player that is satisfied: (1-c)/u. Where it is not, γ is -1/(1-t), whatever c is.
    double gamma_satisfied(const SetStep& step, int k) const {
        const Split split = (*tree_.tree)[step.split];
        const double c = split.absent_above * split.ratio[step.side];
        const auto point = at(first_ + k);
        return rest_with(2 * step.split + step.side) / (rule_.point[point] + rule_.absent[point] * c);
    }

    double leaf_value(const Split& split, int side, int output) const {
        return chunk_.values_of(~split.child[side])[output];
    }

    void write_factors(const Split& split, int side) {
        for (int k = 0; k < n_points_; ++k) {
            const auto constants = edge_constants(split, side, rule_, first_ + k);
            *out_++ = constants.factor[kUnsatisfied];
            *out_++ = constants.factor[kSatisfied];
        }
        if (split.above >= 0) *out_++ = split.ratio[side];
    }

    void write_side(const Split& split, int side) {
        if (split.child[side] < 0) {
            write_factors(split, side);
            for (int output = 0; output < n_outputs_; ++output) *out_++ = leaf_value(split, side, output);
        }
        for (int k = 0; k < n_points_; ++k) {
            const auto constants = edge_constants(split, side, rule_, first_ + k);
            *out_++ = constants.difference[kUnsatisfied];
            *out_++ = constants.difference[kSatisfied];
        }
    }

    // For a row that goes left, and for one that goes right: H and D, with C = 1.
    void write_twig(const Split& split, int output) {
        const double value[2] = {leaf_value(split, 0, output), leaf_value(split, 1, output)};
        for (int k = 0; k < n_points_; ++k) {
            const EdgeConstants edge[2] = {edge_constants(split, 0, rule_, first_ + k),
                                           edge_constants(split, 1, rule_, first_ + k)};
            for (int goes = 0; goes < 2; ++goes) {
                double h = 0.0, d = 0.0;
                for (int side = 0; side < 2; ++side) {
                    const auto state = side == goes ? kSatisfied : kUnsatisfied;
                    const double term = edge[side].factor[state] * value[side];
                    h += term;
                    d += term * edge[side].difference[state];
                }
                out_[2 * k + goes] = h;
                out_[2 * (n_points_ + k) + goes] = d;
            }
        }
        out_ += 4 * n_points_;
        if (split.above >= 0) *out_++ = split.ratio[0] * value[0] + split.ratio[1] * value[1];
    }

    const Chunk& chunk_;
    const SetTree& tree_;
    const Rule& rule_;
    int first_, n_points_, n_outputs_;
    std::vector<double> rest_above_;  // of each split, 1 - c of its player's edges above
    double* out_;
};

void expand(const SetProgram& program, const SetChunk& chunk, double* out) {
    for (const auto& tree : chunk.trees)
        for (const auto& tile : tree.tiles)
            SetExpander(*chunk.chunk, tree, program.rules.at(tree.n_points), tile,
                        out + tree.expansion_begin + tile.begin)
                .run();
}

// ---- the walk -------------------------------------------------------------------------------------

// An edge on the path: which rows satisfy it, and its player's γ where they do.
template <int V>
struct Edge {
    std::array<Mask, V> satisfied;
    const double* gamma;  // [K]
};

// Sets to which a walk adds before it looks up: some milliseconds, or less than one tree.
constexpr std::size_t kSetsAtOnce = std::size_t{1} << 20;

// Counts what is done, and looks up when that is much.
struct Patience {
    const Worker& worker;
    std::size_t n_sets = 0;

    LTS_INLINE bool goes_on(std::size_t more) {
        n_sets += more;
        if (n_sets < kSetsAtOnce) [[likely]]
            return true;
        n_sets = 0;
        return worker.advance(0);
    }
};

template <int K, int V>
struct SetWalk {
    const SetTree& tree;
    int n_outputs, min_order, max_order;
    const double* unsatisfied;  // [K] γ where an edge is not satisfied
    const std::uint64_t* satisfied;
    int shift;        // first row of the group within the block
    double* phi;      // [set][output][V vectors]
    double* stack_c;  // [level][K][V vectors]
    Edge<V>* edges;   // [level] the edge taken there
    double* stack_h;  // [level][side][output][K][V vectors]

    using Tile = std::array<std::array<Vec, V>, K>;
    using Masks = std::array<Mask, V>;
    static constexpr std::size_t kTileDoubles = std::size_t{K} * V * kLanes;

    template <class Make>
    LTS_INLINE static Tile each(const Make& make) {
        Tile out;
        for (int k = 0; k < K; ++k)
            for (int v = 0; v < V; ++v) out[at(k)][at(v)] = make(k, v);
        return out;
    }
    LTS_INLINE static Tile load_tile(const double* p) {
        return each([&](int k, int v) { return load(p + (k * V + v) * kLanes); });
    }
    LTS_INLINE static void store_tile(double* p, const Tile& tile) {
        for (int k = 0; k < K; ++k)
            for (int v = 0; v < V; ++v) store(p + (k * V + v) * kLanes, tile[at(k)][at(v)]);
    }
    LTS_INLINE Masks masks(std::int32_t edge) const {
        Masks out;
        for (int v = 0; v < V; ++v) out[at(v)] = mask_of(satisfied[edge] >> (shift + v * kLanes));
        return out;
    }
    LTS_INLINE double* h_of(std::int32_t level, int side, int output) const {
        return stack_h + ((at(level) * 2 + at(side)) * at(n_outputs) + at(output)) * kTileDoubles;
    }

    // pairs[2k] where a mask is not set, pairs[2k + 1] where it is.
    LTS_INLINE static Tile choose(const Masks& mask, const double* pairs) {
        Tile out;
        for (int k = 0; k < K; ++k) {
            const Vec no = broadcast(pairs[2 * k]), yes = broadcast(pairs[2 * k + 1]);
            for (int v = 0; v < V; ++v) out[at(k)][at(v)] = select(mask[at(v)], yes, no);
        }
        return out;
    }
    LTS_INLINE static Tile product(const Tile& a, const Tile& b) {
        return each([&](int k, int v) { return a[at(k)][at(v)] * b[at(k)][at(v)]; });
    }

    // C over one edge.
    LTS_INLINE Tile over(const Tile& c, const Split& split, std::int32_t edge, const double*& constants) const {
        Tile factor = choose(masks(edge), constants);
        constants += 2 * K;
        if (split.above >= 0) {
            const Masks above = masks(split.above);
            const Vec ratio = broadcast(*constants++);
            factor = each([&](int k, int v) { return select(above[at(v)], factor[at(k)][at(v)], ratio); });
        }
        return product(c, factor);
    }

    LTS_INLINE void descend(const SetStep& step, const Split& split, const double*& constants) const {
        const std::int32_t edge = 2 * step.split + step.side;
        double* const from = stack_c + at(step.level) * kTileDoubles;
        store_tile(from + kTileDoubles, over(load_tile(from), split, edge, constants));
        edges[step.level] = {masks(edge), constants};
        constants += K;
    }

    // H of a child, and D over the edge to it.
    struct Sums {
        Tile h, d;
    };

    LTS_INLINE Sums close_side(const SetStep& step, const Split& split, int side, int output,
                               const double*& constants) const {
        const std::int32_t edge = 2 * step.split + side;
        Sums out;
        if (split.child[side] >= 0) {
            out.h = load_tile(h_of(step.level + 1, side, output));
        } else {
            const Tile c = over(load_tile(stack_c + at(step.level) * kTileDoubles), split, edge, constants);
            const Vec value = broadcast(constants[output]);
            constants += n_outputs;
            out.h = each([&](int k, int v) { return c[at(k)][at(v)] * value; });
        }
        out.d = product(out.h, choose(masks(edge), constants));
        constants += 2 * K;
        if (split.above >= 0) {
            const Masks above = masks(split.above);
            out.d = each([&](int k, int v) { return where(above[at(v)], out.d[at(k)][at(v)]); });
        }
        return out;
    }

    LTS_INLINE Tile close(const SetStep& step, const Split& split, int output, const double*& constants) const {
        const Sums left = close_side(step, split, 0, output, constants);
        const Sums right = close_side(step, split, 1, output, constants);
        store_tile(h_of(step.level, step.side, output),
                   each([&](int k, int v) { return left.h[at(k)][at(v)] + right.h[at(k)][at(v)]; }));
        return each([&](int k, int v) { return left.d[at(k)][at(v)] + right.d[at(k)][at(v)]; });
    }

    LTS_INLINE Tile twig(const SetStep& step, const Split& split, int output, const double*& constants) const {
        const Tile c = load_tile(stack_c + at(step.level) * kTileDoubles);
        const Masks right = masks(2 * step.split + 1);
        Tile h = choose(right, constants), d = choose(right, constants + 2 * K);
        constants += 4 * K;
        if (split.above >= 0) {
            const Masks above = masks(split.above);
            const Vec otherwise = broadcast(*constants++);
            h = each([&](int k, int v) { return select(above[at(v)], h[at(k)][at(v)], otherwise); });
            d = each([&](int k, int v) { return where(above[at(v)], d[at(k)][at(v)]); });
        }
        store_tile(h_of(step.level, step.side, output), product(c, h));
        return product(c, d);
    }

    LTS_INLINE static void add(double* to, const std::array<Vec, V>& sum) {
        for (int v = 0; v < V; ++v) store(to + v * kLanes, load(to + v * kLanes) + sum[at(v)]);
    }
    LTS_INLINE double* phi_of(std::int32_t set, int output) const {
        return phi + (at(set) * at(n_outputs) + at(output)) * (V * kLanes);
    }
    LTS_INLINE static std::array<Vec, V> sum_of(const Tile& d) {
        std::array<Vec, V> out = d[0];
        for (int k = 1; k < K; ++k)
            for (int v = 0; v < V; ++v) out[at(v)] = out[at(v)] + d[at(k)][at(v)];
        return out;
    }

    // Σ_k D[k]·γ_k for γ that is the same in all lanes.
    LTS_INLINE static std::array<Vec, V> sum_with(const Tile& d, const double* gamma) {
        std::array<Vec, V> sum;
        for (int k = 0; k < K; ++k) {
            const Vec g = broadcast(gamma[k]);
            for (int v = 0; v < V; ++v) sum[at(v)] = k == 0 ? d[0][at(v)] * g : fma(d[at(k)][at(v)], g, sum[at(v)]);
        }
        return sum;
    }

    // Adds D times the γ of every choice of players above; `order` of them are in D already.
    LTS_INLINE void collect_last(const Tile& d, const std::int32_t* above, std::int32_t n_above, int output,
                                 const std::int32_t*& slots) const {
        const auto otherwise = sum_with(d, unsatisfied);
        // Compilers cannot know that φ does not overlap what is read here, and would read it again every time.
        const Edge<V>* const path = edges;
        double* const to = phi_of(0, output);
        const std::size_t set_doubles = at(n_outputs) * V * kLanes;
        const std::int32_t* slot = slots;
        for (const std::int32_t* const end = above + n_above; above != end; ++above, ++slot) {
            const auto& edge = path[*above];
            auto sum = sum_with(d, edge.gamma);
            for (int v = 0; v < V; ++v) sum[at(v)] = select(edge.satisfied[at(v)], sum[at(v)], otherwise[at(v)]);
            add(to + at(*slot) * set_doubles, sum);
        }
        slots = slot;
    }
    void collect_more(const Tile& d, int order, const std::int32_t* above, std::int32_t n_above, int output,
                      const std::int32_t*& slots) const {
        if (order + 1 == max_order) return collect_last(d, above, n_above, output, slots);
        for (std::int32_t i = 0; i < n_above; ++i) {
            const auto& edge = edges[above[i]];
            const Tile more = each([&](int k, int v) {
                const Vec no = broadcast(unsatisfied[k]), yes = broadcast(edge.gamma[k]);
                return d[at(k)][at(v)] * select(edge.satisfied[at(v)], yes, no);
            });
            if (order + 1 >= min_order) add(phi_of(*slots++, output), sum_of(more));
            collect_more(more, order + 1, above + i + 1, n_above - i - 1, output, slots);
        }
    }
    LTS_INLINE void collect(const Tile& d, const SetStep& step, const std::int32_t* above, int output,
                            const std::int32_t*& slots) const {
        if (min_order == 1) add(phi_of(*slots++, output), sum_of(d));
        if (max_order == 2) return collect_last(d, above, step.n_above, output, slots);
        if (max_order > 2) collect_more(d, 1, above, step.n_above, output, slots);
    }

    // Returns false if the work must stop.
    bool run(const double* constants, Patience& patience) const {
        store_tile(stack_c, each([&](int, int) { return broadcast(1.0); }));
        const std::int32_t* above = tree.above.data();
        const std::int32_t* slots = tree.slots.data();
        for (const auto& step : tree.steps) {
            const Split split = (*tree.tree)[step.split];
            if (step.kind == SetStep::Kind::descend) {
                descend(step, split, constants);
                continue;
            }
            const double* end = constants;
            const std::int32_t* end_of_slots = slots;
            for (int output = 0; output < n_outputs; ++output) {
                end_of_slots = slots;
                if (step.kind == SetStep::Kind::twig) {
                    collect(twig(step, split, output, constants), step, above, output, end_of_slots);
                    end = constants;
                } else {
                    end = constants;
                    collect(close(step, split, output, end), step, above, output, end_of_slots);
                }
            }
            if (!patience.goes_on(static_cast<std::size_t>(end_of_slots - slots) * at(n_outputs))) return false;
            constants = end;
            slots = end_of_slots;
            above += step.n_above;
        }
        return true;
    }
};

// ---- a chunk of trees -----------------------------------------------------------------------------

// C and H of each level, and an Edge, for which the room of a tile is more than enough.
std::size_t stack_doubles(int levels, int n_outputs) {
    static_assert(sizeof(Edge<kVectors>) <= sizeof(double) * kMaxTile * kVectors * kLanes);
    return at(levels + 1) * std::size_t{kMaxTile} * kVectors * kLanes * (2 + 2 * at(n_outputs));
}

template <int V>
bool walk_tree(const SetProgram& program, const SetTree& tree, const PointTile& tile, int n_outputs,
               const double* constants, const std::uint64_t* satisfied, int shift, double* phi, double* stack,
               Patience& patience) {
    bool goes_on = true;
    with_points<kMaxTile>(tile.n_points, [&]<int K>() {
        const std::size_t level_doubles = at(tree.n_levels + 1) * SetWalk<K, V>::kTileDoubles;
        double* const stack_h = stack + level_doubles;
        auto* const edges = reinterpret_cast<Edge<V>*>(stack_h + 2 * at(n_outputs) * level_doubles);
        const SetWalk<K, V> walk{
            tree,  n_outputs, program.min_order, program.max_order, constants, satisfied, shift, phi, stack,
            edges, stack_h};
        goes_on = walk.run(constants + K, patience);
    });
    return goes_on;
}

// Subsets get their shares, a set's own after those of larger sets, which come later: each gives what it had.
template <int V>
void give_shares(const SetChunk& chunk, double* phi) {
    constexpr std::size_t group_rows = std::size_t{V} * kLanes;
    const std::size_t doubles = at(chunk.chunk->n_outputs) * group_rows;
    for (const auto& [set, subset, share] : chunk.shares) {
        const Vec shares = broadcast(share);
        const double* const from = phi + at(set) * doubles;
        double* const to = phi + at(subset) * doubles;
        for (std::size_t i = 0; i < doubles; i += kLanes) store(to + i, fma(shares, load(from + i), load(to + i)));
    }
}

LTS_INLINE void add_unaligned(double* to, Vec a) {
    decltype(a.v) old;
    std::memcpy(&old, to, sizeof old);
    old += a.v;
    std::memcpy(to, &old, sizeof old);
}

// Adds φ of a group of rows to their values. Rows are turned round a square at a time where the square's sets stand
// side by side, which is everywhere in a model of one chunk and one output.
template <int V>
void add_to_values(const SetProgram& program, const SetChunk& chunk, const double* phi, std::size_t n_rows,
                   double* values) {
    constexpr std::size_t group_rows = std::size_t{V} * kLanes;
    const std::size_t n_outputs = at(chunk.chunk->n_outputs), all_outputs = at(program.program->n_outputs);
    const std::size_t row_doubles = program.sets.size() * all_outputs;
    double* const first = values + chunk.chunk->output;
    for (std::size_t s = 0; s < chunk.sets.size();) {
        const auto set = at(chunk.sets[s]);
        if (all_outputs == 1 && s + kLanes <= chunk.sets.size() && at(chunk.sets[s + kLanes - 1]) == set + kLanes - 1) {
            for (std::size_t begin = 0; begin < n_rows; begin += kLanes) {
                Square square;
                for (std::size_t i = 0; i < kLanes; ++i) square[i] = load(phi + (s + i) * group_rows + begin);
                transpose(square);
                for (std::size_t r = 0; r < std::min<std::size_t>(kLanes, n_rows - begin); ++r)
                    add_unaligned(first + (begin + r) * row_doubles + set, square[r]);
            }
            s += kLanes;
            continue;
        }
        for (std::size_t r = 0; r < n_rows; ++r)
            for (std::size_t o = 0; o < n_outputs; ++o)
                first[r * row_doubles + set * all_outputs + o] += phi[(s * n_outputs + o) * group_rows + r];
        ++s;
    }
}

template <int V, class Number>
bool explain_rows(const SetProgram& program, const SetChunk& chunk, const RowsView& rows, const double* constants,
                  const Worker& worker, double* values) {
    Workspace& work = worker.workspace();
    Patience patience{worker};
    constexpr std::size_t group_rows = std::size_t{V} * kLanes;
    const int n_outputs = chunk.chunk->n_outputs;
    const std::size_t phi_doubles = chunk.sets.size() * at(n_outputs) * group_rows;
    const std::size_t row_doubles = program.sets.size() * at(program.program->n_outputs);
    auto* const x = reinterpret_cast<Number*>(work.x.reserve(chunk.chunk->columns.size() * kBlockRows));
    double* const phi = work.phi.reserve(phi_doubles);
    double* const stack = work.stack.reserve(stack_doubles(chunk.max_levels, n_outputs));
    std::uint64_t* const satisfied = work.satisfied.reserve(2 * chunk.n_splits);
    if (constants == nullptr) {
        double* const made = work.expansion.reserve(chunk.expansion_size);
        expand(program, chunk, made);
        constants = made;
    }
    const auto* const data = static_cast<const Number*>(rows.data);
    for (std::size_t block = 0; block < rows.n_rows; block += kBlockRows) {
        const std::size_t n_rows = std::min<std::size_t>(kBlockRows, rows.n_rows - block);
        transpose_block(*program.program, *chunk.chunk, data + block * at(program.program->n_columns), n_rows, x);
        std::uint64_t* of_tree = satisfied;
        for (const auto& tree : chunk.trees) {
            find_satisfied(*program.program, *chunk.chunk, *tree.tree, x, of_tree, [](std::size_t, std::uint64_t) {});
            of_tree += 2 * at(tree.tree->n_splits);
        }
        for (std::size_t shift = 0; shift < n_rows; shift += group_rows) {
            std::fill_n(phi, phi_doubles, 0.0);
            const std::uint64_t* here = satisfied;
            for (const auto& tree : chunk.trees) {
                for (const auto& tile : tree.tiles)
                    if (!walk_tree<V>(program, tree, tile, n_outputs, constants + tree.expansion_begin + tile.begin,
                                      here, static_cast<int>(shift), phi, stack, patience))
                        return false;
                here += 2 * at(tree.tree->n_splits);
            }
            give_shares<V>(chunk, phi);
            add_to_values<V>(program, chunk, phi, std::min(group_rows, n_rows - shift),
                             values + (block + shift) * row_doubles);
        }
    }
    return true;
}

bool explain(const SetProgram& program, const SetChunk& chunk, const RowsView& rows, const double* constants,
             const Worker& worker, double* values) {
    const auto run = [&]<int V>() {
        return program.program->is_float32 ? explain_rows<V, float>(program, chunk, rows, constants, worker, values)
                                           : explain_rows<V, double>(program, chunk, rows, constants, worker, values);
    };
    return rows.n_rows <= kLanes ? run.template operator()<1>() : run.template operator()<kVectors>();
}

}  // namespace

extern const SetKernel set_kernel;
const SetKernel set_kernel{expand, explain};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
