// Ranks → totals: every row walks every tree, once for each point of the index's rule, and adds up its values.
//
// A thread has a row, a block has a tile of them, and all go through the same stream of records, which records.py
// writes and explains. Compiled for: REAL, the type of the walk; POINTS; REGISTER_SLOTS, splits whose state is in
// registers, the others having theirs in `deep`; KNOT_SLOTS, those of them whose records are walked with all that is
// below them; PARTS of the rule that share the stream; MASKS, words that hold the bits of a path; LIMBS of a total;
// SPILLED, if what belongs in shared memory is too large for it; THREADS of a block, at most; UNEVEN, if there are
// stems and splits beside a leaf; PAIRS, if pairs of players get something as well, whose totals are (LIMBS, n_outputs,
// n_pairs, pitch).
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
// Where rows, values and totals are is in tile.h.
#include "tile.h"

enum { STREAM_BYTES = 2304 * sizeof(Real) };  // of one of the two pieces of the stream that are in shared memory

struct alignas(4 * sizeof(Real)) Vector {
    Real x, y, z, w;
};

/// A walk knows by comparing numbers where it is: what is below a split has smaller ones than what follows it. A split
/// has three records, down, middle and up, or two if one side is a leaf, each for new and for repeated players.
enum Op {
    LEAF,
    PAIR,
    PAIR_REPEATED,
    TWIG,
    BRANCH,
    BRANCH_SHARED,                                 // by splits of the same player
    FIRST_DOWN,                                    // four for each slot in registers: two ask the opposite
    FIRST_BACK = FIRST_DOWN + 4 * REGISTER_SLOTS,  // six for each: middle, up, and up beside a leaf
    DEEP = FIRST_BACK + 6 * REGISTER_SLOTS,        // a split whose state is in memory; which record is in the head
    PARTNER,                                       // of the player of the split before: what the pair gets
    STEM,                                          // what the players above a crown get
    ROOT,
    END  // of a piece of the stream
};

/// Vectors that a record has of tau, of one or two numbers and tau, of tau and kappa, and of a number and both, for all
/// parts of the rule.
enum {
    TAU_VECTORS = PARTS * ((POINTS + 3) / 4),
    STEM_VECTORS = PARTS * ((1 + POINTS + 3) / 4),
    MIDDLE_VECTORS = PARTS * ((2 + POINTS + 3) / 4),
    BOTH_VECTORS = PARTS * ((2 * POINTS + 3) / 4),
    BESIDE_VECTORS = PARTS * ((1 + 2 * POINTS + 3) / 4)
};

/// Where a thread's row is, and the rule.
struct Context {
    char* phi;          // values of the row's players; a record has the bytes from here
    const Rank* ranks;  // of the row's columns
    Real* deep;         // (slots, 2 * POINTS + 2, deep_stride)
    Int deep_stride;
    const Real *weights, *rho_of_others, *powers;  // -1 / (1-t), and (1-t) to the power of 0, 1, …
    Real t[POINTS];
    Real scale;     // of totals
    unsigned part;  // of the rule
#if PAIRS
    Real rho_of_partners[POINTS];  // whose edges the row fails
    Int* pairs;                    // totals of the row
    unsigned pitch_bytes;
    Int n_limb;
#endif
};

/// A bit for each player of the stem: does the row satisfy its edges? And two for each slot: does it satisfy the edge
/// to the left, and to the right, and the player's edges above?
typedef unsigned long long Edges;
enum { STEM_SLOTS = UNEVEN ? 16 : 0 };  // whose bits are those of the stem, the highest one the first player's
struct Path {
    Edges satisfied[MASKS];
};

/// What a thread knows of its row on the way through a tree.
struct Lane {
    Real C[KNOT_SLOTS + 1][POINTS];  // of the node that is walked in each slot of a knot; the last one is the knot's
    Real C_above[REGISTER_SLOTS - KNOT_SLOTS + 1][POINTS];  // of splits that are in registers and in no knot
    Real G[POINTS], G_left[REGISTER_SLOTS][POINTS];
    Real d_left[REGISTER_SLOTS], d_right[REGISTER_SLOTS];
#if PAIRS
    Real differences[POINTS];  // of the split before: what its player gets at each point
#endif
    Path* path;  // not a part of this: several masks are not in registers
};

