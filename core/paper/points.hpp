// Polynomials in y as their values at fixed points, the paper's multipoint interpolation form: sums, products and
// quotients are taken point by point, and ψ is an inner product with numbers that are made here, once.
#pragma once

#include <cstddef>
#include <vector>

namespace linear_treeshap::paper {

// For polynomials of degree at most D.
//
// Y are Chebyshev points of the second kind, an even number of them and without the two ends: y = 0, in the middle of
// an odd number, and y = -1 are the roots of y + p for p = 0 and p = 1. ψ only reads quotients, whose degree is below
// D, so D points do where the paper has D + 1.
struct Points {
    explicit Points(std::size_t D);

    std::size_t size;                // an even number
    std::vector<double> Y;           // (size,)
    std::vector<double> one_by_Y;    // (size,) 1/(y + p) of an edge that is not satisfied, whose p is 0
    std::vector<double> N;           // (D, size) N_d/(d + 1), so that ψ_d(A) = <A(Y), N[d]>
    std::vector<double> one_plus_Y;  // (D + 1, size) (1 + Y)^k, which raises a degree by k
};

}  // namespace linear_treeshap::paper
