// Ranks → totals: every row walks every tree, once for each point of the index's rule, and adds up its values.
//
// A thread has ROWS rows, a block has a tile of them, and all go through the same stream of records, which records.py
// writes and explains. Compiled for: REAL, the type of the walk; POINTS; ROWS of a thread; REGISTER_SLOTS, splits whose
// state is in registers, the others having theirs in `deep`; MASKS, words that hold a bit per slot; LIMBS of a total;
// SPILLED, if what belongs in shared memory is too large for it.
//
// With t the probability that another player is present, C the product of the factors of the edges above a node, and G
// the sum over the leaves below it, of values times the factors from there on, a split of a player whose closest edge
// above has a product c of cover ratios (1 if there is none) is
//     tau = t / (t + (1-t) c)                    (t for a new player)
//     d_left = [goes left] - w_left,  d_right = [goes right] - w_right     (0 if the row fails the player's edges above)
//     r_left = w_left + tau d_left,   r_right = w_right + tau d_right      (the factors of the edges)
//     G = r_left G_left + r_right G_right
//     phi += sum over points of kappa C (d_left G_left + d_right G_right),  kappa = c / (t + (1-t) c)^2
// and C starts as the weights of the rule. Neither a cover ratio nor its complement is ever subtracted from one, so rare
// leaves that are huge are right to the last digits. Below a node whose players are all new, everything is a polynomial
// in t, and C enters by its moments only.
//
// Totals are whole numbers, (LIMBS, n_outputs, n_players, pitch): sums of them are the same in any order, so bits depend
// neither on how rows are cut into blocks nor on how trees are. The second limb holds what the first one rounds off.
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

/// Numbers of a thread's rows that are loaded and stored at once.
template <class T> struct alignas(ROWS * sizeof(T)) OfRows {
    T of[ROWS];
};

/// Where a thread's rows are, and the rule.
struct Context {
    Real* phi;          // (players, stride), of the thread's first row
    const Rank* ranks;  // (columns, stride)
    unsigned stride;
    Real* deep;  // (slots, 2, ROWS, POINTS, deep_stride)
    Int deep_stride;
    const Real* weights;
    Real t[POINTS], one_over_t[POINTS];
};

/// What a thread knows of its rows on the way through a tree.
struct Lane {
    Real C[ROWS][POINTS], G[ROWS][POINTS];
    Real C_above[REGISTER_SLOTS][ROWS][POINTS], G_left[REGISTER_SLOTS][ROWS][POINTS];
    unsigned went_left[ROWS][MASKS], held[ROWS][MASKS];  // a bit per slot; held: the edges above of the same player
};

DEVICE void read_ranks(const Context& at, unsigned condition, bool goes_left[ROWS]) {
    const OfRows<Rank> ranks = *(const OfRows<Rank>*)(at.ranks + (condition >> 8) * at.stride);
    UNROLL
    for (int r = 0; r < ROWS; ++r) goes_left[r] = ranks.of[r] <= (condition & 255);
}

/// Adds to the values of some players. If they are all different, all can be loaded before the first is stored.
template <int N, bool SHARED_BY_SPLITS = false>
DEVICE void add(const Context& at, const unsigned (&players)[N], const OfRows<Real> (&x)[N]) {
    OfRows<Real> sum[N];
    UNROLL
    for (int i = 0; i < N; ++i) {
        if (!SHARED_BY_SPLITS) sum[i] = *(const OfRows<Real>*)(at.phi + players[i] * at.stride);
    }
    UNROLL
    for (int i = 0; i < N; ++i) {
        OfRows<Real>& phi = *(OfRows<Real>*)(at.phi + players[i] * at.stride);
        if (SHARED_BY_SPLITS) sum[i] = phi;
        UNROLL
        for (int r = 0; r < ROWS; ++r) sum[i].of[r] += x[i].of[r];
        phi = sum[i];
    }
}

DEVICE bool bit(const unsigned mask[MASKS], unsigned slot) { return mask[MASKS == 1 ? 0 : slot >> 5] >> (slot & 31) & 1; }

DEVICE void put(unsigned mask[MASKS], unsigned slot, bool is_set) {
    unsigned& word = mask[MASKS == 1 ? 0 : slot >> 5];
    word = (word & ~(1u << (slot & 31))) | (unsigned)is_set << (slot & 31);
}

