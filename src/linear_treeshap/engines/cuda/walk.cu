// Ranks → totals: every row walks every tree, once for each point of the index's rule, and adds up its values.
//
// A thread has a row, a block has a tile of them, and all go through the same stream of records, which records.py
// writes and explains. Compiled for: REAL, the type of the walk; POINTS; REGISTER_SLOTS, splits whose state is in
// registers, the others having theirs in `deep`; MASKS, words that hold a bit per slot; LIMBS of a total; SPILLED, if
// what belongs in shared memory is too large for it; THREADS of a block, at most; PAIRS, if pairs of players get
// something as well, whose totals are (LIMBS, n_outputs, n_pairs, pitch).
//
// With t the probability that another player is present, C the product of the factors of the edges above a node, and G
// the sum over the leaves below it, of values times the factors from there on, a split of a player whose closest edge
// above has a product c of cover ratios (1 if there is none) is
//
//     tau = t / (t + (1-t) c)                     (t for a new player),  kappa = c / (t + (1-t) c)^2
//
//     d_left = [goes left] - w_left,  d_right = [goes right] - w_right    (0 if it fails the player's edges above)
//
//     r_left = w_left + tau d_left,   r_right = w_right + tau d_right     (the factors of the edges)
//
//     G = r_left G_left + r_right G_right
//
//     phi += sum over points of kappa C (d_left G_left + d_right G_right)
//
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
    DEEP,         // a split whose state is in memory: which of the six that follow, and the slot, are in the head
    PARTNER = 4,  // of the player of the split before: what the pair gets
    LEAF = 6,     // two that are told apart by their last bit only are of one kind
    PAIR = 8,
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
    char* phi;          // values of the row's players; a record has the bytes from here
    const Rank* ranks;  // of the row's columns
    Real* deep;         // (slots, 2, POINTS, deep_stride)
    Int deep_stride;
    const Real* weights;
    Real t[POINTS], one_over_t[POINTS];
    Real scale;  // of totals
#if PAIRS
    Real rho_of_others[POINTS];  // of partners whose edges the row fails
    Int* pairs;                  // totals of the row
    unsigned pitch_bytes;
    Int n_limb;
#endif
};

/// What a thread knows of its row on the way through a tree.
struct Lane {
    Real C[POINTS], G[POINTS];
    Real C_above[REGISTER_SLOTS][POINTS], G_left[REGISTER_SLOTS][POINTS];
#if PAIRS
    Real differences[POINTS];  // of the split before: what its player gets at each point
#endif
    unsigned went_left[MASKS], held[MASKS];  // a bit per slot; held: the edges above of the same player
};

DEVICE bool goes_left(const Context& at, Real column, unsigned last) { return at.ranks[bits(column)] <= last; }

/// Where the value of a player is.
DEVICE Real& value_of(const Context& at, Real player) { return *(Real*)(at.phi + bits(player)); }

/// Adds products to the values of some players. If they are all different, all can be loaded before the first is
/// stored.
template <int N, bool SHARED_BY_SPLITS = false>
DEVICE void add(const Context& at, const Real (&players)[N], const Real (&x)[N], const Real (&y)[N]) {
    Real sum[N];
    UNROLL
    for (int i = 0; i < N; ++i) {
        if (!SHARED_BY_SPLITS) sum[i] = value_of(at, players[i]);
    }
    UNROLL
    for (int i = 0; i < N; ++i) {
        if (SHARED_BY_SPLITS) sum[i] = value_of(at, players[i]);
        value_of(at, players[i]) = fma(x[i], y[i], sum[i]);
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

/// {op and slot, column, w_left, last rank | edge above << 8}, tau
template <bool REPEATED, class Slot>
DEVICE void down(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Vector head = record[0];
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 1, tau);
    const unsigned more = bits(head.w);
    put(lane.held, slot.slot(), !REPEATED || holds(lane, more >> 8));
    put(lane.went_left, slot.slot(), goes_left(at, head.y, REPEATED ? more & 255 : more));
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
    Real phi = value_of(at, head.y);
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real left = slot.G(k), right = lane.G[k];
        const Real mean = fma(head.z, left, head.w * right), d = fma(d_left, left, d_right * right);
        const Real weight = slot.C(k) * kappa_of<REPEATED>(at, tau[k], c, k);
        phi = fma(weight, d, phi);
#if PAIRS
        lane.differences[k] = weight * d;
#endif
        lane.G[k] = fma(tau[k], d, mean);
    }
    value_of(at, head.y) = phi;
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

#if PAIRS
/// The derivative by a second player: its factor gives way to its difference. {op, pair, edge, -}, rho
DEVICE void partner(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0];
    Real rho[POINTS];
    read_tau<true>(at, record + 1, rho);
    const bool is_satisfied = holds(lane, bits(head.z));
    Real sum = 0;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        sum = fma(lane.differences[k], is_satisfied ? rho[k] : at.rho_of_others[k], sum);
    }
    add_to_total((Int*)((char*)at.pairs + (Int)at.pitch_bytes * bits(head.y)), at.n_limb, sum * at.scale);
}
#endif

