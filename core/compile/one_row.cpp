// Tree and its expanded constants → OneRowTree.

#include "compile/one_row.hpp"

#include <utility>

#include "compile/tiles.hpp"

namespace linear_treeshap {
namespace {

class Rearranger {
  public:
    Rearranger(const Tree& tree, int n_outputs, const double* expanded)
        : tree_(tree), n_outputs_(n_outputs), expanded_(expanded) {}

    OneRowTree run() {
        add_splits();
        add_treelets();
        for (const auto& step : tree_.steps) add_step(step);
        for_each_tile(tree_, n_outputs_, [&](const PointTile& tile) { add_tile(tile); });
        return std::move(out_);
    }

  private:
    void add_splits() {
        for (const auto& split : tree_.splits) {
            const auto i = static_cast<std::int32_t>(out_.splits.size());
            out_.splits.push_back({split.threshold, split.feature});
            if (split.category_set >= 0) out_.has_categories = true;
            if (split.above >= 0 && !split.in_treelet) out_.repeated.push_back({i, split.above + kFirstEdge});
        }
    }

    void add_treelets() {
        for (const auto& treelet : tree_.treelets) {
            auto& bit = out_.treelets.emplace_back(OneRowTree::Treelet{{}, n_states_}).bit;
            auto& slot = out_.slots.emplace_back();
            for (std::size_t i = 0; i < kMaxTreeletBits; ++i) {
                bit[i] = static_cast<int>(i) < treelet.n_bits ? treelet.bit[i] + kFirstEdge : kNever;
                slot[i] = static_cast<int>(i) < treelet.n_players ? treelet.player[i] * n_outputs_ : kNobody;
            }
            n_states_ += treelet.n_states();
        }
    }

    void add_step(const Step& step) {
        const auto& split = tree_.splits[static_cast<std::size_t>(step.split)];
        int kind = static_cast<int>(OneRowTree::Step::Kind::whole);
        if (step.kind == Step::Kind::descend) kind = static_cast<int>(OneRowTree::Step::Kind::descend);
        if (step.kind == Step::Kind::close)
            kind = static_cast<int>(OneRowTree::Step::Kind::close) + 3 * static_cast<int>(step.child[0]) +
                   static_cast<int>(step.child[1]);
        const int side = step.kind == Step::Kind::descend ? step.side : 0;
        const bool is_repeated = split.above >= 0;
        out_.steps.push_back({static_cast<std::uint8_t>(kind), step.side,
                              is_repeated ? std::uint8_t{3} : std::uint8_t{2}, step.level,
                              2 * step.split + side + kFirstEdge, is_repeated ? split.above + kFirstEdge : kNever,
                              split.player * n_outputs_, step.target});
    }

    void add_tile(const PointTile& tile) {
        n_points_ = tile.n_points;
        scalars_ = expanded_ + tile.begin;
        tables_ = scalars_ + tile.tables;
        std::vector<Four> tables(static_cast<std::size_t>(n_states_ * n_outputs_ * (n_points_ + 1)));
        const auto begin = out_.constants.size();
        for (const auto& step : tree_.steps) {
            const bool is_repeated = tree_.splits[static_cast<std::size_t>(step.split)].above >= 0;
            if (step.kind == Step::Kind::whole) add_tables(0, tables);
            if (step.kind == Step::Kind::descend) add_factors(is_repeated);
            if (step.kind != Step::Kind::close) continue;
            for (std::size_t side = 0; side < 2; ++side) {
                if (step.child[side] != Child::inner) add_factors(is_repeated);
                if (step.child[side] == Child::leaf) add_values();
                add_states(is_repeated, 0.0);
                if (step.child[side] == Child::treelet) add_tables(step.target[side], tables);
            }
        }
        out_.tiles.push_back({n_points_, begin, out_.constants.size()});
        out_.constants.insert(out_.constants.end(), tables.begin(), tables.end());
    }

    void add_states(bool is_repeated, double unsatisfied_above) {
        for (int state = is_repeated ? -1 : 0; state < 2; ++state) {
            auto& to = out_.constants.emplace_back();
            for (int k = 0; k < n_points_; ++k) to.lane[k] = state < 0 ? unsatisfied_above : scalars_[2 * k + state];
        }
        scalars_ += 2 * n_points_;
    }

    void add_factors(bool is_repeated) {
        add_states(is_repeated, is_repeated ? scalars_[2 * n_points_] : 0.0);
        if (is_repeated) ++scalars_;
    }

    void add_values() {
        for (int output = 0; output < n_outputs_; ++output) {
            if (output % 4 == 0) out_.constants.emplace_back();
            out_.constants.back().lane[output % 4] = *scalars_++;
        }
    }

    void add_tables(std::int32_t i, std::vector<Four>& tables) {
        const auto& treelet = tree_.treelets[static_cast<std::size_t>(i)];
        const int n_states = treelet.n_states();
        Four* to = &tables[static_cast<std::size_t>(out_.treelets[static_cast<std::size_t>(i)].states_before *
                                                    n_outputs_ * (n_points_ + 1))];
        const std::size_t per_output = treelet_doubles(treelet, n_points_);
        for (int state = 0; state < n_states; ++state)
            for (int output = 0; output < n_outputs_; ++output) {
                const double* const table = tables_ + per_output * static_cast<std::size_t>(output) + state;
                for (int k = 0; k < n_points_; ++k, ++to)
                    for (int p = 0; p < treelet.n_players; ++p)
                        to->lane[p] = table[((1 + p) * n_points_ + k) * n_states];
                for (int k = 0; k < n_points_; ++k) to->lane[k] = table[k * n_states];
                ++to;
            }
        tables_ += per_output * static_cast<std::size_t>(n_outputs_);
    }

    const Tree& tree_;
    int n_outputs_;
    const double* expanded_;
    std::int32_t n_states_ = 0;  // of all treelets
    int n_points_ = 0;
    const double* scalars_ = nullptr;
    const double* tables_ = nullptr;
    OneRowTree out_;
};

}  // namespace

OneRowTree for_one_row(const Tree& tree, int n_outputs, const double* expanded) {
    if (!tree.is_lookup()) return Rearranger(tree, n_outputs, expanded).run();
    OneRowTree out;
    out.table = expanded;
    return out;
}

}  // namespace linear_treeshap
