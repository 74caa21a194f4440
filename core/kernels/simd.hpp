// A vector of doubles, one row per lane, in the width of the instruction set this file is compiled for.
//
// Each instruction set uses its own width: GCC turns 64-byte vector types into scalar code where
// the machine has none. A Mask is one bit per lane as the caller sees it, and whatever the machine
// selects by inside.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "compile/one_row.hpp"

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
// What each bit of a treelet's state adds to the byte that `index_of` reads.
inline constexpr std::array<std::uint8_t, 4> kStateBit{1, 2, 4, 8};

inline constexpr int kLanes = 8;

inline Vec load(const double* p) { return {_mm512_load_pd(p)}; }
inline void store(double* p, Vec a) { _mm512_store_pd(p, a.v); }
// Compilers like to fold a load into every instruction that uses it. Here loads are what we wait for,
// so a value that several vectors share is loaded once.
inline Vec in_register(Vec a) {
    __asm__("" : "+v"(a.v));
    return a;
}
inline Vec broadcast(double x) { return in_register({_mm512_set1_pd(x)}); }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline Mask mask_of(std::uint64_t bits) { return {static_cast<__mmask8>(bits)}; }
inline Vec select(Mask m, Vec yes, Vec no) { return {_mm512_mask_blend_pd(m.m, no.v, yes.v)}; }
inline Vec where(Mask m, Vec yes) { return {_mm512_maskz_mov_pd(m.m, yes.v)}; }

inline Index index_of(const std::uint8_t* states) {
    return {_mm512_maskz_cvtepu8_epi64(0xff, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(states)))};
}
// A table of 8 or 16 entries, and the entry that each lane's index names: one register permutation.
// (The forms with a mask, all set, spare us GCC's warning about its own undefined sources.)
template <int kStates>
struct Table {
    Vec part[kStates / 8];
    explicit Table(const double* from) {
        for (int i = 0; i < kStates / 8; ++i) part[i] = in_register(load(from + 8 * i));
    }
    Vec operator[](Index i) const {
        if constexpr (kStates == 8) return {_mm512_maskz_permutexvar_pd(0xff, i.i, part[0].v)};
        return {_mm512_permutex2var_pd(part[0].v, i.i, part[kStates / 8 - 1].v)};
    }
};
inline Vec gather(const double* table, const std::uint8_t* index) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(index));
    return {_mm512_mask_i32gather_pd(_mm512_setzero_pd(), 0xff, _mm256_cvtepu8_epi32(bytes), table, 8)};
}

// A byte for each of 64 rows, zero at first.
struct Bytes {
    __m512i all = _mm512_setzero_si512();

    // Sets bits of those rows whose own bit is set; they were not set before.
    void add(std::uint64_t rows, std::uint8_t bits) {
        all = _mm512_mask_add_epi8(all, rows, all, _mm512_set1_epi8(static_cast<char>(bits)));
    }
    void store(std::uint8_t* to) const { _mm512_store_si512(to, all); }
};

