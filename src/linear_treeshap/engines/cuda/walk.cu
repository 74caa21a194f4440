// Ranks → totals: every row walks every tree, once for each point of the index's rule, and adds up its values.
//
// A thread has a row, a block has a tile of them, and all go through the same stream of records, which records.py
// writes and explains. Compiled for: REAL, the type of the walk; POINTS; REGISTER_SLOTS, splits whose state is in
// registers, the others having theirs in `deep`; MASKS, words that hold a bit per slot; LIMBS of a total; SPILLED, if
// what belongs in shared memory is too large for it; THREADS of a block, at most.
//
// With t the probability that another player is present, C the product of the factors of the edges above a node, and G
// the sum over the leaves below it, of values times the factors from there on, a split of a player whose closest edge
// above has a product c of cover ratios (1 if there is none) is
//     tau = t / (t + (1-t) c)                    (t for a new player)
//     d_left = [goes left] - w_left,  d_right = [goes right] - w_right     (0 if the row fails the player's edges
//     above) r_left = w_left + tau d_left,   r_right = w_right + tau d_right      (the factors of the edges) G = r_left
//     G_left + r_right G_right phi += sum over points of kappa C (d_left G_left + d_right G_right),  kappa = c / (t +
//     (1-t) c)^2
// and C starts as the weights of the rule. Neither side is found by subtracting the other one from the whole, so rare
// leaves that are huge are right to the last digits. Below a node whose players are all new, everything is a polynomial
// in t, and C enters by its moments only.
//
// Totals are whole numbers, (LIMBS, n_outputs, n_players, pitch): sums of them are the same in any order, so bits
// depend neither on how rows are cut into blocks nor on how trees are. The second limb holds what the first one rounds
// off.
#include "portable.h"

typedef REAL Real;

enum { STREAM_BYTES = 8192 };  // of one of the two pieces of the stream that are in shared memory

struct alignas(4 * sizeof(Real)) Vector {
    Real x, y, z, w;
};

enum Op {
    END,  // of a piece of the stream
    ROOT,
    DEEP,  // a split whose state is in memory: which of the six that follow, and the slot, are in the head
    LEAF,
    PAIR,
    PAIR_REPEATED,
    TWIG,
    TWIG_SHARED,  // by splits of the same player
    BRANCH,
    BRANCH_SHARED,
    FIRST_OF_SLOTS  // then six for each slot in registers: down, middle and up, each for new and repeated players
};

enum { TAU_VECTORS = (POINTS + 3) / 4 };

/// Where a thread's row is, and the rule.
struct Context {
    Real* phi;          // (players, stride)
    const Rank* ranks;  // (columns, stride)
    unsigned stride;
    Real* deep;  // (slots, 2, POINTS, deep_stride)
    Int deep_stride;
    const Real* weights;
    Real t[POINTS], one_over_t[POINTS];
};

/// What a thread knows of its row on the way through a tree.
struct Lane {
    Real C[POINTS], G[POINTS];
    Real C_above[REGISTER_SLOTS][POINTS], G_left[REGISTER_SLOTS][POINTS];
    unsigned went_left[MASKS], held[MASKS];  // a bit per slot; held: the edges above of the same player
};

DEVICE bool goes_left(const Context& at, unsigned condition) {
    return at.ranks[(condition >> 8) * at.stride] <= (condition & 255);
}

/// Adds to the values of some players. If they are all different, all can be loaded before the first is stored.
template <int N, bool SHARED_BY_SPLITS = false>
DEVICE void add(const Context& at, const unsigned (&players)[N], const Real (&x)[N]) {
    Real sum[N];
    UNROLL
    for (int i = 0; i < N; ++i) {
        if (!SHARED_BY_SPLITS) sum[i] = at.phi[players[i] * at.stride];
    }
    UNROLL
    for (int i = 0; i < N; ++i) {
        if (SHARED_BY_SPLITS) sum[i] = at.phi[players[i] * at.stride];
        at.phi[players[i] * at.stride] = sum[i] + x[i];
    }
}

