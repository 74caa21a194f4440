// AVX-512 (x86-64-v4): eight lanes, and masks in registers of their own.
//
// Forms of intrinsics with a mask, all set, spare us GCC's warning about its own undefined sources.
#pragma once

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/isa.hpp"
#include "kernels/simd/avx_quad.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

struct Vec {
    __m512d v;
};
struct Mask {
    __mmask8 m;
};
struct Index {
    __m512i i;
};
inline constexpr std::array<std::uint8_t, 2> kStateBit{1, 2};

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
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_pd(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_pd(a.v, b.v, c.v)}; }
inline Mask mask_of(std::uint64_t bits) { return {static_cast<__mmask8>(bits)}; }
inline Vec select(Mask m, Vec yes, Vec no) { return {_mm512_mask_blend_pd(m.m, no.v, yes.v)}; }
inline Vec where(Mask m, Vec yes) { return {_mm512_maskz_mov_pd(m.m, yes.v)}; }
inline Vec add_where(Mask m, Vec a, Vec b) { return {_mm512_mask_add_pd(a.v, m.m, a.v, b.v)}; }

inline Index index_of(const std::uint8_t* states) {
    return {_mm512_maskz_cvtepu8_epi64(0xff, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(states)))};
}
struct Table {
    __m512d entries;
    explicit Table(const double* from) : entries(_mm512_maskz_broadcast_f64x4(0xff, _mm256_load_pd(from))) {}
    Vec operator[](Index i) const { return {_mm512_maskz_permutexvar_pd(0xff, i.i, entries)}; }
};
struct Answers {
    std::array<Index, 3> three;  // bits from each third one on
};
template <int kBits>
LTS_INLINE Answers answers_of(const std::uint8_t* bytes) {
    Answers out{{index_of(bytes)}};
    if constexpr (kBits > 3) out.three[1].i = _mm512_maskz_srli_epi64(0xff, out.three[0].i, 3);
    if constexpr (kBits > 6) out.three[2].i = _mm512_maskz_srli_epi64(0xff, out.three[0].i, 6);
    return out;
}
// Is each of eight states, by one of its bits, that of a row which goes to a side?
struct alignas(64) GoesThere : std::array<double, 8> {};
inline constexpr GoesThere kGoesThere[3][2] = {
    {{{0, 1, 0, 1, 0, 1, 0, 1}}, {{1, 0, 1, 0, 1, 0, 1, 0}}},
    {{{0, 0, 1, 1, 0, 0, 1, 1}}, {{1, 1, 0, 0, 1, 1, 0, 0}}},
    {{{0, 0, 0, 0, 1, 1, 1, 1}}, {{1, 1, 1, 1, 0, 0, 0, 0}}},
};
template <int kBit>
struct Deltas {
    __m512d entries;
    Deltas(std::size_t rare_side, Vec ratio)
        : entries(_mm512_sub_pd(_mm512_load_pd(kGoesThere[kBit % 3][rare_side].data()), ratio.v)) {}
    Deltas by(Vec x) const {
        Deltas out = *this;
        out.entries = _mm512_mul_pd(entries, x.v);
        return out;
    }
    Vec states() const { return {entries}; }
    Vec operator[](const Answers& answers) const {
        return {_mm512_maskz_permutexvar_pd(0xff, answers.three[kBit / 3].i, entries)};
    }
};

inline constexpr bool kHasStates = true;
template <int kBit>
struct States {
    __m512d entries;
    explicit States(Vec all) : entries(all.v) {}
    Vec operator[](const Answers& answers) const {
        return {_mm512_maskz_permutexvar_pd(0xff, answers.three[kBit / 3].i, entries)};
    }
};

