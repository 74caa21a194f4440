// Shapley values of a chunk of trees for some rows: conditions first, then the walks.

#include "kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "block_walk.hpp"
#include "conditions.hpp"
#include "expansion.hpp"
#include "row_walk.hpp"
#include "simd.hpp"

namespace linear_treeshap::LTS_ISA {
namespace {

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
        for (int bit = 0; bit < treelet.n_bits; ++bit)
            add_where(states, satisfied[treelet.bit[at(bit)]], kStateBit[at(bit)]);
        states += kBlockRows;
    }
}

// ---- the walk -------------------------------------------------------------------------------------

// A walk of fewer rows needs less memory for what it keeps of every level; it should stay in a cache.
constexpr std::size_t kMaxStackDoubles = std::size_t{1} << 17;
constexpr int kMinWalkRows = 16;

int rows_per_walk(int n_levels, int n_outputs) {
    int n_rows = kBlockRows;
    while (n_rows > kMinWalkRows && stack_doubles(n_levels, n_outputs, n_rows) > kMaxStackDoubles) n_rows /= 2;
    return n_rows;
}

std::size_t stack_size(const Chunk& chunk) {
    const int n_rows = rows_per_walk(chunk.max_levels, chunk.n_outputs);
    return stack_doubles(chunk.max_levels, chunk.n_outputs, n_rows);
}

// Walks a tree at the points of one tile, for one block of rows.
void walk_block(const Chunk& chunk, const Tree& tree, const PointTile& tile, const double* constants,
                const std::uint64_t* satisfied, std::uint8_t* states, int n_rows, double* phi, double* stack) {
    find_states(tree, satisfied, states);
    const int at_once = rows_per_walk(chunk.max_levels, chunk.n_outputs);
    with_points(tile.n_points, [&]<int K>() {
        for (int first = 0; first < n_rows; first += at_once)
            BlockWalk<K>(tree, chunk.n_outputs, satisfied, states, phi, first, std::min(at_once, n_rows - first), stack)
                .run(constants, constants + tile.tables);
    });
}

// ---- trees that are one table ---------------------------------------------------------------------

// The walk, done for every combination of the tree's conditions as if each were a row.
void expand_lookup(const Program& program, const Chunk& chunk, const Tree& tree, double* out) {
    Buffer<double> constants, stack_buffer, phi_buffer;
    Buffer<std::uint8_t> states;
    std::vector<std::uint64_t> satisfied(2 * tree.splits.size());
    double* const stack = stack_buffer.reserve(stack_size(chunk));
    const std::size_t n_states = std::size_t{1} << tree.conditions.size();
    const std::size_t n_outputs = at(chunk.n_outputs);
    const std::size_t block_doubles = chunk.players.size() * n_outputs * kBlockRows;
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
            walk_block(chunk, tree, tile, constants.data(), satisfied.data(),
                       states.reserve(tree.treelets.size() * kBlockRows), n_rows, phi, stack);
        }
        for (std::size_t p = 0; p < tree.lookup_slot.size(); ++p)
            for (std::size_t o = 0; o < n_outputs; ++o)
                for (std::size_t r = 0; r < at(n_rows); ++r)
                    out[(p * n_outputs + o) * n_states + first + r] =
                        phi[(at(tree.lookup_slot[p]) + o) * kBlockRows + r];
    }
}

template <int kRows, class Number>
void look_up_block(const Program& program, const Chunk& chunk, const Tree& tree, const double* table, const Number* x,
                   int n_rows, double* phi) {
    alignas(64) std::array<std::uint8_t, kBlockRows> index{};
    for (std::size_t bit = 0; bit < tree.conditions.size(); ++bit)
        add_bit(index.data(), goes_left<kRows>(program, tree.splits[at(tree.conditions[bit])], x),
                static_cast<int>(bit));
    const std::size_t n_states = std::size_t{1} << tree.conditions.size();
    for (const auto slot : tree.lookup_slot)
        for (int output = 0; output < chunk.n_outputs; ++output, table += n_states) {
            double* const to = phi + at(slot + output) * kBlockRows;
            for (int r = 0; r < n_rows; r += kLanes) store(to + r, load(to + r) + gather(table, index.data() + r));
        }
}

// ---- a chunk of trees -----------------------------------------------------------------------------

void expand(const Program& program, const Chunk& chunk, const Tree& tree, double* out) {
    if (tree.is_lookup()) return expand_lookup(program, chunk, tree, out);
    for (const auto& tile : tree.tiles) expand_tile(program, chunk, tree, tile, out + tile.begin);
}

void add_to_values(const Program& program, const Chunk& chunk, const double* phi, std::size_t n_rows, double* values) {
    const auto n_outputs = at(chunk.n_outputs);
    const auto row_doubles = at(program.n_players) * at(program.n_outputs);
    for (std::size_t r = 0; r < n_rows; ++r, values += row_doubles) {
        const double* from = phi + r;
        for (const auto player : chunk.players) {
            double* const to = values + at(player) * at(program.n_outputs) + at(chunk.output);
            for (std::size_t o = 0; o < n_outputs; ++o, from += kBlockRows) to[o] += *from;
        }
    }
}

template <int kRows, class Number>
void explain_rows(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
                  Workspace& work, double* values) {
    const std::size_t n_blocks = (rows.n_rows + kBlockRows - 1) / kBlockRows;
    const std::size_t x_numbers = chunk.columns.size() * kBlockRows;
    const std::size_t phi_doubles = chunk.players.size() * at(chunk.n_outputs) * kBlockRows;
    auto* const x = reinterpret_cast<Number*>(work.x.reserve(n_blocks * x_numbers));
    double* const phi = work.phi.reserve(n_blocks * phi_doubles);
    double* const stack = work.stack.reserve(stack_size(chunk));
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
                look_up_block<kRows>(program, chunk, tree, table, x + b * x_numbers, static_cast<int>(rows_of(b)),
                                     phi + b * phi_doubles);
            continue;
        }
        for (const auto& tile : tree.tiles) {
            const double* const tile_constants =
                constants_at(tree, tile.begin, [&](double* out) { expand_tile(program, chunk, tree, tile, out); });
            for (std::size_t b = 0; b < n_blocks; ++b) {
                for (std::size_t i = 0; i < tree.splits.size(); ++i)
                    satisfy(tree.splits[i], i, goes_left<kRows>(program, tree.splits[i], x + b * x_numbers), satisfied);
                walk_block(chunk, tree, tile, tile_constants, satisfied, states, static_cast<int>(rows_of(b)),
                           phi + b * phi_doubles, stack);
            }
        }
    }
    const std::size_t row_doubles = at(program.n_players) * at(program.n_outputs);
    for (std::size_t b = 0; b < n_blocks; ++b)
        add_to_values(program, chunk, phi + b * phi_doubles, rows_of(b), values + b * kBlockRows * row_doubles);
}

template <class Number>
void explain_numbers(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
                     Workspace& work, double* values) {
    // A row's arithmetic does not depend on its neighbours, so all of these give the same bits.
    if (rows.n_rows == 1 && constants.one_row != nullptr)
        return explain_row(program, chunk, static_cast<const Number*>(rows.data), constants, work, values);
    rows.n_rows <= kLanes ? explain_rows<kLanes, Number>(program, chunk, rows, constants, work, values)
                          : explain_rows<kBlockRows, Number>(program, chunk, rows, constants, work, values);
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
