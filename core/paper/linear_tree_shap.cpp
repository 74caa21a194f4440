#include "paper/linear_tree_shap.hpp"

#include <algorithm>
#include <map>

#include "paper/points.hpp"

namespace linear_treeshap::paper {
namespace {

constexpr std::size_t kNumbersBetweenPolls = 1 << 24;  // some 50 ms

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// The same at every point; no point reads what another one writes. There is an even number of them.
template <class Step>
void for_points(std::size_t n, Step step) {
    const std::size_t n_pairs = n / 2;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
    for (std::size_t k = 0; k < 2 * n_pairs; ++k) step(k);
}

// The sum over all points, as two that do not wait for each other.
template <class Term>
double sum(std::size_t n, Term term) {
    double even = 0, odd = 0;
    for (std::size_t pair = 0; pair < n / 2; ++pair) {
        even += term(2 * pair);
        odd += term(2 * pair + 1);
    }
    return even + odd;
}

// A row on its way through a tree: all that is known of the path from the root down to where it is, by level.
class Traversal {
  public:
    Traversal(const LinearTreeShap& forest, const Tree& tree, const Points& points, std::size_t width)
        : forest_(forest),
          tree_(tree),
          points_(points),
          n_(points.size),
          width_(width),
          path_(at(tree.depth) + 1),
          C_(path_.size() * n_, 1.0),
          inverse_(path_.size() * n_),
          G_left_(path_.size() * width * n_),
          G_(width * n_) {
        path_[0] = {nullptr, 1.0, C_.data(), nullptr};  // p_⊥ = 1, and the empty product
    }

    // Algorithm 3, with 1 and 2 in a single traversal: C goes down, G comes up and is read on the way.
    void explain(const double* x, double* phi, std::size_t n_outputs) {
        const auto phi_of = [&](const Edge& e) { return phi + at(e.feature) * n_outputs + at(tree_.output); };
        for (std::size_t i = 1; i < tree_.edges.size(); ++i) {
            const Edge* e = &tree_.edges[i];
            descend(*e, forest_.satisfies(*e, x[e->feature]));
            if (e->leaf < 0) continue;
            begin(*e, phi_of(*e));
            while (!e->is_left) {  // both children of the parent are known
                circled_sum(*e);
                e = path_[at(e->level) - 1].e;
                if (e == nullptr) return;
                aggregate(*e, phi_of(*e));
            }
            keep(*e);
        }
    }

  private:
    struct Step {
        const Edge* e;
        double p;               // p_e
        const double* C;        // Π (y + p) over the features of the path
        const double* inverse;  // 1/(y + p_e)
    };

    // Algorithm 1, downwards: C ← C / (y + p_e↑) · (y + p_e). Where e↑ is not satisfied, e is not, and C stays what it
    // was. At a leaf it is left to `begin`.
    void descend(const Edge& e, bool is_satisfied) {
        const double p_above = path_[at(e.above)].p, p = is_satisfied && p_above > 0 ? e.p : 0;
        Step& here = path_[at(e.level)];
        here = {&e, p, path_[at(e.level) - 1].C, points_.one_by_Y.data()};
        if (p_above == 0 || e.leaf >= 0) return;
        const double *const others = without_feature(e), *const Y = points_.Y.data();
        double* const C = &C_[at(e.level) * n_];
        for_points(n_, [=](std::size_t k) { C[k] = others[k] * (Y[k] + p); });
        here.C = C;
        if (p == 0) return;
        double* const inverse = &inverse_[at(e.level) * n_];
        for_points(n_, [=](std::size_t k) { inverse[k] = 1 / (Y[k] + p); });
        here.inverse = inverse;
    }

    // C / (y + p_e↑) of the parent. The old factor goes before the new one comes: a long product of 1/w would overflow.
    const double* without_feature(const Edge& e) {
        const double* const C_parent = path_[at(e.level) - 1].C;
        if (e.above == 0) return C_parent;
        const double* const inverse = path_[at(e.above)].inverse;
        double* const C = &C_[at(e.level) * n_];
        for_points(n_, [=](std::size_t k) { C[k] = C_parent[k] * inverse[k]; });
        return C;
    }

    // At a leaf: G_v ← C · R^v_∅, and its terms. The quotient of the first is what C was without e's feature.
    void begin(const Edge& e, double* phi) {
        const Step& here = path_[at(e.level)];
        const bool is_open = path_[at(e.above)].p > 0;
        const double* const others = is_open ? without_feature(e) : here.C;
        const double *const N = psi(e.d - 1), *const Y = points_.Y.data(), p = here.p;
        const double term = is_open ? (p - 1) * sum(n_, [=](std::size_t k) { return others[k] * N[k]; }) : 0;
        for (std::size_t o = 0; o < width_; ++o) {
            const double R_empty = tree_.R_empty[at(e.leaf) * width_ + o];
            double* const G = &G_[o * n_];
            phi[o] += term * R_empty;
            if (is_open)
                for_points(n_, [=](std::size_t k) { G[k] = others[k] * (Y[k] + p) * R_empty; });
            else
                for_points(n_, [=](std::size_t k) { G[k] = others[k] * R_empty; });
        }
        if (is_open) subtract_above(e, phi);
    }

