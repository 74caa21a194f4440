// Any machine (SSE2, NEON, ...): two lanes of the compiler's own vector types; masks are vectors of all-ones or zeros.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/isa.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

inline constexpr int kLanes = 2;

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
inline Vec broadcast(double x) { return {DoubleVector{x, x}}; }
inline Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
inline Vec where(Mask m, Vec yes) { return {(DoubleVector)((IntVector)yes.v & m.m)}; }
inline Vec add_where(Mask m, Vec a, Vec b) { return a + where(m, b); }
#if defined(__aarch64__)  // always has fused operations, and one that selects
inline Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f64(c.v, a.v, b.v)}; }
inline Vec fnma(Vec a, Vec b, Vec c) { return {vfmsq_f64(c.v, a.v, b.v)}; }
inline Vec select(Mask m, Vec yes, Vec no) { return {vbslq_f64((uint64x2_t)m.m, yes.v, no.v)}; }
#else
inline Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
inline Vec fnma(Vec a, Vec b, Vec c) { return {c.v - a.v * b.v}; }
inline Vec select(Mask m, Vec yes, Vec no) {
    return {(DoubleVector)(((IntVector)yes.v & m.m) | ((IntVector)no.v & ~m.m))};
}
#endif

inline constexpr IntVector kMasks[1 << kLanes] = {{0, 0}, {-1, 0}, {0, -1}, {-1, -1}};
inline Mask mask_of(std::uint64_t bits) { return {kMasks[bits & ((1U << kLanes) - 1)]}; }

struct Index {
    IntVector i;
};
inline constexpr std::array<std::uint8_t, 2> kStateBit{1, 2};
inline Index index_of(const std::uint8_t* states) {
    Index out{};
    for (int l = 0; l < kLanes; ++l) out.i[l] = states[l];
    return out;
}
struct Table {
    const double* entry;
    explicit Table(const double* from) : entry(from) {}
    Vec operator[](Index i) const {
        Vec out{};
        for (int l = 0; l < kLanes; ++l) out.v[l] = entry[i.i[l]];
        return out;
    }
};

using Answers = Index;
template <int kBits>
LTS_INLINE Answers answers_of(const std::uint8_t* bytes) {
    return index_of(bytes);
}
template <int kBit>
struct Deltas {
    Vec no, yes;
    Deltas(std::size_t rare_side, Vec ratio)
        : no(broadcast(static_cast<double>(rare_side)) - ratio),
          yes(broadcast(static_cast<double>(1 - rare_side)) - ratio) {}
    Deltas by(Vec x) const {
        Deltas out = *this;
        out.no = no * x;
        out.yes = yes * x;
        return out;
    }
    Vec operator[](const Answers& answers) const { return select({-((answers.i >> kBit) & IntVector{1, 1})}, yes, no); }
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

template <int kColumns = kLanes, class RowAt>
LTS_INLINE std::array<Vec, kColumns> columns(const RowAt& row_at) {
    std::array<Vec, kColumns> out;
    for (std::size_t c = 0; c < kColumns; ++c) out[c].v = DoubleVector{row_at(0)[c], row_at(1)[c]};
    return out;
}

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
template <int kRows, class Number>
inline void put_at_most(const Number* x, Number threshold, bool missing_left, std::uint64_t* to) {
    *to = at_most<kRows>(x, threshold, missing_left);
}

inline constexpr std::size_t kMaxSetWords = std::numeric_limits<std::size_t>::max();
struct SetWords {
    std::span<const std::uint32_t> all;
    explicit SetWords(std::span<const std::uint32_t> words) : all(words) {}
};
template <int kRows, class Number>
inline std::uint64_t in_words(const Number* x, const SetWords& set, bool missing_left) {
    std::uint64_t bits = 0;
    const auto n_codes = static_cast<Number>(32 * set.all.size());
    for (int r = 0; r < kRows; ++r) {
        bool left = x[r] != x[r] && missing_left;
        if (x[r] >= Number(0) && x[r] < n_codes) {
            const auto code = static_cast<std::uint32_t>(x[r]);
            left = ((set.all[code / 32] >> (code % 32)) & 1U) != 0;
        }
        bits |= std::uint64_t{left} << r;
    }
    return bits;
}

inline void add_player(const std::uint32_t* sets, std::uint64_t rows, int player, std::uint32_t* to) {
    for (std::size_t i = 0; i < 64; ++i) to[i] = sets[i] | static_cast<std::uint32_t>((rows >> i) & 1) << player;
}
inline std::uint64_t keep(const std::uint64_t* words, std::uint64_t whole, std::uint64_t others, std::uint64_t* to) {
    std::uint64_t is_left = 0;
    for (std::size_t i = 0; i < 64; ++i) {
        to[i] = words[i] & (others | (0 - ((whole >> i) & 1)));
        is_left |= std::uint64_t{to[i] != 0} << i;
    }
    return is_left;
}
inline std::size_t list_bits(std::uint64_t bits, std::uint32_t first, std::uint32_t* to) {
    std::size_t n = 0;
    for (; bits != 0; bits &= bits - 1) to[n++] = first + static_cast<std::uint32_t>(std::countr_zero(bits));
    return n;
}
inline std::size_t list_disjoint(const std::uint32_t* sets, std::size_t n, std::uint32_t other, std::uint32_t* to) {
    std::size_t n_listed = 0;
    for (std::size_t i = 0; i < n; ++i) {
        to[n_listed] = static_cast<std::uint32_t>(i);
        n_listed += (sets[i] & other) == 0;
    }
    return n_listed;
}

struct Quad {
    Vec half[2];
};
inline Quad load_quad(const double* p) { return {{load(p), load(p + 2)}}; }
inline void store_quad(double* p, Quad a) {
    store(p, a.half[0]);
    store(p + 2, a.half[1]);
}
inline Quad spread(double x) { return {{broadcast(x), broadcast(x)}}; }
inline Quad operator*(Quad a, Quad b) { return {{a.half[0] * b.half[0], a.half[1] * b.half[1]}}; }
inline Quad operator+(Quad a, Quad b) { return {{a.half[0] + b.half[0], a.half[1] + b.half[1]}}; }
inline Quad operator-(Quad a, Quad b) { return {{a.half[0] - b.half[0], a.half[1] - b.half[1]}}; }
inline Quad operator/(Quad a, Quad b) { return {{a.half[0] / b.half[0], a.half[1] / b.half[1]}}; }
inline Quad fma(Quad a, Quad b, Quad c) {
    return {{fma(a.half[0], b.half[0], c.half[0]), fma(a.half[1], b.half[1], c.half[1])}};
}
inline Quad fnma(Quad a, Quad b, Quad c) {
    return {{fnma(a.half[0], b.half[0], c.half[0]), fnma(a.half[1], b.half[1], c.half[1])}};
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
