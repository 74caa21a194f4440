// Shapley values of a chunk of trees for some rows: conditions first, then the walks. Few rows have ways of their own
// (few_rows.hpp).

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/block_walk.hpp"
#include "kernels/conditions.hpp"
#include "kernels/few_rows.hpp"
#include "kernels/isa.hpp"
#include "kernels/kernel.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

// For every repeat of a tree, which rows satisfy its player's edges above.
void find_satisfied_above(const Tree& tree, const std::uint64_t* left, std::size_t n_blocks, std::uint64_t* satisfied) {
    const Tree here = tree;  // a copy, which no store can change
    const auto repeats = here.repeats();
    for (std::size_t r = 0; r < repeats.size(); ++r) {
        std::uint64_t* const to = satisfied + r * n_blocks;
        if (repeats[r].back == 0) {
            std::fill_n(to, n_blocks, ~std::uint64_t{0});
            continue;
        }
        const std::int32_t above = 2 * repeats[r].split - repeats[r].back;
        const PackedSplit& there = here.first_split[above / 2];
        const std::uint64_t* const goes_left = left + at(there.asks()) * n_blocks;
        const std::uint64_t other_side = above % 2 == 0 ? 0 : ~std::uint64_t{0};
        const std::uint64_t* const further =
            there.is_repeated ? satisfied + at(there.who - here.first_repeat) * n_blocks : nullptr;
        for (std::size_t b = 0; b < n_blocks; ++b)
            to[b] = (goes_left[b] ^ other_side) & (further == nullptr ? ~std::uint64_t{0} : further[b]);
    }
}

// ---- the walk -------------------------------------------------------------------------------------

// What is kept of all levels should stay in a cache, and what is kept of both children of a split in the nearest one.
// Rows that walk together, and the points at which they do, are as many as leave it this small; trees of very many
// levels are walked at one point after the other.
constexpr std::size_t kMaxStackDoubles = std::size_t{1} << 17, kMaxChildrenDoubles = std::size_t{1} << 12;

// Whole blocks in parts of about the same size, near the one that is wished for: one row by itself takes as long as
// dozens beside others.
int even_parts(int n_rows, int part_rows) {
    if (part_rows < kBlockRows) return part_rows;
    const int n_parts = std::max(1, (n_rows + part_rows / 2) / part_rows);
    return (n_rows + n_parts * kBlockRows - 1) / (n_parts * kBlockRows) * kBlockRows;
}

void walk(const Program& program, const Chunk& chunk, const Tree& tree, const BlockRows& rows, Workspace& work) {
    const auto size = [&](int n_points, int n) { return stack_doubles(tree.n_levels, chunk.n_outputs, n_points, n); };
    const int most_points = size(kMaxBlockPoints, 2 * kLanes) > kMaxStackDoubles ? 1 : kMaxBlockPoints;
    const auto walk_at = [&](const Walk& walk, int first, int n_points) {
        with_block_points(n_points, [&]<int K>() {
            const BlockPoints<K> points(program.rule_of(walk), first, n_points);
            int at_once = kWalkBlocks * kBlockRows;  // halves of which begin where vectors do
            while (at_once > 2 * kLanes &&
                   (size(K, at_once) > kMaxStackDoubles || at(2 * K * at_once) > kMaxChildrenDoubles))
                at_once /= 2;
            at_once = even_parts(rows.n_rows, at_once);
            double* const stack = work.stack.reserve(size(K, at_once));
            for (int first_row = 0; first_row < rows.n_rows; first_row += at_once)
                BlockWalk<K>(chunk, tree, points, rows.slice(first_row, at_once), stack).run(walk.steps());
        });
    };
    for (const auto& walk : tree.walks()) {
        const int n_tiles = (walk.n_points + most_points - 1) / most_points;
        for (int tile = 0; tile < n_tiles; ++tile) {
            const int first = walk.n_points * tile / n_tiles;
            walk_at(walk, first, walk.n_points * (tile + 1) / n_tiles - first);
        }
    }
}

// ---- trees that are one table ---------------------------------------------------------------------

// The walk, done for every combination of the tree's conditions as if each were a row.
void tabulate(const Program& program, const Chunk& chunk, const Tree& tree, Workspace& work, double* out) {
    const std::size_t n_states = tree.lookup->n_states(), n_outputs = at(chunk.n_outputs);
    std::uint64_t* const left = work.words.reserve(chunk.conditions.size() + 1);
    std::uint64_t* const satisfied = work.satisfied.reserve(at(tree.n_repeats));
    const std::size_t n_players = chunk.players.size();
    const std::size_t block_doubles = n_players * n_outputs * kBlockRows;
    double* const phi = work.values.reserve(block_doubles);
    left[chunk.conditions.size()] = 0;
    for (std::size_t first = 0; first < n_states; first += kBlockRows) {
        const auto n_rows = static_cast<int>(std::min<std::size_t>(kBlockRows, n_states - first));
        const auto conditions = tree.lookup->conditions();
        for (std::size_t bit = 0; bit < conditions.size(); ++bit) {
            std::uint64_t rows = 0;
            for (std::size_t r = 0; r < kBlockRows; ++r) rows |= std::uint64_t{((first + r) >> bit) & 1} << r;
            left[conditions[bit]] = rows;
        }
        find_satisfied_above(tree, left, 1, satisfied);
        std::fill_n(phi, block_doubles, 0.0);
        walk(program, chunk, tree, {left, satisfied, 1, 1, 0, n_rows, phi, kBlockRows, n_players}, work);
        const auto players = tree.lookup->players();
        for (std::size_t p = 0; p < players.size(); ++p)
            for (std::size_t o = 0; o < n_outputs; ++o)
                std::copy_n(phi + (o * n_players + at(players[p])) * kBlockRows, n_rows,
                            out + (p * n_outputs + o) * n_states + first);
    }
}