// Bit r: does row r of kRows, of a block of 64, have a value <= threshold (missing values: `missing_left`)?
template <int kRows>
inline std::uint64_t at_most(const float* x, float threshold, bool missing_left) {
    const __m512 t = _mm512_set1_ps(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; 16 * i < kRows; ++i) {
        const __m512 v = _mm512_load_ps(x + 16 * i);
        const auto part = missing_left ? _mm512_cmp_ps_mask(v, t, _CMP_NGT_UQ) : _mm512_cmp_ps_mask(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(part) << (16 * i);
    }
    return bits;
}
template <int kRows>
inline std::uint64_t at_most(const double* x, double threshold, bool missing_left) {
    const __m512d t = _mm512_set1_pd(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; 8 * i < kRows; ++i) {
        const __m512d v = _mm512_load_pd(x + 8 * i);
        const auto part = missing_left ? _mm512_cmp_pd_mask(v, t, _CMP_NGT_UQ) : _mm512_cmp_pd_mask(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(part) << (8 * i);
    }
    return bits;
}

// Bit r: is the category code of row r in a set of few words? One permutation finds every row's word.
inline constexpr std::size_t kMaxSetWords = 16;
struct SetWords {
    __m512i all;
    SetWords(const std::uint32_t* words, std::size_t n)
        : all(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1U << n) - 1), words)) {}
};
template <int kRows>
inline std::uint64_t in_words(const float* x, const SetWords& set, bool missing_left) {
    std::uint64_t bits = 0;
    for (int i = 0; 16 * i < kRows; ++i) {
        const __m512 v = _mm512_load_ps(x + 16 * i);
        const auto is_code = static_cast<__mmask16>(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GE_OQ) &
                                                    _mm512_cmp_ps_mask(v, _mm512_set1_ps(512), _CMP_LT_OQ));
        const __m512i code = _mm512_maskz_cvttps_epi32(is_code, v);
        const __m512i word =
            _mm512_maskz_permutexvar_epi32(is_code, _mm512_maskz_srli_epi32(is_code, code, 5), set.all);
        const __m512i bit = _mm512_maskz_srlv_epi32(is_code, word, _mm512_and_si512(code, _mm512_set1_epi32(31)));
        auto part = _mm512_test_epi32_mask(bit, _mm512_set1_epi32(1));
        if (missing_left) part = static_cast<__mmask16>(part | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q));
        bits |= static_cast<std::uint64_t>(part) << (16 * i);
    }
    return bits;
}
template <int kRows>
inline std::uint64_t in_words(const double* x, const SetWords& set, bool missing_left) {
    std::uint64_t bits = 0;
    for (int i = 0; 8 * i < kRows; ++i) {
        const __m512d v = _mm512_load_pd(x + 8 * i);
        const auto is_code = static_cast<__mmask8>(_mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_GE_OQ) &
                                                   _mm512_cmp_pd_mask(v, _mm512_set1_pd(512), _CMP_LT_OQ));
        const __m512i code = _mm512_maskz_cvttpd_epi64(is_code, v);
        const __m512i place = _mm512_maskz_srli_epi64(is_code, code, 5);
        const __m512i word = _mm512_maskz_permutexvar_epi32(0xffff, place, set.all);  // in the lower halves
        const __m512i bit = _mm512_maskz_srlv_epi64(is_code, word, _mm512_and_si512(code, _mm512_set1_epi64(31)));
        auto part = _mm512_test_epi64_mask(bit, _mm512_set1_epi64(1));
        if (missing_left) part = static_cast<__mmask8>(part | _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q));
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
inline Vec where(Mask m, Vec yes) { return {(DoubleVector)((IntVector)yes.v & m.m)}; }
#if defined(__AVX2__)
inline Vec select(Mask m, Vec yes, Vec no) {
    return {(DoubleVector)_mm256_blendv_pd((__m256d)no.v, (__m256d)yes.v, (__m256d)m.m)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
    return {(DoubleVector)_mm256_fmadd_pd((__m256d)a.v, (__m256d)b.v, (__m256d)c.v)};
}
#elif defined(__aarch64__)
inline Vec select(Mask m, Vec yes, Vec no) { return {vbslq_f64((uint64x2_t)m.m, yes.v, no.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f64(c.v, a.v, b.v)}; }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
inline Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
inline double fma(double a, double b, double c) { return a * b + c; }
inline Vec select(Mask m, Vec yes, Vec no) {
    return {(DoubleVector)(((IntVector)yes.v & m.m) | ((IntVector)no.v & ~m.m))};
}
#endif

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
// A table of 4 doubles is 8 floats, which `vpermps` can permute; a further bit of the state chooses between two
// such tables. `vpermps` reads the lowest three bits of every 32, `blendv` the sign: one register serves both.
struct Index {
    __m256i i;
};
inline constexpr std::array<std::uint8_t, 4> kStateBit{0x02, 0x04, 0x80, 0x40};
inline Index index_of(const std::uint8_t* states) {
    std::int32_t four;
    std::memcpy(&four, states, sizeof four);
    const __m256i where = _mm256_setr_epi8(0, -1, -1, -1, 0, -1, -1, 0, 1, -1, -1, -1, 1, -1, -1, 1,  //
                                           2, -1, -1, -1, 2, -1, -1, 2, 3, -1, -1, -1, 3, -1, -1, 3);
    return {_mm256_or_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(four), where), _mm256_set1_epi64x(1LL << 32))};
}
template <int kStates>
struct Table {
    const double* entry;  // there are too few registers to keep it in
    explicit Table(const double* from) : entry(from) {}
    Vec operator[](Index i) const {
        const auto four = [&](int p) {
            return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(_mm256_load_pd(entry + 4 * p)), i.i));
        };
        const __m256d bit2 = _mm256_castsi256_pd(i.i);
        __m256d out = _mm256_blendv_pd(four(0), four(1), bit2);
        if constexpr (kStates == 16)
            out = _mm256_blendv_pd(out, _mm256_blendv_pd(four(2), four(3), bit2),
                                   _mm256_castsi256_pd(_mm256_slli_epi64(i.i, 1)));
        return {(DoubleVector)out};
    }
};
#else
struct Index {
    IntVector i;
};
inline constexpr std::array<std::uint8_t, 4> kStateBit{1, 2, 4, 8};
inline Index index_of(const std::uint8_t* states) {
    Index out{};
    for (int l = 0; l < kLanes; ++l) out.i[l] = states[l];
    return out;
}
template <int kStates>
struct Table {
    const double* entry;
    explicit Table(const double* from) : entry(from) {}
    Vec operator[](Index i) const {
        Vec out{};
        for (int l = 0; l < kLanes; ++l) out.v[l] = entry[i.i[l]];
        return out;
    }
};
#endif

