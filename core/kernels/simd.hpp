// A vector of doubles, one row per lane, in the width of the instruction set this file is compiled for.
//
// Each instruction set uses its own width: GCC turns 64-byte vector types into scalar code where the machine has
// none. A file per machine, each of which offers this, and nothing else is used of it (addresses are aligned to 64
// bytes where a block of rows begins, and to a vector elsewhere):
//
//   kLanes                           doubles in a vector: 8, 4 or 2
//   Vec                              load(from), store(to, a), broadcast(x), a + b, a - b, a * b, a / b
//   fma(a, b, c)                     a·b + c, rounded once if the machine can; fnma(a, b, c) is c - a·b
//   Mask                             mask_of(bits): one of the lowest kLanes bits for each lane
//   select(mask, yes, no)            where(mask, yes): 0.0 in the other lanes; add_where(mask, a, b): b only there
//   columns<n>(row_at)               n vectors, kLanes or half of them: of doubles at row_at(0), row_at(1), … the first
//                                    ones, the second ones, …
//   add_looked_up(table, n, bytes, rows, to)  to[r] += table[bytes[r]], of n entries; and to some rows after the last
//   Table(entries)[index]            the same from four entries; index_of(bytes), where a byte is the sum of the
//                                    kStateBit of each bit that is set
//   Deltas<kBit>(side, w)[answers]   δ of rows that go left if a bit of their byte is set, at a split whose rare side
//                                    has the ratio w: 1 - w of those that go to that side (0: left), else -w. Answers
//                                    are answers_of<kBits>(bytes), and by(x) is x times as large
//   kHasStates                       is it one operation to look up what three answers, a state, lead to? If so,
//   States<kBit>(entries)[answers]   does, of bits from kBit on, which is 0 or 3; deltas.states() are such entries
//   Bytes                            one for each of 64 rows, zero at first: add(rows, bits) sets bits that are not
//                                    yet set in the rows whose bit is, store(to)
//   at_most<kRows>(x, t, missing)    bit r: is x[r] <= t, or missing and `missing`? float and double
//   put_at_most<kRows>(…, to)        writes these bits
//   in_words<kRows>(x, s, missing)   bit r: is x[r], cut to an integer, a member of s, SetWords of at most
//                                    kMaxSetWords words of a bitset? Numbers that are no code are in no set
//   add_player(sets, rows, p, to)    to[r] is sets[r], up to 32 players in a word, and p as well if bit r is set
//   list_bits(bits, first, to)       lists the bits that are set, counted from `first` on, and returns how many; may
//                                    write what means nothing, up to 16 beyond the last
//   list_disjoint(sets, n, o, to)    lists which of n sets have no player of o, in order, and returns how many; reads
//                                    sets, and may write what means nothing, up to 16 beyond the last
//   keep(words, whole, others, to)   to[r] = words[r] if bit r of `whole` is set, else words[r] & others; returns the
//                                    bits of the rows that have something left
//   Quad                             four doubles on every machine, which is what one row computes with:
//                                    load_quad(from), store_quad(to, a), spread(x), arithmetic as of Vec
#pragma once

#if defined(LTS_AVX512)
#include "kernels/simd/avx512.hpp"
#elif defined(LTS_AVX2)
#include "kernels/simd/avx2.hpp"
#else
#include "kernels/simd/generic.hpp"
#endif