DEVICE bool goes_left(const Context& at, Real column, unsigned last) { return at.ranks[bits(column)] <= last; }

/// Where the value of a player is.
DEVICE Real& value_of(const Context& at, Real player) { return *(Real*)(at.phi + bits(player)); }

/// Does the row satisfy an edge, which is the number of its bit?
DEVICE bool holds(const Lane& lane, unsigned edge) {
    return lane.path->satisfied[MASKS == 1 ? 0 : edge >> 6] >> (edge & 63) & 1;
}

DEVICE unsigned first_bit(unsigned slot) { return 2 * (STEM_SLOTS + slot); }

/// Numbers from whole vectors, those of one part of the rule.
template <int N>
DEVICE void read(const Context& at, const Vector* vectors, Real (&to)[N]) {
    enum { N_VECTORS = (N + 3) / 4 };
    Vector v[N_VECTORS];
    const unsigned first = PARTS == 1 ? 0 : at.part * N_VECTORS;
    UNROLL
    for (int i = 0; i < N_VECTORS; ++i) v[i] = vectors[first + i];
    UNROLL
    for (int k = 0; k < N; ++k) {
        to[k] = k % 4 == 0 ? v[k / 4].x : k % 4 == 1 ? v[k / 4].y : k % 4 == 2 ? v[k / 4].z : v[k / 4].w;
    }
}

/// tau of a split: the points themselves for a new player, else what the record says.
template <bool REPEATED>
DEVICE void read_tau(const Context& at, const Vector* vectors, Real (&tau)[POINTS]) {
    if constexpr (REPEATED) {
        read(at, vectors, tau);
    } else {
        UNROLL
        for (int k = 0; k < POINTS; ++k) tau[k] = at.t[k];
    }
}

/// tau, and after it kappa, which is 1 for a new player.
template <bool REPEATED>
DEVICE void read_both(const Context& at, const Vector* vectors, Real (&both)[2 * POINTS]) {
    if constexpr (REPEATED) {
        read(at, vectors, both);
    } else {
        UNROLL
        for (int k = 0; k < POINTS; ++k) both[k] = at.t[k];
    }
}

// -- splits one at a time
// ------------------------------------------------------------------------------------------------

/// The state of a split. In a knot, the numbers of what is below it have their own place, so that nothing is moved.
template <int SLOT>
struct InKnot {
    Lane& lane;
    DEVICE unsigned slot() const { return SLOT; }
    DEVICE Real* C_below() const { return lane.C[SLOT]; }
    DEVICE void keep_C() const {}
    DEVICE Real C(int k) const { return lane.C[SLOT + 1][k]; }
    DEVICE Real& G(int k) const { return lane.G_left[SLOT][k]; }
    DEVICE Real& d_left() const { return lane.d_left[SLOT]; }
    DEVICE Real& d_right() const { return lane.d_right[SLOT]; }
};

/// In registers, and in no knot.
template <int SLOT>
struct Alone {
    Lane& lane;
    DEVICE unsigned slot() const { return SLOT; }
    DEVICE Real* C_below() const { return lane.C[KNOT_SLOTS]; }
    DEVICE void keep_C() const {
        UNROLL
        for (int k = 0; k < POINTS; ++k) lane.C_above[SLOT - KNOT_SLOTS][k] = lane.C[KNOT_SLOTS][k];
    }
    DEVICE Real C(int k) const { return lane.C_above[SLOT - KNOT_SLOTS][k]; }
    DEVICE Real& G(int k) const { return lane.G_left[SLOT][k]; }
    DEVICE Real& d_left() const { return lane.d_left[SLOT]; }
    DEVICE Real& d_right() const { return lane.d_right[SLOT]; }
};

