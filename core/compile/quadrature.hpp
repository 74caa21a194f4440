// The points t_k and weights ω_k at which the integral over (0, 1) is taken.
//
// An index is a measure on (0, 1), and a value is the integral of a polynomial of degree d-1, where d
// is the number of players on a path: so a rule with few points gives it exactly. Which rule is the
// caller's to say (indices.py); Shapley's are here.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <utility>
#include <vector>

namespace linear_treeshap {

struct Rule {
    std::vector<double> point;              // t_k
    std::vector<double> absent;             // 1 - t_k, kept apart because it loses no digits when t_k is near 1
    std::vector<double> weight;             // ω_k
    std::vector<double> weight_per_absent;  // ω_k / (1 - t_k)
    // Of a rule with ends: weights of what is not among its points. At 0 all rows are alike; and the leading
    // coefficient of the highest degree, which stands for the value at ∞, is that of the longest paths alone.
    double zero_weight = 0.0, leading_weight = 0.0;

    Rule(std::vector<double> points, std::vector<double> one_minus_points, std::vector<double> weights)
        : point(std::move(points)), absent(std::move(one_minus_points)), weight(std::move(weights)) {
        for (std::size_t k = 0; k < point.size(); ++k) weight_per_absent.push_back(weight[k] / absent[k]);
    }

    int n_points() const { return static_cast<int>(point.size()); }
    bool has_ends() const { return leading_weight != 0.0; }
    // On a path, as the leading coefficient counts.
    int most_players() const { return 2 * n_points() + 2; }

    // Would 1 - (w + t·(1-w)), found as a difference, lose digits? It is (1-t)·(1-w), and its error that of 1: where
    // points with much weight are near 1, that is too much. Shapley's rules have a mean of 1/(1-t) below 15.
    bool differences_lose_digits() const {
        double sum = 0.0, far = 0.0;
        for (std::size_t k = 0; k < point.size(); ++k) {
            sum += std::abs(weight[k]);
            far += std::abs(weight_per_absent[k]);
        }
        return touches_ends() || far > 64.0 * sum;
    }
    // Is any point so near to 0 or 1 that t and 1 - t, the one found from the other, would not be two numbers?
    bool touches_ends() const {
        const auto is_end = [](double distance) { return distance < 1e-9; };
        return std::ranges::any_of(point, is_end) || std::ranges::any_of(absent, is_end);
    }
};

// The rule that is exact for this many players on a path. Rules of one index differ in their number of points.
using RuleFor = std::function<Rule(int n_players_on_path)>;

// The rules that the trees of a model need, each made once.
class Rules {
  public:
    const Rule& rule_for(int n_players_on_path, const RuleFor& make) {
        const auto [it, is_new] = points_.try_emplace(n_players_on_path, 0);
        if (is_new) {
            Rule rule = make(n_players_on_path);
            it->second = rule.n_points();
            rules_.try_emplace(rule.n_points(), std::move(rule));
        }
        return rules_.at(it->second);
    }
    const Rule& at(int n_points) const { return rules_.at(n_points); }
    bool differences_lose_digits() const {
        return std::ranges::any_of(rules_, [](const auto& entry) { return entry.second.differences_lose_digits(); });
    }

  private:
    std::map<int, int> points_;  // by number of players
    std::map<int, Rule> rules_;  // by number of points
};

// Shapley's measure is uniform: 1/((n+1)·C(n,k)) = ∫ t^k (1-t)^(n-k) dt.
inline Rule gauss_legendre(int n_points) {
    const auto n = static_cast<std::size_t>(n_points);
    std::vector<double> point(n), absent(n), weight(n);
    // Newton's method on the Legendre polynomial, in extended precision where the machine has it; the
    // roots are symmetric.
    for (std::size_t i = 0; i < (n + 1) / 2; ++i) {
        long double z = std::cos(std::numbers::pi_v<long double> * (static_cast<long double>(i) + 0.75L) /
                                 (static_cast<long double>(n) + 0.5L));
        long double slope = 1.0L;
        for (int step = 0; step < 8; ++step) {
            long double p = 1.0L, previous = 0.0L;
            for (std::size_t j = 0; j < n; ++j) {
                const auto order = static_cast<long double>(j);
                const long double next = ((2.0L * order + 1.0L) * z * p - order * previous) / (order + 1.0L);
                previous = p;
                p = next;
            }
            slope = static_cast<long double>(n) * (z * p - previous) / (z * z - 1.0L);
            z -= p / slope;
        }
        const auto near_one = static_cast<double>((1.0L + z) / 2.0L);
        const auto near_zero = static_cast<double>((1.0L - z) / 2.0L);
        point[i] = absent[n - 1 - i] = near_zero;
        absent[i] = point[n - 1 - i] = near_one;
        weight[i] = weight[n - 1 - i] = static_cast<double>(1.0L / ((1.0L - z * z) * slope * slope));
    }
    return {std::move(point), std::move(absent), std::move(weight)};
}

// Shapley's with ends: exact for 2n + 1 players on a path, and for one more where leading coefficients count.
//
// If a polynomial is p(0) + t·q(t), its integral is that of q with the density t, and p(0) times what is left. The
// points are the zeros of the n-th polynomial that is orthogonal for this density, as P_n + P_(n+1) is but for its
// zero at 0, and give q exactly up to its degree of 2n - 1; of t^(2n) in q, they miss the mean square of this
// polynomial if its leading coefficient is 1.
inline Rule gauss_radau(int n_points) {
    const auto n = static_cast<std::size_t>(n_points);
    std::vector<double> point(n), absent(n), weight(n);
    const auto first = static_cast<long double>(n), second = static_cast<long double>(n + 1);
    long double missed = 0.5L;
    for (std::size_t i = 0; i < n; ++i) {
        const auto l = static_cast<long double>(i + 1);
        missed *= l * (l + 1.0L) / (4.0L * (2.0L * l + 1.0L) * (2.0L * l + 1.0L));
        long double z =
            std::cos(std::numbers::pi_v<long double> * (first - static_cast<long double>(i) - 0.25L) / second);
        long double p = 1.0L;  // P_n
        for (int step = 0; step < 8; ++step) {
            long double before = 0.0L, next = z;  // P_(n-1) and P_(n+1)
            p = 1.0L;
            for (std::size_t j = 1; j <= n; ++j) {
                const auto order = static_cast<long double>(j);
                before = p;
                p = next;
                next = ((2.0L * order + 1.0L) * z * p - order * before) / (order + 1.0L);
            }
            z -= (p + next) * (z * z - 1.0L) / (first * (z * p - before) + second * (z * next - p));
        }
        point[i] = static_cast<double>((1.0L + z) / 2.0L);
        absent[i] = static_cast<double>((1.0L - z) / 2.0L);
        weight[i] = static_cast<double>((1.0L - z) / (2.0L * second * second * p * p));
    }
    Rule rule(std::move(point), std::move(absent), std::move(weight));
    rule.zero_weight = static_cast<double>(1.0L / (second * second));
    rule.leading_weight = static_cast<double>(missed);
    return rule;
}

// The rules of an index; it need not have any with ends.
struct RulesOfIndex {
    RuleFor rule, rule_with_ends;
};
inline const RulesOfIndex kShapley{
    [](int n_players) { return gauss_legendre(std::max(1, (n_players + 1) / 2)); },
    [](int n_players) { return gauss_radau(std::max(1, n_players / 2)); },
};

}  // namespace linear_treeshap
