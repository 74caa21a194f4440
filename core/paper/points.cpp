#include "paper/points.hpp"

#include <cmath>
#include <numbers>
#include <span>

namespace linear_treeshap::paper {
namespace {

// N ← V(Y)^-1 N, that is, Σ_k y_k^i N_k becomes what N_i was, in the O(n²) operations of Björck and Pereyra.
void divide_by_vandermonde(std::span<const double> Y, std::span<double> N) {
    const std::size_t n = Y.size();
    for (std::size_t k = 0; k + 1 < n; ++k)
        for (std::size_t i = n - 1; i > k; --i) N[i] -= Y[k] * N[i - 1];
    for (std::size_t k = n - 1; k-- > 0;) {
        for (std::size_t i = k + 1; i < n; ++i) N[i] /= Y[i] - Y[i - k - 1];
        for (std::size_t i = k; i + 1 < n; ++i) N[i] -= N[i + 1];
    }
}

}  // namespace

Points::Points(std::size_t D) : size(D + D % 2), Y(size), one_by_Y(size), N(D * size), one_plus_Y((D + 1) * size, 1.0) {
    const double step = std::numbers::pi / static_cast<double>(size + 1);
    for (std::size_t k = 0; k < size; ++k) {
        Y[k] = -std::cos(step * static_cast<double>(k + 1));
        one_by_Y[k] = 1 / Y[k];
    }
    for (std::size_t d = 0; d < D; ++d) {
        const std::span N_d(N.data() + d * size, size);
        N_d[0] = 1 / static_cast<double>(d + 1);
        for (std::size_t i = 1; i <= d; ++i)  // the coefficients of B_d are 1/C(d, i)
            N_d[i] = N_d[i - 1] * static_cast<double>(i) / static_cast<double>(d + 1 - i);
        divide_by_vandermonde(Y, N_d);
    }
    for (std::size_t k = size; k < one_plus_Y.size(); ++k) one_plus_Y[k] = one_plus_Y[k - size] * (1 + Y[k % size]);
}

}  // namespace linear_treeshap::paper
