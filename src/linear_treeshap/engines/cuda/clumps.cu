// Ranks → totals: every row goes through every clump of leaves, see clumps.py, and adds up its values.
//
// Players that split a clump's leaves apart are its crown, the others above it its stem. With t the probability that
// another player is present, c the product of a player's cover ratios on the way to a leaf, and x = 1 where the row
// satisfies its edges, else 0, its factor is f = (1-t) c + t x. A row needs three things of a clump:
//
//     C = the product of the factors of the stem, and a weight of the rule     (computed)
//
//     G = the sum over leaves of value times the factors of the crown          (looked up)
//
//     M_j = the same, with x_j - c_j in the place of the factor of player j    (looked up)
//
// for each point of the rule: a player of the crown gets the sum over points of C M_j, one of the stem that of
// C G (x_j - c_j) / f_j. An entry of the table has G and M_j for a row's answers to the questions of the crown, the sum
// of whose strides says where it is. Tables take more room than what they are made of, so each call makes them anew
// (`expand`) in memory of its own; `explain` goes through that stream, piece by piece in shared memory.
//
// Compiled for REAL, the type of the numbers; POINTS; LIMBS of a total; THREADS of a block, at most; PIECE_WORDS,
// of a piece of the stream, at most.
#include "tile.h"

enum {
    PIECE_BYTES = PIECE_WORDS * sizeof(Real),  // of one of the two pieces of the stream that are in shared memory
    FACTOR_VECTORS = (POINTS + 3) / 4,
    GAIN_VECTORS = (2 + POINTS + 3) / 4,
    POINT_PAIRS = (POINTS + 1) / 2,
    MAX_CROWN = 8  // players, and columns
};

struct alignas(4 * sizeof(Real)) Vector {
    Real x, y, z, w;
};
struct alignas(2 * sizeof(Real)) Pair {
    Real x, y;
};

/// What a clump is made of: where it is in each list, and how much of it is its own.
struct Clump {
    unsigned first_word, first_condition, first_stem, first_crown, first_column, first_number, first_range;
    unsigned short next;  // words from its record to the next one of the piece; 0 if it is the last one
    unsigned short n_entries, n_leaves;
    unsigned char n_stem_conditions, n_crown_conditions;
    unsigned char n_single, n_stem;  // players of the stem: first those of a single condition
    unsigned char n_crown, n_columns;
};
/// Is a rank in an interval? `more` is of a stem: 1 for the last condition of its player, and twice the player's
/// number; of a crown: the pairs by which a row's entry is further if it is.
struct alignas(8) Condition {
    unsigned short column, low, width, more;
};
/// A column of a crown: how many outcomes it has, and whose it is.
struct Column {
    unsigned char n_outcomes, player;
};
/// The outcomes of a column that a leaf asks for.
struct Range {
    unsigned char low, high;
};

// -- records
// -------------------------------------------------------------------------------------------------------------

/// {next, conditions | single ones << 16 of the stem, conditions | players << 16 of the crown, players of the stem}; C
/// of a row that satisfies all of the stem; its conditions, each {column, -low, width, bit of the player}, whose last
/// one is followed by what C is multiplied by if they are not satisfied, while those that are not the last have no bit;
/// {place, bit, rho …} of its players; the conditions of the crown, a whole number of pairs of them, and the places of
/// its players; and the table.
DEVICE unsigned stem_at() { return 4u * (1 + FACTOR_VECTORS); }
DEVICE unsigned gains_at(const Clump& clump) {
    return stem_at() + 4 * (clump.n_stem_conditions + FACTOR_VECTORS * clump.n_stem);
}
DEVICE unsigned crown_at(const Clump& clump) { return gains_at(clump) + 4 * GAIN_VECTORS * clump.n_stem; }
DEVICE unsigned table_at(const Clump& clump) {
    return crown_at(clump) + 4 * ((clump.n_crown_conditions + 1) / 2 * 2 + (clump.n_crown + 3) / 4);
}
DEVICE unsigned entry_words(const Clump& clump) { return 2 * ((1 + clump.n_crown) * POINT_PAIRS | 1); }

/// A whole number as a word.
DEVICE Real word(unsigned number) { return from_bits(number, Real()); }

DEVICE void write_condition(Real* to, const Condition& condition, unsigned more) {
    to[0] = word(condition.column);
    to[1] = word(0u - condition.low);
    to[2] = word(condition.width);
    to[3] = word(more);
}