/// Does the row satisfy the closest edge above of the same player, which leaves the split of a slot on one side?
DEVICE bool holds(const Lane& lane, int r, unsigned edge) {
    const unsigned slot = edge >> 1;
    return bit(lane.held[r], slot) && bit(lane.went_left[r], slot) != (edge & 1);
}

/// tau of a split: the points themselves for a new player, else what the record says.
template <bool REPEATED> DEVICE void read_tau(const Context& at, const Vector* numbers, Real tau[POINTS]) {
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

/// kappa = (c / u) / u with u = t / tau = t + (1-t) c: neither factor is beyond the numbers there are, nor the product.
template <bool REPEATED> DEVICE Real kappa_of(const Context& at, Real tau, Real c, int k) {
    if constexpr (!REPEATED) return 1;
    const Real one_over_u = tau * at.one_over_t[k];
    return c * one_over_u * one_over_u;
}

// -- splits one at a time ------------------------------------------------------------------------------------------------

/// The state of a slot: in registers, where the slot is known to the compiler, or in memory.
template <int SLOT> struct InRegisters {
    Lane& lane;
    DEVICE unsigned slot() const { return SLOT; }
    DEVICE Real C(int r, int k) const { return lane.C_above[SLOT][r][k]; }
    DEVICE Real G(int r, int k) const { return lane.G_left[SLOT][r][k]; }
    DEVICE void keep_C(int r, int k, Real x) const { lane.C_above[SLOT][r][k] = x; }
    DEVICE void keep_G(int r, int k, Real x) const { lane.G_left[SLOT][r][k] = x; }
};

struct InMemory {
    const Context& at;
    unsigned number;
    DEVICE unsigned slot() const { return number; }
    DEVICE Real* place(int which, int r, int k) const {
        const Int slots = number - REGISTER_SLOTS;
        return at.deep + (((slots * 2 + which) * ROWS + r) * POINTS + k) * at.deep_stride;
    }
    DEVICE Real C(int r, int k) const { return *place(0, r, k); }
    DEVICE Real G(int r, int k) const { return *place(1, r, k); }
    DEVICE void keep_C(int r, int k, Real x) const { *place(0, r, k) = x; }
    DEVICE void keep_G(int r, int k, Real x) const { *place(1, r, k) = x; }
};

template <bool REPEATED> DEVICE Real difference(const Lane& lane, int r, unsigned slot, bool is_right, Real w) {
    const Real d = (bit(lane.went_left[r], slot) != is_right ? (Real)1 : (Real)0) - w;
    return !REPEATED || bit(lane.held[r], slot) ? d : (Real)0;
}

/// {op and slot, condition, w_left, edge above}, tau
template <bool REPEATED, class Slot>
DEVICE void down(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Vector head = record[0];
    bool goes_left[ROWS];
    read_ranks(at, bits(head.y), goes_left);
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 1, tau);
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        put(lane.held[r], slot.slot(), !REPEATED || holds(lane, r, bits(head.w)));
        put(lane.went_left[r], slot.slot(), goes_left[r]);
        const Real d = difference<REPEATED>(lane, r, slot.slot(), false, head.z);
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            slot.keep_C(r, k, lane.C[r][k]);
            lane.C[r][k] *= fma(tau[k], d, head.z);
        }
    }
}

/// {op and slot, -, w_right, -}, tau
template <bool REPEATED, class Slot>
DEVICE void middle(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Real w = record[0].z;
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 1, tau);
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        const Real d = difference<REPEATED>(lane, r, slot.slot(), true, w);
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            slot.keep_G(r, k, lane.G[r][k]);
            lane.C[r][k] = slot.C(r, k) * fma(tau[k], d, w);
        }
    }
}

/// {op and slot, player, w_left, w_right}, and for a repeated player {c, -, -, -}, tau
template <bool REPEATED, class Slot> DEVICE void up(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Vector head = record[0];
    const Real c = REPEATED ? record[1].x : (Real)1;
    Real tau[POINTS];
    OfRows<Real> phi[1];
    read_tau<REPEATED>(at, record + 2, tau);
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        const Real d_left = difference<REPEATED>(lane, r, slot.slot(), false, head.z);
        const Real d_right = difference<REPEATED>(lane, r, slot.slot(), true, head.w);
        Real sum = 0;
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            const Real left = slot.G(r, k), right = lane.G[r][k];
            const Real mean = fma(head.z, left, head.w * right), d = fma(d_left, left, d_right * right);
            sum = fma(slot.C(r, k) * kappa_of<REPEATED>(at, tau[k], c, k), d, sum);
            lane.G[r][k] = fma(tau[k], d, mean);
        }
        phi[0].of[r] = sum;
    }
    add(at, {bits(head.y)}, phi);
}

