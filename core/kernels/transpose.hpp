// A square of doubles, transposed in registers: kLanes vectors of kLanes lanes each.
#pragma once

#include <array>

#include "kernels/simd.hpp"

namespace linear_treeshap::LTS_ISA {

using Square = std::array<Vec, kLanes>;

#if defined(__AVX512F__)

[[gnu::always_inline]] inline void transpose(Square& r) {
    // The forms with a mask, all set, spare us GCC's warning about its own undefined sources.
    const auto low = [](Vec a, Vec b) { return _mm512_maskz_unpacklo_pd(0xff, a.v, b.v); };
    const auto high = [](Vec a, Vec b) { return _mm512_maskz_unpackhi_pd(0xff, a.v, b.v); };
    const auto even = [](__m512d a, __m512d b) { return _mm512_maskz_shuffle_f64x2(0xff, a, b, 0x88); };
    const auto odd = [](__m512d a, __m512d b) { return _mm512_maskz_shuffle_f64x2(0xff, a, b, 0xdd); };
    const __m512d t0 = low(r[0], r[1]), t1 = high(r[0], r[1]), t2 = low(r[2], r[3]), t3 = high(r[2], r[3]);
    const __m512d t4 = low(r[4], r[5]), t5 = high(r[4], r[5]), t6 = low(r[6], r[7]), t7 = high(r[6], r[7]);
    // Columns 0, 4 | 2, 6 | 1, 5 | 3, 7 of rows 0 to 3 and of rows 4 to 7.
    const __m512d a0 = even(t0, t2), a2 = odd(t0, t2), a1 = even(t1, t3), a3 = odd(t1, t3);
    const __m512d b0 = even(t4, t6), b2 = odd(t4, t6), b1 = even(t5, t7), b3 = odd(t5, t7);
    r[0].v = even(a0, b0), r[4].v = odd(a0, b0);
    r[2].v = even(a2, b2), r[6].v = odd(a2, b2);
    r[1].v = even(a1, b1), r[5].v = odd(a1, b1);
    r[3].v = even(a3, b3), r[7].v = odd(a3, b3);
}

#elif defined(__AVX2__)

[[gnu::always_inline]] inline void transpose(Square& r) {
    const auto low = [](Vec a, Vec b) { return _mm256_unpacklo_pd((__m256d)a.v, (__m256d)b.v); };
    const auto high = [](Vec a, Vec b) { return _mm256_unpackhi_pd((__m256d)a.v, (__m256d)b.v); };
    const __m256d t0 = low(r[0], r[1]), t1 = high(r[0], r[1]), t2 = low(r[2], r[3]), t3 = high(r[2], r[3]);
    r[0].v = (DoubleVector)_mm256_permute2f128_pd(t0, t2, 0x20);
    r[1].v = (DoubleVector)_mm256_permute2f128_pd(t1, t3, 0x20);
    r[2].v = (DoubleVector)_mm256_permute2f128_pd(t0, t2, 0x31);
    r[3].v = (DoubleVector)_mm256_permute2f128_pd(t1, t3, 0x31);
}

#else

[[gnu::always_inline]] inline void transpose(Square& r) {
    const double swapped = r[0].v[1];
    r[0].v[1] = r[1].v[0];
    r[1].v[0] = swapped;
}

#endif

}  // namespace linear_treeshap::LTS_ISA
