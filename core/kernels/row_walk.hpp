// The recurrence for one row. Every sum is taken in the order in which the kernel for many rows takes
// it, so the bits are the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "compile/one_row.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/kernel.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

template <int K>
struct RowWalk {
    int n_outputs;
    const OneRowTree& tree;
    const std::uint8_t* satisfied;  // [edge]
    const std::int32_t* state;      // [treelet], counted over all treelets of the tree
    double* phi;                    // [player][output]
    Four* stack_c;                  // [level]
    Four* stack_h;                  // [level][side][output]
    const Four* constants;
    const Four* tables;

    LTS_INLINE Four* h_of(std::int32_t level, int side) const {
        return stack_h + (at(level) * 2 + at(side)) * at(n_outputs);
    }

    // Σ_k a[k]·b[k]
    LTS_INLINE static double dot(Quad a, const Four& b) {
        double sum = lane<0>(a) * b.lane[0];
        if constexpr (K > 1) sum = fma(lane<1>(a), b.lane[1], sum);
        if constexpr (K > 2) sum = fma(lane<2>(a), b.lane[2], sum);
        if constexpr (K > 3) sum = fma(lane<3>(a), b.lane[3], sum);
        return sum;
    }

    // Adds a treelet's contributions to φ and returns its H.
    LTS_INLINE Quad through(Quad c, std::int32_t treelet, int output) const {
        const Four* const entry = tables + (state[treelet] * n_outputs + output) * (K + 1);
        Quad sum = spread<0>(c) * load(entry[0]);
        if constexpr (K > 1) sum = fma(spread<1>(c), load(entry[1]), sum);
        if constexpr (K > 2) sum = fma(spread<2>(c), load(entry[2]), sum);
        if constexpr (K > 3) sum = fma(spread<3>(c), load(entry[3]), sum);
        Four contribution;
        store(contribution, sum);
        const auto& slot = tree.slots[at(treelet)];
        for (std::size_t p = 0; p < kMaxTreeletBits; ++p) phi[slot[p] + output] += contribution.lane[p];
        return c * load(entry[K]);
    }

    struct Side {
        Quad c;
        const Four* values;
        const Four* difference;
    };

    template <Child kChild>
    LTS_INLINE Side side_constants(Quad c, int n_states, int state_here, const Four*& from) const {
        Side out{c, nullptr, nullptr};
        if constexpr (kChild != Child::inner) {
            out.c = c * load(from[state_here]);
            from += n_states;
        }
        if constexpr (kChild == Child::leaf) {
            out.values = from;
            from += (n_outputs + 3) / 4;
        }
        out.difference = from + state_here;
        from += n_states;
        return out;
    }

    template <Child kChild>
    LTS_INLINE Quad h_of_side(const OneRowTree::Step& step, int side, int output, const Side& constants_here) const {
        if constexpr (kChild == Child::inner) return load(h_of(step.level + 1, side)[output]);
        if constexpr (kChild == Child::leaf)
            return constants_here.c * spread(constants_here.values[output / 4].lane[output % 4]);
        if constexpr (kChild == Child::treelet) return through(constants_here.c, step.treelet[at(side)], output);
    }

    template <Child kLeft, Child kRight>
    LTS_INLINE const Four* close(const OneRowTree::Step& step, const Four* from) const {
        const Quad c = load(stack_c[step.level]);
        const int above = satisfied[step.above];
        const Side left = side_constants<kLeft>(c, step.n_states, above + satisfied[step.edge], from);
        const Side right = side_constants<kRight>(c, step.n_states, above + satisfied[step.edge + 1], from);
        for (int output = 0; output < n_outputs; ++output) {
            double& to = phi[step.slot + output];
            const Quad h_left = h_of_side<kLeft>(step, 0, output, left);
            to += dot(h_left, *left.difference);
            const Quad h_right = h_of_side<kRight>(step, 1, output, right);
            to += dot(h_right, *right.difference);
            store(h_of(step.level, step.side)[output], h_left + h_right);
        }
        return from;
    }