struct InMemory {
    Lane& lane;
    const Context& at;
    unsigned number;
    DEVICE unsigned slot() const { return number; }
    DEVICE Real* C_below() const { return lane.C[KNOT_SLOTS]; }
    DEVICE Real& place(int which) const {
        return at.deep[((Int)(number - REGISTER_SLOTS) * (2 * POINTS + 2) + which) * at.deep_stride];
    }
    DEVICE void keep_C() const {
        UNROLL
        for (int k = 0; k < POINTS; ++k) place(k) = lane.C[KNOT_SLOTS][k];
    }
    DEVICE Real C(int k) const { return place(k); }
    DEVICE Real& G(int k) const { return place(POINTS + k); }
    DEVICE Real& d_left() const { return place(2 * POINTS); }
    DEVICE Real& d_right() const { return place(2 * POINTS + 1); }
};

/// {op and slot, column, w_left, last rank | edge above << 8}, tau
template <bool REPEATED, class Slot>
DEVICE void down(Lane& lane, const Context& at, const Vector* record, bool asks_opposite, const Slot slot) {
    const Vector head = record[0];
    Real tau[POINTS];
    read_tau<REPEATED>(at, record + 1, tau);
    const unsigned more = bits(head.w);
    const bool goes = goes_left(at, head.y, REPEATED ? more & 255 : more) != (UNEVEN && asks_opposite);
    const bool held = !REPEATED || holds(lane, more >> 8);
    const unsigned bit = first_bit(slot.slot()), place = bit & 63;
    Edges& edges = lane.path->satisfied[MASKS == 1 ? 0 : bit >> 6];
    edges = (edges & ~((Edges)3 << place)) | (held ? (goes ? (Edges)1 << place : (Edges)2 << place) : 0);
    const Real d = held ? (goes ? (Real)1 : (Real)0) - head.z : (Real)0;
    slot.d_left() = d;
    slot.keep_C();
    UNROLL
    for (int k = 0; k < POINTS; ++k) slot.C_below()[k] = slot.C(k) * fma(tau[k], d, head.z);
}

/// {op and slot, w_right, tau …, and the rest of it}: for each part of the rule, but for the op
template <bool REPEATED, class Slot>
DEVICE void middle(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    Real numbers[2 + POINTS];
    if constexpr (REPEATED) {
        read(at, record, numbers);
    } else {
        numbers[1] = record->y;
    }
    const Real w = numbers[1], *const tau = REPEATED ? numbers + 2 : at.t;
    const unsigned bit = first_bit(slot.slot());
    const bool goes = holds(lane, bit + 1), held = !REPEATED || goes || holds(lane, bit);
    const Real d = held ? (goes ? (Real)1 : (Real)0) - w : (Real)0;
    slot.d_right() = d;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        slot.G(k) = lane.G[k];
        slot.C_below()[k] = slot.C(k) * fma(tau[k], d, w);
    }
}

/// {op and slot, player, w_left, w_right}, and for a repeated player tau and kappa
template <bool REPEATED, class Slot>
DEVICE void up(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Vector head = record[0];
    Real tau[2 * POINTS];
    const Real* const kappa = tau + POINTS;
    read_both<REPEATED>(at, record + 1, tau);
    const Real d_left = slot.d_left(), d_right = slot.d_right();
    Real phi = value_of(at, head.y);
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real left = slot.G(k), right = lane.G[k];
        const Real mean = fma(head.z, left, head.w * right), d = fma(d_left, left, d_right * right);
        const Real weight = REPEATED ? slot.C(k) * kappa[k] : slot.C(k);
        phi = fma(weight, d, phi);
#if PAIRS
        lane.differences[k] = weight * d;
#endif
        lane.G[k] = fma(tau[k], d, mean);
    }
    value_of(at, head.y) = phi;
}

