// What tables and leaves ask of a row, see tables.py: words, each an interval of ranks in one column. A bit is set
// where the row is in all of its intervals, which are one after another; the last one says that it is.
#pragma once
#include "tile.h"

struct alignas(16) Words {
    unsigned x, y, z, w;
};

/// Is a rank in the interval of a word? {column in 15 bits, is the last of its bit, the first rank, how many follow it}
DEVICE bool is_inside(unsigned word, unsigned rank) { return ((rank - (word >> 16)) & 255) <= word >> 24; }
DEVICE unsigned column_of(unsigned word) { return word & 0x7fff; }
DEVICE bool ends_bit(unsigned word) { return word >> 15 & 1; }

/// Bits, of a state or of a set of players, while words are read.
template <class Mask>
struct State {
    Mask bits = 0, bit = 1;
    bool is_set = true;

    DEVICE void read(unsigned word, unsigned rank) {
        is_set &= is_inside(word, rank);
        if (ends_bit(word)) {
            bits |= is_set ? bit : (Mask)0;
            bit += bit;
            is_set = true;
        }
    }
};
