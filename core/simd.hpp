// A vector of doubles, one row per lane, in the width of the instruction set this file is compiled for.
//
// Each instruction set uses its own width: GCC turns 64-byte vector types into scalar code where
// the machine has none. A Mask is one bit per lane as the caller sees it, and whatever the machine
// selects by inside.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace linear_treeshap::LTS_ISA {

#if defined(__AVX512F__)

struct Vec {
    __m512d v;
};
struct Mask {
    __mmask8 m;
};
struct Index {
    __m512i i;
};

inline constexpr int kLanes = 8;

inline Vec load(const double* p) { return {_mm512_load_pd(p)}; }
inline void store(double* p, Vec a) { _mm512_store_pd(p, a.v); }
inline Vec broadcast(double x) { return {_mm512_set1_pd(x)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline Mask mask_of(std::uint64_t bits) { return {static_cast<__mmask8>(bits)}; }
inline Vec select(Mask m, Vec yes, Vec no) { return {_mm512_mask_blend_pd(m.m, no.v, yes.v)}; }
inline Vec where(Mask m, Vec yes) { return {_mm512_maskz_mov_pd(m.m, yes.v)}; }

inline Index no_index() { return {_mm512_setzero_si512()}; }
inline Index add_bit(Index i, Mask m, int bit) {
    return {_mm512_mask_or_epi64(i.i, m.m, i.i, _mm512_set1_epi64(1LL << bit))};
}
// The entry of a table of 8 or 16 that each lane's index names: one register permutation.
template <int kStates>
inline Vec lookup(const double* table, Index i) {
    if constexpr (kStates == 8) {
        // (the form with a mask, all set, spares us GCC's warning about its own undefined source)
        return {_mm512_maskz_permutexvar_pd(0xff, i.i, _mm512_load_pd(table))};
    } else {
        return {_mm512_permutex2var_pd(_mm512_load_pd(table), i.i, _mm512_load_pd(table + 8))};
    }
}
inline Vec gather(const double* table, const std::uint8_t* index) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(index));
    return {_mm512_mask_i32gather_pd(_mm512_setzero_pd(), 0xff, _mm256_cvtepu8_epi32(bytes), table, 8)};
}

