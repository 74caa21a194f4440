// AVX2 (x86-64-v3): four lanes; masks are vectors of all-ones or zeros.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/isa.hpp"
#include "kernels/simd/avx_quad.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

inline constexpr int kLanes = 4;

struct Vec {
    __m256d v;
};
struct Mask {
    __m256d m;
};

inline Vec load(const double* p) { return {_mm256_load_pd(p)}; }
inline void store(double* p, Vec a) { _mm256_store_pd(p, a.v); }
inline Vec broadcast(double x) { return {_mm256_set1_pd(x)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm256_add_pd(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_pd(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_pd(a.v, b.v, c.v)}; }
inline Vec select(Mask m, Vec yes, Vec no) { return {_mm256_blendv_pd(no.v, yes.v, m.m)}; }
inline Vec where(Mask m, Vec yes) { return {_mm256_and_pd(yes.v, m.m)}; }
inline Vec add_where(Mask m, Vec a, Vec b) { return a + where(m, b); }

struct MaskTable {
    alignas(32) std::int64_t lane[1 << kLanes][kLanes];
    constexpr MaskTable() : lane{} {
        for (int bits = 0; bits < (1 << kLanes); ++bits)
            for (int l = 0; l < kLanes; ++l) lane[bits][l] = (bits >> l) & 1 ? -1 : 0;
    }
};
inline constexpr MaskTable kMasks{};
inline Mask mask_of(std::uint64_t bits) {
    const auto* const lanes = kMasks.lane[bits & ((1U << kLanes) - 1)];
    return {_mm256_castsi256_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(lanes)))};
}

// A table of 4 doubles is 8 floats, which `vpermps` can permute.
struct Index {
    __m256i i;
};
inline constexpr std::array<std::uint8_t, 2> kStateBit{2, 4};
inline Index index_of(const std::uint8_t* states) {
    std::int32_t four;
    std::memcpy(&four, states, sizeof four);
    const __m256i where = _mm256_setr_epi8(0, -1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1,  //
                                           2, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 3, -1, -1, -1);
    return {_mm256_or_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(four), where), _mm256_set1_epi64x(1LL << 32))};
}
struct Table {
    const double* entry;  // there are too few registers to keep it in
    explicit Table(const double* from) : entry(from) {}
    Vec operator[](Index i) const {
        return {_mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(_mm256_load_pd(entry)), i.i))};
    }
};

// One of two doubles is what `vpermilpd` can permute: it reads the second bit of every 64.
struct Answers {
    __m256i i;
};
template <int kBits>
LTS_INLINE Answers answers_of(const std::uint8_t* bytes) {
    std::int32_t four;
    std::memcpy(&four, bytes, sizeof four);
    return {_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four))};
}
// Is a row whose bit is not set, or is, one that goes to a side?
struct alignas(32) GoesThere : std::array<double, 4> {};
inline constexpr GoesThere kGoesThere[2] = {{{0, 1, 0, 1}}, {{1, 0, 1, 0}}};
template <int kBit>
struct Deltas {
    __m256d entries;
    Deltas(std::size_t rare_side, Vec ratio)
        : entries(_mm256_sub_pd(_mm256_load_pd(kGoesThere[rare_side].data()), ratio.v)) {}
    Deltas by(Vec x) const {
        Deltas out = *this;
        out.entries = _mm256_mul_pd(entries, x.v);
        return out;
    }
    Vec operator[](const Answers& answers) const {
        __m256i second = answers.i;
        if constexpr (kBit == 0) second = _mm256_add_epi64(second, second);
        if constexpr (kBit > 1) second = _mm256_srli_epi64(second, kBit - 1);
        return {_mm256_permutevar_pd(entries, second)};
    }
};

inline constexpr bool kHasStates = false;
template <int kBit>
struct States;

inline void add_looked_up(const double* table, std::size_t, const std::uint8_t* index, int n_rows, double* to) {
    for (int r = 0; r < n_rows; r += kLanes) {
        Vec found{};
        for (int l = 0; l < kLanes; ++l) found.v[l] = table[index[r + l]];
        store(to + r, load(to + r) + found);
    }
}

inline __m256d halves(const double* one, const double* other) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(one)), _mm_load_pd(other), 1);
}
// Halves of rows come from memory side by side, which spares half of the steps of turning whole rows round.
template <int kColumns = kLanes, class RowAt>
LTS_INLINE std::array<Vec, kColumns> columns(const RowAt& row_at) {
    std::array<Vec, kColumns> out;
    for (std::size_t c = 0; c < kColumns; c += 2) {
        const __m256d r02 = halves(row_at(0) + c, row_at(2) + c), r13 = halves(row_at(1) + c, row_at(3) + c);
        out[c].v = _mm256_unpacklo_pd(r02, r13);
        out[c + 1].v = _mm256_unpackhi_pd(r02, r13);
    }
    return out;
}

struct Bytes {
    __m256i half[2];

