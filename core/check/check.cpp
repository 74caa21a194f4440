// The core by itself, where there is no Python: small random models, explained by every engine in every kernel that
// the machine has, against the definition; and the readers of files. Prints what was compared; exits with 1 if anything
// differs. `make release-check` builds it for other systems, and runs it where they can be emulated.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "background/background_engine.hpp"
#include "background/prediction.hpp"
#include "readers/number.hpp"
#include "readers/records.hpp"
#include "sets/set_engine.hpp"
#include "values/value_engine.hpp"

namespace {

using namespace linear_treeshap;
using Number = double;

int n_failed = 0;

void expect(bool holds, const std::string& what) {
    if (holds) return;
    ++n_failed;
    std::printf("FAILED: %s\n", what.c_str());
}

const Control::Poll kNobody = [](double) {};

// A generator of our own: distributions of the standard library differ from system to system.
class Random {
  public:
    explicit Random(std::uint32_t seed) : engine_(seed) {}
    std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(engine_() % static_cast<std::uint32_t>(n)); }
    Number number() { return static_cast<Number>(below(2001) - 1000) / 256.0; }  // a float, too

  private:
    std::mt19937 engine_;
};

// Some trees over six columns, two of which are one player; column 0 holds categories, any may be missing.
struct Model {
    static constexpr std::int32_t kColumns = 6, kPlayers = 5, kOutputs = 2;
    std::vector<std::int64_t> tree_offsets{0}, category_offsets{0};
    std::vector<std::int32_t> left, right, feature, category_set, category_codes, tree_output;
    std::vector<std::int32_t> player{0, 1, 2, 3, 4, 1};
    std::vector<double> threshold, cover, value;
    std::vector<std::uint8_t> missing_left;  // a vector of bool has no memory to look at
    bool is_float32;

    Model(Random& random, int n_trees, int depth, bool of_floats) : is_float32(of_floats) {
        for (int t = 0; t < n_trees; ++t) {
            grow(random, depth, 64.0);
            tree_offsets.push_back(static_cast<std::int64_t>(left.size()));
            tree_output.push_back(0);
        }
    }

    std::int32_t grow(Random& random, int depth, double rows) {
        const auto node = static_cast<std::int32_t>(left.size() - static_cast<std::size_t>(tree_offsets.back()));
        const std::size_t place = left.size();
        const bool is_leaf = depth == 0 || (node > 0 && random.below(8) == 0);
        const std::int32_t column = is_leaf ? -1 : random.below(kColumns);
        left.push_back(-1);
        right.push_back(-1);
        feature.push_back(column);
        threshold.push_back(random.number());
        cover.push_back(rows);
        missing_left.push_back(static_cast<std::uint8_t>(random.below(2)));
        category_set.push_back(-1);
        for (int output = 0; output < kOutputs; ++output) value.push_back(is_leaf ? random.number() : 0.0);
        if (is_leaf) return node;
        if (column == 0) {
            category_set.back() = static_cast<std::int32_t>(category_offsets.size()) - 1;
            for (std::int32_t code = random.below(3); code < 8; code += 1 + random.below(3))
                category_codes.push_back(code);
            category_offsets.push_back(static_cast<std::int64_t>(category_codes.size()));
        }
        const double share = static_cast<double>(1 + random.below(15)) / 16.0;
        const std::int32_t one = grow(random, depth - 1, rows * share);
        const std::int32_t other = grow(random, depth - 1, rows - rows * share);
        left[place] = one;
        right[place] = other;
        return node;
    }

    EnsembleView view() const {
        static_assert(sizeof(bool) == 1);
        return {.tree_offsets = tree_offsets,
                .left = left,
                .right = right,
                .feature = feature,
                .threshold = threshold,
                .missing_left = {reinterpret_cast<const bool*>(missing_left.data()), missing_left.size()},
                .category_set = category_set,
                .category_offsets = category_offsets,
                .category_codes = category_codes,
                .cover = cover,
                .value = value,
                .tree_output = tree_output,
                .player = player,
                .width = kOutputs,
                .n_outputs = kOutputs,
                .n_players = kPlayers,
                .is_float32 = is_float32};
    }

    bool goes_left(std::size_t node, const Number* row) const {
        const Number x = row[feature[node]];
        if (std::isnan(x)) return missing_left[node] != 0;
        if (category_set[node] < 0) return x <= threshold[node];
        const auto begin = category_codes.begin() + category_offsets[at(category_set[node])];
        const auto end = category_codes.begin() + category_offsets[at(category_set[node]) + 1];
        return std::find(begin, end, static_cast<std::int32_t>(x)) != end;
    }

