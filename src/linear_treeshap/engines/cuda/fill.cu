// A packed stream → the stream that walk.cu walks, see packed.py.
//
// A thread has a fill: it writes the numbers that follow from a cover, tau, kappa or rho as records.py says, and copies
// what comes after them, up to the next fill. Compiled for REAL, the type of the numbers; POINTS; THREADS of a block,
// each of which has as many fills.
#include "portable.h"

typedef REAL Real;

enum Filling { TAU, TAU_AND_KAPPA, RHO, NOTHING };
enum { WORD_BITS = 28 };

DEVICE Int word_of(unsigned code) { return code & ((1u << WORD_BITS) - 1); }
DEVICE unsigned filling_of(unsigned code) { return code >> WORD_BITS & 3; }
DEVICE unsigned part_of(unsigned code) { return code >> (WORD_BITS + 2); }
DEVICE unsigned size_of(unsigned code) {
    const unsigned filling = filling_of(code);
    return filling == NOTHING ? 0 : filling == TAU_AND_KAPPA ? 2 * POINTS : POINTS;
}

/// `rule` has the points of each part of the rule, and 1 less each of these.
KERNEL(fill, THREADS, const unsigned* codes, const Real* covers, Int n_fills, const unsigned* bases, const Real* packed,
       const double* rule, Real* stream, Int n_words) {
    SHARED(shared);
    unsigned* const sizes = (unsigned*)shared;
    const Int first = BLOCK * N_THREADS;
    EACH_THREAD { sizes[thread] = first + thread < n_fills ? size_of(codes[first + thread]) : 0; }
    SYNC;
    EACH_THREAD {
        const Int number = first + thread;
        if (number < n_fills) {
            const unsigned code = codes[number], filling = filling_of(code), size = sizes[thread];
            const Int word = word_of(code), end = number + 1 < n_fills ? word_of(codes[number + 1]) : n_words;
            const double *const t = rule + part_of(code) * 2 * POINTS, *const absent = t + POINTS;
            const double cover = (double)covers[number];
            Real* const to = stream + word;
            for (unsigned k = 0; k < POINTS && filling != NOTHING; ++k) {
                const double factor = t[k] + absent[k] * cover;
                to[k] = (Real)((filling == RHO ? 1 - cover : t[k]) / factor);
                if (filling == TAU_AND_KAPPA) to[POINTS + k] = (Real)(cover * (1 / factor) * (1 / factor));
            }
            Int n_filled = bases[BLOCK];  // before this one
            for (unsigned other = 0; other < thread; ++other) n_filled += sizes[other];
            const Real* const from = packed + word - n_filled;
            for (Int i = 0; i < end - word - size; ++i) to[size + i] = from[i];
        }
    }
}