// -- bottoms -------------------------------------------------------------------------------------------------------------

/// A split of two leaves: G = mean + tau D. {op, condition, player, mean}, {D left, D right, edge above, c}, tau
template <bool REPEATED> DEVICE void pair(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], more = record[1];
    bool goes_left[ROWS];
    read_ranks(at, bits(head.y), goes_left);
    Real tau[POINTS];
    OfRows<Real> phi[1];
    read_tau<REPEATED>(at, record + 2, tau);
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        Real D = goes_left[r] ? more.x : more.y;
        if (REPEATED && !holds(lane, r, bits(more.z))) D = 0;
        Real sum = 0;
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            sum = REPEATED ? fma(lane.C[r][k], kappa_of<REPEATED>(at, tau[k], more.w, k), sum) : sum + lane.C[r][k];
            lane.G[r][k] = fma(tau[k], D, head.w);
        }
        phi[0].of[r] = D * sum;
    }
    add(at, {bits(head.z)}, phi);
}

/// A split of two pairs, all of new players: G = mean + t first + t² second.
/// {-, condition, player, -}, {w_left, w_right, E left, E right}, and for each pair {condition, player, D left, D right}
struct Twig {
    Real E[ROWS], first[ROWS], second[ROWS];

    /// In come the moments of C, of degree 0 and 1, for each row; out come what three players get.
    DEVICE void walk(const Context& at, const Vector* record, const Real moment0[ROWS], const Real moment1[ROWS],
                     unsigned players[3], OfRows<Real> phi[3]) {
        const Vector head = record[0], split = record[1], left = record[2], right = record[3];
        bool goes[ROWS], left_goes[ROWS], right_goes[ROWS];
        read_ranks(at, bits(head.y), goes);
        read_ranks(at, bits(left.x), left_goes);
        read_ranks(at, bits(right.x), right_goes);
        players[0] = bits(head.z), players[1] = bits(left.y), players[2] = bits(right.y);
        UNROLL
        for (int r = 0; r < ROWS; ++r) {
            const Real D_left = left_goes[r] ? left.z : left.w, D_right = right_goes[r] ? right.z : right.w;
            const Real mean = fma(split.x, D_left, split.y * D_right);
            E[r] = goes[r] ? split.z : split.w;
            first[r] = E[r] + mean;
            second[r] = (goes[r] ? D_left : D_right) - mean;
            const Real absent = moment0[r] - moment1[r];
            phi[0].of[r] = fma(moment0[r], E[r], moment1[r] * second[r]);
            phi[1].of[r] = D_left * fma(split.x, absent, goes[r] ? moment1[r] : (Real)0);
            phi[2].of[r] = D_right * fma(split.y, absent, goes[r] ? (Real)0 : moment1[r]);
        }
    }
};

/// {op, …} as above; the mean is the fourth number of the head.
template <bool SHARED_BY_SPLITS> DEVICE void twig(Lane& lane, const Context& at, const Vector* record) {
    Real moment0[ROWS], moment1[ROWS];
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        moment0[r] = moment1[r] = 0;
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            moment0[r] += lane.C[r][k];
            moment1[r] = fma(lane.C[r][k], at.t[k], moment1[r]);
        }
    }
    Twig twig;
    unsigned players[3];
    OfRows<Real> phi[3];
    twig.walk(at, record, moment0, moment1, players, phi);
    add<3, SHARED_BY_SPLITS>(at, players, phi);
    const Real mean = record[0].w;
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            lane.G[r][k] = fma(at.t[k], fma(at.t[k], twig.second[r], twig.first[r]), mean);
        }
    }
}

