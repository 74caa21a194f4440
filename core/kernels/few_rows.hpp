// Shapley values of a chunk of trees for a few rows: conditions first, then the walks of bunches of trees.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "compile/program.hpp"
#include "kernels/block_walk.hpp"
#include "kernels/bunch_walk.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/kernel.hpp"
#include "kernels/simd.hpp"
#include "run/worker.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// Lanes: of quadrature points of one row.
struct OneByOne {};

// Calls a function whose template argument is a number of vectors, at most kMost.
template <int kMost, class Function>
void with_vectors(int n_vectors, const Function& function) {
    if constexpr (kMost == 1)
        function.template operator()<1>();
    else
        n_vectors >= kMost ? function.template operator()<kMost>() : with_vectors<kMost - 1>(n_vectors, function);
}

// Rows go through a bunch one after the other, or as many at once as there are lanes: it is read from afar once. They
// are of one half of a block.
template <class Number, class Lanes>
class FewRows {
  public:
    // Trees that are tables are looked up in `tables`; if these are not kept, they are walked.
    FewRows(const Program& program, const Chunk& chunk, const double* tables, std::size_t n_rows, Workspace& work)
        : program_(program), chunk_(chunk), tables_(tables), n_rows_(n_rows), n_outputs_(at(chunk.n_outputs)) {
        std::size_t n_doubles = 0;
        for (const auto& bunch : chunk.bunches)
            n_doubles = std::max(n_doubles, bunch.splits.size() * slot_doubles(bunch.n_points));
        // The memory of sections lies further on than that of whole trees, and begins so many places before.
        n_doubles = (n_doubles + 7) / 8 * 8;
        slots_ = work.stack.reserve(n_doubles + kMaxSectionSplits * slot_doubles(kMostPoints));
        section_slots_ = slots_ + n_doubles;
        if constexpr (kInLanes) x_ = reinterpret_cast<Number*>(work.x.reserve(chunk.columns.size() * kBlockRows));
        // What is read of a player that is not repeated does not matter.
        const std::size_t n_satisfied = std::max(chunk.n_repeats(), chunk.players.size());
        const std::size_t n_bits = 2 * chunk.conditions.size() + (n_satisfied + 1) / 2 * 2;
        const std::size_t n_phi = chunk.players.size() * n_outputs_ * kPhiLanes;
        const std::size_t n_groups = (n_rows + kGroupRows - 1) / kGroupRows;
        auto* bits = reinterpret_cast<Bits*>(work.states.reserve(n_groups * n_bits * sizeof(Bits)));
        double* phi = work.phi.reserve(n_groups * n_phi);
        std::fill_n(bits, n_groups * n_bits, Bits{0});
        std::fill_n(phi, n_groups * n_phi, 0.0);
        for (std::size_t g = 0; g < n_groups; ++g, bits += n_bits, phi += n_phi)
            groups_.push_back({bits, bits + 2 * chunk.conditions.size(), phi});
    }

    // Adds what the chunk gives to values[row][player][output].
    void explain(const Number* rows, double* values) const {
        answer(rows);
        for (const auto& bunch : chunk_.bunches)
            if (!bunch.has_tables || tables_ == nullptr) walk(bunch);
        if (tables_ != nullptr) look_up();
        for (std::size_t r = 0; r < n_rows_; ++r) {
            const double* from = groups_[r / kGroupRows].phi + r % kGroupRows;
            for (const auto player : chunk_.players) {
                double* const to = values + at(player) * at(program_.n_outputs) + at(chunk_.output);
                for (std::size_t o = 0; o < n_outputs_; ++o, from += kPhiLanes)
                    to[o] += kInLanes ? *from : sum_of<kPhiLanes>(from);
            }
            values += at(program_.n_players) * at(program_.n_outputs);
        }
    }