DEVICE bool bit(const unsigned mask[MASKS], unsigned slot) {
    return mask[MASKS == 1 ? 0 : slot >> 5] >> (slot & 31) & 1;
}

DEVICE void put(unsigned mask[MASKS], unsigned slot, bool is_set) {
    unsigned& word = mask[MASKS == 1 ? 0 : slot >> 5];
    word = (word & ~(1u << (slot & 31))) | (unsigned)is_set << (slot & 31);
}

/// Does the row satisfy the closest edge above of the same player, which leaves the split of a slot on one side?
DEVICE bool holds(const Lane& lane, unsigned edge) {
    const unsigned slot = edge >> 1;
    return bit(lane.held, slot) && bit(lane.went_left, slot) != (edge & 1);
}

/// tau of a split: the points themselves for a new player, else what the record says.
template <bool REPEATED>
DEVICE void read_tau(const Context& at, const Vector* numbers, Real tau[POINTS]) {
    if constexpr (REPEATED) {
        Vector v[TAU_VECTORS];
        UNROLL
        for (int i = 0; i < TAU_VECTORS; ++i) v[i] = numbers[i];
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            tau[k] = k % 4 == 0 ? v[k / 4].x : k % 4 == 1 ? v[k / 4].y : k % 4 == 2 ? v[k / 4].z : v[k / 4].w;
        }
    } else {
        UNROLL
        for (int k = 0; k < POINTS; ++k) tau[k] = at.t[k];
    }
}

/// kappa = c / u / u with u = t + (1-t) c = t / tau: no factor on the way is beyond the numbers there are.
template <bool REPEATED>
DEVICE Real kappa_of(const Context& at, Real tau, Real c, int k) {
    if constexpr (!REPEATED) return 1;
    const Real one_over_u = tau * at.one_over_t[k];
    return c * one_over_u * one_over_u;
}

// -- splits one at a time
// ------------------------------------------------------------------------------------------------

/// The state of a slot: in registers, where the slot is known to the compiler, or in memory.
template <int SLOT>
struct InRegisters {
    Lane& lane;
    DEVICE unsigned slot() const { return SLOT; }
    DEVICE Real C(int k) const { return lane.C_above[SLOT][k]; }
    DEVICE Real G(int k) const { return lane.G_left[SLOT][k]; }
    DEVICE void keep_C(int k, Real x) const { lane.C_above[SLOT][k] = x; }
    DEVICE void keep_G(int k, Real x) const { lane.G_left[SLOT][k] = x; }
};

struct InMemory {
    const Context& at;
    unsigned number;
    DEVICE unsigned slot() const { return number; }
    DEVICE Real* place(int which, int k) const {
        return at.deep + (((Int)(number - REGISTER_SLOTS) * 2 + which) * POINTS + k) * at.deep_stride;
    }
    DEVICE Real C(int k) const { return *place(0, k); }
    DEVICE Real G(int k) const { return *place(1, k); }
    DEVICE void keep_C(int k, Real x) const { *place(0, k) = x; }
    DEVICE void keep_G(int k, Real x) const { *place(1, k) = x; }
};

template <bool REPEATED>
DEVICE Real difference(const Lane& lane, unsigned slot, bool is_right, Real w) {
    const Real d = (bit(lane.went_left, slot) != is_right ? (Real)1 : (Real)0) - w;
    return !REPEATED || bit(lane.held, slot) ? d : (Real)0;
}

/// {op and slot, condition, w_left, edge above}, tau
template <bool REPEATED, class Slot>
DEVICE void down(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Vector head = record[0];
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 1, tau);
    put(lane.held, slot.slot(), !REPEATED || holds(lane, bits(head.w)));
    put(lane.went_left, slot.slot(), goes_left(at, bits(head.y)));
    const Real d = difference<REPEATED>(lane, slot.slot(), false, head.z);
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        slot.keep_C(k, lane.C[k]);
        lane.C[k] *= fma(tau[k], d, head.z);
    }
}

