// Shapley values of a chunk of trees for some rows: conditions first, then the walks.

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "compile/tiles.hpp"
#include "kernels/block_walk.hpp"
#include "kernels/conditions.hpp"
#include "kernels/expansion.hpp"
#include "kernels/isa.hpp"
#include "kernels/kernel.hpp"
#include "kernels/plain_walk.hpp"
#include "kernels/point_walk.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

// ---- conditions -----------------------------------------------------------------------------------

// For every edge, which rows satisfy all conditions of its player down to it. Splits of a treelet
// store their bare condition: the table knows the rest.
LTS_INLINE void satisfy(const Split& split, std::size_t i, std::uint64_t left, std::uint64_t* satisfied,
                        std::size_t n_blocks) {
    const std::uint64_t above =
        split.above < 0 || split.in_treelet ? ~std::uint64_t{0} : satisfied[at(split.above) * n_blocks];
    satisfied[2 * i * n_blocks] = left & above;
    satisfied[(2 * i + 1) * n_blocks] = ~left & above;
}

// For every treelet and row, the state the row is in.
void find_states(const Tree& tree, const std::uint64_t* satisfied, std::size_t n_blocks, std::uint8_t* states) {
    for (const auto& treelet : tree.treelets)
        for (std::size_t b = 0; b < n_blocks; ++b, states += kBlockRows) {
            Bytes here;
            for (int bit = 0; bit < treelet.n_bits; ++bit)
                here.add(satisfied[at(treelet.bit[at(bit)]) * n_blocks + b], kStateBit[at(bit)]);
            here.store(states);
        }
}

// ---- the walk -------------------------------------------------------------------------------------

// Blocks of 64 rows that walk together: the more, the less it matters what a step costs by itself.
constexpr std::size_t kWalkBlocks = 4;

// What a walk keeps of every level should stay in a cache.
constexpr std::size_t kMaxStackDoubles = std::size_t{1} << 17;

std::size_t stack_size(const Chunk& chunk, int n_rows) {
    return stack_doubles(chunk.max_levels, chunk.n_outputs, chunk.max_points, n_rows);
}

int rows_per_walk(const Chunk& chunk) {
    int n_rows = kWalkBlocks * kBlockRows;
    while (n_rows > kMinWalkRows && stack_size(chunk, n_rows) > kMaxStackDoubles) n_rows /= 2;
    return n_rows;
}

// Walks a tree at the points of one tile.
void walk(const Chunk& chunk, const Tree& tree, const PointTile& tile, const double* constants, const WalkRows& rows,
          int n_rows, double* stack) {
    const int at_once = rows_per_walk(chunk);
    with_points<kMaxTile>(tile.n_points, [&]<int K>() {
        for (int first = 0; first < n_rows; first += at_once)
            BlockWalk<K>(tree, chunk.n_outputs, rows, first, std::min(at_once, n_rows - first), stack)
                .run(constants, constants + tile.tables);
    });
}

// ---- without constants ----------------------------------------------------------------------------

// What is kept of all levels should stay in a cache. Rows that walk together, and the points at which they do, are as
// many as leave it this small; trees of very many levels are walked at one point after the other.
constexpr std::size_t kMaxPlainStack = std::size_t{1} << 17;
constexpr int kMaxPlainPoints = 8;

// What rows do at a split, of which these go left, after those above it.
LTS_INLINE SplitRows meet(std::int32_t above, std::uint64_t left, const SplitRows* splits, std::size_t n_blocks) {
    if (above < 0) return {left, ~std::uint64_t{0}};
    const SplitRows& there = splits[at(above / 2) * n_blocks];
    return {left, there.satisfied & (above % 2 == 0 ? there.left : ~there.left)};
}

void walk_plainly(const Program& program, const Chunk& chunk, const Tree& tree, const PlainRows& rows,
                  Workspace& work) {
    const Rule& rule = program.rules.at(tree.n_points);
    const int n_levels = tree.n_levels + kMaxTreeletBits;
    const auto size = [&](int n_points, int n) {
        return at(n_points) * PlainWalk<1>::stack_doubles(n_levels, chunk.n_outputs, n);
    };
    const int most_points = size(kMaxPlainPoints, kLanes) > kMaxPlainStack ? 1 : kMaxPlainPoints;
    const int n_tiles = (tree.n_points + most_points - 1) / most_points;
    auto* const path = reinterpret_cast<std::int32_t*>(work.states.reserve(at(n_levels) * sizeof(std::int32_t)));
    for (int tile = 0; tile < n_tiles; ++tile) {
        const int first = tree.n_points * tile / n_tiles, n_points = tree.n_points * (tile + 1) / n_tiles - first;
        with_plain_points(n_points, [&]<int K>() {
            const PlainPoints<K> points(rule, first, n_points);
            int at_once = rows.n_blocks * kBlockRows;
            while (at_once > kLanes && size(K, at_once) > kMaxPlainStack) at_once /= 2;
            double* const stack = work.stack.reserve(size(K, at_once));
            for (int from = 0; from < rows.n_rows; from += at_once) {
                const int n_rows = std::min(at_once, rows.n_rows - from);
                PlainWalk<K>(tree, points, {rows.splits, rows.n_blocks, from, n_rows, rows.phi, rows.stride},
                             chunk.values_of(tree, 0), chunk.n_outputs, stack, path)
                    .run();
            }
        });
    }
}

