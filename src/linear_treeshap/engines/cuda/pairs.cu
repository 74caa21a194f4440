// Totals of players and of pairs → matrices: half of each pair in two places, and on the diagonal what is left of a
// player's value.
//
// In: `totals`, (LIMBS, n_outputs, n_players, pitch), and `pairs`, (LIMBS, n_outputs, n_pairs, pitch), see walk.cu;
// `numbers`, (n_players, n_players), the pair of two players or -1. Out: `values`, (n_rows, n_players, n_players,
// n_outputs) of type VALUE; `scales` as in totals.cu.
#include "portable.h"

typedef VALUE Value;

enum { TILE = 32 };

/// A block of TILE × 8 threads writes TILE rows of TILE numbers in a row of the matrices of one output.
KERNEL(pairs_to_values, TILE * 8, const Int* totals, const Int* pairs, const int* numbers, Int n_rows, Int n_players,
       Int n_outputs, Int n_pairs, Int pitch, const double* scales, Value* values) {
    SHARED(shared);
    Value* tile = (Value*)shared;  // (TILE, TILE + 1): neighbours in both directions are in different banks
    const Int n_across = (n_players + TILE - 1) / TILE;
    const Int first_place = BLOCK % n_across * TILE, player = BLOCK / n_across % n_players;
    const Int output = BLOCK / n_across / n_players % n_outputs;
    const Int first_row = BLOCK / n_across / n_players / n_outputs * TILE;
    EACH_THREAD {
        const Int row = first_row + thread % TILE;
        for (unsigned i = thread / TILE; i < TILE; i += N_THREADS / TILE) {
            const Int other = first_place + i;
            if (row < n_rows && other < n_players) {
                const int* own = numbers + player * n_players;
                double x = 0;
                for (Int limb = LIMBS - 1; limb >= 0; --limb) {
                    const Int* of_pairs = pairs + (limb * n_outputs + output) * n_pairs * pitch + row;
                    Int twice = 0;
                    if (other == player) {  // exactly: these are whole numbers
                        twice = 2 * totals[((limb * n_outputs + output) * n_players + player) * pitch + row];
                        for (Int p = 0; p < n_players; ++p) {
                            if (own[p] >= 0) twice -= of_pairs[own[p] * pitch];
                        }
                    } else if (own[other] >= 0) {
                        twice = of_pairs[own[other] * pitch];
                    }
                    x = (limb ? 0x1p-40 : 1.0) * (double)twice + x;
                }
                tile[i * (TILE + 1) + thread % TILE] = (Value)(x * 0.5 * scales[2 * output] * scales[2 * output + 1]);
            }
        }
    }
    SYNC;
    EACH_THREAD {
        const Int other = first_place + thread % TILE;
        for (unsigned i = thread / TILE; i < TILE; i += N_THREADS / TILE) {
            const Int row = first_row + i;
            if (row < n_rows && other < n_players) {
                values[((row * n_players + player) * n_players + other) * n_outputs + output] =
                    tile[thread % TILE * (TILE + 1) + i];
            }
        }
    }
}