// `left` is that of a walk of n_blocks, from the block at hand on, and so is φ.
void look_up_block(const Chunk& chunk, const Tree& tree, const double* table, const std::uint64_t* left,
                   std::size_t n_blocks, int n_rows, double* phi) {
    alignas(64) std::array<std::uint8_t, kBlockRows> index;
    Bytes outcome;
    const auto conditions = tree.lookup->conditions();
    for (std::size_t bit = 0; bit < conditions.size(); ++bit)
        outcome.add(left[at(conditions[bit]) * n_blocks], static_cast<std::uint8_t>(1 << bit));
    outcome.store(index.data());
    const std::size_t n_states = tree.lookup->n_states();
    for (const auto player : tree.lookup->players())
        for (int output = 0; output < chunk.n_outputs; ++output, table += n_states) {
            double* const to = phi + (at(output) * chunk.players.size() + at(player)) * n_blocks * kBlockRows;
            add_looked_up(table, n_states, index.data(), n_rows, to);
        }
}

// ---- a chunk of trees -----------------------------------------------------------------------------

// The same player's values lie side by side in φ, and far from each other where they go: what as many rows as a vector
// holds are given is turned round in between.
[[gnu::noinline]] void add_to_values(const Program& program, const Chunk& chunk, const double* phi, std::size_t stride,
                                     std::size_t n_rows, Workspace& work, double* values) {
    constexpr auto kTurned = at(kLanes);  // rows
    const auto row_doubles = at(program.n_players) * at(program.n_outputs), n_outputs = at(chunk.n_outputs);
    const std::size_t n = chunk.players.size() * n_outputs, n_padded = (n + kTurned - 1) / kTurned * kTurned;
    double* const turned = work.values.reserve(kTurned * n_padded);
    const auto first_player = chunk.players.front();
    const bool is_one_run = program.n_outputs == 1 && at(chunk.players.back() - first_player) == n - 1;
    for (std::size_t first = 0; first < n_rows; first += kTurned) {
        for (std::size_t i = 0; i < n; i += kTurned) {
            const auto of_row =
                columns([&](std::size_t l) LTS_INLINED { return phi + std::min(i + l, n - 1) * stride + first; });
            for (std::size_t l = 0; l < kTurned; ++l) store(turned + l * n_padded + i, of_row[l]);
        }
        for (std::size_t r = 0; r < std::min(kTurned, n_rows - first); ++r) {
            const double* from = turned + r * n_padded;
            double* const to = values + (first + r) * row_doubles + at(chunk.output);
            if (is_one_run)
                for (std::size_t i = 0; i < n; ++i) to[at(first_player) + i] += from[i];
            else
                for (std::size_t o = 0; o < n_outputs; ++o)
                    for (const auto player : chunk.players) to[at(player) * at(program.n_outputs) + o] += *from++;
        }
    }
}

// A chunk of trees and some rows, kRows of every block.
template <int kRows, class Number>
class RowsInChunk {
  public:
    RowsInChunk(const Program& program, const Chunk& chunk, const RowsView& rows, Workspace& work)
        : program_(program), chunk_(chunk), rows_(rows), work_(work) {}

    // Adds what the chunk gives to the rows. Tables are the kept ones, or made here, for all rows at hand.
    void explain(const double* tables, double* values) const {
        if (tables == nullptr) tables = make_tables();
        const std::size_t row_numbers = at(program_.n_columns),
                          row_doubles = at(program_.n_players * program_.n_outputs);
        const auto* data = static_cast<const Number*>(rows_.data);
        for (std::size_t first = 0; first < rows_.n_rows; first += kWalkRows) {
            const std::size_t n_rows = std::min(kWalkRows, rows_.n_rows - first);
            explain_walk(data + first * row_numbers, n_rows, tables, values + first * row_doubles);
        }
    }

  private:
    static constexpr std::size_t kWalkRows = std::size_t{kWalkBlocks} * kBlockRows;  // together