// -- bottoms
// -------------------------------------------------------------------------------------------------------------

/// A split of two leaves: G = mean + tau D. {op, column, player, mean}, {D left, D right, last rank | edge above << 8,
/// c}, tau
template <bool REPEATED>
DEVICE void pair(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], more = record[1];
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 2, tau);
    const unsigned last = REPEATED ? bits(more.z) & 255 : bits(more.z);
    Real D = goes_left(at, head.y, last) ? more.x : more.y;
    if (REPEATED && !holds(lane, bits(more.z) >> 8)) D = 0;
    Real sum = lane.C[0] * kappa_of<REPEATED>(at, tau[0], more.w, 0);
    UNROLL
    for (int k = 1; k < POINTS; ++k) {
        sum = REPEATED ? fma(lane.C[k], kappa_of<REPEATED>(at, tau[k], more.w, k), sum) : sum + lane.C[k];
    }
    UNROLL
    for (int k = 0; k < POINTS; ++k) lane.G[k] = fma(tau[k], D, head.w);
    add(at, {head.z}, {D}, {sum});
}

/// A split of two pairs, all of new players: G = mean + t first + t² second.
/// {column, last rank, player, E left}, {E right, w_left, w_right, last rank of the left pair}, and for each pair
/// {column, player, D left, D right}. The last rank of the right pair is elsewhere.
struct Twig {
    Real first, second;
    Real players[3], x[3], y[3];  // what three players get: x times y, and more for the first one
    Real more_x, more_y;

    /// In come the moments of C, of degree 0 and 1.
    DEVICE void walk(const Context& at, const Vector* record, Real last_of_right, Real moment0, Real moment1) {
        const Vector head = record[0], split = record[1], left = record[2], right = record[3];
        const bool goes = goes_left(at, head.x, bits(head.y));
        const Real D_left = goes_left(at, left.x, bits(split.w)) ? left.z : left.w;
        const Real D_right = goes_left(at, right.x, bits(last_of_right)) ? right.z : right.w;
        const Real mean = fma(split.y, D_left, split.z * D_right), E = goes ? head.w : split.x;
        first = E + mean;
        second = (goes ? D_left : D_right) - mean;
        const Real absent = moment0 - moment1;
        players[0] = head.z, players[1] = left.y, players[2] = right.y;
        x[0] = moment0, y[0] = E, more_x = moment1, more_y = second;
        x[1] = D_left, y[1] = fma(split.y, absent, goes ? moment1 : (Real)0);
        x[2] = D_right, y[2] = fma(split.z, absent, goes ? (Real)0 : moment1);
    }
};

