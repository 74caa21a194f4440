// What values are by their definition, slowly and obviously: sums over all coalitions, in extended precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arbitrary.hpp"

namespace linear_treeshap::fuzz {

class Definition {
  public:
    explicit Definition(const EnsembleView& ensemble) : e_(ensemble) {}

    // What a row's prediction is expected to be if only the players in `present`, a bit each, are known: [output].
    // Trees of a single leaf are left out, as compiled models do. `other` takes the place of players that are not
    // known; null, and it is the covers that say where they go.
    std::vector<long double> expected(const double* row, const double* other, std::uint64_t present) const {
        std::vector<long double> out(at(e_.n_outputs));
        for (std::size_t tree = 0; tree + 1 < e_.tree_offsets.size(); ++tree) {
            const auto root = static_cast<std::size_t>(e_.tree_offsets[tree]);
            if (e_.left[root] >= 0) walk(tree, root, root, row, other, present, 1.0L, out);
        }
        return out;
    }

    // Shapley values: [player][output].
    std::vector<long double> values(const double* row, const double* other) const {
        const std::size_t n = at(e_.n_players), n_outputs = at(e_.n_outputs);
        std::vector<std::vector<long double>> game;
        for (std::uint64_t coalition = 0; coalition < std::uint64_t{1} << n; ++coalition)
            game.push_back(expected(row, other, coalition));
        std::vector<long double> out(n * n_outputs);
        for (std::uint64_t coalition = 0; coalition < game.size(); ++coalition)
            for (std::size_t player = 0; player < n; ++player) {
                if ((coalition >> player & 1) != 0) continue;
                const auto& with = game[coalition | std::uint64_t{1} << player];
                for (std::size_t output = 0; output < n_outputs; ++output)
                    out[player * n_outputs + output] += weight(n, coalition) * (with[output] - game[coalition][output]);
            }
        return out;
    }

    // The sum of absolute leaves, which bounds what any number is made of.
    double scale() const {
        double sum = 0.0;
        for (const double value : e_.value) sum += std::abs(value);
        return sum;
    }

  private:
    // k! (n - 1 - k)! / n! of a coalition of k players.
    static long double weight(std::size_t n, std::uint64_t coalition) {
        long double weight = 1.0L / static_cast<long double>(n);
        std::size_t size = 0;
        for (; coalition != 0; coalition &= coalition - 1) ++size;
        for (std::size_t i = 1; i <= size; ++i) weight *= static_cast<long double>(i) / static_cast<long double>(n - i);
        return weight;
    }

    void walk(std::size_t tree, std::size_t root, std::size_t node, const double* row, const double* other,
              std::uint64_t present, long double share, std::vector<long double>& out) const {
        if (e_.left[node] < 0) {
            const std::size_t width = at(e_.width);
            for (std::size_t k = 0; k < width; ++k)
                out[at(e_.tree_output[tree]) + k] += share * e_.value[node * width + k];
            return;
        }
        const std::size_t child[] = {root + at(e_.left[node]), root + at(e_.right[node])};
        const std::size_t column = at(e_.feature[node]);
        const bool is_known = (present >> e_.player[column] & 1) != 0;
        if (is_known || other != nullptr) {
            const std::size_t side = goes_left(node, (is_known ? row : other)[column]) ? 0 : 1;
            return walk(tree, root, child[side], row, other, present, share, out);
        }
        const auto ratios = e_.cover_ratios(child[0], child[1]);
        for (std::size_t side = 0; side < 2; ++side)
            walk(tree, root, child[side], row, other, present, share * ratios[side], out);
    }

    bool goes_left(std::size_t node, double x) const {
        if (std::isnan(x)) return e_.missing_left[node];
        if (e_.category_set[node] < 0) return x <= e_.threshold[node];
        const auto set = at(e_.category_set[node]);
        const double code = std::trunc(x);
        for (std::int64_t i = e_.category_offsets[set]; i < e_.category_offsets[set + 1]; ++i)
            if (x >= 0 && code == e_.category_codes[static_cast<std::size_t>(i)]) return true;
        return false;
    }

    EnsembleView e_;
};

}  // namespace linear_treeshap::fuzz
