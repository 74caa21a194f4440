// Rows → ranks: where each row lies among the thresholds of each condition column; and totals of zero, for what
// follows.
//
// In: `rows`, (n_rows, n_features) of type ROW, NaN missing. Out: `ranks`, (n_columns, pitch) bytes; a split asks no
// more than whether a rank is at most its own number. A numeric column has sorted thresholds, and the rank is how many
// of them are below the row's value; a column of categories has the sorted codes of one set, and the rank is 0 in it
// and 1 outside. Missing values have a rank of the column's own. Rows beyond the last one up to `pitch` get rank 0.
//
// Floating-point numbers are compared as whole numbers in the same order (conditions.py makes thresholds so): a device
// may take the smallest of them for zero, whole numbers it takes as they are.
#include "portable.h"

typedef ROW Row;
typedef decltype(all_bits(Row())) Key;

/// Greater for greater numbers: those below zero have the greater bits the smaller they are. -0 is the only one at -1.
DEVICE Key key_of(Row x) {
    const Key bits = all_bits(x);
    return bits < 0 ? bits ^ (Key)(~(Key)0 ^ (Key)1 << (8 * sizeof(Key) - 1)) : bits;
}

struct Column {
    int feature, n_keys, missing, is_categories;
    Int first;  // of its keys
};

DEVICE Rank rank_of(Row x, const Column column, const Key* keys) {
    if (x != x) return (Rank)column.missing;
    Key wanted = key_of(x);
    if (column.is_categories) {
        // A code is the number without its fraction, and negative numbers are codes of nothing.
        if (wanted < -1 || x >= (Row)0x1p31) return 1;
        wanted = (int)x;
    }
    int below = 0;  // that many keys are known to be smaller
    for (int rest = column.n_keys; rest > 0;) {
        const int half = rest >> 1;
        const bool is_below = keys[below + half] < wanted;
        below = is_below ? below + half + 1 : below;
        rest = is_below ? rest - half - 1 : half;
    }
    return column.is_categories ? !(below < column.n_keys && keys[below] == wanted) : (Rank)below;
}

/// A block takes as many rows as it has threads, and `n_at_once` columns.
KERNEL(ranks, 128, const Row* rows, Int n_rows, Int n_features, const Column* columns, Int n_columns, Int n_at_once,
       const Key* keys, Rank* out, Int pitch, Int* totals, Int n_totals) {
    const Int n_spans = n_columns ? (n_columns + n_at_once - 1) / n_at_once : 1;
    const Int first_row = BLOCK / n_spans * N_THREADS, first_column = BLOCK % n_spans * n_at_once;
    const Int last_column = first_column + n_at_once < n_columns ? first_column + n_at_once : n_columns;
    EACH_THREAD {
        for (Int i = BLOCK * N_THREADS + thread; i < n_totals; i += N_BLOCKS * N_THREADS) totals[i] = 0;
        const Int row = first_row + thread;
        if (row < pitch) {
            for (Int c = first_column; c < last_column; ++c) {
                const Column column = columns[c];
                out[c * pitch + row] =
                    row < n_rows ? rank_of(rows[row * n_features + column.feature], column, keys + column.first) : 0;
            }
        }
    }
}