    void run() const {
        const Quad one = spread(1.0);
        store(stack_c[0], one);
        const Four* from = constants;
        constexpr auto kDescend = static_cast<int>(OneRowTree::Step::Kind::descend);
        constexpr auto kWhole = static_cast<int>(OneRowTree::Step::Kind::whole);
        constexpr auto kClose = static_cast<int>(OneRowTree::Step::Kind::close);
        using enum Child;
        static_assert(static_cast<int>(inner) == 0 && static_cast<int>(leaf) == 1 && static_cast<int>(treelet) == 2);
        for (const auto& step : tree.steps) {
            switch (step.kind) {
                case kDescend:
                    store(stack_c[step.level + 1],
                          load(stack_c[step.level]) * load(from[satisfied[step.above] + satisfied[step.edge]]));
                    from += step.n_states;
                    break;
                case kWhole:
                    for (int output = 0; output < n_outputs; ++output) through(one, 0, output);
                    break;
                case kClose:
                    from = close<inner, inner>(step, from);
                    break;
                case kClose + 1:
                    from = close<inner, leaf>(step, from);
                    break;
                case kClose + 2:
                    from = close<inner, treelet>(step, from);
                    break;
                case kClose + 3:
                    from = close<leaf, inner>(step, from);
                    break;
                case kClose + 4:
                    from = close<leaf, leaf>(step, from);
                    break;
                case kClose + 5:
                    from = close<leaf, treelet>(step, from);
                    break;
                case kClose + 6:
                    from = close<treelet, inner>(step, from);
                    break;
                case kClose + 7:
                    from = close<treelet, leaf>(step, from);
                    break;
                case kClose + 8:
                    from = close<treelet, treelet>(step, from);
                    break;
            }
        }
    }
};

// One row and one chunk of trees.
template <class Number>
class RowInChunk {
  public:
    RowInChunk(const Program& program, const Chunk& chunk, const Number* row, const Constants& constants,
               Workspace& work)
        : program_(program), chunk_(chunk), constants_(constants) {
        auto* const x = reinterpret_cast<Number*>(work.x.reserve(chunk.columns.size()));
        for (std::size_t c = 0; c < chunk.columns.size(); ++c) x[c] = row[chunk.columns[c]];
        x_ = x;
        has_missing_ = std::any_of(x, x + chunk.columns.size(), [](Number v) { return v != v; });
        const std::size_t n_outputs = at(chunk.n_outputs), n_phi = chunk.players.size() * n_outputs;
        phi_ = work.phi.reserve(n_phi + kMaxChunkOutputs) - kNobody;
        std::fill_n(phi_ + kNobody, n_phi + kMaxChunkOutputs, 0.0);
        n_levels_ = at(chunk.max_levels) + 1;
        stack_ = reinterpret_cast<Four*>(work.stack.reserve(4 * n_levels_ * (1 + 2 * n_outputs)));
        satisfied_size_ = kFirstEdge + 2 * at(chunk.max_splits);
        satisfied_ = work.states.reserve(2 * satisfied_size_);
        for (std::size_t tree = 0; tree < 2; ++tree) satisfied_of(tree)[kNever] = 0;
        state_ = reinterpret_cast<std::int32_t*>(work.satisfied.reserve(at(chunk.max_treelets)));
    }

    // Trees are prepared one ahead, so that what they need is on its way when they are walked.
    void run() {
        prepare(0);
        for (std::size_t i = 0; i < chunk_.trees.size(); ++i) {
            if (i + 1 < chunk_.trees.size()) prepare(i + 1);
            chunk_.trees[i].is_lookup() ? look_up(i) : walk(i);
        }
    }

    void add_to(double* values) const {
        const double* from = phi_;
        for (const auto player : chunk_.players) {
            double* const to = values + at(player) * at(program_.n_outputs) + at(chunk_.output);
            for (std::size_t o = 0; o < at(chunk_.n_outputs); ++o) to[o] += *from++;
        }
    }

