// Ranks → totals: every row meets every background row at the leaves that are in no table, see tables.py.
//
// α are the players of a leaf whose conditions the row fails, β those that a background row fails. Where they do not
// meet, with q = |α|, p = |β| and M(k, l) the moments of the index, each of β gets M(p-1, q) times the leaf's value and
// the background row's weight, and each of α pays M(p, q-1) times these. A block finds β of some background rows for
// all of its threads, which have a row each. Records are {vectors of questions, players, outputs, the first of its
// values}, the questions, and for each player and output the bytes from where the row's values begin.
//
// Compiled for PLAYERS of a leaf, at most; BACKGROUND rows that are met at once; LIMBS of a total; THREADS of a block,
// at most. REAL is double: what is added up is as many numbers as there are background rows.
#include "questions.h"

#if PLAYERS > 32
typedef unsigned long long Mask;
#else
typedef unsigned Mask;
#endif

struct alignas(16) Masks {
    Mask x, y, z, w;
};

/// What a thread knows of its row at a leaf.
struct Row {
    Mask alpha;
    const Real *gain_of, *loss_of;  // by p
    Real loss, gains[PLAYERS];      // of all players of α, and of each of β

    DEVICE void meet(Mask beta, Real weight) {
        if (alpha & beta) return;
        const int p = n_bits(beta);
        const Real gain = weight * gain_of[p];
        loss = fma(weight, loss_of[p], loss);
        UNROLL
        for (int i = 0; i < PLAYERS; ++i) {
            if (beta >> i & 1) gains[i] += gain;
        }
    }
};

/// The players whose conditions a row fails; `rank(word)` is its rank in the column of a question.
template <class RankOf>
DEVICE Mask failed(const Words* questions, unsigned n_vectors, unsigned n_players, const RankOf& rank) {
    State<Mask> state;
    for (unsigned i = 0; i < n_vectors; ++i) {
        const Words words = questions[i];
        state.read(words.x, rank(words.x));
        state.read(words.y, rank(words.y));
        state.read(words.z, rank(words.z));
        state.read(words.w, rank(words.w));
    }
    return ~state.bits & (~(Mask)0 >> (8 * sizeof(Mask) - n_players));
}

/// A block takes a tile of rows through a span of chunks, and then another one. `moments` has M(k, l) at [l + 1][k +
/// 1], rows of n_moments; `background` is (n_columns, background_pitch).
KERNEL(scan, THREADS, const Words* stream, const Int* chunks, const Group* groups, const int* columns,
       const Int* firsts, const Gain* gains, const Span* spans, Int n_spans, const Real* values, const Real* moments,
       Int n_moments, const Rank* background, Int background_pitch, const Real* weights, Int n_background,
       const Rank* ranks, Int pitch, Int n_tiles, Int* totals, Int n_limb) {
    SHARED(shared);
    Real* const met_weights = (Real*)shared;
    Mask* const met = (Mask*)(met_weights + BACKGROUND);
    PER_THREAD(Row, row);
    for (Int item = BLOCK; item < n_tiles * n_spans; item += N_BLOCKS) {
        const Span span = spans[item % n_spans];
        const Group group = groups[span.group];
        const Int first_row = item / n_spans * N_THREADS;
        const Tile tile(group, (char*)(met + BACKGROUND), N_THREADS);
        EACH_THREAD { tile.begin(group, thread, columns, ranks + first_row + thread, pitch); }
        for (int chunk = span.first_chunk; chunk < span.last_chunk; ++chunk) {
            const Words *record = stream + chunks[chunk], *const end = stream + chunks[chunk + 1];
            while (record < end) {
                const Words head = *record++;
                const Words* const questions = record;
                EACH_THREAD {
                    const Rank* const own = tile.ranks_of(thread);
                    Row& my = MINE(row);
                    my.alpha = failed(questions, head.x, head.y, [&](unsigned word) { return own[column_of(word)]; });
                    const int q = n_bits(my.alpha);
                    my.gain_of = moments + (q + 1) * n_moments;
                    my.loss_of = moments + q * n_moments + 1;
                    my.loss = 0;
                    UNROLL
                    for (int i = 0; i < PLAYERS; ++i) my.gains[i] = 0;
                }
                for (Int first = 0; first < n_background; first += BACKGROUND) {
                    const Int rest = n_background - first;
                    const unsigned n = rest < BACKGROUND ? (unsigned)(rest + 3) / 4 * 4 : BACKGROUND;
                    SYNC;  // others may still be meeting those before
                    EACH_THREAD {
                        for (unsigned z = thread; z < n; z += N_THREADS) {
                            const Rank* const its = background + first + z;
                            // There is room in the background up to whole vectors, of no weight.
                            met[z] = failed(questions, head.x, head.y, [&](unsigned word) {
                                return its[columns[group.first_column + column_of(word)] * background_pitch];
                            });
                            met_weights[z] = weights[first + z];
                        }
                    }
                    SYNC;
                    EACH_THREAD {
                        Row& my = MINE(row);
                        for (unsigned z = 0; z < n; z += 4) {
                            const Masks beta = *(const Masks*)(met + z);
                            my.meet(beta.x, met_weights[z]);
                            my.meet(beta.y, met_weights[z + 1]);
                            my.meet(beta.z, met_weights[z + 2]);
                            my.meet(beta.w, met_weights[z + 3]);
                        }
                    }
                }
                const unsigned* const places = (const unsigned*)(questions + head.x);
                EACH_THREAD {
                    const Row& my = MINE(row);
                    char* const phi = tile.phi_of(thread);
                    UNROLL
                    for (int i = 0; i < PLAYERS; ++i) {
                        if ((unsigned)i < head.y) {
                            const Real gain = my.gains[i] - (my.alpha >> i & 1 ? my.loss : 0);
                            for (unsigned o = 0; o < head.z; ++o) {
                                *(Real*)(phi + places[i * head.z + o]) += gain * values[head.w + o];
                            }
                        }
                    }
                }
                record = questions + head.x + (head.y * head.z + 3) / 4;
            }
            EACH_THREAD {
                add_gains(tile.phi_of(thread), 1, gains + firsts[chunk], gains + firsts[chunk + 1],
                          totals + first_row + thread, (unsigned)(8 * pitch), n_limb);
            }
        }
        SYNC;  // before the next tile takes the place of this one's masks
    }
}