/// A split of two twigs: {op, condition, player, mean}, {w_left, w_right, E left, E right}, and both twigs.
template <bool SHARED_BY_SPLITS> DEVICE void branch(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], split = record[1];
    bool goes[ROWS];
    read_ranks(at, bits(head.y), goes);
    Real m0[ROWS], m1[ROWS], m2[ROWS];
    Real left0[ROWS], left1[ROWS], right0[ROWS], right1[ROWS];  // moments on either side
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        m0[r] = m1[r] = m2[r] = 0;
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            const Real present = lane.C[r][k] * at.t[k];
            m0[r] += lane.C[r][k];
            m1[r] += present;
            m2[r] = fma(present, at.t[k], m2[r]);
        }
        const Real absent0 = m0[r] - m1[r], absent1 = m1[r] - m2[r];
        left0[r] = fma(split.x, absent0, goes[r] ? m1[r] : (Real)0);
        left1[r] = fma(split.x, absent1, goes[r] ? m2[r] : (Real)0);
        right0[r] = fma(split.y, absent0, goes[r] ? (Real)0 : m1[r]);
        right1[r] = fma(split.y, absent1, goes[r] ? (Real)0 : m2[r]);
    }
    Twig left, right;
    unsigned players[7];
    OfRows<Real> phi[7];
    left.walk(at, record + 2, left0, left1, players, phi);
    right.walk(at, record + 6, right0, right1, players + 3, phi + 3);
    players[6] = bits(head.z);
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        const Real mean1 = fma(split.x, left.first[r], split.y * right.first[r]);
        const Real mean2 = fma(split.x, left.second[r], split.y * right.second[r]);
        const Real E = goes[r] ? split.z : split.w;
        const Real d1 = (goes[r] ? left.first[r] : right.first[r]) - mean1;
        const Real d2 = (goes[r] ? left.second[r] : right.second[r]) - mean2;
        phi[6].of[r] = fma(m0[r], E, fma(m1[r], d1, m2[r] * d2));
        UNROLL
        for (int k = 0; k < POINTS; ++k) {
            const Real t = at.t[k];
            lane.G[r][k] = fma(t, fma(t, fma(t, d2, mean2 + d1), mean1 + E), head.w);
        }
    }
    add<7, SHARED_BY_SPLITS>(at, players, phi);
}

// -- the stream ----------------------------------------------------------------------------------------------------------

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
    case BRANCH: branch<false>(lane, at, reader.pass(10)); return;
    case BRANCH_SHARED: branch<true>(lane, at, reader.pass(10)); return;
    case TWIG: twig<false>(lane, at, reader.pass(4)); return;
    case TWIG_SHARED: twig<true>(lane, at, reader.pass(4)); return;
    case PAIR: pair<false>(lane, at, reader.pass(2)); return;
    case PAIR_REPEATED: pair<true>(lane, at, reader.pass(2 + TAU_VECTORS)); return;
    default: break;
    }
    const Real value = reader.pass(1)->y;
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        UNROLL
        for (int k = 0; k < POINTS; ++k) lane.G[r][k] = value;
    }
}

/// One of the three records of a split.
template <class Slot>
DEVICE void split(Lane& lane, const Context& at, Reader& reader, unsigned which, const Slot slot) {
    switch (which) {
    case 0: down<false>(lane, at, reader.pass(1), slot); return;
    case 1: down<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot); return;
    case 2: middle<false>(lane, at, reader.pass(1), slot); return;
    case 3: middle<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot); return;
    case 4: up<false>(lane, at, reader.pass(1), slot); return;
    default: up<true>(lane, at, reader.pass(2 + TAU_VECTORS), slot); return;
    }
}