// Bit r: does row r of 64 have a value <= threshold (missing values: `missing_left`)?
inline std::uint64_t at_most(const float* x, float threshold, bool missing_left) {
    const __m512 t = _mm512_set1_ps(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; i < 4; ++i) {
        const __m512 v = _mm512_load_ps(x + 16 * i);
        const auto part = missing_left ? _mm512_cmp_ps_mask(v, t, _CMP_NGT_UQ) : _mm512_cmp_ps_mask(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(part) << (16 * i);
    }
    return bits;
}
inline std::uint64_t at_most(const double* x, double threshold, bool missing_left) {
    const __m512d t = _mm512_set1_pd(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
        const __m512d v = _mm512_load_pd(x + 8 * i);
        const auto part = missing_left ? _mm512_cmp_pd_mask(v, t, _CMP_NGT_UQ) : _mm512_cmp_pd_mask(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(part) << (8 * i);
    }
    return bits;
}

#else  // AVX2, or the vector types of the compiler (SSE2, NEON): masks are vectors of all-ones or zeros

#if defined(__AVX2__)
inline constexpr int kLanes = 4;
#else
inline constexpr int kLanes = 2;
#endif

typedef double DoubleVector __attribute__((vector_size(8 * kLanes)));
typedef std::int64_t IntVector __attribute__((vector_size(8 * kLanes)));

struct Vec {
    DoubleVector v;
};
struct Mask {
    IntVector m;
};

inline Vec load(const double* p) { return {*reinterpret_cast<const DoubleVector*>(p)}; }
inline void store(double* p, Vec a) { *reinterpret_cast<DoubleVector*>(p) = a.v; }
inline Vec broadcast(double x) { return {x - DoubleVector{}}; }
inline Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
inline Vec select(Mask m, Vec yes, Vec no) { return {m.m ? yes.v : no.v}; }
inline Vec where(Mask m, Vec yes) { return {(DoubleVector)((IntVector)yes.v & m.m)}; }

struct MaskTable {
    alignas(32) std::int64_t lane[1 << kLanes][kLanes];
    constexpr MaskTable() : lane{} {
        for (int bits = 0; bits < (1 << kLanes); ++bits)
            for (int l = 0; l < kLanes; ++l) lane[bits][l] = (bits >> l) & 1 ? -1 : 0;
    }
};
inline constexpr MaskTable kMasks{};
inline Mask mask_of(std::uint64_t bits) {
    return {*reinterpret_cast<const IntVector*>(kMasks.lane[bits & ((1U << kLanes) - 1)])};
}

#if defined(__AVX2__)
// A table of 4 doubles is 8 floats, which `vpermps` can permute; the higher bits of the index choose
// between such tables.
struct Index {
    __m256i pair;  // for each double of a lane: 2·(index mod 4), 2·(index mod 4) + 1
    __m256d bit2, bit3;
};
inline Index no_index() {
    return {_mm256_set1_epi64x(0x100000000LL), _mm256_setzero_pd(), _mm256_setzero_pd()};
}
inline Index add_bit(Index i, Mask m, int bit) {
    const auto lanes = reinterpret_cast<__m256i>(m.m);
    switch (bit) {
        case 0: i.pair = _mm256_or_si256(i.pair, _mm256_and_si256(lanes, _mm256_set1_epi32(2))); break;
        case 1: i.pair = _mm256_or_si256(i.pair, _mm256_and_si256(lanes, _mm256_set1_epi32(4))); break;
        case 2: i.bit2 = _mm256_castsi256_pd(lanes); break;
        default: i.bit3 = _mm256_castsi256_pd(lanes); break;
    }
    return i;
}
template <int kStates>
inline Vec lookup(const double* table, Index i) {
    const auto four = [&](int from) {
        const __m256 t = _mm256_castpd_ps(_mm256_load_pd(table + from));
        return _mm256_castps_pd(_mm256_permutevar8x32_ps(t, i.pair));
    };
    __m256d low = _mm256_blendv_pd(four(0), four(4), i.bit2);
    if constexpr (kStates == 16) low = _mm256_blendv_pd(low, _mm256_blendv_pd(four(8), four(12), i.bit2), i.bit3);
    return {(DoubleVector)low};
}
#else
struct Index {
    IntVector i;
};
inline Index no_index() { return {IntVector{}}; }
inline Index add_bit(Index i, Mask m, int bit) { return {i.i | (m.m & (std::int64_t{1} << bit))}; }
template <int kStates>
inline Vec lookup(const double* table, Index i) {
    Vec out{};
    for (int l = 0; l < kLanes; ++l) out.v[l] = table[i.i[l]];
    return out;
}
#endif

inline Vec gather(const double* table, const std::uint8_t* index) {
    Vec out{};
    for (int l = 0; l < kLanes; ++l) out.v[l] = table[index[l]];
    return out;
}

#if defined(__AVX2__)
inline std::uint64_t at_most(const float* x, float threshold, bool missing_left) {
    const __m256 t = _mm256_set1_ps(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
        const __m256 v = _mm256_load_ps(x + 8 * i);
        const __m256 part = missing_left ? _mm256_cmp_ps(v, t, _CMP_NGT_UQ) : _mm256_cmp_ps(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(static_cast<unsigned>(_mm256_movemask_ps(part))) << (8 * i);
    }
    return bits;
}
inline std::uint64_t at_most(const double* x, double threshold, bool missing_left) {
    const __m256d t = _mm256_set1_pd(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; i < 16; ++i) {
        const __m256d v = _mm256_load_pd(x + 4 * i);
        const __m256d part = missing_left ? _mm256_cmp_pd(v, t, _CMP_NGT_UQ) : _mm256_cmp_pd(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(static_cast<unsigned>(_mm256_movemask_pd(part))) << (4 * i);
    }
    return bits;
}
#else
template <class Number>
inline std::uint64_t at_most(const Number* x, Number threshold, bool missing_left) {
    std::uint64_t bits = 0;
    for (int i = 0; i < 64; ++i) {
        const bool left = missing_left ? !(x[i] > threshold) : x[i] <= threshold;
        bits |= static_cast<std::uint64_t>(left) << i;
    }
    return bits;
}
#endif

#endif

}  // namespace linear_treeshap::LTS_ISA