    double* make_tables() const {
        std::size_t size = 0;
        for (const auto& tree : chunk_.trees)
            if (tree.is_lookup()) size += tree.lookup->table_doubles(chunk_.n_outputs);
        double* const tables = work_.tables.reserve(size);
        double* to = tables;
        for (const auto& tree : chunk_.trees)
            if (tree.is_lookup()) {
                tabulate(program_, chunk_, tree, work_, to);
                to += tree.lookup->table_doubles(chunk_.n_outputs);
            }
        return tables;
    }

    void explain_walk(const Number* data, std::size_t n_rows, const double* tables, double* values) const {
        const std::size_t n = n_blocks(n_rows), stride = n * kBlockRows;
        const std::size_t block_numbers = chunk_.columns.size() * kBlockRows;
        const auto rows_of = [&](std::size_t b) { return std::min<std::size_t>(kBlockRows, n_rows - b * kBlockRows); };
        Number* const x = reinterpret_cast<Number*>(work_.x.reserve(n * block_numbers));
        for (std::size_t b = 0; b < n; ++b)
            transpose_block(program_, chunk_, data + b * kBlockRows * at(program_.n_columns), rows_of(b),
                            x + b * block_numbers);
        std::uint64_t* const left = work_.words.reserve((chunk_.conditions.size() + 1) * n);
        answer<kRows>(program_, chunk_.conditions, x, block_numbers, n, left);
        const std::size_t n_players = chunk_.players.size(), n_doubles = n_players * at(chunk_.n_outputs) * stride;
        double* const phi = work_.phi.reserve(n_doubles);
        std::fill_n(phi, n_doubles, 0.0);
        for (const auto& tree : chunk_.trees)
            if (tree.is_lookup()) {
                for (std::size_t b = 0; b < n; ++b)
                    look_up_block(chunk_, tree, tables, left + b, n, static_cast<int>(rows_of(b)),
                                  phi + b * kBlockRows);
                tables += tree.lookup->table_doubles(chunk_.n_outputs);
            } else {
                fetch(tree.splits());
                for (const auto& walk : tree.walks()) fetch(walk.steps());
                std::uint64_t* const satisfied = work_.satisfied.reserve(at(tree.n_repeats) * n);
                find_satisfied_above(tree, left, n, satisfied);
                const auto blocks = static_cast<int>(n);
                walk(program_, chunk_, tree,
                     {left, satisfied, blocks, blocks, 0, static_cast<int>(n_rows), phi, stride, n_players}, work_);
            }
        add_to_values(program_, chunk_, phi, stride, n_rows, work_, values);
    }

    const Program& program_;
    const Chunk& chunk_;
    const RowsView& rows_;
    Workspace& work_;
};

// Calls a function whose template arguments are how many rows of a block are there at most, and their numbers.
template <class Function>
void with_rows(const Program& program, const RowsView& rows, const Function& function) {
    const auto with = [&]<class Number>() {
        rows.n_rows <= kBlockRows / 2 ? function.template operator()<kBlockRows / 2, Number>()
                                      : function.template operator()<kBlockRows, Number>();
    };
    program.is_float32 ? with.template operator()<float>() : with.template operator()<double>();
}

template <class Lanes>
void explain_few(const Program& program, const Chunk& chunk, const RowsView& rows, const double* tables,
                 Workspace& work, double* values) {
    const auto with = [&]<class Number>() {
        FewRows<Number, Lanes>(program, chunk, tables, rows.n_rows, work)
            .explain(static_cast<const Number*>(rows.data), values);
    };
    program.is_float32 ? with.template operator()<float>() : with.template operator()<double>();
}

void explain(const Program& program, const Chunk& chunk, const RowsView& rows, Way way, const double* tables,
             Workspace& work, double* values) {
    if (way == Way::one_by_one) return explain_few<OneByOne>(program, chunk, rows, tables, work, values);
    if (way == Way::in_lanes) {
        // As many as fill the widest lanes, or nearly, and those that are left.
        constexpr std::size_t kWidest = In<WidestLanes>::kLanes;
        const std::size_t left = rows.n_rows % kWidest;
        const std::size_t n = kWidest == kLanes || left > kLanes ? rows.n_rows : rows.n_rows - left;
        if (n > 0) explain_few<WidestLanes>(program, chunk, rows.slice(0, n), tables, work, values);
        if (n < rows.n_rows)
            explain_few<Vec>(program, chunk, rows.slice(n, left), tables, work,
                             values + n * at(program.n_players * program.n_outputs));
        return;
    }
    with_rows(program, rows, [&]<int kRows, class Number>() {
        RowsInChunk<kRows, Number>(program, chunk, rows, work).explain(tables, values);
    });
}

}  // namespace

#define LTS_STRING(x) #x
#define LTS_NAME(x) LTS_STRING(x)
extern const Kernel kernel;
const Kernel kernel{LTS_NAME(LTS_ISA),
                    tabulate,
                    explain,
                    {kLanes > 4 ? 2 : 1, kLanes > 4 ? 32 : 16},
                    {kLanes > 4 ? 4 : kLanes / 2, kLanes > 4 ? 16 : 2 * kLanes + 4}};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
