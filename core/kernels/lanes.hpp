// What rows, or points, are computed in: a quad, a vector, or two of these that take each operation together.
#pragma once

#include <cstdint>

#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

// So that what is read once serves both.
struct Pair {
    Vec first, second;
};
LTS_INLINE Pair operator+(Pair a, Pair b) { return {a.first + b.first, a.second + b.second}; }
LTS_INLINE Pair operator-(Pair a, Pair b) { return {a.first - b.first, a.second - b.second}; }
LTS_INLINE Pair operator*(Pair a, Pair b) { return {a.first * b.first, a.second * b.second}; }
LTS_INLINE Pair operator/(Pair a, Pair b) { return {a.first / b.first, a.second / b.second}; }
LTS_INLINE Pair fma(Pair a, Pair b, Pair c) {
    return {fma(a.first, b.first, c.first), fma(a.second, b.second, c.second)};
}

// all: the same in each lane. Of rows, those whose bit is set: ones has a 1 there, else 0; mask chooses among them.
template <class Lanes>
struct In;
template <>
struct In<Quad> {
    static constexpr int kLanes = 4;
    LTS_INLINE static Quad load(const double* from) { return load_quad(from); }
    LTS_INLINE static void store(double* to, Quad a) { store_quad(to, a); }
    LTS_INLINE static Quad all(double x) { return spread(x); }
};
template <>
struct In<Vec> {
    static constexpr int kLanes = LTS_ISA::kLanes;
    using Mask = LTS_ISA::Mask;
    LTS_INLINE static Vec load(const double* from) { return LTS_ISA::load(from); }
    LTS_INLINE static void store(double* to, Vec a) { LTS_ISA::store(to, a); }
    LTS_INLINE static Vec all(double x) { return broadcast(x); }
    LTS_INLINE static Vec ones(unsigned bits) { return where(mask_of(bits), broadcast(1.0)); }
    LTS_INLINE static Mask mask(unsigned bits) { return mask_of(bits); }
    LTS_INLINE static Vec choose(Mask mask, Vec yes, Vec no) { return select(mask, yes, no); }
};
template <>
struct In<Pair> {
    static constexpr int kLanes = 2 * LTS_ISA::kLanes;
    struct Mask {
        LTS_ISA::Mask first, second;
    };
    LTS_INLINE static Pair load(const double* from) {
        return {LTS_ISA::load(from), LTS_ISA::load(from + LTS_ISA::kLanes)};
    }
    LTS_INLINE static void store(double* to, Pair a) {
        LTS_ISA::store(to, a.first);
        LTS_ISA::store(to + LTS_ISA::kLanes, a.second);
    }
    LTS_INLINE static Pair all(double x) { return {broadcast(x), broadcast(x)}; }
    LTS_INLINE static Pair ones(unsigned bits) { return {In<Vec>::ones(bits), In<Vec>::ones(bits >> LTS_ISA::kLanes)}; }
    LTS_INLINE static Mask mask(unsigned bits) { return {mask_of(bits), mask_of(bits >> LTS_ISA::kLanes)}; }
    LTS_INLINE static Pair choose(const Mask& mask, Pair yes, Pair no) {
        return {select(mask.first, yes.first, no.first), select(mask.second, yes.second, no.second)};
    }
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
