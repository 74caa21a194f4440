// The one header of the kernels: what is CUDA's to say, and the same in plain C++.
//
// A kernel is written as phases: `EACH_THREAD { … }` is what every thread of a block does, `SYNC` waits for all of
// them, and what a thread keeps from phase to phase is `PER_THREAD(type, name)`, read as `MINE(name)`. Under CUDA these
// are the block's threads; in plain C++, which tests compile, they are loops, and the blocks of a grid come one after
// another. The arithmetic is the same to the last bit: nothing is fused but what says `fma`.
//
// All parameters of kernels are eight bytes wide: pointers and `Int`.
#pragma once

typedef long long Int;
typedef unsigned char Rank;

#ifdef __CUDACC__

#define DEVICE __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#define KEEP_LOOP _Pragma("unroll 1")
#define EACH_THREAD for (unsigned thread = threadIdx.x, once = 1; once; once = 0)
#define SYNC __syncthreads()
#define PER_THREAD(type, name) type name
#define MINE(name) name
#define N_THREADS blockDim.x
#define BLOCK ((Int)blockIdx.x)
#define N_BLOCKS ((Int)gridDim.x)
#define SHARED(name) extern __shared__ __align__(16) char name[]
#define KERNEL(name, threads, ...) extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)

/// Begins to copy sixteen bytes to shared memory; `copied` waits for all of a thread's copies.
DEVICE void copy16(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
    *(uint4*)to = *(const uint4*)from;
#endif
}
DEVICE void copied() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
DEVICE unsigned bits(float x) { return __float_as_uint(x); }
DEVICE unsigned bits(double x) { return (unsigned)__double_as_longlong(x); }
DEVICE float from_bits(unsigned x, float) { return __uint_as_float(x); }
DEVICE double from_bits(unsigned x, double) { return __longlong_as_double(x); }
DEVICE int all_bits(float x) { return __float_as_int(x); }
DEVICE Int all_bits(double x) { return __double_as_longlong(x); }
DEVICE Int nearest(float x) { return __float2ll_rn(x); }
DEVICE Int nearest(double x) { return __double2ll_rn(x); }
DEVICE int least(int a, int b) { return min(a, b); }
DEVICE int n_bits(unsigned x) { return __popc(x); }
DEVICE int n_bits(unsigned long long x) { return __popcll(x); }
DEVICE void add_atomically(Int* to, Int x) { atomicAdd((unsigned long long*)to, (unsigned long long)x); }

#else

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

using std::fma;

struct Grid {
    Int block, n_blocks;
    unsigned n_threads;
    char* shared;
};
inline thread_local Grid grid;

#define DEVICE inline
#define UNROLL
#define UNROLL_4
#define KEEP_LOOP
#define EACH_THREAD for (unsigned thread = 0; thread < grid.n_threads; ++thread)
#define SYNC
#define PER_THREAD(type, name) std::vector<type> name(grid.n_threads)
#define MINE(name) name[thread]
#define N_THREADS grid.n_threads
#define BLOCK grid.block
#define N_BLOCKS grid.n_blocks
#define SHARED(name) char* name = grid.shared

DEVICE void copy16(void* to, const void* from) { std::memcpy(to, from, 16); }
DEVICE void copied() {}
DEVICE int all_bits(float x) { return std::bit_cast<int>(x); }
DEVICE Int all_bits(double x) { return std::bit_cast<Int>(x); }
DEVICE unsigned bits(float x) { return (unsigned)all_bits(x); }
DEVICE unsigned bits(double x) { return (unsigned)all_bits(x); }
DEVICE float from_bits(unsigned x, float) { return std::bit_cast<float>(x); }
DEVICE double from_bits(unsigned x, double) { return std::bit_cast<double>((Int)x); }
DEVICE int least(int a, int b) { return a < b ? a : b; }
DEVICE Int nearest(double x) { return (Int)std::nearbyint(x); }
template <class Unsigned>
DEVICE int n_bits(Unsigned x) {
    return std::popcount(x);
}
DEVICE void add_atomically(Int* to, Int x) { *to = (Int)((std::uint64_t)*to + (std::uint64_t)x); }

template <class... P, std::size_t... I>
void call(void (*kernel)(P...), const Int* parameters, std::index_sequence<I...>) {
    kernel((P)parameters[I]...);
}
template <class... P>
void run(void (*kernel)(P...), unsigned n_blocks, unsigned n_threads, Int n_shared, const Int* p) {
    // As many bytes as a launch asks for and no more, so that sanitizers see what a device would not.
    std::vector<std::uint64_t> shared((std::size_t)(n_shared + 15) / 8 + 2);
    char* begin = (char*)shared.data();
    begin += (16 - (std::uintptr_t)begin % 16) % 16;
    for (Int block = 0; block < n_blocks; ++block) {
        grid = {block, n_blocks, n_threads, begin};
        call(kernel, p, std::index_sequence_for<P...>());
    }
}
#define KERNEL(name, threads, ...)                                                                     \
    static void name##_block(__VA_ARGS__);                                                             \
    extern "C" void name(unsigned n_blocks, unsigned n_threads, Int n_shared, const Int* parameters) { \
        run(&name##_block, n_blocks, n_threads, n_shared, parameters);                                 \
    }                                                                                                  \
    static void name##_block(__VA_ARGS__)

#endif