/// The numbers of a stem's player.
DEVICE void write_stem(Real* ratio, Real* gain, unsigned bit, double cover, unsigned place, const double* t,
                       const double* absent) {
    gain[0] = word(place);
    gain[1] = word(bit);
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const double satisfied = t[k] + absent[k] * cover;
        ratio[k] = (Real)(absent[k] * cover / satisfied);
        gain[2 + k] = (Real)((1 - cover) / satisfied);
    }
}

/// An entry of a table at one point.
DEVICE void write_entry(Real* entry, const Clump& clump, unsigned number, const Column* columns, const Real* leaf,
                        const Range* range, double t, double absent) {
    unsigned outcomes[MAX_CROWN];
    for (int c = 0; c < clump.n_columns; ++c) {
        outcomes[c] = number % columns[c].n_outcomes;
        number /= columns[c].n_outcomes;
    }
    double G = 0, M[MAX_CROWN] = {};
    for (int i = 0; i < clump.n_leaves; ++i, leaf += 1 + clump.n_crown, range += clump.n_columns) {
        unsigned failed = 0;
        for (int c = 0; c < clump.n_columns; ++c) {
            if (outcomes[c] < range[c].low || outcomes[c] > range[c].high) failed |= 1u << columns[c].player;
        }
        double before[MAX_CROWN], product = (double)leaf[0];
        UNROLL
        for (int j = 0; j < MAX_CROWN; ++j) {
            if (j >= clump.n_crown) break;
            before[j] = product;
            product *= (failed >> j & 1 ? 0 : t) + absent * (double)leaf[1 + j];
        }
        G += product;
        double after = 1;
        UNROLL
        for (int j = MAX_CROWN - 1; j >= 0; --j) {
            if (j >= clump.n_crown) continue;
            const double cover = (double)leaf[1 + j], present = failed >> j & 1 ? 0 : 1;
            M[j] += before[j] * after * (present - cover);
            after *= present * t + absent * cover;
        }
    }
    entry[0] = (Real)G;
    for (int j = 0; j < clump.n_crown; ++j) entry[2 * POINT_PAIRS * (1 + j)] = (Real)M[j];
}

/// A block takes a clump, and then another one. `rule` has weights, points, and 1 less each of these.
KERNEL(expand, THREADS, const Clump* clumps, Int n_clumps, const Condition* conditions, const Real* covers,
       const unsigned short* stem_places, const unsigned short* crown_places, const Column* columns, const Real* leaves,
       const Range* ranges, const double* rule, Real* stream) {
    const double *const weights = rule, *const t = rule + POINTS, *const absent = rule + 2 * POINTS;
    for (Int number = BLOCK; number < n_clumps; number += N_BLOCKS) {
        const Clump clump = clumps[number];
        Real* const record = stream + clump.first_word;
        const Condition* const own = conditions + clump.first_condition;
        const Real* const own_covers = covers + clump.first_stem;
        EACH_THREAD {
            const int first = (int)thread, step = (int)N_THREADS;
            if (first == 0) {
                record[0] = word(clump.next);
                record[1] = word((unsigned)(clump.n_stem_conditions | clump.n_single << 16));
                record[2] = word((unsigned)(clump.n_crown_conditions | clump.n_crown << 16));
                record[3] = word(clump.n_stem);
            }
            for (int k = first; k < POINTS; k += step) {
                double C = weights[k];
                for (int i = 0; i < clump.n_stem; ++i) C *= t[k] + absent[k] * (double)own_covers[i];
                record[4 + k] = (Real)C;
            }
            for (int i = first; i < clump.n_stem_conditions; i += step) {
                const int player = own[i].more >> 1;
                const unsigned bit = own[i].more & 1 ? 1u << player : 0;
                Real* const place = record + stem_at() + 4 * (i + FACTOR_VECTORS * player);
                write_condition(place, own[i], bit);
                if (bit) {
                    write_stem(place + 4, record + gains_at(clump) + 4 * GAIN_VECTORS * player, bit,
                               (double)own_covers[player], stem_places[clump.first_stem + player], t, absent);
                }
            }
            Real* const crown = record + crown_at(clump);
            const int n_conditions = (clump.n_crown_conditions + 1) / 2 * 2;
            for (int i = first; i < n_conditions; i += step) {
                const bool is_there = i < clump.n_crown_conditions;
                const Condition condition = is_there ? own[clump.n_stem_conditions + i] : Condition{0, 0, 255, 0};
                write_condition(crown + 4 * i, condition, condition.more * (unsigned)sizeof(Pair));
            }
            for (int j = first; j < clump.n_crown; j += step) {
                crown[4 * n_conditions + j] = word(crown_places[clump.first_crown + j]);
            }
            for (int task = first; task < clump.n_entries * POINTS; task += step) {
                const int entry = task / POINTS, k = task % POINTS;
                write_entry(record + table_at(clump) + entry_words(clump) * (unsigned)entry + k, clump, (unsigned)entry,
                            columns + clump.first_column, leaves + clump.first_number, ranges + clump.first_range, t[k],
                            absent[k]);
            }
        }
    }
}

