// What kernels that go through a model in the same way share: a block takes a tile of rows, as many as it has threads,
// through a span of chunks, adds up what each row's players get in a floating-point type, and adds that to totals now
// and then.
//
// Totals are whole numbers, (LIMBS, n_outputs, n_players, pitch): sums of them are the same in any order, so bits
// depend neither on how rows are cut into blocks nor on how trees are. The second limb holds what the first one rounds
// off. Compiled for LIMBS, and REAL, the type of what is added up.
#pragma once
#include "portable.h"

typedef REAL Real;

/// Trees, or tables, that share players and columns: how many, and the output that they add to.
struct Group {
    int n_players, first_column, n_columns, output;
};
/// Chunks of a group that one block takes.
struct Span {
    int group, first_chunk, last_chunk;
};
/// A player of a chunk: the bytes from where a row's values begin, and the player itself.
struct alignas(8) Gain {
    int place, player;
};

/// A row's numbers are beside each other, one more for those who get nothing, and the next row's in another bank of
/// shared memory.
struct Tile {
    unsigned phi_pitch, rank_pitch;
    Real* phi;
    Rank* ranks;

    DEVICE Tile(const Group& group, char* room, unsigned n_threads) {
        phi_pitch = (group.n_players + 1) | 1;
        rank_pitch = 4 * ((group.n_columns + 3) / 4 | 1);
        phi = (Real*)room;
        ranks = (Rank*)(phi + phi_pitch * n_threads);
    }
    DEVICE char* phi_of(unsigned thread) const { return (char*)(phi + thread * phi_pitch); }
    DEVICE Rank* ranks_of(unsigned thread) const { return ranks + thread * rank_pitch; }

    /// Reads the ranks of a row, and begins with zeros.
    DEVICE void begin(const Group& group, unsigned thread, const int* columns, const Rank* from, Int pitch) const {
        unsigned* const own = (unsigned*)ranks_of(thread);
        enum { AT_ONCE = 8 };  // so that nobody waits for one after another
        KEEP_LOOP
        for (int c = 0; c < group.n_columns; c += AT_ONCE) {
            unsigned words[AT_ONCE / 4] = {};
            UNROLL
            for (int i = 0; i < AT_ONCE; ++i) {
                const unsigned column = (unsigned)columns[group.first_column + least(c + i, group.n_columns - 1)];
                words[i / 4] |= (unsigned)from[(Int)column * (unsigned)pitch] << 8 * (i % 4);
            }
            own[c / 4] = words[0];
            if (c + 4 < group.n_columns) own[c / 4 + 1] = words[1];
        }
        for (unsigned p = 0; p < phi_pitch; ++p) phi[thread * phi_pitch + p] = 0;
    }
};

/// Begins to copy a piece of a stream to shared memory, all threads of a block together.
DEVICE void copy_piece(char* to, const Real* stream, const Int* cuts, Int piece, unsigned thread, unsigned n_threads) {
    const char *from = (const char*)(stream + cuts[piece]), *end = (const char*)(stream + cuts[piece + 1]);
    for (Int i = 16 * (Int)thread; i < end - from; i += 16 * (Int)n_threads) copy16(to + i, from + i);
}

/// Adds a number to one of the totals.
DEVICE void add_to_total(Int* to, [[maybe_unused]] Int n_limb, Real x) {
    const Int whole = nearest(x);
    // Nobody waits for what is added atomically, as one would for what is there.
    add_atomically(to, whole);
#if LIMBS == 2
    add_atomically(to + n_limb, nearest(((double)x - (double)whole) * 0x1p40));
#endif
}

/// Adds the values of some players, times a power of two, to the totals of a row, and begins again from zero. Several
/// are loaded before the first of them is added.
DEVICE void add_gains(char* phi, Real scale, const Gain* gain, const Gain* last, Int* totals, unsigned pitch_bytes,
                      Int n_limb) {
    enum { AT_ONCE = 8 };  // of which there are whole numbers
    KEEP_LOOP
    for (; gain < last; gain += AT_ONCE) {
        Gain gains[AT_ONCE];
        Real x[AT_ONCE];
        UNROLL
        for (int i = 0; i < AT_ONCE; ++i) gains[i] = gain[i];
        UNROLL
        for (int i = 0; i < AT_ONCE; ++i) x[i] = *(Real*)(phi + gains[i].place);
        UNROLL
        for (int i = 0; i < AT_ONCE; ++i) {
            *(Real*)(phi + gains[i].place) = 0;
            Int* const to = (Int*)((char*)totals + (Int)pitch_bytes * (unsigned)gains[i].player);
            add_to_total(to, n_limb, x[i] * scale);
        }
    }
}