/// The same beside a leaf, which is on the right and has no other record. {op and slot, player, w_left, the leaf's
/// share of the mean}, and {the rest of the leaf's value}, for a repeated player with tau and kappa
template <bool REPEATED, class Slot>
DEVICE void up_beside_leaf(Lane& lane, const Context& at, const Vector* record, const Slot slot) {
    const Vector head = record[0];
    Real numbers[1 + 2 * POINTS];
    if constexpr (REPEATED) {
        read(at, record + 1, numbers);
    } else {
        numbers[0] = record[1].x;
    }
    const Real *const tau = REPEATED ? numbers + 1 : at.t, *const kappa = numbers + 1 + POINTS;
    const unsigned bit = first_bit(slot.slot());
    const bool goes = holds(lane, bit + 1), held = !REPEATED || goes || holds(lane, bit);
    const Real d_left = slot.d_left(), right = held ? (goes ? numbers[0] : -head.w) : (Real)0;
    Real phi = value_of(at, head.y);
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real left = lane.G[k];
        const Real mean = fma(head.z, left, head.w), d = fma(d_left, left, right);
        phi = fma(REPEATED ? slot.C(k) * kappa[k] : slot.C(k), d, phi);
        lane.G[k] = fma(tau[k], d, mean);
    }
    value_of(at, head.y) = phi;
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
        sum = fma(lane.differences[k], is_satisfied ? rho[k] : at.rho_of_partners[k], sum);
    }
    add_to_total((Int*)((char*)at.pairs + (Int)at.pitch_bytes * bits(head.y)), at.n_limb, sum * at.scale);
}
#endif

// -- bottoms
// -------------------------------------------------------------------------------------------------------------

/// A split of two leaves: G = mean + tau D. {op, column, player, mean}, {D left, D right, last rank | edge above << 8,
/// -}, and for a repeated player tau and kappa
template <bool REPEATED>
DEVICE void pair(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], more = record[1];
    Real tau[2 * POINTS];
    const Real* const kappa = tau + POINTS;
    read_both<REPEATED>(at, record + 2, tau);
    const Real* const C = lane.C[0];
    Real& phi = value_of(at, head.z);
    const unsigned last = REPEATED ? bits(more.z) & 255 : bits(more.z);
    Real D = goes_left(at, head.y, last) ? more.x : more.y;
    if (REPEATED && !holds(lane, bits(more.z) >> 8)) D = 0;
    Real sum = REPEATED ? C[0] * kappa[0] : C[0];
    UNROLL
    for (int k = 1; k < POINTS; ++k) sum = REPEATED ? fma(C[k], kappa[k], sum) : sum + C[k];
    UNROLL
    for (int k = 0; k < POINTS; ++k) lane.G[k] = fma(tau[k], D, head.w);
    phi = fma(D, sum, phi);
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

/// What some splits give their players: those of one batch have different players, so that all values can be loaded
/// before the first is stored.
template <int N>
struct Batch {
    Real* places[N];
    Real sums[N];
    DEVICE void load(const Context& at, const Twig& twig, int first) {
        UNROLL
        for (int i = 0; i < N; ++i) {
            places[i] = &value_of(at, twig.players[first + i]);
            sums[i] = *places[i];
        }
    }
    DEVICE void store(const Twig& twig, int first) {
        UNROLL
        for (int i = 0; i < N; ++i) {
            Real sum = fma(twig.x[first + i], twig.y[first + i], sums[i]);
            if (first + i == 0) sum = fma(twig.more_x, twig.more_y, sum);
            *places[i] = sum;
        }
    }
};

/// {op, mean, last rank of the right pair, -}, and a twig.
DEVICE void twig(Lane& lane, const Context& at, const Vector* record) {
    const Real* const C = lane.C[0];
    Real moment0 = C[0], moment1 = C[0] * at.t[0];
    UNROLL
    for (int k = 1; k < POINTS; ++k) {
        moment0 += C[k];
        moment1 = fma(C[k], at.t[k], moment1);
    }
    const Vector head = record[0];
    Twig twig;
    twig.walk(at, record + 1, head.z, moment0, moment1);
    // Both pairs may have one player.
    Batch<2> first;
    Batch<1> second;
    first.load(at, twig, 0);
    first.store(twig, 0);
    second.load(at, twig, 2);
    second.store(twig, 2);
    UNROLL
    for (int k = 0; k < POINTS; ++k) lane.G[k] = fma(at.t[k], fma(at.t[k], twig.second, twig.first), head.y);
}