/// Adds what the players of twigs get, and of the split above them.
template <int N, bool SHARED_BY_SPLITS>
DEVICE void add_twigs(const Context& at, const Twig (&twigs)[N]) {
    Real sum[N][3];
    UNROLL
    for (int pass = 0; pass < 2; ++pass) {
        UNROLL
        for (int n = 0; n < N; ++n) {
            const Twig& twig = twigs[n];
            UNROLL
            for (int i = 0; i < 3; ++i) {
                if (pass == (SHARED_BY_SPLITS ? 1 : 0)) sum[n][i] = value_of(at, twig.players[i]);
                if (pass == 0) continue;
                Real more = fma(twig.x[i], twig.y[i], sum[n][i]);
                if (i == 0) more = fma(twig.more_x, twig.more_y, more);
                value_of(at, twig.players[i]) = more;
            }
        }
    }
}

/// {op, mean, last rank of the right pair, -}, and a twig.
template <bool SHARED_BY_SPLITS>
DEVICE void twig(Lane& lane, const Context& at, const Vector* record) {
    Real moment0 = lane.C[0], moment1 = lane.C[0] * at.t[0];
    UNROLL
    for (int k = 1; k < POINTS; ++k) {
        moment0 += lane.C[k];
        moment1 = fma(lane.C[k], at.t[k], moment1);
    }
    const Vector head = record[0];
    Twig twigs[1];
    twigs[0].walk(at, record + 1, head.z, moment0, moment1);
    add_twigs<1, SHARED_BY_SPLITS>(at, twigs);
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        lane.G[k] = fma(at.t[k], fma(at.t[k], twigs[0].second, twigs[0].first), head.y);
    }
}

/// A split of two twigs: {op, mean, last ranks of the right pairs of both}, {column, last rank, player, E left},
/// {E right, w_left, w_right, -}, and both twigs.
template <bool SHARED_BY_SPLITS>
DEVICE void branch(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], split = record[1], ratios = record[2];
    const bool goes = goes_left(at, split.x, bits(split.y));
    Real m0 = lane.C[0], m1 = lane.C[0] * at.t[0], m2 = m1 * at.t[0];
    UNROLL
    for (int k = 1; k < POINTS; ++k) {
        const Real present = lane.C[k] * at.t[k];
        m0 += lane.C[k];
        m1 += present;
        m2 = fma(present, at.t[k], m2);
    }
    const Real w_left = ratios.y, w_right = ratios.z, absent0 = m0 - m1, absent1 = m1 - m2;
    Twig twigs[2];
    twigs[0].walk(at, record + 3, head.z, fma(w_left, absent0, goes ? m1 : (Real)0),
                  fma(w_left, absent1, goes ? m2 : (Real)0));
    twigs[1].walk(at, record + 7, head.w, fma(w_right, absent0, goes ? (Real)0 : m1),
                  fma(w_right, absent1, goes ? (Real)0 : m2));
    const Twig &left = twigs[0], &right = twigs[1];
    const Real mean1 = fma(w_left, left.first, w_right * right.first);
    const Real mean2 = fma(w_left, left.second, w_right * right.second);
    const Real E = goes ? split.w : ratios.x;
    const Real d1 = (goes ? left.first : right.first) - mean1, d2 = (goes ? left.second : right.second) - mean2;
    // The player of this split is none of those below, which are new.
    Real& own = value_of(at, split.z);
    own = fma(m0, E, fma(m1, d1, fma(m2, d2, own)));
    add_twigs<2, SHARED_BY_SPLITS>(at, twigs);
    const Real first = mean1 + E, second = mean2 + d1;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real t = at.t[k];
        lane.G[k] = fma(t, fma(t, fma(t, d2, second), first), head.y);
    }
}

// -- the stream
// ----------------------------------------------------------------------------------------------------------

/// Where the walk is. The head of the next record is read before a record is walked, so that nobody waits for it.
struct Reader {
    const Vector* record;
    unsigned head;