// ---- trees that are one table ---------------------------------------------------------------------

// The walk, done for every combination of the tree's conditions as if each were a row.
void tabulate(const Program& program, const Chunk& chunk, const Tree& tree, double* out) {
    Buffer<double> constants, stack_buffer, phi_buffer;
    Buffer<std::uint8_t> states_buffer;
    std::uint8_t* const states = states_buffer.reserve(tree.treelets.size() * kBlockRows);
    std::vector<std::uint64_t> satisfied(2 * tree.splits.size());
    double* const stack = stack_buffer.reserve(stack_size(chunk, rows_per_walk(chunk)));
    const std::size_t n_states = tree.lookup->n_states();
    const std::size_t n_outputs = at(chunk.n_outputs);
    const std::size_t block_doubles = chunk.players.size() * n_outputs * kBlockRows;
    double* const phi = phi_buffer.reserve(block_doubles);
    for (std::size_t first = 0; first < n_states; first += kBlockRows) {
        const auto n_rows = static_cast<int>(std::min<std::size_t>(kBlockRows, n_states - first));
        for (std::size_t i = 0; i < tree.splits.size(); ++i) {
            std::uint64_t left = 0;
            for (std::size_t r = 0; r < kBlockRows; ++r)
                left |= std::uint64_t{((first + r) >> tree.splits[i].condition) & 1} << r;
            satisfy(tree.splits[i], i, left, satisfied.data(), 1);
        }
        find_states(tree, satisfied.data(), 1, states);
        std::fill_n(phi, block_doubles, 0.0);
        for_each_tile(tree, chunk.n_outputs, [&](const PointTile& tile) {
            expand_tile(program, chunk, tree, tile, constants.reserve(tile.size));
            walk(chunk, tree, tile, constants.data(), {satisfied.data(), states, phi, 1}, n_rows, stack);
        });
        const auto players = tree.lookup->players();
        for (std::size_t p = 0; p < players.size(); ++p)
            for (std::size_t o = 0; o < n_outputs; ++o)
                for (std::size_t r = 0; r < at(n_rows); ++r)
                    out[(p * n_outputs + o) * n_states + first + r] =
                        phi[(at(players[p]) * n_outputs + o) * kBlockRows + r];
    }
}

template <int kRows, class Number>
void look_up_block(const Program& program, const Chunk& chunk, const Tree& tree, const double* table, const Number* x,
                   int n_rows, double* phi, std::size_t stride) {
    alignas(64) std::array<std::uint8_t, kBlockRows> index;
    outcomes<kRows>(program, tree, x).store(index.data());
    const std::size_t n_states = tree.lookup->n_states();
    for (const auto player : tree.lookup->players())
        for (int output = 0; output < chunk.n_outputs; ++output, table += n_states) {
            double* const to = phi + at(player * chunk.n_outputs + output) * stride;
            for (int r = 0; r < n_rows; r += kLanes) store(to + r, load(to + r) + gather(table, index.data() + r));
        }
}

// ---- a chunk of trees -----------------------------------------------------------------------------

void expand(const Program& program, const Chunk& chunk, const Tree& tree, double* out) {
    for_each_tile(tree, chunk.n_outputs,
                  [&](const PointTile& tile) { expand_tile(program, chunk, tree, tile, out + tile.begin); });
}

void add_to_values(const Program& program, const Chunk& chunk, const double* phi, std::size_t stride,
                   std::size_t n_rows, double* values) {
    const auto n_outputs = at(chunk.n_outputs);
    const auto row_doubles = at(program.n_players) * at(program.n_outputs);
    for (std::size_t r = 0; r < n_rows; ++r, values += row_doubles) {
        const double* from = phi + r;
        for (const auto player : chunk.players) {
            double* const to = values + at(player) * at(program.n_outputs) + at(chunk.output);
            for (std::size_t o = 0; o < n_outputs; ++o, from += stride) to[o] += *from;
        }
    }
}