inline Vec gather(const double* table, const std::uint8_t* index) {
    Vec out{};
    for (int l = 0; l < kLanes; ++l) out.v[l] = table[index[l]];
    return out;
}

#if defined(__AVX2__)
struct Bytes {
    __m256i half[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};

    void add(std::uint64_t rows, std::uint8_t bits) {
        // Each byte of the mask is copied to the eight rows it speaks of, which then look at their own bit.
        const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
        const __m256i own_bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
        for (int h = 0; h < 2; ++h) {
            const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(rows >> (32 * h))), spread);
            const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own_bit), own_bit);
            half[h] = _mm256_or_si256(half[h], _mm256_and_si256(is_set, _mm256_set1_epi8(static_cast<char>(bits))));
        }
    }
    void store(std::uint8_t* to) const {
        for (int h = 0; h < 2; ++h) _mm256_store_si256(reinterpret_cast<__m256i*>(to + 32 * h), half[h]);
    }
};
#else
struct Bytes {
    std::array<std::uint64_t, 8> eight{};  // rows in the bytes of a word

    void add(std::uint64_t rows, std::uint8_t bits) {
        // All bytes get all eight bits of the mask, and each then looks at its own.
        constexpr std::uint64_t ones = 0x0101010101010101, own_bit = 0x8040201008040201;
        for (std::size_t i = 0; i < 8; ++i) {
            const std::uint64_t own = (((rows >> (8 * i)) & 0xff) * ones) & own_bit;
            const std::uint64_t is_set =
                ((own + 0x7f * ones) >> 7) & ones;  // no byte is above 0x80: nothing is carried
            eight[i] |= is_set * bits;
        }
    }
    void store(std::uint8_t* to) const { std::memcpy(to, eight.data(), sizeof eight); }
};
#endif

