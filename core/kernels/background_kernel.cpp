// Rows, or background rows, on their way to a table: 64 of them in the bits of a word at every split, then
// in bytes of states, then eight at a time in the lanes of φ.

#include "kernels/background_kernel.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "kernels/add_columns.hpp"
#include "kernels/isa.hpp"
#include "kernels/satisfied.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

template <class Number>
void transpose_rows(const Program& program, const Chunk& chunk, const RowsView& rows, Number* x) {
    const auto* const data = static_cast<const Number*>(rows.data);
    for (std::size_t first = 0; first < rows.n_rows; first += kBlockRows)
        transpose_block(program, chunk, data + first * at(program.n_columns),
                        std::min<std::size_t>(kBlockRows, rows.n_rows - first), x + first * chunk.columns.size());
}

void transpose(const Program& program, const Chunk& chunk, const RowsView& rows, void* x) {
    program.is_float32 ? transpose_rows(program, chunk, rows, static_cast<float*>(x))
                       : transpose_rows(program, chunk, rows, static_cast<double*>(x));
}

template <class Number>
void evaluate_blocks(const Program& program, const Chunk& chunk, const Tree& tree, const Number* x,
                     std::size_t n_blocks, std::uint64_t* words) {
    for (std::size_t b = 0; b < n_blocks; ++b, x += chunk.columns.size() * kBlockRows, words += n_words(tree)) {
        std::uint64_t* const left_words = words + 2 * at(tree.n_splits);
        find_satisfied(program, chunk, tree, x, words,
                       [&](std::size_t i, std::uint64_t left) { left_words[i] = left; });
    }
}

void evaluate(const Program& program, const Chunk& chunk, const Tree& tree, const void* x, std::size_t n_blocks,
              std::uint64_t* words) {
    program.is_float32 ? evaluate_blocks(program, chunk, tree, static_cast<const float*>(x), n_blocks, words)
                       : evaluate_blocks(program, chunk, tree, static_cast<const double*>(x), n_blocks, words);
}

void find_outcomes(const Program& program, const Chunk& chunk, const Tree& tree, const void* x, std::uint8_t* out) {
    (program.is_float32 ? outcomes<kBlockRows>(program, chunk, tree, static_cast<const float*>(x))
                        : outcomes<kBlockRows>(program, chunk, tree, static_cast<const double*>(x)))
        .store(out);
}

double weight_of(std::uint64_t rows, const BlockWeights& weights) {
    return std::popcount(rows) + std::popcount(rows & weights.once) + 2 * std::popcount(rows & weights.twice);
}

// A block of up to 64 rows, and the weighted sum of what trees predict for them.
template <class Number>
struct BlockSum {
    const Number* x;  // transposed
    std::size_t n_rows;
    const BlockWeights& weights;
    std::array<double, kBlockRows> weight;
    double* sums;      // by output
    double sum = 0.0;  // of the chunk's first output

    BlockSum(const Number* numbers, std::size_t n, const BlockWeights& by_row, double* to)
        : x(numbers), n_rows(n), weights(by_row), weight{}, sums(to) {
        for (std::size_t r = 0; r < n; ++r) weight[r] = by_row.of(r);
    }

    // A tree that is one table.
    void look_up(const Program& program, const Chunk& chunk, const Tree& tree) {
        alignas(64) std::array<std::uint8_t, kBlockRows> outcome;
        outcomes<kBlockRows>(program, chunk, tree, x).store(outcome.data());
        const auto* const leaf = tree.lookup->leaf.data();
        const double* const values = chunk.leaf_value.data();
        const auto sum_of = [&](std::size_t output) {
            std::array<double, 4> parts{};  // which wait less for each other than one sum
            for (std::size_t r = 0; r < kBlockRows; ++r)
                parts[r % 4] += weight[r] * values[at(leaf[outcome[r]]) * at(chunk.n_outputs) + output];
            return (parts[0] + parts[1]) + (parts[2] + parts[3]);
        };
        sum += sum_of(0);
        for (int o = 1; o < chunk.n_outputs; ++o) sums[at(chunk.output + o)] += sum_of(at(o));
    }

    // Leaves that no row ends in are added as well, times zero: whether there are rows is hard to foretell.
    void walk(const Program& program, const Chunk& chunk, const Tree& tree) {
        std::array<std::uint64_t, kMaxBlockSplits> reached;
        reached[0] = ~std::uint64_t{0} >> (kBlockRows - n_rows);
        for (std::int32_t i = 0; i < tree.n_splits; ++i) {
            const Split split = tree[i];
            const std::uint64_t left = goes_left<kBlockRows>(program, chunk.conditions[at(split.asks)], x);
            const std::uint64_t here[2] = {reached[at(i)] & left, reached[at(i)] & ~left};
            for (std::size_t side = 0; side < 2; ++side) {
                const auto child = split.child[side];
                if (child >= 0) {
                    reached[at(child)] = here[side];
                    continue;
                }
                const double of_leaf = weight_of(here[side], weights);
                const double* const value = chunk.values_of(~child);
                sum += of_leaf * value[0];
                for (int o = 1; o < chunk.n_outputs; ++o) sums[at(chunk.output + o)] += of_leaf * value[o];
            }
        }
    }
};