/// A split of two twigs: {op, mean, last ranks of the right pairs of both}, {column, last rank, player, E left},
/// {E right, w_left, w_right, -}, and both twigs.
template <bool SHARED_BY_SPLITS>
DEVICE void branch(Lane& lane, const Context& at, const Vector* record) {
    const Vector head = record[0], split = record[1], ratios = record[2];
    const Real* const C = lane.C[0];
    const bool goes = goes_left(at, split.x, bits(split.y));
    Real m0 = C[0], m1 = C[0] * at.t[0], m2 = m1 * at.t[0];
    UNROLL
    for (int k = 1; k < POINTS; ++k) {
        const Real present = C[k] * at.t[k];
        m0 += C[k];
        m1 += present;
        m2 = fma(present, at.t[k], m2);
    }
    const Real w_left = ratios.y, w_right = ratios.z, absent0 = m0 - m1, absent1 = m1 - m2;
    Twig left, right;
    left.walk(at, record + 3, head.z, fma(w_left, absent0, goes ? m1 : (Real)0),
              fma(w_left, absent1, goes ? m2 : (Real)0));
    right.walk(at, record + 7, head.w, fma(w_right, absent0, goes ? (Real)0 : m1),
               fma(w_right, absent1, goes ? (Real)0 : m2));
    const Real mean1 = fma(w_left, left.first, w_right * right.first);
    const Real mean2 = fma(w_left, left.second, w_right * right.second);
    const Real E = goes ? split.w : ratios.x;
    const Real d1 = (goes ? left.first : right.first) - mean1, d2 = (goes ? left.second : right.second) - mean2;
    // The player of this split is none of those below, which are new.
    Real& own = value_of(at, split.z);
    if constexpr (SHARED_BY_SPLITS) {
        // No two of a side but its pairs have one player.
        Batch<2> firsts[2];
        Batch<1> seconds[2];
        own = fma(m0, E, fma(m1, d1, fma(m2, d2, own)));
        UNROLL
        for (int side = 0; side < 2; ++side) {
            const Twig& twig = side ? right : left;
            firsts[side].load(at, twig, 0);
            firsts[side].store(twig, 0);
            seconds[side].load(at, twig, 2);
            seconds[side].store(twig, 2);
        }
    } else {
        const Real own_before = own;
        Batch<3> batches[2];
        batches[0].load(at, left, 0);
        batches[1].load(at, right, 0);
        own = fma(m0, E, fma(m1, d1, fma(m2, d2, own_before)));
        batches[0].store(left, 0);
        batches[1].store(right, 0);
    }
    const Real first = mean1 + E, second = mean2 + d1;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real t = at.t[k];
        lane.G[k] = fma(t, fma(t, fma(t, d2, second), first), head.y);
    }
}

// -- stems
// ---------------------------------------------------------------------------------------------------------------

/// A tree begins: C is the weights of the rule. {op, conditions, players, -}; if there is a stem, its conditions, each
/// being a column, whether it is the last one of its player << 15, and the lowest and highest rank << 16 and 24; and
/// the product of each player's cover ratios. Four of all these are in a vector.
DEVICE void root(Lane& lane, const Context& at, const Vector* record, unsigned n_conditions, unsigned n_players) {
    Real* const C = lane.C[KNOT_SLOTS];
    UNROLL
    for (int k = 0; k < POINTS; ++k) C[k] = at.weights[k];
    if (!UNEVEN || n_players == 0) return;
    unsigned satisfied = 0;
    bool holds = true;
    KEEP_LOOP
    for (unsigned i = 0; i < n_conditions; i += 4) {
        const Vector four = *++record;
        const unsigned words[4] = {bits(four.x), bits(four.y), bits(four.z), bits(four.w)};
        UNROLL
        for (int j = 0; j < 4; ++j) {
            const unsigned rank = at.ranks[words[j] & 0x7fff];
            holds = holds && rank >= (words[j] >> 16 & 255) && rank <= words[j] >> 24;
            if (words[j] & 0x8000) {
                satisfied = satisfied << 1 | (unsigned)holds;
                holds = true;
            }
        }
    }
    satisfied <<= 32 - n_players;
    lane.path->satisfied[0] = satisfied;
    const unsigned n_failed = n_players - (unsigned)n_bits(satisfied);
    Real failed = 1;  // the product of the cover ratios of those whose edges are not satisfied
    KEEP_LOOP
    for (unsigned i = 0; i < n_players; i += 4) {
        const Vector four = *++record;
        const Real covers[4] = {four.x, four.y, four.z, four.w};
        UNROLL
        for (int j = 0; j < 4; ++j, satisfied <<= 1) {
            if (satisfied >> 31) {
                UNROLL
                for (int k = 0; k < POINTS; ++k) C[k] *= fma(at.t[k], 1 - covers[j], covers[j]);
            } else {
                failed *= covers[j];
            }
        }
    }
    UNROLL
    for (int k = 0; k < POINTS; ++k) C[k] *= failed * at.powers[n_failed * POINTS + k];
}