#if defined(__AVX2__)
template <int kRows>
inline std::uint64_t at_most(const float* x, float threshold, bool missing_left) {
    const __m256 t = _mm256_set1_ps(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; 8 * i < kRows; ++i) {
        const __m256 v = _mm256_load_ps(x + 8 * i);
        const __m256 part = missing_left ? _mm256_cmp_ps(v, t, _CMP_NGT_UQ) : _mm256_cmp_ps(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(static_cast<unsigned>(_mm256_movemask_ps(part))) << (8 * i);
    }
    return bits;
}
template <int kRows>
inline std::uint64_t at_most(const double* x, double threshold, bool missing_left) {
    const __m256d t = _mm256_set1_pd(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; 4 * i < kRows; ++i) {
        const __m256d v = _mm256_load_pd(x + 4 * i);
        const __m256d part = missing_left ? _mm256_cmp_pd(v, t, _CMP_NGT_UQ) : _mm256_cmp_pd(v, t, _CMP_LE_OQ);
        bits |= static_cast<std::uint64_t>(static_cast<unsigned>(_mm256_movemask_pd(part))) << (4 * i);
    }
    return bits;
}

inline constexpr std::size_t kMaxSetWords = 8;
struct SetWords {
    __m256i all;
    SetWords(const std::uint32_t* words, std::size_t n) {
        std::array<std::uint32_t, kMaxSetWords> padded{};
        std::copy_n(words, n, padded.begin());  // none at all, of an empty set
        all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(padded.data()));
    }
};
template <int kRows>
inline std::uint64_t in_words(const float* x, const SetWords& set, bool missing_left) {
    std::uint64_t bits = 0;
    for (int i = 0; 8 * i < kRows; ++i) {
        const __m256 v = _mm256_load_ps(x + 8 * i);
        const __m256 is_code = _mm256_and_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GE_OQ),
                                             _mm256_cmp_ps(v, _mm256_set1_ps(256), _CMP_LT_OQ));
        const __m256i code = _mm256_cvttps_epi32(v);
        const __m256i word = _mm256_permutevar8x32_epi32(set.all, _mm256_srli_epi32(code, 5));
        const __m256i bit = _mm256_srlv_epi32(word, _mm256_and_si256(code, _mm256_set1_epi32(31)));
        __m256 part = _mm256_and_ps(is_code, _mm256_castsi256_ps(_mm256_slli_epi32(bit, 31)));
        if (missing_left) part = _mm256_or_ps(part, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        bits |= static_cast<std::uint64_t>(static_cast<unsigned>(_mm256_movemask_ps(part))) << (8 * i);
    }
    return bits;
}
template <int kRows>
inline std::uint64_t in_words(const double* x, const SetWords& set, bool missing_left) {
    std::uint64_t bits = 0;
    for (int i = 0; 4 * i < kRows; ++i) {
        const __m256d v = _mm256_load_pd(x + 4 * i);
        const __m256d is_code = _mm256_and_pd(_mm256_cmp_pd(v, _mm256_setzero_pd(), _CMP_GE_OQ),
                                              _mm256_cmp_pd(v, _mm256_set1_pd(256), _CMP_LT_OQ));
        const __m128i code = _mm256_cvttpd_epi32(v);
        const __m256i place = _mm256_castsi128_si256(_mm_srli_epi32(code, 5));
        const __m128i word = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(set.all, place));
        const __m128i bit = _mm_srlv_epi32(word, _mm_and_si128(code, _mm_set1_epi32(31)));
        const __m256i wide = _mm256_slli_epi64(_mm256_cvtepi32_epi64(bit), 63);
        __m256d part = _mm256_and_pd(is_code, _mm256_castsi256_pd(wide));
        if (missing_left) part = _mm256_or_pd(part, _mm256_cmp_pd(v, v, _CMP_UNORD_Q));
        bits |= static_cast<std::uint64_t>(static_cast<unsigned>(_mm256_movemask_pd(part))) << (4 * i);
    }
    return bits;
}
#else
// Every lane collects the bits of its own rows, as many as it has bits.
template <int kRows, class Number>
inline std::uint64_t at_most(const Number* x, Number threshold, bool missing_left) {
    using Word = std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>;
    typedef Number Numbers __attribute__((vector_size(16)));
    typedef Word Words __attribute__((vector_size(16)));
    constexpr int per_vector = 16 / sizeof(Number), per_word = 8 * sizeof(Number);
    std::uint64_t out = 0;
    for (int first = 0; first < kRows; first += per_word) {
        Words bits{}, own{};
        for (int l = 0; l < per_vector; ++l) own[l] = Word{1} << l;
        for (int row = 0; row < (kRows < per_word ? kRows : per_word); row += per_vector, own <<= per_vector) {
            const Numbers v = *reinterpret_cast<const Numbers*>(x + first + row);
            bits |= (Words)(missing_left ? ~(v > threshold) : v <= threshold) & own;
        }
        for (int l = 0; l < per_vector; ++l) out |= std::uint64_t{bits[l]} << first;
    }
    return out;
}
#endif

#endif

// Four doubles, whatever the width of the machine: what one row computes with.
#if defined(__AVX2__)
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
#else
struct Quad {
    Vec half[2];
};
inline Quad load(const Four& from) { return {{load(from.lane), load(from.lane + 2)}}; }
inline void store(Four& to, Quad a) {
    store(to.lane, a.half[0]);
    store(to.lane + 2, a.half[1]);
}
inline Quad spread(double x) { return {{broadcast(x), broadcast(x)}}; }
template <int kLane>
inline double lane(Quad a) {
    return a.half[kLane / 2].v[kLane % 2];
}
template <int kLane>
inline Quad spread(Quad a) {
    return spread(lane<kLane>(a));
}
inline Quad operator*(Quad a, Quad b) { return {{a.half[0] * b.half[0], a.half[1] * b.half[1]}}; }
inline Quad operator+(Quad a, Quad b) { return {{a.half[0] + b.half[0], a.half[1] + b.half[1]}}; }
inline Quad fma(Quad a, Quad b, Quad c) {
    return {{fma(a.half[0], b.half[0], c.half[0]), fma(a.half[1], b.half[1], c.half[1])}};
}
#endif

}  // namespace linear_treeshap::LTS_ISA