    Bytes() : half{_mm256_setzero_si256(), _mm256_setzero_si256()} {}
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

template <int kRows>
inline std::uint64_t at_most(const float* x, float threshold, bool missing_left) {
    const __m256 t = _mm256_set1_ps(threshold);
    const auto part = [&](int i) LTS_INLINED {
        const __m256 v = _mm256_load_ps(x + 8 * i);
        return missing_left ? _mm256_cmp_ps(v, t, _CMP_NGT_UQ) : _mm256_cmp_ps(v, t, _CMP_LE_OQ);
    };
    if constexpr (kRows < 32) {
        static_assert(kRows <= 8);
        return static_cast<unsigned>(_mm256_movemask_ps(part(0)));
    } else {
        // Packed to bytes, of which a mask of 32 is taken at once; packing mixes the halves of registers.
        const auto packed = [&](int i) LTS_INLINED {
            return _mm256_packs_epi32(_mm256_castps_si256(part(i)), _mm256_castps_si256(part(i + 1)));
        };
        const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        std::uint64_t bits = 0;
        for (int i = 0; 8 * i < kRows; i += 4) {
            const __m256i bytes = _mm256_packs_epi16(packed(i), packed(i + 2));
            const int four = _mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, in_order));
            bits |= std::uint64_t{static_cast<unsigned>(four)} << (8 * i);
        }
        return bits;
    }
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

template <int kRows, class Number>
inline void put_at_most(const Number* x, Number threshold, bool missing_left, std::uint64_t* to) {
    *to = at_most<kRows>(x, threshold, missing_left);
}

// One permutation finds every row's word.
inline constexpr std::size_t kMaxSetWords = 8;
struct SetWords {
    __m256i all;
    explicit SetWords(std::span<const std::uint32_t> words) {
        std::array<std::uint32_t, kMaxSetWords> padded{};
        std::copy(words.begin(), words.end(), padded.begin());
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

inline void add_player(const std::uint32_t* sets, std::uint64_t rows, int player, std::uint32_t* to) {
    const __m256i own_bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i bit = _mm256_set1_epi32(static_cast<int>(1U << player));
    for (int i = 0; i < 64; i += 8) {
        const __m256i old = _mm256_load_si256(reinterpret_cast<const __m256i*>(sets + i));
        const __m256i all_bits = _mm256_set1_epi32(static_cast<int>(rows >> i));
        const __m256i is_set = _mm256_cmpeq_epi32(_mm256_and_si256(all_bits, own_bit), own_bit);
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + i), _mm256_or_si256(old, _mm256_and_si256(is_set, bit)));
    }
}
inline std::uint64_t keep(const std::uint64_t* words, std::uint64_t whole, std::uint64_t others, std::uint64_t* to) {
    const __m256i all = _mm256_set1_epi64x(static_cast<long long>(others)), none = _mm256_setzero_si256();
    std::uint64_t is_empty = 0;
    for (int i = 0; i < 64; i += 4) {
        const __m256i old = _mm256_load_si256(reinterpret_cast<const __m256i*>(words + i));
        const __m256i is_whole = _mm256_castpd_si256(mask_of(whole >> i).m);
        const __m256i kept = _mm256_and_si256(old, _mm256_or_si256(all, is_whole));
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + i), kept);
        const __m256d empty = _mm256_castsi256_pd(_mm256_cmpeq_epi64(kept, none));
        is_empty |= std::uint64_t{static_cast<unsigned>(_mm256_movemask_pd(empty))} << i;
    }
    return ~is_empty;
}
// For each of 256 masks, the lanes that are set, one after another.
struct LaneLists {
    alignas(64) std::uint8_t lane[256][8];
    constexpr LaneLists() : lane{} {
        for (unsigned bits = 0; bits < 256; ++bits)
            for (unsigned l = 0, n = 0; l < 8; ++l)
                if ((bits >> l & 1) != 0) lane[bits][n++] = static_cast<std::uint8_t>(l);
    }
};
inline constexpr LaneLists kLaneLists{};
// Numbers from the first one on, of bits that are set among eight.
inline void list_eight(unsigned bits, std::uint32_t first, std::uint32_t* to) {
    const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kLaneLists.lane[bits]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_add_epi32(_mm256_cvtepu8_epi32(lanes), _mm256_set1_epi32(static_cast<int>(first))));
}
inline std::size_t list_bits(std::uint64_t bits, std::uint32_t first, std::uint32_t* to) {
    std::size_t n = 0;
    for (std::uint32_t i = 0; i < 64; i += 8) {
        const auto which = static_cast<unsigned>(bits >> i & 0xff);
        list_eight(which, first + i, to + n);
        n += static_cast<std::size_t>(std::popcount(which));
    }
    return n;
}
inline std::size_t list_disjoint(const std::uint32_t* sets, std::size_t n, std::uint32_t other, std::uint32_t* to) {
    const __m256i all = _mm256_set1_epi32(static_cast<int>(other));
    std::size_t n_listed = 0;
    for (std::size_t i = 0; i < n; i += 8) {
        const __m256i eight = _mm256_load_si256(reinterpret_cast<const __m256i*>(sets + i));
        const __m256i is_empty = _mm256_cmpeq_epi32(_mm256_and_si256(eight, all), _mm256_setzero_si256());
        const unsigned there = n - i >= 8 ? 0xff : (1U << (n - i)) - 1;
        const unsigned which = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(is_empty))) & there;
        list_eight(which, static_cast<std::uint32_t>(i), to + n_listed);
        n_listed += static_cast<std::size_t>(std::popcount(which));
    }
    return n_listed;
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
