// Totals → values: whole numbers become floating-point ones, and columns become rows.
//
// In: `totals`, (LIMBS, n_outputs, n_players, pitch), see walk.cu. Out: `values`, (n_rows, n_players, n_outputs) of
// type VALUE, in the size that the leaves have: times the two powers of two that `scales` has for each output (the
// product of both may be beyond the numbers there are).
#include "portable.h"

typedef VALUE Value;

enum { TILE = 32 };

/// A block of TILE × 8 threads transposes TILE rows of TILE players and outputs.
KERNEL(totals_to_values, TILE * 8, const Int* totals, Int n_rows, Int n_players, Int n_outputs, Int pitch,
       const double* scales, Value* values) {
    SHARED(shared);
    Value* tile = (Value*)shared;  // (TILE, TILE + 1): neighbours in both directions are in different banks
    const Int width = n_players * n_outputs;
    const Int n_across = (width + TILE - 1) / TILE;
    const Int first_row = BLOCK / n_across * TILE, first_place = BLOCK % n_across * TILE;
    EACH_THREAD {
        const Int row = first_row + thread % TILE;
        for (unsigned i = thread / TILE; i < TILE; i += N_THREADS / TILE) {
            const Int place = first_place + i;  // in a row of values
            if (row < n_rows && place < width) {
                const Int output = place % n_outputs, at = (output * n_players + place / n_outputs) * pitch + row;
                double x = (double)totals[at];
#if LIMBS == 2
                x += (double)totals[width * pitch + at] * 0x1p-40;
#endif
                tile[i * (TILE + 1) + thread % TILE] = (Value)(x * scales[2 * output] * scales[2 * output + 1]);
            }
        }
    }
    SYNC;
    EACH_THREAD {
        const Int place = first_place + thread % TILE;
        for (unsigned i = thread / TILE; i < TILE; i += N_THREADS / TILE) {
            if (first_row + i < n_rows && place < width) {
                values[(first_row + i) * width + place] = tile[thread % TILE * (TILE + 1) + i];
            }
        }
    }
}