// -- rows
// ----------------------------------------------------------------------------------------------------------------

/// Where a thread's row is, and the rule.
struct Context {
    char* phi;
    const Rank* ranks;
    Real rho_of_others[POINTS];  // -1 / (1-t)
};

DEVICE bool is_inside(const Context& at, const Vector& condition) {
    return at.ranks[bits(condition.x)] + bits(condition.y) <= bits(condition.z);
}

/// Numbers from whole vectors.
template <int N>
DEVICE void read(const Vector* vectors, Real (&to)[N]) {
    UNROLL
    for (int k = 0; k < N; k += 4) {
        const Vector v = vectors[k / 4];
        to[k] = v.x;
        if (k + 1 < N) to[k + 1] = v.y;
        if (k + 2 < N) to[k + 2] = v.z;
        if (k + 3 < N) to[k + 3] = v.w;
    }
}

/// Numbers of an entry.
DEVICE void read(const Pair* pairs, Real (&to)[POINTS]) {
    UNROLL
    for (int k = 0; k < POINTS; k += 2) {
        const Pair pair = pairs[k / 2];
        to[k] = pair.x;
        if (k + 1 < POINTS) to[k + 1] = pair.y;
    }
}

DEVICE Real dot(const Real (&a)[POINTS], const Real* b) {
    Real sum = a[0] * b[0];
    UNROLL
    for (int k = 1; k < POINTS; ++k) sum = fma(a[k], b[k], sum);
    return sum;
}

/// Players of a stem whose edges are one condition: C, and those who satisfy it.
template <int N>
DEVICE void single(const Context& at, const Vector* from, Real (&C)[POINTS], unsigned& satisfied) {
    UNROLL
    for (int i = 0; i < N; ++i, from += 1 + FACTOR_VECTORS) {
        const Vector condition = from[0];
        Real ratio[POINTS];
        read(from + 1, ratio);
        if (is_inside(at, condition)) {
            satisfied |= bits(condition.w);
        } else {
            UNROLL
            for (int k = 0; k < POINTS; ++k) C[k] *= ratio[k];
        }
    }
}

/// What some players of a stem get, who are different ones.
template <int N>
DEVICE void gain_of_stem(const Context& at, const Vector* gains, const Real (&all)[POINTS], Real of_others,
                         unsigned satisfied) {
    Real *places[N], sums[N];
    UNROLL
    for (int i = 0; i < N; ++i) {
        Real numbers[2 + POINTS];
        read(gains + i * GAIN_VECTORS, numbers);
        places[i] = (Real*)(at.phi + bits(numbers[0]));
        sums[i] = *places[i] + (satisfied & bits(numbers[1]) ? dot(all, numbers + 2) : of_others);
    }
    UNROLL
    for (int i = 0; i < N; ++i) *places[i] = sums[i];
}

/// What some players of a crown get, who are different ones.
template <int N>
DEVICE void gain_of_crown(const Context& at, const Real* of_players, const Pair* numbers, const Real (&C)[POINTS]) {
    Real *places[N], sums[N];
    UNROLL
    for (int i = 0; i < N; ++i) {
        Real M[POINTS];
        read(numbers + i * POINT_PAIRS, M);
        places[i] = (Real*)(at.phi + bits(of_players[i]));
        sums[i] = *places[i] + dot(C, M);
    }
    UNROLL
    for (int i = 0; i < N; ++i) *places[i] = sums[i];
}