/// {op and slot, -, w_right, -}, tau
template <bool REPEATED, class Slot>
DEVICE void middle(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Real w = record[0].z;
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 1, tau);
    const Real d = difference<REPEATED>(lane, slot.slot(), true, w);
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        slot.keep_G(k, lane.G[k]);
        lane.C[k] = slot.C(k) * fma(tau[k], d, w);
    }
}

/// {op and slot, player, w_left, w_right}, and for a repeated player {c, -, -, -}, tau
template <bool REPEATED, class Slot>
DEVICE void up(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Vector head = record[0];
    const Real c = REPEATED ? record[1].x : (Real)1;
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 2, tau);
    const Real d_left = difference<REPEATED>(lane, slot.slot(), false, head.z);
    const Real d_right = difference<REPEATED>(lane, slot.slot(), true, head.w);
    Real phi = 0;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real left = slot.G(k), right = lane.G[k];
        const Real mean = fma(head.z, left, head.w * right), d = fma(d_left, left, d_right * right);
        phi = fma(slot.C(k) * kappa_of<REPEATED>(at, tau[k], c, k), d, phi);
        lane.G[k] = fma(tau[k], d, mean);
    }
    add(at, {bits(head.y)}, {phi});
}

// -- bottoms
// -------------------------------------------------------------------------------------------------------------

/// A split of two leaves: G = mean + tau D. {op, condition, player, mean}, {D left, D right, edge above, c}, tau
template <bool REPEATED>
DEVICE void pair(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], more = record[1];
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 2, tau);
    Real D = goes_left(at, bits(head.y)) ? more.x : more.y;
    if (REPEATED && !holds(lane, bits(more.z))) D = 0;
    Real sum = 0;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        sum = REPEATED ? fma(lane.C[k], kappa_of<REPEATED>(at, tau[k], more.w, k), sum) : sum + lane.C[k];
        lane.G[k] = fma(tau[k], D, head.w);
    }
    add(at, {bits(head.z)}, {D * sum});
}

/// A split of two pairs, all of new players: G = mean + t first + t² second.
/// {-, condition, player, -}, {w_left, w_right, E left, E right}, and for each pair {condition, player, D left, D
/// right}
struct Twig {
    Real first, second;

    /// In come the moments of C, of degree 0 and 1; out comes what three players get.
    DEVICE void walk(const Context& at, const Vector* record, Real moment0, Real moment1, unsigned players[3],
                     Real phi[3]) {
        const Vector head = record[0], split = record[1], left = record[2], right = record[3];
        const bool goes = goes_left(at, bits(head.y));
        const Real D_left = goes_left(at, bits(left.x)) ? left.z : left.w;
        const Real D_right = goes_left(at, bits(right.x)) ? right.z : right.w;
        const Real mean = fma(split.x, D_left, split.y * D_right), E = goes ? split.z : split.w;
        first = E + mean;
        second = (goes ? D_left : D_right) - mean;
        const Real absent = moment0 - moment1;
        players[0] = bits(head.z), players[1] = bits(left.y), players[2] = bits(right.y);
        phi[0] = fma(moment0, E, moment1 * second);
        phi[1] = D_left * fma(split.x, absent, goes ? moment1 : (Real)0);
        phi[2] = D_right * fma(split.y, absent, goes ? (Real)0 : moment1);
    }
};

/// {op, …} as above; the mean is the fourth number of the head.
template <bool SHARED_BY_SPLITS>
DEVICE void twig(Lane& lane, const Context& at, const Vector* record) {
    Real moment0 = 0, moment1 = 0;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        moment0 += lane.C[k];
        moment1 = fma(lane.C[k], at.t[k], moment1);
    }
    Twig twig;
    unsigned players[3];
    Real phi[3];
    twig.walk(at, record, moment0, moment1, players, phi);
    add<3, SHARED_BY_SPLITS>(at, players, phi);
    const Real mean = record[0].w;
    UNROLL
    for (int k = 0; k < POINTS; ++k) lane.G[k] = fma(at.t[k], fma(at.t[k], twig.second, twig.first), mean);
}