    DEVICE explicit Reader(const Vector* first) : record(first), head(bits(first->x)) {}
    DEVICE unsigned op() const { return head & 255; }
    DEVICE unsigned kind() const { return head & 254; }
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
            branch<false>(lane, at, reader.pass(11));
            return;
        case BRANCH_SHARED:
            branch<true>(lane, at, reader.pass(11));
            return;
        case TWIG:
            twig<false>(lane, at, reader.pass(5));
            return;
        case TWIG_SHARED:
            twig<true>(lane, at, reader.pass(5));
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

enum { DOWN, MIDDLE, UP };

/// One of the three records of a split.
template <int WHICH, class Slot>
DEVICE void split(Lane& lane, const Context& at, Reader& reader, bool is_repeated, const Slot slot) {
    if (is_repeated) {
        if (WHICH == DOWN) down<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot);
        if (WHICH == MIDDLE) middle<true>(lane, at, reader.pass(1 + TAU_VECTORS), slot);
        if (WHICH == UP) up<true>(lane, at, reader.pass(2 + TAU_VECTORS), slot);
    } else {
        if (WHICH == DOWN) down<false>(lane, at, reader.pass(1), slot);
        if (WHICH == MIDDLE) middle<false>(lane, at, reader.pass(1), slot);
        if (WHICH == UP) up<false>(lane, at, reader.pass(1), slot);
    }
}

/// A split of two bottoms, which is slot 0, or a bottom alone. There is one copy of the code of bottoms for all.
DEVICE void fork(Lane& lane, const Context& at, Reader& reader) {
    const unsigned op = reader.op();
    const bool is_fork = op >= FIRST_OF_SLOTS, is_repeated = op & 1;
    const InRegisters<0> slot{lane};
    if (is_fork) split<DOWN>(lane, at, reader, is_repeated, slot);
    KEEP_LOOP
    for (unsigned is_right = 0; is_right < 2; ++is_right) {
        bottom(lane, at, reader);
        if (!is_fork) return;
        if (!is_right) split<MIDDLE>(lane, at, reader, is_repeated, slot);
    }
    split<UP>(lane, at, reader, is_repeated, slot);
}

