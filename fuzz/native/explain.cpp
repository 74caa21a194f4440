// Any valid model, compiled and explained by every engine and every kernel of this machine. Values are those of the
// definition where that can be had, add up, and are the same bits on any number of threads and however rows are cut (to
// rounding, if they are few).

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "arbitrary.hpp"
#include "background/background_engine.hpp"
#include "background/prediction.hpp"
#include "definition.hpp"
#include "sets/set_engine.hpp"
#include "values/value_engine.hpp"

namespace linear_treeshap::fuzz {
namespace {

// Of the sum of absolute leaves. What is computed in doubles is off by a few ulps for each edge of a path, and paths
// have up to 150.
constexpr double kTolerance = 1e-12;
// Coalitions of more take longer than all else together.
constexpr int kMaxJudgedPlayers = 6;
constexpr std::size_t kMaxJudgedNodes = 200;  // times rows of the background

[[noreturn]] void wrong(const char* what, std::string_view kernel, double found, double expected) {
    std::fprintf(stderr, "%s, %.*s: %.17g, expected %.17g\n", what, static_cast<int>(kernel.size()), kernel.data(),
                 found, expected);
    std::abort();
}

class Case {
  public:
    explicit Case(Bytes bytes)
        : model_(bytes),
          view_(model_.view()),
          definition_(view_),
          tolerance_(kTolerance * definition_.scale()),
          rows_(model_, model_.rows(bytes, one_of<1, 2, 5, 16, 17, 64, 65, 131>(bytes))),
          background_(model_, model_.rows(bytes, one_of<1, 2, 3, 70>(bytes))) {}

    void check() const {
        const std::vector<double> right = judged(nullptr), right_background = judged(&background_);
        std::vector<double> first;
        for (const Kernel* kernel : kernels()) {
            const Program program = compile(view_, rule_, quiet_);
            const std::vector<double> values = path_values(program, *kernel);
            if (first.empty()) first = values;
            compare("values of kernels", *kernel, values, first);
            compare("values", *kernel, values, right);
            check_predictions(program, *kernel, values);
            check_pairs(program, *kernel, values);
            check_background(program, *kernel, right_background);
        }
    }

  private:
    template <std::size_t... choices>
    static std::size_t one_of(Bytes& bytes) {
        constexpr std::size_t all[] = {choices...};
        return bytes.one_of(all);
    }

    // [row][player][output] of the first rows by the definition; none if that would take long.
    std::vector<double> judged(const Rows* background) const {
        std::vector<double> out;
        const std::size_t n = background == nullptr ? 1 : background->size();
        if (model_.n_players > kMaxJudgedPlayers || model_.n_nodes() * n > kMaxJudgedNodes) return out;
        for (std::size_t row = 0; row < std::min<std::size_t>(2, rows_.size()); ++row) {
            std::vector<long double> sum(row_values());
            for (std::size_t other = 0; other < n; ++other) {
                const auto one =
                    definition_.values(rows_.row(row), background == nullptr ? nullptr : background->row(other));
                for (std::size_t i = 0; i < one.size(); ++i) sum[i] += one[i] / static_cast<long double>(n);
            }
            out.insert(out.end(), sum.begin(), sum.end());
        }
        return out;
    }

    std::size_t row_values() const { return at(model_.n_players) * at(model_.n_outputs); }

    // As far as both go.
    void compare(const char* what, const Kernel& kernel, const std::vector<double>& found,
                 const std::vector<double>& expected) const {
        for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
            if (!(std::abs(found[i] - expected[i]) <= tolerance_)) wrong(what, kernel.name, found[i], expected[i]);
    }

    void same_bits(const char* what, const Kernel& kernel, const std::vector<double>& found,
                   const std::vector<double>& expected) const {
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (found[i] != expected[i]) wrong(what, kernel.name, found[i], expected[i]);
    }