/// A split of two twigs: {op, condition, player, mean}, {w_left, w_right, E left, E right}, and both twigs.
template <bool SHARED_BY_SPLITS>
DEVICE void branch(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], split = record[1];
    const bool goes = goes_left(at, bits(head.y));
    Real m0 = 0, m1 = 0, m2 = 0;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real present = lane.C[k] * at.t[k];
        m0 += lane.C[k];
        m1 += present;
        m2 = fma(present, at.t[k], m2);
    }
    const Real absent0 = m0 - m1, absent1 = m1 - m2;
    const Real left0 = fma(split.x, absent0, goes ? m1 : (Real)0), left1 = fma(split.x, absent1, goes ? m2 : (Real)0);
    const Real right0 = fma(split.y, absent0, goes ? (Real)0 : m1), right1 = fma(split.y, absent1, goes ? (Real)0 : m2);
    Twig left, right;
    unsigned players[7];
    Real phi[7];
    left.walk(at, record + 2, left0, left1, players, phi);
    right.walk(at, record + 6, right0, right1, players + 3, phi + 3);
    const Real mean1 = fma(split.x, left.first, split.y * right.first);
    const Real mean2 = fma(split.x, left.second, split.y * right.second);
    const Real E = goes ? split.z : split.w;
    const Real d1 = (goes ? left.first : right.first) - mean1, d2 = (goes ? left.second : right.second) - mean2;
    players[6] = bits(head.z);
    phi[6] = fma(m0, E, fma(m1, d1, m2 * d2));
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real t = at.t[k];
        lane.G[k] = fma(t, fma(t, fma(t, d2, mean2 + d1), mean1 + E), head.w);
    }
    add<7, SHARED_BY_SPLITS>(at, players, phi);
}

// -- the stream
// ----------------------------------------------------------------------------------------------------------

/// Where the walk is. The head of the next record is read before a record is walked, so that nobody waits for it.
struct Reader {
    const Vector* record;
    unsigned head;

    DEVICE explicit Reader(const Vector* first) : record(first), head(bits(first->x)) {}
    DEVICE unsigned op() const { return head & 255; }
    DEVICE const Vector* pass(int n_vectors) {
        const Vector* passed = record;
        record += n_vectors;
        head = bits(record->x);
        return passed;
    }
};

/// A leaf, or what is walked with all that is below it.
DEVICE void bottom(Lane& lane, const Context& at, Reader& reader) {
    switch (reader.op()) {
        case BRANCH:
            branch<false>(lane, at, reader.pass(10));
            return;
        case BRANCH_SHARED:
            branch<true>(lane, at, reader.pass(10));
            return;
        case TWIG:
            twig<false>(lane, at, reader.pass(4));
            return;
        case TWIG_SHARED:
            twig<true>(lane, at, reader.pass(4));
            return;
        case PAIR:
            pair<false>(lane, at, reader.pass(2));
            return;
        case PAIR_REPEATED:
            pair<true>(lane, at, reader.pass(2 + TAU_VECTORS));
            return;
        default:
            break;
    }
    const Real value = reader.pass(1)->y;
    UNROLL
    for (int k = 0; k < POINTS; ++k) lane.G[k] = value;
}

/// One of the three records of a split.
template <class Slot>
DEVICE void split(Lane& lane, const Context& at, Reader& reader, unsigned which, const Slot slot) {
    switch (which) {
        case 0:
            down<false>(lane, at, reader.pass(1), slot);
            return;
        case 1:
            down<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot);
            return;
        case 2:
            middle<false>(lane, at, reader.pass(1), slot);
            return;
        case 3:
            middle<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot);
            return;
        case 4:
            up<false>(lane, at, reader.pass(1), slot);
            return;
        default:
            up<true>(lane, at, reader.pass(2 + TAU_VECTORS), slot);
            return;
    }
}