// From registers, which hold up to 64 entries: to gather them from memory takes longer, on some machines by far.
template <int kVectors>
LTS_INLINE void add_entries(const double* table, std::size_t n, const std::uint8_t* index, int n_rows, double* to) {
    std::array<Vec, kVectors> entries;
    const auto all = static_cast<__mmask8>(n < 8 ? (1U << n) - 1 : 0xff);
    for (std::size_t i = 0; i < kVectors; ++i) entries[i].v = _mm512_maskz_loadu_pd(all, table + 8 * i);
    for (int r = 0; r < n_rows; r += kLanes) {
        const Index which = index_of(index + r);
        std::array<Vec, kVectors> found = entries;
        if constexpr (kVectors == 1) found[0].v = _mm512_maskz_permutexvar_pd(0xff, which.i, entries[0].v);
        for (std::size_t left = kVectors / 2, bit = 8; left > 0; left /= 2, bit *= 2) {
            const Mask is_set{_mm512_test_epi64_mask(which.i, _mm512_set1_epi64(static_cast<long long>(bit)))};
            for (std::size_t i = 0; i < left; ++i) {
                const Vec no = found[2 * i], yes = found[2 * i + 1];
                found[i] = bit == 8 ? Vec{_mm512_permutex2var_pd(no.v, which.i, yes.v)} : select(is_set, yes, no);
            }
        }
        store(to + r, load(to + r) + found[0]);
    }
}
inline void add_looked_up(const double* table, std::size_t n, const std::uint8_t* index, int n_rows, double* to) {
    if (n <= 8) return add_entries<1>(table, n, index, n_rows, to);
    if (n <= 16) return add_entries<2>(table, n, index, n_rows, to);
    if (n <= 32) return add_entries<4>(table, n, index, n_rows, to);
    if (n <= 64) return add_entries<8>(table, n, index, n_rows, to);
    for (int r = 0; r < n_rows; ++r) to[r] += table[index[r]];
}

inline __m512d low(__m512d a, __m512d b) { return _mm512_maskz_unpacklo_pd(0xff, a, b); }
inline __m512d high(__m512d a, __m512d b) { return _mm512_maskz_unpackhi_pd(0xff, a, b); }
inline __m512d even(__m512d a, __m512d b) { return _mm512_maskz_shuffle_f64x2(0xff, a, b, 0x88); }
inline __m512d odd(__m512d a, __m512d b) { return _mm512_maskz_shuffle_f64x2(0xff, a, b, 0xdd); }
inline __m512d halves(const double* one, const double* other) {
    return _mm512_maskz_insertf64x4(0xff, _mm512_castpd256_pd512(_mm256_load_pd(one)), _mm256_load_pd(other), 1);
}
// Halves of rows come from memory side by side, which spares a third of the steps of turning whole rows round.
template <int kColumns = kLanes, class RowAt>
LTS_INLINE std::array<Vec, kColumns> columns(const RowAt& row_at) {
    std::array<Vec, kColumns> out;
    for (std::size_t c = 0; c < kColumns; c += 4) {
        const __m512d r02 = halves(row_at(0) + c, row_at(2) + c), r13 = halves(row_at(1) + c, row_at(3) + c);
        const __m512d r46 = halves(row_at(4) + c, row_at(6) + c), r57 = halves(row_at(5) + c, row_at(7) + c);
        out[c].v = even(low(r02, r13), low(r46, r57));
        out[c + 1].v = even(high(r02, r13), high(r46, r57));
        out[c + 2].v = odd(low(r02, r13), low(r46, r57));
        out[c + 3].v = odd(high(r02, r13), high(r46, r57));
    }
    return out;
}

struct Bytes {
    __m512i all;

    Bytes() : all(_mm512_setzero_si512()) {}
    void add(std::uint64_t rows, std::uint8_t bits) {
        all = _mm512_mask_add_epi8(all, rows, all, _mm512_set1_epi8(static_cast<char>(bits)));
    }
    void store(std::uint8_t* to) const { _mm512_store_si512(to, all); }
};