    // On one thread at once, and on three row by row.
    template <class Engine, class... Extra>
    std::vector<double> values_of(const char* what, const Engine& engine, const Kernel& kernel, std::size_t per_row,
                                  Extra... extra) const {
        std::vector<double> values(rows_.size() * per_row), cut(values.size());
        engine.template explain<double>(rows_.view(), values, extra..., 1, quiet_);
        const std::size_t step = rows_.size() > 20 ? 50 : 1;
        for (std::size_t row = 0; row < rows_.size(); row += step) {
            const RowsView some = rows_.view().slice(row, step);
            engine.template explain<double>(some, std::span(cut).subspan(row * per_row, some.n_rows * per_row),
                                            extra..., 3, quiet_);
        }
        std::is_same_v<Engine, ValueEngine>&& step <= kFewRows ? compare(what, kernel, cut, values)
                                                               : same_bits(what, kernel, cut, values);
        return values;
    }

    std::vector<double> path_values(const Program& program, const Kernel& kernel) const {
        return values_of("values, cut", ValueEngine(program, kernel), kernel, row_values());
    }

    // Values add up to predictions, and these are the sums of the leaves that are reached.
    void check_predictions(const Program& program, const Kernel& kernel, const std::vector<double>& values) const {
        const std::size_t n_outputs = at(model_.n_outputs), n_players = at(model_.n_players);
        std::vector<double> found(rows_.size() * n_outputs);
        predict(program, background_kernel_of(kernel), rows_.view(), found, 1, quiet_);
        const auto base = definition_.expected(rows_.row(0), nullptr, 0);
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const auto right = definition_.expected(rows_.row(row), nullptr, ~std::uint64_t{0});
            for (std::size_t output = 0; output < n_outputs; ++output) {
                const auto expected = static_cast<double>(right[output]);
                const double prediction = found[row * n_outputs + output];
                if (!(std::abs(prediction - expected) <= tolerance_))
                    wrong("prediction", kernel.name, prediction, expected);
                auto sum = static_cast<double>(base[output]);
                for (std::size_t player = 0; player < n_players; ++player)
                    sum += values[(row * n_players + player) * n_outputs + output];
                if (!(std::abs(sum - expected) <= tolerance_)) wrong("sum of values", kernel.name, sum, expected);
            }
        }
    }

    // Of all pairs of a player, in halves, and of what is left of it, the sum is its value.
    void check_pairs(const Program& program, const Kernel& kernel, const std::vector<double>& values) const {
        constexpr double halves[] = {1.0, -0.5};
        const SetEngine engine(plan_sets(program, rule_, 1, 2, halves, quiet_), kernel);
        const std::size_t n_outputs = at(model_.n_outputs), n_players = at(model_.n_players);
        std::vector<double> pairs(rows_.size() * n_players * row_values()), sums(values.size());
        engine.explain_dense<double>(rows_.view(), pairs, 1, quiet_);
        for (std::size_t i = 0; i < pairs.size(); ++i)
            sums[i / (n_players * n_outputs) * n_outputs + i % n_outputs] += pairs[i];
        compare("sums of pairs", kernel, sums, values);
        values_of("sets, cut", engine, kernel, engine.program().sets.size() * n_outputs);
    }

    void check_background(const Program& program, const Kernel& kernel, const std::vector<double>& right) const {
        std::vector<double> first;
        for (const bool scan_only : {false, true}) {
            const BackgroundEngine engine(program, kernel, background_.view(), {}, scan_only, false, 1, quiet_);
            const double* const no_weights = nullptr;
            const auto values = values_of("background values, cut", engine, kernel, row_values(), no_weights);
            if (first.empty()) first = values;
            compare("background values, scanned", kernel, values, first);
            compare("background values", kernel, values, right);
        }
        const BackgroundEngine pairs(program, kernel, background_.view(), {}, false, true, 1, quiet_);
        const double* const no_weights = nullptr;
        values_of("background pairs, cut", pairs, kernel, pairs.n_items() * at(model_.n_outputs), no_weights);
    }

    static Rule shapley(int n_players) { return gauss_legendre(std::max(1, (n_players + 1) / 2)); }

    RuleFor rule_ = shapley;
    Control::Poll quiet_ = [](double) {};
    Model model_;
    EnsembleView view_;
    Definition definition_;
    double tolerance_;
    Rows rows_, background_;
};

}  // namespace
}  // namespace linear_treeshap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    linear_treeshap::fuzz::Case(linear_treeshap::fuzz::Bytes({data, size})).check();
    return 0;
}