/// What some players of a stem get, who are different ones.
template <int N>
DEVICE void gain(const Context& at, const Vector* record, const Real (&all)[POINTS], Real of_others,
                 unsigned satisfied) {
    Real *places[N], sums[N];
    UNROLL
    for (int i = 0; i < N; ++i) {
        Real numbers[1 + POINTS];
        read(at, record + i * STEM_VECTORS, numbers);
        places[i] = &value_of(at, numbers[0]);
        Real sum = all[0] * numbers[1];
        UNROLL
        for (int k = 1; k < POINTS; ++k) sum = fma(all[k], numbers[1 + k], sum);
        sums[i] = *places[i] + (satisfied << i >> 31 ? sum : of_others);
    }
    UNROLL
    for (int i = 0; i < N; ++i) *places[i] = sums[i];
}

/// What the players of a stem get: their factors give way to their differences. {op, players, slot of the crown's first
/// split + 1, -}, and for each player {player, rho …}.
DEVICE void stem(Lane& lane, const Context& at, const Vector* record, unsigned n_players, unsigned slot) {
    Real all[POINTS], of_others = 0;
    UNROLL
    for (int k = 0; k < POINTS; ++k) {
        const Real C = slot > REGISTER_SLOTS ? InMemory{lane, at, slot - 1}.C(k) : lane.C[KNOT_SLOTS][k];
        all[k] = C * lane.G[k];
        of_others = fma(all[k], at.rho_of_others[k], of_others);
    }
    unsigned satisfied = (unsigned)lane.path->satisfied[0], i = 0;
    ++record;
    KEEP_LOOP
    for (; i + 1 < n_players; i += 2, satisfied <<= 2, record += 2 * STEM_VECTORS) {
        gain<2>(at, record, all, of_others, satisfied);
    }
    if (i < n_players) gain<1>(at, record, all, of_others, satisfied);
}

// -- the stream
// ----------------------------------------------------------------------------------------------------------

/// Where the walk is. The head of the next record is read before a record is walked, so that nobody waits for it.
struct Reader {
    const Vector* record;
    unsigned head;

    DEVICE explicit Reader(const Vector* first) : record(first), head(bits(first->x)) {}
    DEVICE const Vector* pass(int n_vectors) {
        const Vector* passed = record;
        record += n_vectors;
        head = bits(record->x);
        return passed;
    }
};

/// A leaf, or what is walked with all that is below it.
DEVICE void bottom(Lane& lane, const Context& at, Reader& reader) {
    if (reader.head >= TWIG) {
        if (reader.head == TWIG) {
            twig(lane, at, reader.pass(5));
        } else if (reader.head == BRANCH) {
            branch<false>(lane, at, reader.pass(11));
        } else {
            branch<true>(lane, at, reader.pass(11));
        }
    } else if (reader.head == PAIR) {
        pair<false>(lane, at, reader.pass(2));
    } else if (reader.head == PAIR_REPEATED) {
        pair<true>(lane, at, reader.pass(2 + BOTH_VECTORS));
    } else {
        const Real value = reader.pass(1)->y;
        UNROLL
        for (int k = 0; k < POINTS; ++k) lane.G[k] = value;
    }
}

enum { DOWN, MIDDLE, UP, UP_BESIDE_LEAF };