// As many numbers as a vector holds.
inline __mmask16 vector_at_most(const float* x, float threshold, bool missing_left) {
    const __m512 v = _mm512_load_ps(x), t = _mm512_set1_ps(threshold);
    return missing_left ? _mm512_cmp_ps_mask(v, t, _CMP_NGT_UQ) : _mm512_cmp_ps_mask(v, t, _CMP_LE_OQ);
}
inline __mmask8 vector_at_most(const double* x, double threshold, bool missing_left) {
    const __m512d v = _mm512_load_pd(x), t = _mm512_set1_pd(threshold);
    return missing_left ? _mm512_cmp_pd_mask(v, t, _CMP_NGT_UQ) : _mm512_cmp_pd_mask(v, t, _CMP_LE_OQ);
}
template <int kRows, class Number>
inline std::uint64_t at_most(const Number* x, Number threshold, bool missing_left) {
    constexpr int kNumbers = 64 / sizeof(Number);
    std::uint64_t bits = 0;
    for (int i = 0; i < kRows; i += kNumbers)
        bits |= std::uint64_t{vector_at_most(x + i, threshold, missing_left)} << i;
    return bits;
}
// Each mask is stored where it belongs: to put four or eight of them together takes longer than to compare.
template <int kRows, class Number>
inline void put_at_most(const Number* x, Number threshold, bool missing_left, std::uint64_t* to) {
    if constexpr (kRows < 64) {
        *to = at_most<kRows>(x, threshold, missing_left);
    } else {
        typedef decltype(vector_at_most(x, threshold, missing_left)) __attribute__((may_alias)) Part;
        for (int i = 0; i < kRows; i += 64 / sizeof(Number))
            *reinterpret_cast<Part*>(reinterpret_cast<char*>(to) + i / 8) =
                vector_at_most(x + i, threshold, missing_left);
    }
}

// One permutation finds every row's word.
inline constexpr std::size_t kMaxSetWords = 16;
struct SetWords {
    __m512i all;
    explicit SetWords(std::span<const std::uint32_t> words)
        : all(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1U << words.size()) - 1), words.data())) {}
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

inline void add_player(const std::uint32_t* sets, std::uint64_t rows, int player, std::uint32_t* to) {
    const __m512i bit = _mm512_set1_epi32(static_cast<int>(1U << player));
    for (int i = 0; i < 64; i += 16) {
        const __m512i old = _mm512_load_si512(sets + i);
        _mm512_store_si512(to + i, _mm512_mask_or_epi32(old, static_cast<__mmask16>(rows >> i), old, bit));
    }
}
inline std::uint64_t keep(const std::uint64_t* words, std::uint64_t whole, std::uint64_t others, std::uint64_t* to) {
    const __m512i all = _mm512_set1_epi64(static_cast<long long>(others));
    std::uint64_t is_left = 0;
    for (int i = 0; i < 64; i += 8) {
        const __m512i old = _mm512_load_si512(words + i);
        const __m512i kept = _mm512_mask_and_epi64(old, static_cast<__mmask8>(~whole >> i), old, all);
        _mm512_store_si512(to + i, kept);
        is_left |= std::uint64_t{_mm512_test_epi64_mask(kept, kept)} << i;
    }
    return is_left;
}
inline std::size_t list_bits(std::uint64_t bits, std::uint32_t first, std::uint32_t* to) {
    __m512i numbers = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                       _mm512_set1_epi32(static_cast<int>(first)));
    std::size_t n = 0;
    for (int i = 0; i < 64; i += 16, numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16))) {
        const auto which = static_cast<__mmask16>(bits >> i);
        _mm512_storeu_si512(to + n, _mm512_maskz_compress_epi32(which, numbers));
        n += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(which)));
    }
    return n;
}
inline std::size_t list_disjoint(const std::uint32_t* sets, std::size_t n, std::uint32_t other, std::uint32_t* to) {
    const __m512i all = _mm512_set1_epi32(static_cast<int>(other));
    __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    std::size_t n_listed = 0;
    for (std::size_t i = 0; i < n; i += 16, numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(16))) {
        const auto there = static_cast<__mmask16>(n - i >= 16 ? 0xffff : (1U << (n - i)) - 1);
        const __mmask16 which = _mm512_mask_testn_epi32_mask(there, _mm512_load_si512(sets + i), all);
        _mm512_storeu_si512(to + n_listed, _mm512_maskz_compress_epi32(which, numbers));
        n_listed += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(which)));
    }
    return n_listed;
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