// A chunk of trees and some rows, kRows of every block.
template <int kRows, class Number>
class RowsInChunk {
  public:
    // The φ of blocks that walk together lie side by side.
    RowsInChunk(const Program& program, const Chunk& chunk, const RowsView& rows, Workspace& work,
                std::size_t walk_blocks)
        : program_(program), chunk_(chunk), rows_(rows), work_(work), walk_blocks_(walk_blocks) {
        n_blocks_ = (rows.n_rows + kBlockRows - 1) / kBlockRows;
        block_numbers_ = chunk.columns.size() * kBlockRows;
        block_doubles_ = chunk.players.size() * at(chunk.n_outputs) * kBlockRows;
        x_ = reinterpret_cast<Number*>(work.x.reserve(n_blocks_ * block_numbers_));
        phi_ = work.phi.reserve(n_blocks_ * block_doubles_);
        std::fill_n(phi_, n_blocks_ * block_doubles_, 0.0);
        stack_ = work.stack.reserve(stack_size(chunk, rows_per_walk(chunk)));
        satisfied_ = work.satisfied.reserve(2 * at(chunk.max_splits) * n_blocks_);
        states_ = work.states.reserve(at(chunk.max_treelets) * n_blocks_ * kBlockRows);
        const auto* const data = static_cast<const Number*>(rows.data);
        for (std::size_t b = 0; b < n_blocks_; ++b)
            transpose_block(program, chunk, data + b * kBlockRows * at(program.n_columns), at(rows_from(b, 1)),
                            x_of(b));
    }

    void run(const double* constants) const {
        for (const auto& tree : chunk_.trees)
            if (!tree.is_lookup()) {
                walk_all(tree, constants);
                if (constants != nullptr) constants += expansion_doubles(tree, chunk_.n_outputs);
            }
    }

    void run_plainly(bool with_tables) const {
        for (std::size_t b = 0; b < n_blocks_; b += walk_blocks_)  // whose φ stay in a near cache
            for (const auto& tree : chunk_.trees)
                if (!tree.is_lookup() || !with_tables)
                    walk_plainly(program_, chunk_, tree,
                                 {rows_at_splits(tree, b), static_cast<int>(blocks_from(b)), 0,
                                  rows_from(b, walk_blocks_), phi_of(b), stride_of(b)},
                                 work_);
    }

    void look_up(const double* tables) const {
        for (const auto& tree : chunk_.trees)
            if (tree.is_lookup()) {
                look_up(tree, tables);
                if (tables != nullptr) tables += table_doubles(tree, chunk_.n_outputs);
            }
    }

    void add_to(double* values) const {
        const std::size_t row_doubles = at(program_.n_players) * at(program_.n_outputs);
        for (std::size_t b = 0; b < n_blocks_; b += walk_blocks_)
            add_to_values(program_, chunk_, phi_of(b), stride_of(b), at(rows_from(b, walk_blocks_)),
                          values + b * kBlockRows * row_doubles);
    }

  private:
    std::size_t blocks_from(std::size_t block) const { return std::min(walk_blocks_, n_blocks_ - block); }
    int rows_from(std::size_t block, std::size_t n_blocks) const {
        return static_cast<int>(std::min(n_blocks * kBlockRows, rows_.n_rows - block * kBlockRows));
    }
    Number* x_of(std::size_t block) const { return x_ + block * block_numbers_; }
    // The first block of a walk.
    std::size_t walk_of(std::size_t block) const { return block / walk_blocks_ * walk_blocks_; }
    std::size_t stride_of(std::size_t block) const { return kBlockRows * blocks_from(walk_of(block)); }
    double* phi_of(std::size_t block) const {
        return phi_ + walk_of(block) * block_doubles_ + block % walk_blocks_ * kBlockRows;
    }

    // Tables and constants are the kept ones, or made here, for all rows at hand.
    void look_up(const Tree& tree, const double* table) const {
        if (table == nullptr) {
            double* const made = work_.expansion.reserve(chunk_.max_table);
            tabulate(program_, chunk_, tree, made);
            table = made;
        }
        for (std::size_t b = 0; b < n_blocks_; ++b)
            look_up_block<kRows>(program_, chunk_, tree, table, x_of(b), rows_from(b, 1), phi_of(b), stride_of(b));
    }

    WalkRows rows_at(const Tree& tree, std::size_t first) const {
        return {satisfied_ + 2 * tree.splits.size() * first, states_ + tree.treelets.size() * kBlockRows * first,
                phi_of(first), static_cast<int>(blocks_from(first))};
    }