/// All records of a piece of the stream. A split of two bottoms, which is slot 0, is walked at once: its bottoms do not
/// come back to the top of the loop, and there is one copy of their code for all.
DEVICE void walk_piece(Lane& lane, const Context& at, const Vector* first) {
    Reader reader(first);
    for (;;) {
        const unsigned op = reader.op();
        switch (op) {
        case END: return;
        case ROOT:
            reader.pass(1);
            UNROLL
            for (int r = 0; r < ROWS; ++r) {
                UNROLL
                for (int k = 0; k < POINTS; ++k) lane.C[r][k] = at.weights[k];
            }
            continue;
        case DEEP: split(lane, at, reader, reader.head >> 8 & 7, InMemory{at, reader.head >> 11}); continue;
#define SPLIT_CASE(slot, which)                                                                                        \
    case FIRST_OF_SLOTS + 6 * slot + which: split(lane, at, reader, which, InRegisters<slot>{lane}); continue;
#define SPLIT_CASES(slot)                                                                                              \
    SPLIT_CASE(slot, 0)                                                                                                \
    SPLIT_CASE(slot, 1)                                                                                                \
    SPLIT_CASE(slot, 2)                                                                                                \
    SPLIT_CASE(slot, 3)                                                                                                \
    SPLIT_CASE(slot, 4)                                                                                                \
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
        default: break;
        }
        const InRegisters<0> slot{lane};
        const bool is_fork = op == FIRST_OF_SLOTS || op == FIRST_OF_SLOTS + 1, is_repeated = op != FIRST_OF_SLOTS;
        if (is_fork) split(lane, at, reader, is_repeated, slot);
        KEEP_LOOP
        for (int side = 0;; ++side) {
            bottom(lane, at, reader);
            if (!is_fork) break;
            split(lane, at, reader, 2 + 2 * side + is_repeated, slot);
            if (side) break;
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

/// Adds the values of one chunk to the totals, and begins again from zero.
template <bool IS_ALONE>
DEVICE void add_to_totals(const Context& at, const Group& group, const int* players, Int n_players, Int row, Int* totals,
                          Int pitch, Int n_limb, double scale) {
    UNROLL_4
    for (int p = 0; p < group.n_players; ++p) {
        OfRows<Real>& phi = *(OfRows<Real>*)(at.phi + p * at.stride);
        const OfRows<Real> sum = phi;
        phi = {};
        Int* to = totals + (group.output * n_players + players[group.first_player + p]) * pitch + row;
        UNROLL
        for (int r = 0; r < ROWS; ++r) {
            const double x = (double)sum.of[r] * scale;
            Int limbs[2] = {nearest(x), 0};
#if LIMBS == 2
            limbs[1] = nearest((x - (double)limbs[0]) * 0x1p40);
#endif
            UNROLL
            for (int limb = 0; limb < LIMBS; ++limb) {
                if (IS_ALONE) {
                    to[limb * n_limb + r] += limbs[limb];
                } else if (x != 0) {
                    add_atomically(to + limb * n_limb + r, limbs[limb]);
                }
            }
        }
    }
}

/// A block takes a tile of rows, as many as it has threads times ROWS, through a span of chunks, and then another.
/// `rule` has weights, points and their inverses; `room` is (blocks, room_bytes) if SPILLED.
KERNEL(walk, THREADS, const Real* stream, const Int* cuts, const Int* pieces, const Group* groups, const Span* spans,
       Int n_spans, const int* players, const int* columns, const Real* rule, const double* scale, const Rank* ranks,
       Int pitch, Int n_tiles, Int* totals, Int n_players, Int n_limb, Real* deep, char* room, Int room_bytes) {
    SHARED(shared);
    char* const buffers = shared;
    char* const tile_room = SPILLED ? room + BLOCK * room_bytes : shared + 2 * STREAM_BYTES;
    const unsigned stride = N_THREADS * ROWS;
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
            for (int c = 0; c < group.n_columns; ++c) {
                const Rank* from = ranks + columns[group.first_column + c] * pitch + first_row;
                UNROLL
                for (int r = 0; r < ROWS; ++r) tile[c * stride + thread * ROWS + r] = from[thread * ROWS + r];
            }
            for (int p = 0; p < group.n_players; ++p) {
                UNROLL
                for (int r = 0; r < ROWS; ++r) phi[p * stride + thread * ROWS + r] = 0;
            }
            Context& my = MINE(at);
            my.phi = phi + thread * ROWS;
            my.ranks = tile + thread * ROWS;
            my.stride = stride;
            my.deep = deep + BLOCK * N_THREADS + thread;
            my.deep_stride = N_BLOCKS * N_THREADS;
            my.weights = rule;
            UNROLL
            for (int k = 0; k < POINTS; ++k) my.t[k] = rule[POINTS + k], my.one_over_t[k] = rule[2 * POINTS + k];
            UNROLL
            for (int r = 0; r < ROWS; ++r) {
                UNROLL
                for (int m = 0; m < MASKS; ++m) MINE(lane).went_left[r][m] = MINE(lane).held[r][m] = 0;
            }
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
                    const Int row = first_row + thread * ROWS;
                    if (n_spans == 1) {
                        add_to_totals<true>(MINE(at), group, players, n_players, row, totals, pitch, n_limb, *scale);
                    } else {
                        add_to_totals<false>(MINE(at), group, players, n_players, row, totals, pitch, n_limb, *scale);
                    }
                }
                copied();
            }
            chunk += ends_chunk;
            SYNC;
        }
    }
}