  private:
    static constexpr bool kInLanes = !std::is_same_v<Lanes, OneByOne>;
    template <int V>
    using Rows =
        std::conditional_t<kInLanes, RowsInLanes<std::conditional_t<kInLanes, Lanes, Vec>, V>, OneRow<Wide, V>>;
    using Bits = typename Rows<1>::Bits;
    static constexpr unsigned kAllRows = Rows<1>::kAllRows;
    static constexpr std::size_t kGroupRows = std::bit_width(kAllRows);
    static constexpr std::size_t kPhiLanes = Rows<1>::kPhiLanes;
    static constexpr int kMostPoints = kInLanes ? kMaxBlockPoints : 16;  // at once

    // Rows that walk together.
    struct Group {
        Bits *answers, *satisfied;
        double* phi;
    };

    // Of a slot, at most.
    static std::size_t slot_doubles(int n_points) {
        n_points = std::min(n_points, kMostPoints);
        if constexpr (kInLanes) return with_room(n_points) * kGroupRows;
        if (n_points <= In<Quad>::kLanes) return In<Quad>::kLanes;
        return at(n_vectors(n_points) * In<Wide>::kLanes);
    }
    static std::size_t with_room(int n_points) {
        std::size_t room = 0;
        with_block_points(n_points, [&]<int K>() { room = K; });
        return room;
    }
    static int n_vectors(int n_points) { return (n_points + In<Wide>::kLanes - 1) / In<Wide>::kLanes; }
    template <std::size_t kNumbers>
    static double sum_of(const double* numbers) {
        if constexpr (kNumbers == 1)
            return *numbers;
        else
            return sum_of<kNumbers / 2>(numbers) + sum_of<kNumbers / 2>(numbers + kNumbers / 2);
    }

    // ---- conditions -------------------------------------------------------------------------------
    //
    // Every condition of the chunk, once.

    void answer(const Number* rows) const {
        if constexpr (kInLanes) {
            transpose_block(program_, chunk_, rows, n_rows_, x_);
            n_rows_ <= kLanes ? compare<kLanes>() : compare<kBlockRows / 2>();
        } else {
            for (const auto& group : groups_) {
                search(rows, group.answers);
                rows += program_.n_columns;
            }
        }
    }

    template <int kRows>
    void compare() const {
        std::size_t i = 0;
        const auto put = [&](std::uint64_t left) LTS_INLINED {
            for (const auto& group : groups_) {
                const unsigned bits = static_cast<unsigned>(left) & kAllRows;
                group.answers[2 * i] = static_cast<Bits>(bits);
                group.answers[2 * i + 1] = static_cast<Bits>(bits ^ kAllRows);
                left >>= kGroupRows;
            }
            ++i;
        };
        const Conditions& conditions = chunk_.conditions;
        for (const auto& column : conditions.columns)
            while (i < column.end)
                put(at_most<kRows>(x_ + at(column.feature) * kBlockRows, static_cast<Number>(conditions.thresholds[i]),
                                   column.missing_left));
        for (const auto& question : conditions.categories)
            put(in_set<kRows>(x_ + at(question.feature) * kBlockRows, program_.category_sets[at(question.category_set)],
                              question.missing_left));
    }

    // How many of some ascending thresholds, one at least, are below x. No branch depends on it.
    static std::size_t n_below(double x, const double* thresholds, std::size_t n) {
        const double* first = thresholds;
        while (n > 1) {
            const std::size_t half = n / 2;
            first += first[half - 1] < x ? half : 0;
            n -= half;
        }
        return static_cast<std::size_t>(first - thresholds) + (*first < x ? 1 : 0);
    }
    void search(const Number* row, std::uint8_t* answers) const {
        using Answer = std::array<std::uint8_t, 2>;
        constexpr auto kLeft = std::bit_cast<std::uint16_t>(Answer{1, 0});
        constexpr auto kRight = std::bit_cast<std::uint16_t>(Answer{0, 1});
        const Conditions& conditions = chunk_.conditions;
        const double* const thresholds = conditions.thresholds.data();
        auto* const to = reinterpret_cast<std::uint16_t*>(answers);
        std::size_t i = 0;
        for (const auto& column : conditions.columns) {
            const auto x = static_cast<double>(row[chunk_.columns[at(column.feature)]]);
            const std::size_t n = column.end - i;
            const std::size_t n_right = x == x ? n_below(x, thresholds + i, n) : column.missing_left ? 0 : n;
            std::fill_n(to + i, n_right, kRight);
            std::fill_n(to + i + n_right, n - n_right, kLeft);
            i = column.end;
        }
        for (const auto& question : conditions.categories) {
            const Number x = row[chunk_.columns[at(question.feature)]];
            const auto& set = program_.category_sets[at(question.category_set)];
            to[i++] = in_set<1>(&x, set, question.missing_left) != 0 ? kLeft : kRight;
        }
    }