/// One of the records of a split. Which of its kind is a bit for repeated players, and one for asking the opposite.
template <int WHICH, class Slot>
DEVICE void split(Lane& lane, const Context& at, Reader& reader, unsigned kind, const Slot slot) {
    const bool opposite = WHICH == DOWN && kind & 2;
    if (kind & 1) {
        if (WHICH == DOWN) down<true>(lane, at, reader.pass(1 + TAU_VECTORS), opposite, slot);
        if (WHICH == MIDDLE) middle<true>(lane, at, reader.pass(MIDDLE_VECTORS), slot);
        if (WHICH == UP) up<true>(lane, at, reader.pass(1 + BOTH_VECTORS), slot);
        if (WHICH == UP_BESIDE_LEAF) up_beside_leaf<true>(lane, at, reader.pass(1 + BESIDE_VECTORS), slot);
    } else {
        if (WHICH == DOWN) down<false>(lane, at, reader.pass(1), opposite, slot);
        if (WHICH == MIDDLE) middle<false>(lane, at, reader.pass(1), slot);
        if (WHICH == UP) up<false>(lane, at, reader.pass(1), slot);
        if (WHICH == UP_BESIDE_LEAF) up_beside_leaf<false>(lane, at, reader.pass(2), slot);
    }
}

/// The first op of a record of a split in registers.
DEVICE constexpr unsigned op_of(int slot, int which) {
    return which == DOWN ? FIRST_DOWN + 4 * slot : FIRST_BACK + 6 * slot + 2 * (which - MIDDLE);
}

/// A node whose slot is at most this, with all that is below it: what comes is known to the compiler but for a few
/// questions, and there is one copy of the code of each slot.
template <int SLOT>
DEVICE void knot(Lane& lane, const Context& at, Reader& reader) {
    if constexpr (SLOT < 0) {
        bottom(lane, at, reader);
    } else {
        const InKnot<SLOT> slot{lane};
        if (reader.head >= op_of(SLOT, DOWN)) {
            split<DOWN>(lane, at, reader, reader.head - op_of(SLOT, DOWN), slot);
        } else {
            UNROLL
            for (int k = 0; k < POINTS; ++k) lane.C[SLOT][k] = lane.C[SLOT + 1][k];
        }
        for (;;) {
            knot<SLOT - 1>(lane, at, reader);
            if (reader.head >= op_of(SLOT + 1, MIDDLE)) return;  // there is no split in this slot
            if (reader.head >= op_of(SLOT, UP)) break;
            split<MIDDLE>(lane, at, reader, reader.head - op_of(SLOT, MIDDLE), slot);
        }
        if (UNEVEN && reader.head >= op_of(SLOT, UP_BESIDE_LEAF)) {
            split<UP_BESIDE_LEAF>(lane, at, reader, reader.head - op_of(SLOT, UP_BESIDE_LEAF), slot);
        } else {
            split<UP>(lane, at, reader, reader.head - op_of(SLOT, UP), slot);
        }
    }
}

/// A record of a split that is in registers and in no knot.
template <int SLOT>
DEVICE void alone(Lane& lane, const Context& at, Reader& reader) {
    if constexpr (SLOT < REGISTER_SLOTS) {
        const Alone<SLOT> slot{lane};
        const unsigned op = reader.head & ~1u;
        if (op == op_of(SLOT, DOWN)) return split<DOWN>(lane, at, reader, reader.head & 1, slot);
        if (op == op_of(SLOT, MIDDLE)) return split<MIDDLE>(lane, at, reader, reader.head & 1, slot);
        if (op == op_of(SLOT, UP)) return split<UP>(lane, at, reader, reader.head & 1, slot);
        alone<SLOT + 1>(lane, at, reader);
    }
}