/// All records of a piece of the stream. A split of two bottoms, which is slot 0, is walked at once: its bottoms do not
/// come back to the top of the loop, and there is one copy of their code for all.
DEVICE void walk_piece(Lane& lane, const Context& at, const Vector* first) {
    Reader reader(first);
    for (;;) {
        const unsigned op = reader.op();
        switch (op) {
            case END:
                return;
            case ROOT:
                reader.pass(1);
                UNROLL
                for (int k = 0; k < POINTS; ++k) lane.C[k] = at.weights[k];
                continue;
            case DEEP:
                split(lane, at, reader, reader.head >> 8 & 7, InMemory{at, reader.head >> 11});
                continue;
#define SPLIT_CASE(slot, which)                                  \
    case FIRST_OF_SLOTS + 6 * slot + which:                      \
        split(lane, at, reader, which, InRegisters<slot>{lane}); \
        continue;
#define SPLIT_CASES(slot) \
    SPLIT_CASE(slot, 0)   \
    SPLIT_CASE(slot, 1)   \
    SPLIT_CASE(slot, 2)   \
    SPLIT_CASE(slot, 3)   \
    SPLIT_CASE(slot, 4)   \
    SPLIT_CASE(slot, 5)
#if REGISTER_SLOTS > 1
                SPLIT_CASES(1)
#endif
#if REGISTER_SLOTS > 2
                SPLIT_CASES(2)
#endif
#if REGISTER_SLOTS > 3
                SPLIT_CASES(3)
#endif
#if REGISTER_SLOTS > 4
                SPLIT_CASES(4)
#endif
            default:
                break;
        }
        const InRegisters<0> slot{lane};
        if (op == FIRST_OF_SLOTS) down<false>(lane, at, reader.pass(1), slot);
        if (op == FIRST_OF_SLOTS + 1) down<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot);
        // Which bottom this is: 0, of no fork; 1 and 2, the left one of a new and of a repeated player; 3 and 4, the
        // right.
        unsigned which = op >= FIRST_OF_SLOTS ? op - FIRST_OF_SLOTS + 1 : 0;
        KEEP_LOOP
        for (;;) {
            bottom(lane, at, reader);
            if (which == 0) break;
            if (which > 2) {
                if (which == 3) up<false>(lane, at, reader.pass(1), slot);
                if (which == 4) up<true>(lane, at, reader.pass(2 + TAU_VECTORS), slot);
                break;
            }
            if (which == 1) middle<false>(lane, at, reader.pass(1), slot);
            if (which == 2) middle<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot);
            which += 2;
        }
    }
}

/// Trees that share players and columns: their numbers in all, and the output that they add to.
struct Group {
    int first_player, n_players, first_column, n_columns, output;
};
/// Chunks of trees of a group that one block walks.
struct Span {
    int group, first_chunk, last_chunk;
};

DEVICE void copy_piece(char* to, const Real* stream, const Int* cuts, Int piece, unsigned thread, unsigned n_threads) {
    const char *from = (const char*)(stream + cuts[piece]), *end = (const char*)(stream + cuts[piece + 1]);
    for (Int i = 16 * (Int)thread; i < end - from; i += 16 * (Int)n_threads) copy16(to + i, from + i);
}

