// Quad and scalars of both AVX machines.
#pragma once

#include <immintrin.h>

#include "compile/one_row.hpp"
#include "kernels/isa.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

struct Quad {
    __m256d v;
};
inline Quad load(const Four& from) { return {_mm256_load_pd(from.lane)}; }
inline void store(Four& to, Quad a) { _mm256_store_pd(to.lane, a.v); }
inline Quad spread(double x) { return {_mm256_set1_pd(x)}; }
template <int kLane>
inline Quad spread(Quad a) {
    return {_mm256_permute4x64_pd(a.v, kLane * 0b01010101)};
}
template <int kLane>
inline double lane(Quad a) {
    return a.v[kLane];
}
inline Quad operator*(Quad a, Quad b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline Quad operator+(Quad a, Quad b) { return {_mm256_add_pd(a.v, b.v)}; }
inline Quad fma(Quad a, Quad b, Quad c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