    // What the trees give if the players in `known` follow the row, and the others follow `other`, another row, or if
    // there is none both ways, in proportion to the covers.
    double worth(std::uint32_t known, const Number* row, const Number* other, int output) const {
        double sum = 0.0;
        for (std::size_t t = 0; t + 1 < tree_offsets.size(); ++t)
            sum += worth_below(static_cast<std::size_t>(tree_offsets[t]), 0, known, row, other, output);
        return sum;
    }

  private:
    double worth_below(std::size_t root, std::int32_t local, std::uint32_t known, const Number* row,
                       const Number* other, int output) const {
        const std::size_t node = root + at(local);
        if (left[node] < 0) return value[node * kOutputs + static_cast<std::size_t>(output)];
        const auto below = [&](std::int32_t child) { return worth_below(root, child, known, row, other, output); };
        const bool is_known = ((known >> player[at(feature[node])]) & 1U) != 0;
        if (is_known || other != nullptr)
            return below(goes_left(node, is_known ? row : other) ? left[node] : right[node]);
        const double share = cover[root + at(left[node])] / cover[node];
        return share * below(left[node]) + (1.0 - share) * below(right[node]);
    }
};

// The interaction index of some players, by its definition: of one, Shapley's value.
double index_of(const Model& model, std::uint32_t players, const Number* row, const Number* other, int output) {
    const int n_others = Model::kPlayers - std::popcount(players);
    double sum = 0.0;
    for (std::uint32_t set = 0; set < 1U << Model::kPlayers; ++set) {
        if ((set & players) != 0) continue;
        double added = 0.0;  // by the players together, beyond what fewer of them add
        for (std::uint32_t some = players;; some = (some - 1) & players) {
            const double sign = std::popcount(some ^ players) % 2 == 0 ? 1.0 : -1.0;
            added += sign * model.worth(set | some, row, other, output);
            if (some == 0) break;
        }
        const int n = std::popcount(set);
        sum += added * std::tgamma(n + 1) * std::tgamma(n_others - n + 1) / std::tgamma(n_others + 2);
    }
    return sum;
}

struct Rows {
    std::vector<Number> numbers;
    std::vector<float> floats;
    std::size_t n;

    Rows(Random& random, std::size_t n_rows) : n(n_rows) {
        for (std::size_t i = 0; i < n * Model::kColumns; ++i) {
            const bool is_category = i % Model::kColumns == 0;
            const Number x = is_category ? static_cast<Number>(random.below(9)) : random.number();
            numbers.push_back(random.below(7) == 0 ? std::numeric_limits<Number>::quiet_NaN() : x);
        }
        floats.assign(numbers.begin(), numbers.end());
    }
    const Number* row(std::size_t i) const { return numbers.data() + i * Model::kColumns; }
    RowsView view(bool of_floats) const {
        const void* data = of_floats ? static_cast<const void*>(floats.data()) : numbers.data();
        return {data, n, Model::kColumns, of_floats};
    }
};

// Sums of a few hundred numbers below 4, in double: rounding errors are far below this, any mistake far above.
constexpr double kTolerance = 1e-10;

bool near(double a, double b) { return std::abs(a - b) <= kTolerance; }

// The index of each of these players, or sets of them, for all rows: a mean over background rows, if there are any.
std::vector<double> defined(const Model& model, const std::vector<std::uint32_t>& sets, const Rows& rows,
                            const Rows* background) {
    std::vector<double> values;
    for (std::size_t r = 0; r < rows.n; ++r)
        for (const std::uint32_t set : sets)
            for (int output = 0; output < Model::kOutputs; ++output) {
                if (background == nullptr) {
                    values.push_back(index_of(model, set, rows.row(r), nullptr, output));
                    continue;
                }
                double sum = 0.0;
                for (std::size_t b = 0; b < background->n; ++b)
                    sum += index_of(model, set, rows.row(r), background->row(b), output);
                values.push_back(sum / static_cast<double>(background->n));
            }
    return values;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, const std::string& what) {
    expect(found.size() == wanted.size() && std::equal(found.begin(), found.end(), wanted.begin(), near), what);
}