/// All records of a piece of the stream.
DEVICE void walk_piece(Lane& lane, const Context& at, const Vector* first) {
    Reader reader(first);
    for (;;) {
        const unsigned op = reader.head & 255;
        if (op < op_of(KNOT_SLOTS, DOWN)) {
            knot<KNOT_SLOTS - 1>(lane, at, reader);
        } else if (KNOT_SLOTS < REGISTER_SLOTS && op < DEEP) {
            alone<KNOT_SLOTS>(lane, at, reader);
        } else if (op == DEEP) {
            const InMemory slot{lane, at, reader.head >> 12};
            const unsigned kind = reader.head >> 8 & 3, which = reader.head >> 10 & 3;
            if (which == DOWN) split<DOWN>(lane, at, reader, kind, slot);
            if (which == MIDDLE) split<MIDDLE>(lane, at, reader, kind, slot);
            if (which == UP) split<UP>(lane, at, reader, kind, slot);
            if (UNEVEN && which == UP_BESIDE_LEAF) split<UP_BESIDE_LEAF>(lane, at, reader, kind, slot);
#if PAIRS
        } else if (op == PARTNER) {
            partner(lane, at, reader.pass(1 + TAU_VECTORS));
#endif
        } else if (UNEVEN && op == STEM) {
            const unsigned n_players = bits(reader.record->y), slot = bits(reader.record->z);
            stem(lane, at, reader.pass(1 + n_players * STEM_VECTORS), n_players, slot);
        } else if (op == ROOT) {
            const unsigned n_conditions = UNEVEN ? bits(reader.record->y) : 0;
            const unsigned n_players = UNEVEN ? bits(reader.record->z) : 0;
            const int n_vectors = 1 + (n_conditions + 3) / 4 + (n_players + 3) / 4;
            root(lane, at, reader.pass(n_vectors), n_conditions, n_players);
        } else {
            return;  // END
        }
    }
}

/// A block takes a tile of rows, as many as it has threads, through a span of chunks, and then another one.
/// `rule` has weights, points, -1 / (1 - t), what values are multiplied by, and powers of 1 - t; `room` is (blocks,
/// room_bytes) if SPILLED.
KERNEL(walk, THREADS, const Real* stream, const Int* cuts, const Group* groups, const int* columns, const Int* pieces,
       const Int* firsts, const Gain* gains, const Span* spans, Int n_spans, const Real* rule, Int part,
       const Rank* ranks, Int pitch, Int n_tiles, Int* totals, Int n_players, Int n_limb, [[maybe_unused]] Int* pairs,
       [[maybe_unused]] Int n_pairs, Real* deep, char* room, Int room_bytes) {
    SHARED(shared);
    char* const buffers = shared;
    char* const tile_room = SPILLED ? room + BLOCK * room_bytes : shared + 2 * STREAM_BYTES;
    PER_THREAD(Lane, lane);
    PER_THREAD(Path, path);
    PER_THREAD(Context, at);
    for (Int item = BLOCK; item < n_tiles * n_spans; item += N_BLOCKS) {
        const Span span = spans[item % n_spans];
        const Group group = groups[span.group];
        const Int first_row = item / n_spans * N_THREADS;
        const Tile tile(group, tile_room, N_THREADS);
        Int* const group_totals = totals + group.output * n_players * pitch + first_row;
        Int piece = pieces[span.first_chunk];
        EACH_THREAD {
            tile.begin(group, thread, columns, ranks + first_row + thread, pitch);
            Context& my = MINE(at);
            my.phi = tile.phi_of(thread);
            my.ranks = tile.ranks_of(thread);
            my.deep = deep + BLOCK * N_THREADS + thread;
            my.deep_stride = N_BLOCKS * N_THREADS;
            my.weights = rule;
            my.rho_of_others = rule + 2 * POINTS;
            my.scale = rule[3 * POINTS];
            my.powers = rule + 3 * POINTS + 1;
            my.part = (unsigned)part;
#if PAIRS
            UNROLL
            for (int k = 0; k < POINTS; ++k) my.rho_of_partners[k] = rule[2 * POINTS + k];
            my.pairs = pairs + group.output * n_pairs * pitch + first_row + thread;
            my.pitch_bytes = (unsigned)(8 * pitch);
            my.n_limb = n_limb / n_players * n_pairs;
#endif
            UNROLL
            for (int k = 0; k < POINTS; ++k) my.t[k] = rule[POINTS + k];
            UNROLL
            for (int m = 0; m < MASKS; ++m) MINE(path).satisfied[m] = 0;
            MINE(lane).path = &MINE(path);
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
                    add_gains(MINE(at).phi, MINE(at).scale, gains + firsts[chunk], gains + firsts[chunk + 1],
                              group_totals + thread, (unsigned)(8 * pitch), n_limb);
                }
                copied();
            }
            chunk += ends_chunk;
            SYNC;
        }
    }
}