/// All clumps of a piece of the stream.
DEVICE void explain_piece(const Context& at, const Real* piece) {
    for (;;) {
        const Vector* from = (const Vector*)piece;
        const Vector head = *from++;
        const unsigned n_single = bits(head.y) >> 16, n_conditions = bits(head.y) & 0xffff, n_stem = bits(head.w);
        const unsigned n_crown_conditions = bits(head.z) & 0xffff, n_crown = bits(head.z) >> 16;
        Real C[POINTS];
        read(from, C);
        from += FACTOR_VECTORS;
        unsigned satisfied = 0, i = 0;
        KEEP_LOOP
        for (; i + 1 < n_single; i += 2, from += 2 * (1 + FACTOR_VECTORS)) single<2>(at, from, C, satisfied);
        if (i < n_single) {
            single<1>(at, from, C, satisfied);
            from += 1 + FACTOR_VECTORS;
        }
        bool holds = true;
        KEEP_LOOP
        for (i = n_single; i < n_conditions; ++i) {
            const Vector condition = *from++;
            holds = holds && is_inside(at, condition);
            if (bits(condition.w)) {
                Real ratio[POINTS];
                read(from, ratio);
                from += FACTOR_VECTORS;
                UNROLL
                for (int k = 0; k < POINTS; ++k) C[k] *= holds ? (Real)1 : ratio[k];
                satisfied |= holds ? bits(condition.w) : 0;
                holds = true;
            }
        }
        const Vector* gains = from;
        from += GAIN_VECTORS * n_stem;
        unsigned entry = 0;
        KEEP_LOOP
        for (i = 0; i < n_crown_conditions; i += 2, from += 2) {
            const Vector one = from[0], other = from[1];
            if (is_inside(at, one)) entry += bits(one.w);
            if (is_inside(at, other)) entry += bits(other.w);
        }
        const Real* of_players = (const Real*)from;
        const Pair* numbers = (const Pair*)((const char*)(from + (n_crown + 3) / 4) + entry);
        Real all[POINTS], of_others = 0;
        read(numbers, all);
        numbers += POINT_PAIRS;
        unsigned j = 0;
        KEEP_LOOP
        for (; j + 1 < n_crown; j += 2) gain_of_crown<2>(at, of_players + j, numbers + j * POINT_PAIRS, C);
        if (j < n_crown) gain_of_crown<1>(at, of_players + j, numbers + j * POINT_PAIRS, C);
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            all[k] *= C[k];
            of_others = fma(all[k], at.rho_of_others[k], of_others);
        }
        KEEP_LOOP
        for (i = 0; i + 1 < n_stem; i += 2, gains += 2 * GAIN_VECTORS) {
            gain_of_stem<2>(at, gains, all, of_others, satisfied);
        }
        if (i < n_stem) gain_of_stem<1>(at, gains, all, of_others, satisfied);
        const unsigned next = bits(head.x);
        if (next == 0) return;
        piece += next;
    }
}

/// A block takes a tile of rows, as many as it has threads, through a span of chunks, and then another one. `rule` has
/// -1 / (1 - t), and what values are multiplied by.
KERNEL(explain, THREADS, const Int* cuts, const Int* pieces, const Group* groups, const int* columns, const Int* firsts,
       const Gain* gains, const Real* rule, const Real* stream, const Span* spans, Int n_spans, const Rank* ranks,
       Int pitch, Int n_tiles, Int* totals, Int n_players, Int n_limb) {
    SHARED(shared);
    PER_THREAD(Context, at);
    for (Int item = BLOCK; item < n_tiles * n_spans; item += N_BLOCKS) {
        const Span span = spans[item % n_spans];
        const Group group = groups[span.group];
        const Int first_row = item / n_spans * N_THREADS;
        const Tile tile(group, shared + 2 * PIECE_BYTES, N_THREADS);
        Int* const group_totals = totals + group.output * n_players * pitch + first_row;
        Int piece = pieces[span.first_chunk];
        EACH_THREAD {
            tile.begin(group, thread, columns, ranks + first_row + thread, pitch);
            Context& my = MINE(at);
            my.phi = tile.phi_of(thread);
            my.ranks = tile.ranks_of(thread);
            UNROLL
            for (int k = 0; k < POINTS; ++k) my.rho_of_others[k] = rule[k];
            copy_piece(shared, stream, cuts, piece, thread, N_THREADS);
            copied();
        }
        SYNC;
        const Int last_piece = pieces[span.last_chunk];
        int chunk = span.first_chunk;
        for (unsigned side = 0; piece < last_piece; ++piece, side ^= 1) {
            const bool ends_chunk = piece + 1 == pieces[chunk + 1];
            EACH_THREAD {
                if (piece + 1 < last_piece) {
                    copy_piece(shared + (side ^ 1) * PIECE_BYTES, stream, cuts, piece + 1, thread, N_THREADS);
                }
                explain_piece(MINE(at), (const Real*)(shared + side * PIECE_BYTES));
                if (ends_chunk) {
                    add_gains(MINE(at).phi, rule[POINTS], gains + firsts[chunk], gains + firsts[chunk + 1],
                              group_totals + thread, (unsigned)(8 * pitch), n_limb);
                }
                copied();
            }
            chunk += ends_chunk;
            SYNC;
        }
    }
}
