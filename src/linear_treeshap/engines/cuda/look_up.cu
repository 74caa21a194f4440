// Ranks → totals: every row looks its values up in every table of a background, see tables.py.
//
// The answers to a table's questions are the bits of a row's state, and an entry of the table has what the players get
// in that state. A thread has a row, and all go through the same stream of records: {vectors of questions, vectors of
// lanes, where its numbers begin in two words}, the questions, and for each lane the bytes from where the row's values
// begin. Compiled for REAL, the type of the numbers; LIMBS of a total; THREADS of a block, at most.
#include "questions.h"

struct alignas(16) Vector {
    Real x, y, z, w;
};

DEVICE void add(char* phi, unsigned place, Real x) { *(Real*)(phi + place) += x; }

/// A block takes a tile of rows through a span of chunks, and then another one. No thread waits for others: what it
/// reads and writes is its own row's.
KERNEL(look_up, THREADS, const Words* stream, const Int* chunks, const Group* groups, const int* columns,
       const Int* firsts, const Gain* gains, const Span* spans, Int n_spans, const Vector* numbers, const Rank* ranks,
       Int pitch, Int n_tiles, Int* totals, Int n_limb) {
    SHARED(shared);
    for (Int item = BLOCK; item < n_tiles * n_spans; item += N_BLOCKS) {
        const Span span = spans[item % n_spans];
        const Group group = groups[span.group];
        const Int first_row = item / n_spans * N_THREADS;
        const Tile tile(group, shared, N_THREADS);
        EACH_THREAD {
            tile.begin(group, thread, columns, ranks + first_row + thread, pitch);
            char* const phi = tile.phi_of(thread);
            const Rank* const own = tile.ranks_of(thread);
            for (int chunk = span.first_chunk; chunk < span.last_chunk; ++chunk) {
                const Words *record = stream + chunks[chunk], *const end = stream + chunks[chunk + 1];
                KEEP_LOOP
                while (record < end) {
                    const Words head = *record++;
                    State<unsigned> state;
                    for (unsigned i = 0; i < head.x; ++i) {
                        const Words words = *record++;
                        state.read(words.x, own[column_of(words.x)]);
                        state.read(words.y, own[column_of(words.y)]);
                        state.read(words.z, own[column_of(words.z)]);
                        state.read(words.w, own[column_of(words.w)]);
                    }
                    // Entries are whole pairs of vectors.
                    const Vector* const entry =
                        numbers + ((Int)head.z | (Int)head.w << 32) + (Int)state.bits * ((head.y + 1) & ~1u);
                    UNROLL_4
                    for (unsigned i = 0; i < head.y; ++i) {
                        const Vector x = entry[i];
                        const Words places = record[i];
                        add(phi, places.x, x.x);
                        add(phi, places.y, x.y);
                        add(phi, places.z, x.z);
                        add(phi, places.w, x.w);
                    }
                    record += head.y;
                }
                add_gains(phi, 1, gains + firsts[chunk], gains + firsts[chunk + 1], totals + first_row + thread,
                          (unsigned)(8 * pitch), n_limb);
            }
        }
    }
}