/// Adds the values of one chunk to the totals, and begins again from zero. `is_alone`: no other block has these rows.
DEVICE void add_to_totals(const Context& at, const Group& group, const int* players, Int n_players, Int row,
                          Int* totals, Int pitch, Int n_limb, Real scale, bool is_alone) {
    UNROLL_4
    for (int p = 0; p < group.n_players; ++p) {
        const Real x = at.phi[p * at.stride] * scale;  // a power of two: exact
        at.phi[p * at.stride] = 0;
        Int* to = totals + (group.output * n_players + players[group.first_player + p]) * pitch + row;
        Int limbs[2] = {nearest(x), 0};
#if LIMBS == 2
        limbs[1] = nearest(((double)x - (double)limbs[0]) * 0x1p40);
#endif
        UNROLL
        for (int limb = 0; limb < LIMBS; ++limb) {
            if (is_alone) {
                to[limb * n_limb] += limbs[limb];
            } else if (x != 0) {
                add_atomically(to + limb * n_limb, limbs[limb]);
            }
        }
    }
}

/// A block takes a tile of rows, as many as it has threads, through a span of chunks, and then another one.
/// `rule` has weights, points, their inverses, and what values are multiplied by; `room` is (blocks, room_bytes) if
/// SPILLED.
KERNEL(walk, THREADS, const Real* stream, const Int* cuts, const Int* pieces, const Group* groups, const Span* spans,
       Int n_spans, const int* players, const int* columns, const Real* rule, const Rank* ranks, Int pitch, Int n_tiles,
       Int* totals, Int n_players, Int n_limb, Real* deep, char* room, Int room_bytes) {
    SHARED(shared);
    char* const buffers = shared;
    char* const tile_room = SPILLED ? room + BLOCK * room_bytes : shared + 2 * STREAM_BYTES;
    const unsigned stride = N_THREADS;
    PER_THREAD(Lane, lane);
    PER_THREAD(Context, at);
    for (Int item = BLOCK; item < n_tiles * n_spans; item += N_BLOCKS) {
        const Span span = spans[item % n_spans];
        const Group group = groups[span.group];
        const Int first_row = item / n_spans * stride;
        Real* const phi = (Real*)tile_room;
        Rank* const tile = (Rank*)(phi + (Int)group.n_players * stride);
        Int piece = pieces[span.first_chunk];
        EACH_THREAD {
            UNROLL_4
            for (int c = 0; c < group.n_columns; ++c) {
                tile[c * stride + thread] = ranks[columns[group.first_column + c] * pitch + first_row + thread];
            }
            for (int p = 0; p < group.n_players; ++p) phi[p * stride + thread] = 0;
            Context& my = MINE(at);
            my.phi = phi + thread;
            my.ranks = tile + thread;
            my.stride = stride;
            my.deep = deep + BLOCK * N_THREADS + thread;
            my.deep_stride = N_BLOCKS * N_THREADS;
            my.weights = rule;
            UNROLL
            for (int k = 0; k < POINTS; ++k) my.t[k] = rule[POINTS + k], my.one_over_t[k] = rule[2 * POINTS + k];
            UNROLL
            for (int m = 0; m < MASKS; ++m) MINE(lane).went_left[m] = MINE(lane).held[m] = 0;
            copy_piece(buffers, stream, cuts, piece, thread, N_THREADS);
            copied();
        }
        SYNC;
        const Int last_piece = pieces[span.last_chunk];
        int chunk = span.first_chunk;
        for (unsigned side = 0; piece < last_piece; ++piece, side ^= 1) {
            const bool ends_chunk = piece + 1 == pieces[chunk + 1];
            EACH_THREAD {
                if (piece + 1 < last_piece) {
                    copy_piece(buffers + (side ^ 1) * STREAM_BYTES, stream, cuts, piece + 1, thread, N_THREADS);
                }
                walk_piece(MINE(lane), MINE(at), (const Vector*)(buffers + side * STREAM_BYTES));
                if (ends_chunk) {
                    add_to_totals(MINE(at), group, players, n_players, first_row + thread, totals, pitch, n_limb,
                                  rule[3 * POINTS], n_spans == 1);
                }
                copied();
            }
            chunk += ends_chunk;
            SYNC;
        }
    }
}