    // Algorithm 2 for edge e: add (p_e - 1) ψ(G / (y + p_e)), and subtract the same of e↑.
    void aggregate(const Edge& e, double* phi) {
        // Where e↑ is not satisfied, e is not, and y divides G: ψ(G/y) = ψ(G/y · (1 + y)^k), and the terms cancel.
        if (path_[at(e.above)].p == 0) return;
        const double *const inverse = path_[at(e.level)].inverse, *const N = psi(e.d - 1);
        const double p = path_[at(e.level)].p;
        for (std::size_t o = 0; o < width_; ++o) {
            const double* const G = &G_[o * n_];
            phi[o] += (p - 1) * sum(n_, [=](std::size_t k) { return G[k] * inverse[k] * N[k]; });
        }
        subtract_above(e, phi);
    }

    // (p_e↑ - 1) ψ(G · (1 + y)^(d_e↑ - d_e) / (y + p_e↑))
    void subtract_above(const Edge& e, double* phi) {
        if (e.above == 0) return;  // p_⊥ - 1 = 0
        const double *const inverse = path_[at(e.above)].inverse, *const N = psi(e.d_above - 1);
        const double *const raise = one_plus_y(e.d_above - e.d), p = path_[at(e.above)].p;
        for (std::size_t o = 0; o < width_; ++o) {
            const double* const G = &G_[o * n_];
            phi[o] -= (p - 1) * sum(n_, [=](std::size_t k) { return G[k] * raise[k] * inverse[k] * N[k]; });
        }
    }

    // Algorithm 1, upwards: G_parent ← G_left ⊕ G_right, where G is that of the right child.
    void circled_sum(const Edge& right) {
        raise_to_parent(right);
        const double* const G_left = &G_left_[at(right.level) * G_.size()];
        double* const G = G_.data();
        for_points(G_.size(), [=](std::size_t k) { G[k] += G_left[k]; });
    }

    void keep(const Edge& left) {
        raise_to_parent(left);
        const double* const G = G_.data();
        double* const G_left = &G_left_[at(left.level) * G_.size()];
        for_points(G_.size(), [=](std::size_t k) { G_left[k] = G[k]; });
    }

    // The other half of ⊕: G ← G · (1 + y)^k, up to the degree of the parent.
    void raise_to_parent(const Edge& e) {
        if (e.d == e.d_parent) return;
        const double* const raise = one_plus_y(e.d_parent - e.d);
        for (std::size_t o = 0; o < width_; ++o) {
            double* const G = &G_[o * n_];
            for_points(n_, [=](std::size_t k) { G[k] *= raise[k]; });
        }
    }

    const double* psi(std::int32_t d) const { return &points_.N[at(d) * n_]; }
    const double* one_plus_y(std::int32_t power) const { return &points_.one_plus_Y[at(power) * n_]; }

    const LinearTreeShap& forest_;
    const Tree& tree_;
    const Points& points_;
    const std::size_t n_, width_;
    std::vector<Step> path_;
    std::vector<double> C_;        // (depth + 1, n)
    std::vector<double> inverse_;  // (depth + 1, n)
    std::vector<double> G_left_;   // (depth + 1, width, n) of left children, until the right ones are known
    std::vector<double> G_;        // (width, n) of the node that the row is about to leave
};

}  // namespace

LinearTreeShap::LinearTreeShap(const EnsembleView& ensemble)
    : category_offsets_(ensemble.category_offsets.begin(), ensemble.category_offsets.end()),
      category_codes_(ensemble.category_codes.begin(), ensemble.category_codes.end()),
      width_(at(ensemble.width)),
      n_features_(at(ensemble.n_players)),
      n_outputs_(at(ensemble.n_outputs)) {
    for (std::int64_t t = 0; t < ensemble.n_trees(); ++t)
        trees_.push_back(tree_of(ensemble, static_cast<std::size_t>(t)));
}

bool LinearTreeShap::satisfies(const Edge& e, double x) const {
    bool goes_left = x <= e.threshold;
    if (x != x) {
        goes_left = e.missing_left;
    } else if (e.category_set >= 0) {
        const auto set = at(e.category_set);
        const auto codes = category_codes_.begin();
        // A code is the number without its fraction; what is negative, or no int32, is in no set.
        goes_left = x >= 0 && x < 2147483648.0 &&
                    std::binary_search(codes + category_offsets_[set], codes + category_offsets_[set + 1],
                                       static_cast<std::int32_t>(x));
    }
    return goes_left == e.is_left;
}

void LinearTreeShap::explain(std::span<const double> rows, std::span<double> phi,
                             const std::function<void()>& poll) const {
    if (n_features_ == 0) return;
    const std::size_t n_rows = rows.size() / n_features_;
    std::map<std::size_t, Points> points;  // by degree; ensembles have few
    std::size_t n_numbers = 0;
    for (const Tree& tree : trees_) {
        const auto& here = points.try_emplace(tree.degree(), tree.degree()).first->second;
        Traversal traversal(*this, tree, here, width_);
        for (std::size_t row = 0; row < n_rows; ++row) {
            traversal.explain(&rows[row * n_features_], &phi[row * n_features_ * n_outputs_], n_outputs_);
            n_numbers += tree.edges.size() * here.size * width_;
            if (n_numbers < kNumbersBetweenPolls) continue;
            n_numbers = 0;
            poll();
        }
    }
}

}  // namespace linear_treeshap::paper
