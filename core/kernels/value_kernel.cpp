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
#include "kernels/row_walk.hpp"
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

// ---- trees that are one table ---------------------------------------------------------------------

// The walk, done for every combination of the tree's conditions as if each were a row.
void expand_lookup(const Program& program, const Chunk& chunk, const Tree& tree, double* out) {
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
    if (tree.is_lookup()) return expand_lookup(program, chunk, tree, out);
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

// Without constants: what is kept of all levels should stay in a cache. Rows that walk together, and the points at
// which they do, are as many as leave it this small; trees of very many levels are walked at one point after the other.
constexpr std::size_t kMaxPlainStack = std::size_t{1} << 16;
constexpr int kMaxPlainPoints = 8;

// A chunk of trees and some rows, kRows of every block.
template <int kRows, class Number>
class RowsInChunk {
  public:
    // The φ of blocks that walk together lie side by side.
    RowsInChunk(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
                Workspace& work, std::size_t walk_blocks)
        : program_(program), chunk_(chunk), rows_(rows), work_(work), walk_blocks_(walk_blocks) {
        if (constants.expanded != nullptr) kept_ = constants.expanded + chunk.expansion_begin;
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

    void run() {
        for (const auto& tree : chunk_.trees) {
            const std::size_t n_constants = tree.is_lookup() ? look_up(tree) : walk_all(tree);
            if (kept_ != nullptr) kept_ += n_constants;
        }
    }

    // Without constants.
    void run_plainly() {
        for (std::size_t b = 0; b < n_blocks_; ++b)  // whose φ stay in the nearest cache
            for (const auto& tree : chunk_.trees) walk_plainly(tree, b, rows_at_splits(tree, b));
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

    // Constants are the kept ones, or made here, for all rows at hand.
    template <class Make>
    const double* constants_at(std::size_t begin, const Make& make) const {
        if (kept_ != nullptr) return kept_ + begin;
        double* const made = work_.expansion.reserve(chunk_.max_expansion);
        make(made);
        return made;
    }

    // These return how many constants the tree has.
    std::size_t look_up(const Tree& tree) const {
        const double* const table = constants_at(0, [&](double* out) { expand_lookup(program_, chunk_, tree, out); });
        for (std::size_t b = 0; b < n_blocks_; ++b)
            look_up_block<kRows>(program_, chunk_, tree, table, x_of(b), rows_from(b, 1), phi_of(b), stride_of(b));
        return expansion_doubles(tree, chunk_.n_outputs);
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

    std::size_t walk_all(const Tree& tree) const {
        for (std::size_t first = 0; first < n_blocks_; first += walk_blocks_) find_conditions(tree, first);
        return for_each_tile(tree, chunk_.n_outputs, [&](const PointTile& tile) {
            const double* const constants =
                constants_at(tile.begin, [&](double* out) { expand_tile(program_, chunk_, tree, tile, out); });
            for (std::size_t first = 0; first < n_blocks_; first += walk_blocks_)
                walk(chunk_, tree, tile, constants, rows_at(tree, first), rows_from(first, walk_blocks_), stack_);
        });
    }

    const SplitRows* rows_at_splits(const Tree& tree, std::size_t block) const {
        auto* const out = reinterpret_cast<SplitRows*>(satisfied_);
        const auto splits = tree.splits;
        for (std::size_t i = 0; i < splits.size(); ++i) {
            std::uint64_t satisfied = ~std::uint64_t{0};
            if (const auto above = splits[i].above; above >= 0) {
                const SplitRows& there = out[at(above / 2)];
                satisfied = there.satisfied & (above % 2 == 0 ? there.left : ~there.left);
            }
            out[i] = {goes_left<kRows>(program_, splits[i], x_of(block)), satisfied};
        }
        return out;
    }

    void walk_plainly(const Tree& tree, std::size_t block, const SplitRows* splits) const {
        const Rule& rule = program_.rules.at(tree.n_points);
        const int n_levels = tree.n_levels + kMaxTreeletBits, n_rows = rows_from(block, 1);
        const auto size = [&](int n_points, int n) {
            return at(n_points) * PlainWalk<1>::stack_doubles(n_levels, chunk_.n_outputs, n);
        };
        const int most_points = size(kMaxPlainPoints, kLanes) > kMaxPlainStack ? 1 : kMaxPlainPoints;
        const int n_tiles = (tree.n_points + most_points - 1) / most_points;
        auto* const path = reinterpret_cast<std::int32_t*>(work_.states.reserve(at(n_levels) * sizeof(std::int32_t)));
        for (int tile = 0; tile < n_tiles; ++tile) {
            const int first = tree.n_points * tile / n_tiles, n_points = tree.n_points * (tile + 1) / n_tiles - first;
            with_plain_points(n_points, [&]<int K>() {
                const PlainPoints<K> points(rule, first, n_points);
                int at_once = kBlockRows;
                while (at_once > kLanes && size(K, at_once) > kMaxPlainStack) at_once /= 2;
                double* const stack = work_.stack.reserve(size(K, at_once));
                for (int from = 0; from < n_rows; from += at_once)
                    PlainWalk<K>(tree, points,
                                 {splits, from, std::min(at_once, n_rows - from), phi_of(block), stride_of(block)},
                                 chunk_.values_of(tree, 0), chunk_.n_outputs, stack, path)
                        .run();
            });
        }
    }

    const Program& program_;
    const Chunk& chunk_;
    const RowsView& rows_;
    Workspace& work_;
    std::size_t walk_blocks_;
    const double* kept_ = nullptr;  // constants of the tree at hand
    std::size_t n_blocks_;
    std::size_t block_numbers_;  // of x
    std::size_t block_doubles_;  // of φ
    Number* x_;
    double* phi_;
    double* stack_;
    std::uint64_t* satisfied_;
    std::uint8_t* states_;
};

template <int kRows, class Number>
void explain_rows(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
                  Workspace& work, double* values) {
    RowsInChunk<kRows, Number> here(program, chunk, rows, constants, work, kWalkBlocks);
    here.run();
    here.add_to(values);
}

// So few rows are quicker one by one than in the lanes of a vector (measured).
constexpr std::size_t kMaxLoneRows = 2;

template <class Number>
void explain_numbers(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
                     Workspace& work, double* values) {
    // A row's arithmetic does not depend on its neighbours, so all of these give the same bits.
    if (rows.n_rows <= kMaxLoneRows && constants.one_row != nullptr) {
        const auto* row = static_cast<const Number*>(rows.data);
        const std::size_t n_values = at(program.n_players) * at(program.n_outputs);
        for (std::size_t r = 0; r < rows.n_rows; ++r, row += program.n_columns, values += n_values)
            explain_row(program, chunk, row, constants, work, values);
        return;
    }
    rows.n_rows <= kLanes ? explain_rows<kLanes, Number>(program, chunk, rows, constants, work, values)
                          : explain_rows<kBlockRows, Number>(program, chunk, rows, constants, work, values);
}

void explain(const Program& program, const Chunk& chunk, const RowsView& rows, const Constants& constants,
             Workspace& work, double* values) {
    program.is_float32 ? explain_numbers<float>(program, chunk, rows, constants, work, values)
                       : explain_numbers<double>(program, chunk, rows, constants, work, values);
}

template <class Number>
void explain_numbers_plainly(const Program& program, const Chunk& chunk, const RowsView& rows, Workspace& work,
                             double* values) {
    const auto with_rows = [&]<int kRows>() {
        RowsInChunk<kRows, Number> here(program, chunk, rows, {nullptr, nullptr}, work, 1);
        here.run_plainly();
        here.add_to(values);
    };
    rows.n_rows <= kLanes ? with_rows.template operator()<kLanes>() : with_rows.template operator()<kBlockRows>();
}

void explain_plainly(const Program& program, const Chunk& chunk, const RowsView& rows, Workspace& work,
                     double* values) {
    program.is_float32 ? explain_numbers_plainly<float>(program, chunk, rows, work, values)
                       : explain_numbers_plainly<double>(program, chunk, rows, work, values);
}

template <class Number>
void explain_numbers_by_points(const Program& program, const Chunk& chunk, const RowsView& rows, Workspace& work,
                               double* values) {
    const std::size_t n_values = at(program.n_players) * at(program.n_outputs);
    const auto with_vectors = [&]<int V>() {
        RowByPoints<V, Number> walk(program, chunk, work);
        const auto* row = static_cast<const Number*>(rows.data);
        for (std::size_t r = 0; r < rows.n_rows; ++r, row += program.n_columns, values += n_values)
            walk.explain(row, values);
    };
    const auto most = std::max_element(chunk.trees.begin(), chunk.trees.end(), [](const Tree& a, const Tree& b) {
                          return a.n_points < b.n_points;
                      })->n_points;
    if (most <= kLanes) return with_vectors.template operator()<1>();
    most <= 2 * kLanes ? with_vectors.template operator()<2>() : with_vectors.template operator()<4>();
}

void explain_by_points(const Program& program, const Chunk& chunk, const RowsView& rows, Workspace& work,
                       double* values) {
    program.is_float32 ? explain_numbers_by_points<float>(program, chunk, rows, work, values)
                       : explain_numbers_by_points<double>(program, chunk, rows, work, values);
}

}  // namespace

#define LTS_STRING(x) #x
#define LTS_NAME(x) LTS_STRING(x)
extern const Kernel kernel;
const Kernel kernel{LTS_NAME(LTS_ISA), expand, explain, explain_plainly, explain_by_points, kLanes < 8};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
