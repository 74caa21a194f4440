// x86-64-v3 and x86-64-v4, feature by feature. Compilers' own ways to ask know some of these features or all,
// depending on their version; the processor's manual is the same for everyone.

#include "kernels/machine.hpp"

#if defined(LTS_X86)

#include <cpuid.h>

#include <cstdint>

namespace linear_treeshap {
namespace {

constexpr std::uint32_t bits(auto... position) { return ((1U << position) | ...); }

struct Machine {
    std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, extended_ecx = 0;
    std::uint32_t kept = 0;  // the registers that the operating system keeps when it changes threads

    Machine() {
        std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
        if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) leaf1_ecx = ecx;
        if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) leaf7_ebx = ebx;
        if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0) extended_ecx = ecx;
        constexpr std::uint32_t may_be_asked = bits(27);  // OSXSAVE
        if ((leaf1_ecx & may_be_asked) != 0) __asm__("xgetbv" : "=a"(kept), "=d"(edx) : "c"(0));
    }
};

constexpr bool all_of(std::uint32_t wanted, std::uint32_t found) { return (found & wanted) == wanted; }

const Machine& machine() {
    static const Machine found;
    return found;
}

}  // namespace

bool has_avx2() {
    // SSE3, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C
    return all_of(bits(0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29), machine().leaf1_ecx) &&
           all_of(bits(3, 5, 8), machine().leaf7_ebx) &&  // BMI1, AVX2, BMI2
           all_of(bits(0, 5), machine().extended_ecx) &&  // LAHF, LZCNT
           all_of(bits(1, 2), machine().kept);            // xmm, ymm
}

bool has_avx512() {
    return has_avx2() && all_of(bits(16, 17, 28, 30, 31), machine().leaf7_ebx) &&  // AVX512F, DQ, CD, BW, VL
           all_of(bits(5, 6, 7), machine().kept);                                  // masks, zmm, registers 16 to 31
}

}  // namespace linear_treeshap

#endif