    // ---- the walk ---------------------------------------------------------------------------------

    void walk(const Bunch& bunch) const {
        const Rule& rule = program_.rules.at(bunch.n_points);
        fetch(bunch.splits);
        fetch(std::span(chunk_.values_of(bunch.first_leaf), (bunch.splits.size() + at(bunch.n_trees)) * n_outputs_));
        const int n_tiles = (bunch.n_points + kMostPoints - 1) / kMostPoints;
        for (int tile = 0; tile < n_tiles; ++tile) {
            const int first = bunch.n_points * tile / n_tiles;
            const int n_points = bunch.n_points * (tile + 1) / n_tiles - first;
            if constexpr (kInLanes)
                with_block_points(n_points, [&]<int K>() { walk(bunch, BunchPoints<Rows<K>>(rule, first, n_points)); });
            else if (n_points <= In<Quad>::kLanes)
                walk(bunch, BunchPoints<OneRow<Quad, 1>>(rule, first, n_points));
            else
                with_vectors<kMostPoints / In<Wide>::kLanes>(
                    n_vectors(n_points), [&]<int V>() { walk(bunch, BunchPoints<Rows<V>>(rule, first, n_points)); });
        }
    }
    template <class Met>
    void walk(const Bunch& bunch, const BunchPoints<Met>& points) const {
        for (const auto& group : groups_)
            for (std::size_t o = 0; o < n_outputs_; ++o) {
                const double* const leaf_values = chunk_.leaf_value.data() + o;
                double* const phi = group.phi + o * kPhiLanes;
                const RowMemory<Bits> whole{group.answers, group.satisfied, leaf_values, phi, n_outputs_, slots_};
                RowMemory<Bits> section = whole;
                section.slots = section_slots_;
                n_outputs_ == 1 ? BunchWalk<Met, true>(bunch, points, whole, section).run()
                                : BunchWalk<Met, false>(bunch, points, whole, section).run();
            }
    }

    // ---- trees that are one table -----------------------------------------------------------------

    void look_up() const {
        const double* table = tables_;
        for (const auto& tree : chunk_.trees)
            if (tree.is_lookup()) {
                for (std::size_t r = 0; r < n_rows_; ++r) look_up(tree, table, groups_[r / kGroupRows], r % kGroupRows);
                table += tree.lookup->table_doubles(chunk_.n_outputs);
            }
    }
    void look_up(const Tree& tree, const double* table, const Group& group, std::size_t row) const {
        const auto conditions = tree.lookup->conditions();
        const std::size_t n_states = tree.lookup->n_states();
        std::size_t state = 0;
        for (std::size_t bit = 0; bit < conditions.size(); ++bit)
            state |= std::size_t{(group.answers[2 * at(conditions[bit])] >> row) & 1U} << bit;
        table += state;
        for (const auto player : tree.lookup->players())
            for (std::size_t o = 0; o < n_outputs_; ++o, table += n_states)
                group.phi[(at(player) * n_outputs_ + o) * kPhiLanes + row] += *table;
    }

    const Program& program_;
    const Chunk& chunk_;
    const double* tables_;
    std::size_t n_rows_, n_outputs_;
    double *slots_, *section_slots_;
    Number* x_ = nullptr;  // the rows, transposed
    std::vector<Group> groups_;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