  private:
    const OneRowTree& tree_at(std::size_t i) const { return constants_.one_row[chunk_.first_tree + i]; }
    std::uint8_t* satisfied_of(std::size_t tree) const { return satisfied_ + tree % 2 * satisfied_size_; }
    std::int32_t* state_of(std::size_t tree) const { return state_ + tree % 2 * at(chunk_.max_treelets); }

    bool asks(const Split& split) const { return row_goes_left(program_, split, x_[split.feature]); }

    void prepare(std::size_t i) const {
        const auto& tree = tree_at(i);
        std::uint8_t* const satisfied = satisfied_of(i);
        std::uint8_t* to = satisfied + kFirstEdge;
        const auto add = [&](bool left) {
            *to++ = left;
            *to++ = !left;
        };
        if (has_missing_ || tree.has_categories) {
            for (const auto& split : chunk_.trees[i].splits) add(asks(split));
        } else {  // the threshold says it all, and no branch depends on the row: it could not be foreseen
            for (const auto& split : tree.splits) add(x_[split.column] <= static_cast<Number>(split.threshold));
        }
        for (const auto [split, above] : tree.repeated) {
            satisfied[kFirstEdge + 2 * split] &= satisfied[above];
            satisfied[kFirstEdge + 2 * split + 1] &= satisfied[above];
        }
        std::int32_t* state = state_of(i);
        for (const auto& treelet : tree.treelets) {
            std::int32_t here = treelet.states_before;
            for (std::size_t bit = 0; bit < kMaxTreeletBits; ++bit) here += satisfied[treelet.bit[bit]] << bit;
            *state++ = here;
            for (const auto& tile : tree.tiles) {
                const auto size = at((tile.n_points + 1) * chunk_.n_outputs);
                const auto* const entry = &tree.constants[tile.tables + at(here) * size];
                for (std::size_t line = 0; line < size; line += 2) __builtin_prefetch(entry + line);
            }
        }
    }

    void look_up(std::size_t i) const {
        const auto& tree = chunk_.trees[i];
        const auto conditions = tree.lookup->conditions();
        const std::size_t n_outputs = at(chunk_.n_outputs), n_states = tree.lookup->n_states();
        std::size_t state = 0;
        for (std::size_t bit = 0; bit < conditions.size(); ++bit)
            state |= std::size_t{asks(tree.splits[at(conditions[bit])])} << bit;
        const double* from = tree_at(i).table + state;
        for (const auto player : tree.lookup->players())
            for (std::size_t o = 0; o < n_outputs; ++o, from += n_states) phi_[at(player) * n_outputs + o] += *from;
    }

    void walk(std::size_t i) const {
        const auto& tree = tree_at(i);
        for (const auto& tile : tree.tiles) {
            with_points<kMaxTile>(tile.n_points, [&]<int K>() {
                const Four* const constants = tree.constants.data();
                RowWalk<K>{chunk_.n_outputs,
                           tree,
                           satisfied_of(i),
                           state_of(i),
                           phi_,
                           stack_,
                           stack_ + n_levels_,
                           constants + tile.steps,
                           constants + tile.tables}
                    .run();
            });
        }
    }

    const Program& program_;
    const Chunk& chunk_;
    const Constants& constants_;
    const Number* x_;
    bool has_missing_;
    double* phi_;
    std::size_t n_levels_;
    Four* stack_;
    std::size_t satisfied_size_;
    std::uint8_t* satisfied_;  // of two trees
    std::int32_t* state_;      // of two trees
};

// Adds the values that a chunk of trees gives to one row to values[player][output].
template <class Number>
void explain_row(const Program& program, const Chunk& chunk, const Number* row, const Constants& constants,
                 Workspace& work, double* values) {
    RowInChunk<Number> here(program, chunk, row, constants, work);
    here.run();
    here.add_to(values);
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
