// Several vectors of rows that take every operation together: a step of a walk is a long chain of operations, each of
// which waits for the one before, and a processor does not look far enough ahead to find those of the next vector.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "model/at.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

template <int W>
struct Many {
    std::array<Vec, W> vector;

    // made(w) is the w-th vector.
    template <class Made>
    LTS_INLINE static Many of(const Made& made) {
        Many out;
        for (int w = 0; w < W; ++w) out.vector[at(w)] = made(w);
        return out;
    }
};
LTS_INLINE Vec vector_of(Vec all, int) { return all; }
template <int W>
LTS_INLINE Vec vector_of(const Many<W>& rows, int w) {
    return rows.vector[at(w)];
}
// Of operands that are one vector, or many: what comes of them.
template <class... Operands>
struct Together {};
template <int W, class... Others>
struct Together<Many<W>, Others...> {
    using Rows = Many<W>;
};
template <class... Others>
struct Together<Vec, Others...> : Together<Others...> {};
template <class... Operands>
using Rows = typename Together<Operands...>::Rows;

template <class A, class B>
LTS_INLINE Rows<A, B> operator+(const A& a, const B& b) {
    return Rows<A, B>::of([&](int w) LTS_INLINED { return vector_of(a, w) + vector_of(b, w); });
}
template <class A, class B>
LTS_INLINE Rows<A, B> operator-(const A& a, const B& b) {
    return Rows<A, B>::of([&](int w) LTS_INLINED { return vector_of(a, w) - vector_of(b, w); });
}
template <class A, class B>
LTS_INLINE Rows<A, B> operator*(const A& a, const B& b) {
    return Rows<A, B>::of([&](int w) LTS_INLINED { return vector_of(a, w) * vector_of(b, w); });
}
template <class A, class B, class C>
LTS_INLINE Rows<A, B, C> fma(const A& a, const B& b, const C& c) {
    return Rows<A, B, C>::of([&](int w) LTS_INLINED { return fma(vector_of(a, w), vector_of(b, w), vector_of(c, w)); });
}
template <class A, class B, class C>
LTS_INLINE Rows<A, B, C> fnma(const A& a, const B& b, const C& c) {
    return Rows<A, B, C>::of([&](int w)
                                 LTS_INLINED { return fnma(vector_of(a, w), vector_of(b, w), vector_of(c, w)); });
}

template <int W>
LTS_INLINE Many<W> load_many(const double* from) {
    return Many<W>::of([&](int w) LTS_INLINED { return load(from + w * kLanes); });
}
template <int W>
LTS_INLINE void store(double* to, const Many<W>& rows) {
    for (int w = 0; w < W; ++w) store(to + w * kLanes, rows.vector[at(w)]);
}

// One of two numbers, or of four, for each row.
template <int W, int kBits>
struct ManyAnswers {
    std::array<Answers, W> vector;

    LTS_INLINE explicit ManyAnswers(const std::uint8_t* bytes) {
        for (int w = 0; w < W; ++w) vector[at(w)] = answers_of<kBits>(bytes + w * kLanes);
    }
    template <int kBit>
    LTS_INLINE Many<W> among(const Either<kBit>& either) const {
        return Many<W>::of([&](int w) LTS_INLINED { return either[vector[at(w)]]; });
    }
};
template <int W>
struct ManyIndices {
    std::array<Index, W> vector;

    LTS_INLINE explicit ManyIndices(const std::uint8_t* bytes) {
        for (int w = 0; w < W; ++w) vector[at(w)] = index_of(bytes + w * kLanes);
    }
    LTS_INLINE Many<W> among(const Table& table) const {
        return Many<W>::of([&](int w) LTS_INLINED { return table[vector[at(w)]]; });
    }
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