void check_engines(const Model& model, const Rows& rows, const Rows& background, const std::string& name) {
    const Program program = compile(model.view(), kShapley, kNobody);
    const RowsView view = rows.view(model.is_float32);
    std::vector<std::uint32_t> players;
    for (int player = 0; player < Model::kPlayers; ++player) players.push_back(1U << player);
    const std::vector<double> values = defined(model, players, rows, nullptr);
    const std::vector<double> against = defined(model, players, rows, &background);
    std::vector<double> predictions;
    for (std::size_t r = 0; r < rows.n; ++r)
        for (int output = 0; output < Model::kOutputs; ++output)
            predictions.push_back(model.worth(~0U, rows.row(r), nullptr, output));

    for (const Kernel* kernel : kernels()) {
        const std::string here = name + ", " + std::string(kernel->name) + ": ";
        const ValueEngine engine(program, *kernel);
        std::vector<double> found(values.size()), again(values.size());
        engine.explain<double>(view, found, 1, kNobody);
        expect_near(found, values, here + "values");
        engine.explain<double>(view, again, 3, kNobody);
        expect(found == again, here + "the same bits on three threads");

        const SetEngine pair_engine(plan_sets(program, kShapley.rule, 2, 2, {}, kNobody), *kernel);
        std::vector<std::uint32_t> pairs;
        for (const auto& set : pair_engine.program().sets) pairs.push_back(1U << set[0] | 1U << set[1]);
        std::vector<double> of_pairs(rows.n * pairs.size() * Model::kOutputs);
        pair_engine.explain<double>(view, of_pairs, 2, kNobody);
        expect(!pairs.empty(), here + "there are pairs");
        expect_near(of_pairs, defined(model, pairs, rows, nullptr), here + "pairs");

        const BackgroundEngine other(program, *kernel, background.view(model.is_float32), {}, false, false, 2, kNobody);
        other.explain<double>(view, found, nullptr, 2, kNobody);
        expect_near(found, against, here + "values against background rows");

        std::vector<double> predicted(predictions.size());
        predict(program, background_kernel_of(*kernel), view, predicted, 2, kNobody);
        expect_near(predicted, predictions, here + "predictions");
    }
}

void check_numbers() {
    const double infinity = std::numeric_limits<double>::infinity();
    expect(to_number("0.1") == 0.1 && to_number("-1e-5") == -1e-5 && to_number("5e-324") == 5e-324, "numbers");
    expect(to_number("inf") == infinity && std::isnan(to_number("nan").value_or(0.0)), "numbers that are not finite");
    for (const char* text : {"", "-", "1,5", "1e999", " 1", "+1", "0x10", "1 "})
        expect(!to_number(text), "no number: '" + std::string(text) + "'");
}

void check_readers() {
    const Records json =
        read_json(R"({"a": [{"x": [1, 2.5], "y": 3}, {"x": [], "y": -4e2}]})", "a", {"x", "y"}, kNobody);
    expect(json.columns[0].values == std::vector{1.0, 2.5} && json.columns[1].values == std::vector{3.0, -400.0},
           "JSON");
    using namespace std::string_literals;
    const Records ubjson = read_ubjson("{U\1a[{U\1x[$d#U\2\77\200\0\0\100\40\0\0}]}"s, "a", {"x"}, kNobody);
    expect(ubjson.columns[0].values == std::vector{1.0, 2.5}, "UBJSON");
    const Records lines =
        read_lightgbm("tree\n\nTree=0\nleaf_value=0.25 -1\n\nend of trees\n", {"leaf_value"}, kNobody);
    expect(lines.columns[0].values == std::vector{0.25, -1.0}, "LightGBM");
    bool is_refused = false;
    try {
        read_json(R"({"a": [{"x": [1, )", "a", {"x"}, kNobody);
    } catch (const std::invalid_argument&) {
        is_refused = true;
    }
    expect(is_refused, "a damaged file is refused");
}

}  // namespace

int main() {
    Random random(1);
    int n_models = 0;
    for (const bool of_floats : {false, true})
        for (const int depth : {2, 3, 5, 7}) {
            const Model model(random, 4, depth, of_floats);
            const Rows rows(random, 70), background(random, 5);  // a block of rows, and a few more
            check_engines(model, rows, background, "depth " + std::to_string(depth) + (of_floats ? ", float" : ""));
            ++n_models;
        }
    check_numbers();
    check_readers();
    std::printf("%d models, kernels", n_models);
    for (const Kernel* kernel : kernels()) std::printf(" %s", std::string(kernel->name).c_str());
    std::printf(": %s\n", n_failed == 0 ? "as defined" : "WRONG");
    return n_failed == 0 ? 0 : 1;
}
