#include "rows/key_tables.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace linear_treeshap {
namespace {

// CatBoost's, by which a key takes in one more part.
constexpr std::uint64_t kMultiplier = 0x4906BA494954CB65;

std::uint64_t with_part(std::uint64_t key, std::uint64_t value) { return kMultiplier * (key + kMultiplier * value); }

// Rows that are written together: they stay in a cache while table after table adds a few numbers to each.
constexpr std::size_t kTileRows = 64;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// The different hashes of a column, and which of them each row has.
class Categories {
  public:
    Categories(const HashedRows& rows, std::size_t column) : of_row_(rows.n_rows), slots_(64, kNone) {
        for (std::size_t row = 0; row < rows.n_rows; ++row) of_row_[row] = number_of(rows(row, column));
    }

    std::uint32_t of_row(std::size_t row) const { return of_row_[row]; }
    const std::vector<double>& hashes() const { return hashes_; }

  private:
    // All NaN are one.
    static bool are_same(double a, double b) { return a == b || (a != a && b != b); }
    std::size_t slot_of(double hash) const {
        const std::uint64_t bits = hash != hash ? 0 : std::bit_cast<std::uint64_t>(hash + 0.0);
        return static_cast<std::size_t>((bits * kMultiplier) >> 32) & (slots_.size() - 1);
    }

    std::uint32_t number_of(double hash) {
        std::size_t slot = slot_of(hash);
        for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1))
            if (are_same(hashes_[slots_[slot]], hash)) return slots_[slot];
        const auto number = static_cast<std::uint32_t>(hashes_.size());
        slots_[slot] = number;
        hashes_.push_back(hash);
        if (2 * hashes_.size() > slots_.size()) grow();
        return number;
    }

    void grow() {
        slots_.assign(2 * slots_.size(), kNone);
        for (std::uint32_t number = 0; number < hashes_.size(); ++number) {
            std::size_t slot = slot_of(hashes_[number]);
            while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
            slots_[slot] = number;
        }
    }

    std::vector<std::uint32_t> of_row_;
    std::vector<double> hashes_;
    std::vector<std::uint32_t> slots_;  // numbers of hashes, wherever there is room from their slot on
};

// A value of a part that occurs in rows.
struct PartValue {
    std::uint64_t value;
    bool is_known;  // a row without a category has no key
};

// The row of the table for a key. Which half it is in is as good as random: there is no branch.
std::size_t place_of(const KeyTable& table, const PartValue& key) {
    const std::size_t n_keys = table.keys.size();
    if (!key.is_known || n_keys == 0) return n_keys;
    const std::uint64_t* from = table.keys.data();
    for (std::size_t n = n_keys; n > 1;) {
        const std::size_t half = n / 2;
        from += half * static_cast<std::size_t>(from[half - 1] < key.value);
        n -= half;
    }
    return *from == key.value ? static_cast<std::size_t>(from - table.keys.data()) : n_keys;
}

// The tables, for some rows.
template <class Number>
class TablesForRows {
  public:
    TablesForRows(const std::vector<KeyPart>& parts, std::span<const KeyTable> tables, const HashedRows& rows)
        : parts_(parts), rows_(rows), values_(parts.size()), answers_(parts.size() * kTileRows) {
        for (const auto& table : tables) {
            for (const auto part : table.parts) prepare(static_cast<std::size_t>(part));
            asked_.push_back({&table, n_keys(table) <= std::max<std::size_t>(rows.n_rows, 1) ? of_all_keys(table)
                                                                                             : std::vector<Number>{}});
        }
    }

    const Categories& categories(std::size_t column) {
        return categories_.try_emplace(column, rows_, column).first->second;
    }