template <class Number>
void add_sums_of(const Program& program, const Chunk& chunk, const RowsView& rows, const BlockWeights& weights,
                 Number* x, double* sums) {
    transpose_rows(program, chunk, rows, x);
    std::vector<BlockSum<Number>> blocks;
    for (std::size_t first = 0; first < rows.n_rows; first += kBlockRows)
        blocks.emplace_back(x + first * chunk.columns.size(), std::min<std::size_t>(kBlockRows, rows.n_rows - first),
                            weights, sums + first / kBlockRows * at(program.n_outputs));
    for (const auto& tree : chunk.trees)
        if (at(tree.n_splits) <= kMaxBlockSplits)
            for (auto& block : blocks)
                tree.is_lookup() ? block.look_up(program, chunk, tree) : block.walk(program, chunk, tree);
    for (const auto& block : blocks) block.sums[at(chunk.output)] += block.sum;
}

void add_block_sums(const Program& program, const Chunk& chunk, const RowsView& rows, const BlockWeights& weights,
                    void* x, double* sums) {
    program.is_float32 ? add_sums_of(program, chunk, rows, weights, static_cast<float*>(x), sums)
                       : add_sums_of(program, chunk, rows, weights, static_cast<double*>(x), sums);
}

// The states of 64 rows, in two bytes each.
struct States {
    alignas(64) std::array<std::uint8_t, kBlockRows> low;
    alignas(64) std::array<std::uint8_t, kBlockRows> high;

    States(const BackgroundTree& plan, const LeafTable& table, const std::uint64_t* words) {
        const auto* const bit_word = &plan.bit_word[at(table.first_bit)];
        const auto bytes = [&](int first, int end) {
            Bytes out;
            for (int bit = first; bit < end; ++bit)
                out.add(words[bit_word[bit]], static_cast<std::uint8_t>(1 << (bit - first)));
            return out;
        };
        bytes(0, std::min(table.n_bits, 8)).store(low.data());
        bytes(8, table.n_bits).store(high.data());
    }
    std::size_t operator[](std::size_t row) const { return low[row] | std::size_t{high[row]} << 8; }
};

void count(const BackgroundTree& plan, const LeafTable& table, const std::uint64_t* words, std::size_t words_per_block,
           std::size_t n_rows, const double* weights, double* histogram) {
    for (std::size_t first = 0; first < n_rows; first += kBlockRows, words += words_per_block) {
        const States states(plan, table, words);
        const std::size_t n = std::min<std::size_t>(kBlockRows, n_rows - first);
        for (std::size_t r = 0; r < n; ++r) histogram[states[r]] += weights == nullptr ? 1.0 : weights[first + r];
    }
}

LTS_INLINE void look_up_block(const double* entries, const LeafTable& table, const std::int32_t* slot,
                              const States& states, std::size_t n_rows, double* phi) {
    const std::size_t stride = table.stride(), n_lanes = at(table.n_lanes);
    for (std::size_t group = 0; group < n_rows; group += kLanes)
        for (std::size_t first = 0; first < n_lanes; first += kLanes)
            add_columns(
                std::min<std::size_t>(kLanes, n_lanes - first),
                [&](std::size_t i) LTS_INLINED { return entries + states[group + i] * stride + first; },
                [&](std::size_t i) LTS_INLINED { return phi + at(slot[first + i]) * kBlockRows + group; });
}

// Blocks of rows that look into a table before the next one.
constexpr std::size_t kBlocksAtOnce = 16;

void look_up(const BackgroundTree& plan, const double* tables, const std::uint64_t* words, std::size_t words_per_block,
             std::size_t n_rows, double* phi, std::size_t phi_per_block) {
    const std::size_t blocks = n_blocks(n_rows);
    const auto fetch_for_many = [&](const LeafTable& table) {
        if (n_rows >= table.n_states()) fetch(std::span(tables + table.begin, table.size()));
    };
    for (std::size_t begin = 0; begin < blocks; begin += kBlocksAtOnce)
        for (std::size_t t = 0; t < plan.tables.size(); ++t) {
            const LeafTable& table = plan.tables[t];
            // Tables of large models come from afar, and rows look here and there: the next one is on its way
            // meanwhile.
            if (t + 1 < plan.tables.size()) fetch_for_many(plan.tables[t + 1]);
            for (std::size_t b = begin; b < std::min(begin + kBlocksAtOnce, blocks); ++b)
                look_up_block(tables + table.begin, table, &plan.lane_slot[at(table.first_lane)],
                              States(plan, table, words + b * words_per_block),
                              std::min<std::size_t>(kBlockRows, n_rows - b * kBlockRows), phi + b * phi_per_block);
        }
}

}  // namespace

bool scan(const Chunk&, const Tree&, const BackgroundTree&, const Moments&, const RowPairs&, const Worker&);

extern const BackgroundKernel background_kernel;
const BackgroundKernel background_kernel{transpose, evaluate, find_outcomes, add_block_sums, count, look_up, scan};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
