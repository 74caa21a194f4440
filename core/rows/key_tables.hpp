// Rows whose categories are hashes → rows as the trees read them: codes, and numbers that are looked up behind.
//
// A row's key is made of the hashes of categories and of answers to questions about other columns; a table has numbers
// for each key that was seen in training, and for all others. A model may have hundreds of tables, and rows have few
// different categories: a table is asked once for every key that rows could have, where these are fewer than the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace linear_treeshap {

// What adds to keys: a category; or the answer, no or yes, to whether a number is above a border, or a category is the
// one of a hash.
struct KeyPart {
    enum class Kind : std::uint8_t { category, above, equal };
    Kind kind;
    bool if_missing;     // above: the answer for NaN
    std::size_t column;  // of the user's rows
    double operand;      // above: the border; equal: the hash
};

struct KeyTable {
    std::vector<std::int32_t> parts;  // in the order in which a key takes them in
    std::vector<std::uint64_t> keys;  // sorted, distinct
    std::vector<float> numbers;       // (n_keys + 1, n_numbers) the last row for keys that are not there
    std::int32_t n_numbers = 0;
};

// A column of categories, and the hashes that the model has codes for: known[code].
struct HashedColumn {
    std::size_t column;
    std::vector<double> known;
};

// The user's rows: numbers, and of categories the hash, a whole number of 32 bits with a sign; NaN for a category that
// is missing. They may lie row by row or, as in data frames, column by column.
struct HashedRows {
    const double* data;
    std::size_t n_rows;
    std::size_t n_features;
    std::ptrdiff_t row_stride, column_stride;

    double operator()(std::size_t row, std::size_t column) const {
        return data[static_cast<std::ptrdiff_t>(row) * row_stride +
                    static_cast<std::ptrdiff_t>(column) * column_stride];
    }
};

class KeyTables {
  public:
    KeyTables(std::vector<KeyPart> parts, std::vector<KeyTable> tables, std::vector<HashedColumn> hashed);

    std::size_t n_tables() const { return tables_.size(); }
    // Numbers of all tables together.
    std::size_t n_numbers() const { return n_numbers_; }
    std::size_t n_numbers(std::size_t table) const { return static_cast<std::size_t>(tables_[table].n_numbers); }
    // The features that rows must have at least.
    std::size_t n_features() const { return n_features_; }

    // Writes (n_rows, n_columns), of which the first are the features, with codes for hashes, and then come the
    // numbers of all tables; what follows is left alone. Numbers are of the type that the trees read.
    template <class Number>
    void fill(const HashedRows& rows, std::span<Number> out, std::size_t n_columns) const;

    // Writes (n_rows, n_numbers) what one table has for rows.
    template <class Number>
    void look_up(std::size_t table, const HashedRows& rows, std::span<Number> out) const;

  private:
    std::vector<KeyPart> parts_;
    std::vector<KeyTable> tables_;
    std::vector<HashedColumn> hashed_;
    std::size_t n_numbers_ = 0, n_features_ = 0;
};

}  // namespace linear_treeshap