    // Writes what the tables have for up to kTileRows rows, side by side.
    void write(std::size_t first, std::size_t n, Number* out, std::size_t stride) {
        answer(first, n);
        std::array<std::uint32_t, kTileRows> place;
        for (const auto& asked : asked_) {
            const auto n_numbers = static_cast<std::size_t>(asked.table->n_numbers);
            if (asked.numbers.empty()) {
                for (std::size_t r = 0; r < n; ++r) {
                    const float* const from =
                        asked.table->numbers.data() + place_of(*asked.table, key_of(*asked.table, r)) * n_numbers;
                    for (std::size_t i = 0; i < n_numbers; ++i) out[r * stride + i] = static_cast<Number>(from[i]);
                }
            } else {
                place.fill(0);
                for (const auto part : asked.table->parts) {
                    const auto size = static_cast<std::uint32_t>(values(part).size());
                    const std::uint32_t* const answers = answers_of(part);
                    for (std::size_t r = 0; r < kTileRows; ++r) place[r] = place[r] * size + answers[r];
                }
                copy(asked.numbers.data(), n_numbers, place.data(), n, out, stride);
            }
            out += n_numbers;
        }
    }

  private:
    struct Asked {
        const KeyTable* table;
        std::vector<Number> numbers;  // of each key that rows could have; none if these are too many
    };

    void prepare(std::size_t part) {
        if (!values_[part].empty()) return;
        used_.push_back(part);
        if (parts_[part].kind != KeyPart::Kind::category) {
            values_[part] = {{0, true}, {1, true}};
            return;
        }
        for (const double hash : categories(parts_[part].column).hashes()) {
            const bool is_known = hash == hash;
            const auto value = static_cast<std::uint64_t>(is_known ? static_cast<std::int64_t>(hash) : 0);
            values_[part].push_back({value, is_known});
        }
    }

    // How many different keys there could be; no more than is too many.
    std::size_t n_keys(const KeyTable& table) const {
        std::size_t n = 1;
        for (const auto part : table.parts)
            if (n <= rows_.n_rows) n *= values(part).size();
        return n;
    }

    const std::vector<PartValue>& values(std::int32_t part) const { return values_[static_cast<std::size_t>(part)]; }
    std::uint32_t* answers_of(std::int32_t part) { return &answers_[static_cast<std::size_t>(part) * kTileRows]; }

    std::vector<Number> of_all_keys(const KeyTable& table) const {
        std::vector<PartValue> keys{{0, true}}, longer;
        for (const auto part : table.parts) {
            longer.clear();
            for (const auto& key : keys)
                for (const auto& one : values(part))
                    longer.push_back({with_part(key.value, one.value), key.is_known && one.is_known});
            keys.swap(longer);
        }
        const auto n_numbers = static_cast<std::size_t>(table.n_numbers);
        std::vector<Number> out;
        out.reserve(keys.size() * n_numbers);
        for (const auto& key : keys) {
            const float* const from = table.numbers.data() + place_of(table, key) * n_numbers;
            out.insert(out.end(), from, from + n_numbers);
        }
        return out;
    }

    // Which of its values each part has in some rows.
    void answer(std::size_t first, std::size_t n) {
        for (const std::size_t p : used_) {
            const KeyPart& part = parts_[p];
            std::uint32_t* const out = &answers_[p * kTileRows];
            if (part.kind == KeyPart::Kind::category) {
                const Categories& of_column = categories_.at(part.column);
                for (std::size_t r = 0; r < n; ++r) out[r] = of_column.of_row(first + r);
            } else if (part.kind == KeyPart::Kind::equal) {
                for (std::size_t r = 0; r < n; ++r) out[r] = rows_(first + r, part.column) == part.operand ? 1 : 0;
            } else {
                const auto border = static_cast<Number>(part.operand);
                for (std::size_t r = 0; r < n; ++r) {
                    const auto x = static_cast<Number>(rows_(first + r, part.column));
                    out[r] = (x != x ? part.if_missing : x > border) ? 1 : 0;
                }
            }
        }
    }

    PartValue key_of(const KeyTable& table, std::size_t r) {
        PartValue key{0, true};
        for (const auto part : table.parts) {
            const PartValue& one = values(part)[answers_of(part)[r]];
            key = {with_part(key.value, one.value), key.is_known && one.is_known};
        }
        return key;
    }

