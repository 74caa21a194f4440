// Quad and scalars of both AVX machines.
#pragma once

#include <immintrin.h>

#include "kernels/isa.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

struct Quad {
    __m256d v;
};
inline Quad load_quad(const double* p) { return {_mm256_load_pd(p)}; }
inline void store_quad(double* p, Quad a) { _mm256_store_pd(p, a.v); }
inline Quad spread(double x) { return {_mm256_set1_pd(x)}; }
inline Quad operator*(Quad a, Quad b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline Quad operator+(Quad a, Quad b) { return {_mm256_add_pd(a.v, b.v)}; }
inline Quad operator-(Quad a, Quad b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline Quad operator/(Quad a, Quad b) { return {_mm256_div_pd(a.v, b.v)}; }
inline Quad fma(Quad a, Quad b, Quad c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline Quad fnma(Quad a, Quad b, Quad c) { return {_mm256_fnmadd_pd(a.v, b.v, c.v)}; }

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