    void find_conditions(const Tree& tree, std::size_t first) const {
        const std::size_t n_blocks = blocks_from(first);
        std::uint64_t* const satisfied = satisfied_ + 2 * tree.splits.size() * first;
        const auto splits = tree.splits;  // a copy, which no store can change
        for (std::size_t i = 0; i < splits.size(); ++i)
            for (std::size_t b = 0; b < n_blocks; ++b)
                satisfy(splits[i], i, goes_left<kRows>(program_, splits[i], x_of(first + b)), satisfied + b, n_blocks);
        find_states(tree, satisfied, n_blocks, states_ + tree.treelets.size() * kBlockRows * first);
    }

    const double* made_for(const Tree& tree, const PointTile& tile, double* out) const {
        expand_tile(program_, chunk_, tree, tile, out);
        return out;
    }
    void walk_all(const Tree& tree, const double* kept) const {
        for (std::size_t first = 0; first < n_blocks_; first += walk_blocks_) find_conditions(tree, first);
        for_each_tile(tree, chunk_.n_outputs, [&](const PointTile& tile) {
            const double* const constants = kept != nullptr
                                                ? kept + tile.begin
                                                : made_for(tree, tile, work_.expansion.reserve(chunk_.max_expansion));
            for (std::size_t first = 0; first < n_blocks_; first += walk_blocks_)
                walk(chunk_, tree, tile, constants, rows_at(tree, first), rows_from(first, walk_blocks_), stack_);
        });
    }

    const SplitRows* rows_at_splits(const Tree& tree, std::size_t block) const {
        auto* const out = reinterpret_cast<SplitRows*>(satisfied_);
        const auto splits = tree.splits;
        const std::size_t n_blocks = blocks_from(block);
        for (std::size_t i = 0; i < splits.size(); ++i)
            for (std::size_t b = 0; b < n_blocks; ++b)
                out[i * n_blocks + b] =
                    meet(splits[i].above, goes_left<kRows>(program_, splits[i], x_of(block + b)), out + b, n_blocks);
        return out;
    }

    const Program& program_;
    const Chunk& chunk_;
    const RowsView& rows_;
    Workspace& work_;
    std::size_t walk_blocks_;
    std::size_t n_blocks_;
    std::size_t block_numbers_;  // of x
    std::size_t block_doubles_;  // of φ
    Number* x_;
    double* phi_;
    double* stack_;
    std::uint64_t* satisfied_;
    std::uint8_t* states_;
};

// Calls a function whose template arguments are how many rows of a block are there at most, and their numbers.
template <class Function>
void with_rows(const Program& program, const RowsView& rows, const Function& function) {
    const auto with = [&]<class Number>() {
        rows.n_rows <= kLanes ? function.template operator()<kLanes, Number>()
                              : function.template operator()<kBlockRows, Number>();
    };
    program.is_float32 ? with.template operator()<float>() : with.template operator()<double>();
}

void explain_by_points(const Program& program, const Chunk& chunk, const RowsView& rows, const double* tables,
                       Workspace& work, double* values) {
    with_rows(program, rows, [&]<int kRows, class Number>() {
        RowByPoints<Number> here(program, chunk, tables, work);
        const auto* row = static_cast<const Number*>(rows.data);
        const std::size_t n_values = at(program.n_players) * at(program.n_outputs);
        for (std::size_t r = 0; r < rows.n_rows; ++r, row += program.n_columns, values += n_values)
            here.explain(row, values);
    });
}

void explain(const Program& program, const Chunk& chunk, const RowsView& rows, Way way, const Kept& kept,
             Workspace& work, double* values) {
    if (way == Way::by_points) return explain_by_points(program, chunk, rows, kept.tables, work, values);
    const bool plainly = way == Way::plainly;
    with_rows(program, rows, [&]<int kRows, class Number>() {
        RowsInChunk<kRows, Number> here(program, chunk, rows, work, plainly ? kPlainBlocks : kWalkBlocks);
        // Few rows walk trees whose table they would have to make.
        const bool with_tables = !plainly || kept.tables != nullptr;
        if (with_tables) here.look_up(kept.tables);
        plainly ? here.run_plainly(with_tables) : here.run(kept.constants);
        here.add_to(values);
    });
}

}  // namespace

#define LTS_STRING(x) #x
#define LTS_NAME(x) LTS_STRING(x)
extern const Kernel kernel;
const Kernel kernel{LTS_NAME(LTS_ISA), expand, tabulate, explain, kLanes < 8, kLanes == 4};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