    static void copy(const Number* numbers, std::size_t n_numbers, const std::uint32_t* place, std::size_t n,
                     Number* out, std::size_t stride) {
        if (n_numbers == 1) {  // as mostly
            for (std::size_t r = 0; r < n; ++r) out[r * stride] = numbers[place[r]];
            return;
        }
        for (std::size_t r = 0; r < n; ++r)
            for (std::size_t i = 0; i < n_numbers; ++i) out[r * stride + i] = numbers[place[r] * n_numbers + i];
    }

    const std::vector<KeyPart>& parts_;
    const HashedRows& rows_;
    std::map<std::size_t, Categories> categories_;  // by column
    std::vector<std::size_t> used_;                 // parts
    std::vector<std::vector<PartValue>> values_;    // of each part that is used
    std::vector<std::uint32_t> answers_;            // [part][row of the tile] which of its values
    std::vector<Asked> asked_;
};

// The code of each hash, NaN if the model has none for it.
template <class Number>
std::vector<Number> codes_of(const std::vector<double>& hashes, const std::vector<double>& known) {
    std::vector<std::pair<double, std::size_t>> codes;
    for (std::size_t code = 0; code < known.size(); ++code) codes.emplace_back(known[code], code);
    std::sort(codes.begin(), codes.end());
    std::vector<Number> out;
    for (const double hash : hashes) {
        const auto found = std::lower_bound(codes.begin(), codes.end(), std::pair<double, std::size_t>(hash, 0));
        const bool is_known = hash == hash && found != codes.end() && found->first == hash;
        out.push_back(is_known ? static_cast<Number>(found->second) : std::numeric_limits<Number>::quiet_NaN());
    }
    return out;
}

}  // namespace

KeyTables::KeyTables(std::vector<KeyPart> parts, std::vector<KeyTable> tables, std::vector<HashedColumn> hashed)
    : parts_(std::move(parts)), tables_(std::move(tables)), hashed_(std::move(hashed)) {
    for (const auto& table : tables_) n_numbers_ += static_cast<std::size_t>(table.n_numbers);
    const auto need = [&](std::size_t column) { n_features_ = std::max(n_features_, column + 1); };
    for (const auto& part : parts_) need(part.column);
    for (const auto& one : hashed_) need(one.column);
}

template <class Number>
void KeyTables::fill(const HashedRows& rows, std::span<Number> out, std::size_t n_columns) const {
    TablesForRows<Number> tables(parts_, tables_, rows);
    struct Coded {
        std::size_t column;
        const Categories& categories;
        std::vector<Number> codes;
    };
    std::vector<Coded> coded;
    for (const auto& one : hashed_) {
        const Categories& categories = tables.categories(one.column);
        coded.push_back({one.column, categories, codes_of<Number>(categories.hashes(), one.known)});
    }
    for (std::size_t first = 0; first < rows.n_rows; first += kTileRows) {
        const std::size_t n = std::min(kTileRows, rows.n_rows - first);
        Number* const to = out.data() + first * n_columns;
        for (std::size_t column = 0; column < rows.n_features; ++column)
            for (std::size_t r = 0; r < n; ++r)
                to[r * n_columns + column] = static_cast<Number>(rows(first + r, column));
        for (const auto& one : coded)
            for (std::size_t r = 0; r < n; ++r)
                to[r * n_columns + one.column] = one.codes[one.categories.of_row(first + r)];
        tables.write(first, n, to + rows.n_features, n_columns);
    }
}

template <class Number>
void KeyTables::look_up(std::size_t table, const HashedRows& rows, std::span<Number> out) const {
    TablesForRows<Number> tables(parts_, std::span(tables_).subspan(table, 1), rows);
    const std::size_t n_numbers = this->n_numbers(table);
    for (std::size_t first = 0; first < rows.n_rows; first += kTileRows)
        tables.write(first, std::min(kTileRows, rows.n_rows - first), out.data() + first * n_numbers, n_numbers);
}

template void KeyTables::fill(const HashedRows&, std::span<float>, std::size_t) const;
template void KeyTables::fill(const HashedRows&, std::span<double>, std::size_t) const;
template void KeyTables::look_up(std::size_t, const HashedRows&, std::span<float>) const;
template void KeyTables::look_up(std::size_t, const HashedRows&, std::span<double>) const;

}  // namespace linear_treeshap