/// All records of a piece of the stream. What most often follows a record is looked for before all others; with more
/// points, moving their numbers between registers would cost more than that saves.
enum { CHAINS = POINTS <= 4 };
template <int N_SLOTS>
DEVICE void walk_piece(Lane& lane, const Context& at, const Vector* first) {
    Reader reader(first);
    for (;;) {
        switch (reader.kind()) {
            case END:
                if (!(reader.head & 1)) return;
                reader.pass(1);  // ROOT
                UNROLL
                for (int k = 0; k < POINTS; ++k) lane.C[k] = at.weights[k];
                continue;
#if PAIRS
            case PARTNER:
                partner(lane, at, reader.pass(1 + TAU_VECTORS));
                continue;
#endif
            case DEEP: {
                const InMemory slot{at, reader.head >> 11};
                const bool is_repeated = reader.head >> 8 & 1;
                const unsigned which = reader.head >> 9 & 3;
                if (which == DOWN) split<DOWN>(lane, at, reader, is_repeated, slot);
                if (which == MIDDLE) split<MIDDLE>(lane, at, reader, is_repeated, slot);
                if (which == UP) split<UP>(lane, at, reader, is_repeated, slot);
                continue;
            }
// A slot has six ops: three records, each for new and for repeated players.
#define RECORD(slot, which) (FIRST_OF_SLOTS + 6 * (slot) + 2 * (which))
#define COMES(slot, which) (CHAINS && slot < N_SLOTS && reader.kind() == RECORD(slot, which))
#define WALK(slot, which) \
    if constexpr (slot < N_SLOTS) split<which>(lane, at, reader, reader.head & 1, InRegisters<slot>{lane})
#define SPLITS(slot, below, above)                           \
    case RECORD(slot, UP):                                   \
        [[maybe_unused]] up_##slot : WALK(slot, UP);         \
        if (COMES(slot + 1, MIDDLE)) goto middle_##above;    \
        continue;                                            \
    case RECORD(slot, MIDDLE):                               \
        [[maybe_unused]] middle_##slot : WALK(slot, MIDDLE); \
        if (COMES(below, DOWN)) goto down_##below;           \
        continue;                                            \
    case RECORD(slot, DOWN):                                 \
        [[maybe_unused]] down_##slot : WALK(slot, DOWN);     \
        if (COMES(below, DOWN)) goto down_##below;           \
        continue;
                SPLITS(1, 0, 2)
                SPLITS(2, 1, 3)
                SPLITS(3, 2, 4)
                SPLITS(4, 3, 4)
            default:
            down_0:
                fork(lane, at, reader);
                if (COMES(1, MIDDLE)) goto middle_1;
                if (COMES(1, UP)) goto up_1;
                continue;
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

/// Adds the values of one chunk to the totals of a row, and begins again from zero.
DEVICE void add_to_totals(const Context& at, const int* players, int n_players, Int* totals, unsigned pitch_bytes,
                          Int n_limb) {
    UNROLL_4
    for (int p = 0; p < n_players; ++p) {
        Real& phi = ((Real*)at.phi)[p];
        const Real x = phi * at.scale;  // a power of two: exact
        phi = 0;
        Int* to = (Int*)((char*)totals + (Int)pitch_bytes * (unsigned)players[p]);
        if (x != 0) add_to_total(to, n_limb, x);
    }
}

/// A block takes a tile of rows, as many as it has threads, through a span of chunks, and then another one.
/// `rule` has weights, points, their inverses, -1 / (1 - t), and what values are multiplied by; `room` is (blocks,
/// room_bytes) if SPILLED.
KERNEL(walk, THREADS, const Real* stream, const Int* cuts, const Int* pieces, const Group* groups, const Span* spans,
       Int n_spans, const int* players, const int* columns, const Real* rule, const Rank* ranks, Int pitch, Int n_tiles,
       Int* totals, Int n_players, Int n_limb, [[maybe_unused]] Int* pairs, [[maybe_unused]] Int n_pairs, Real* deep,
       char* room, Int room_bytes) {
    SHARED(shared);
    char* const buffers = shared;
    char* const tile_room = SPILLED ? room + BLOCK * room_bytes : shared + 2 * STREAM_BYTES;
    PER_THREAD(Lane, lane);
    PER_THREAD(Context, at);
    for (Int item = BLOCK; item < n_tiles * n_spans; item += N_BLOCKS) {
        const Span span = spans[item % n_spans];
        const Group group = groups[span.group];
        const Int first_row = item / n_spans * N_THREADS;
        // A row's numbers are beside each other, and the next row's in another bank of shared memory.
        const unsigned phi_pitch = group.n_players | 1, rank_pitch = 4 * ((group.n_columns + 3) / 4 | 1);
        Real* const phi = (Real*)tile_room;
        Rank* const tile = (Rank*)(phi + phi_pitch * N_THREADS);
        Int* const group_totals = totals + group.output * n_players * pitch + first_row;
        Int piece = pieces[span.first_chunk];
        EACH_THREAD {
            UNROLL_4
            for (int c = 0; c < group.n_columns; ++c) {
                tile[thread * rank_pitch + c] = ranks[columns[group.first_column + c] * pitch + first_row + thread];
            }
            for (int p = 0; p < group.n_players; ++p) phi[thread * phi_pitch + p] = 0;
            Context& my = MINE(at);
            my.phi = (char*)(phi + thread * phi_pitch);
            my.ranks = tile + thread * rank_pitch;
            my.deep = deep + BLOCK * N_THREADS + thread;
            my.deep_stride = N_BLOCKS * N_THREADS;
            my.weights = rule;
            my.scale = rule[4 * POINTS];
#if PAIRS
            UNROLL
            for (int k = 0; k < POINTS; ++k) my.rho_of_others[k] = rule[3 * POINTS + k];
            my.pairs = pairs + group.output * n_pairs * pitch + first_row + thread;
            my.pitch_bytes = (unsigned)(8 * pitch);
            my.n_limb = n_limb / n_players * n_pairs;
#endif
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
                walk_piece<REGISTER_SLOTS>(MINE(lane), MINE(at), (const Vector*)(buffers + side * STREAM_BYTES));
                if (ends_chunk) {
                    add_to_totals(MINE(at), players + group.first_player, group.n_players, group_totals + thread,
                                  (unsigned)(8 * pitch), n_limb);
                }
                copied();
            }
            chunk += ends_chunk;
            SYNC;
        }
    }
}
