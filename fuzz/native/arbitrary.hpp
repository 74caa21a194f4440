// Bytes → a model that is valid, rows, and background rows. Every string of bytes is one, and similar strings are
// similar ones; a string that ends early goes on as zeros, which are leaves.
//
// What always holds is what ensemble.py checks: children exist, covers add up and are finite, leaves are finite and
// within the sizes that Python scales them to, sets of categories are sorted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "model/at.hpp"
#include "model/ensemble.hpp"
#include "run/rows.hpp"

namespace linear_treeshap::fuzz {

class Bytes {
  public:
    explicit Bytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

    bool is_empty() const { return at_ == bytes_.size(); }
    std::uint8_t byte() { return is_empty() ? std::uint8_t{0} : bytes_[at_++]; }
    // From 0 to n - 1.
    std::int32_t below(int n) { return byte() % n; }
    template <class T, std::size_t n>
    T one_of(const T (&choices)[n]) {
        return choices[byte() % n];
    }
    // Any bits.
    double any() {
        std::uint64_t bits = 0;
        for (int i = 0; i < 8; ++i) bits = bits << 8 | byte();
        double number;
        std::memcpy(&number, &bits, sizeof number);
        return number;
    }

  private:
    std::span<const std::uint8_t> bytes_;
    std::size_t at_ = 0;
};

class Model {
  public:
    explicit Model(Bytes& bytes) {
        constexpr std::int32_t columns[] = {1, 2, 3, 4, 5, 6, 9, 33};
        constexpr std::int32_t outputs[] = {1, 1, 1, 2, 3, 17};
        n_columns = bytes.one_of(columns);
        n_outputs = bytes.one_of(outputs);
        width = n_outputs > 1 && bytes.below(2) == 1 ? n_outputs : 1;
        is_float32 = bytes.below(2) == 1;
        choose_players(bytes);
        choose_categories(bytes);
        for (int n = bytes.below(8); n > 0; --n) grow_tree(bytes);
    }

    EnsembleView view() const {
        return {.tree_offsets = tree_offsets_,
                .left = left_,
                .right = right_,
                .feature = feature_,
                .threshold = threshold_,
                .missing_left = {missing_left_.get(), n_nodes()},
                .category_set = category_set_,
                .category_offsets = category_offsets_,
                .category_codes = category_codes_,
                .cover = cover_,
                .value = value_,
                .tree_output = tree_output_,
                .player = player_,
                .width = width,
                .n_outputs = n_outputs,
                .n_players = n_players,
                .is_float32 = is_float32};
    }

    std::size_t n_nodes() const { return left_.size(); }

    // Rows that like to be on thresholds and beside them, each number in the model's type.
    std::vector<double> rows(Bytes& bytes, std::size_t n_rows) const {
        std::vector<double> kept(16);
        for (double& number : kept) number = row_number(bytes);
        std::vector<double> out(n_rows * at(n_columns));
        // Not all from bytes of their own: a row more must not need a longer string.
        std::uint32_t mixed = bytes.byte();
        for (double& number : out) {
            mixed = mixed * 1664525u + 1013904223u;
            number = kept[mixed >> 28];
            if (is_float32) number = static_cast<float>(number);
        }
        return out;
    }

    std::int32_t n_columns, n_outputs, n_players, width;
    bool is_float32;

  private:
    static constexpr std::size_t kMaxNodes = 600;
    static constexpr int kMaxDepth = 150;

    void choose_players(Bytes& bytes) {
        const bool is_grouped = n_columns > 1 && bytes.below(3) == 1;
        n_players = is_grouped ? 1 + bytes.below(n_columns) : n_columns;
        for (std::int32_t column = 0; column < n_columns; ++column)
            player_.push_back(is_grouped ? bytes.below(n_players) : column);
    }

    void choose_categories(Bytes& bytes) {
        constexpr std::int32_t steps[] = {1, 1, 2, 31, 32, 1000, 50'000'000};
        category_offsets_.push_back(0);
        for (int n = bytes.below(4); n > 0; --n) {
            std::int64_t code = bytes.below(40) - 1;
            for (int k = bytes.below(20); k > 0; --k) {
                code += bytes.one_of(steps);
                category_codes_.push_back(static_cast<std::int32_t>(code));
            }
            category_offsets_.push_back(static_cast<std::int64_t>(category_codes_.size()));
        }
    }

    void grow_tree(Bytes& bytes) {
        tree_output_.push_back(width == 1 ? bytes.below(n_outputs) : 0);
        const std::size_t root = n_nodes();
        const int style = bytes.byte();  // bushy, or a chain
        grow(bytes, root, style % 2 == 1, style % 4 >= 2 ? kMaxDepth : 7);
        tree_offsets_.push_back(static_cast<std::int64_t>(n_nodes()));
        missing_left_.reset(new bool[n_nodes()]);
        std::copy(goes_left_.begin(), goes_left_.end(), missing_left_.get());
    }

    // Returns the node, counted from the root; covers of inner nodes are sums.
    std::int32_t grow(Bytes& bytes, std::size_t root, bool is_chain, int levels) {
        const std::size_t node = n_nodes();
        const std::uint8_t kind = bytes.byte();
        add_node();
        if (levels == 0 || node - root > kMaxNodes || kind % 4 == 0 || bytes.is_empty()) {
            cover_[node] = leaf_cover(bytes);
            for (std::int32_t output = 0; output < width; ++output)
                value_[node * at(width) + at(output)] = leaf_value(bytes);
            return static_cast<std::int32_t>(node - root);
        }
        feature_[node] = bytes.below(n_columns);
        goes_left_[node] = kind % 8 >= 4;
        const auto n_sets = static_cast<std::int32_t>(category_offsets_.size()) - 1;
        if (kind % 16 >= 12 && n_sets > 0)
            category_set_[node] = bytes.below(n_sets);
        else
            threshold_[node] = threshold(bytes);
        const std::int32_t left = grow(bytes, root, is_chain, is_chain && kind % 32 >= 16 ? 0 : levels - 1);
        const std::int32_t right = grow(bytes, root, is_chain, is_chain && kind % 32 < 16 ? 0 : levels - 1);
        left_[node] = left;
        right_[node] = right;
        cover_[node] = cover_[root + at(left)] + cover_[root + at(right)];
        return static_cast<std::int32_t>(node - root);
    }

    void add_node() {
        left_.push_back(-1);
        right_.push_back(-1);
        feature_.push_back(-1);
        threshold_.push_back(0.0);
        goes_left_.push_back(0);
        category_set_.push_back(-1);
        cover_.push_back(0.0);
        value_.resize(value_.size() + at(width));
    }

    static double leaf_cover(Bytes& bytes) {
        constexpr double covers[] = {1.0, 0.0, 2.0, 3.0, 0.5, 1e-12, 1e12, 7.0, 1e-300, 1e300};
        return bytes.one_of(covers);
    }

    static double leaf_value(Bytes& bytes) {
        constexpr double values[] = {1.0, 0.0, -1.0, 0.1, -3.0, 1e-9, 1e9, -2e9, 12345.678};
        const std::uint8_t kind = bytes.byte();
        if (kind < 224) return values[kind % std::size(values)];
        const double value = std::abs(bytes.any());
        return value > 0x1p-64 && value < 0x1p64 ? value : 1.0;
    }

    static double threshold(Bytes& bytes) {
        const std::uint8_t kind = bytes.byte();
        if (kind < 224) return kThresholds[kind % std::size(kThresholds)];
        const double number = bytes.any();
        return std::isnan(number) ? 0.0 : number;
    }

    double row_number(Bytes& bytes) const {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const std::uint8_t kind = bytes.byte();
        if (kind < 16) return std::numeric_limits<double>::quiet_NaN();
        if (kind < 48 && !category_codes_.empty())
            return category_codes_[kind % category_codes_.size()] + (kind % 3 == 0 ? 0.5 : 0.0);
        if (kind >= 240) return bytes.any();
        const double number = kind < 200 || threshold_.empty() ? kThresholds[kind % std::size(kThresholds)]
                                                               : threshold_[bytes.byte() % threshold_.size()];
        return kind % 3 == 0 ? number : std::nextafter(number, kind % 3 == 1 ? infinity : -infinity);
    }

    static constexpr double kThresholds[] = {0.0,
                                             -0.0,
                                             0.5,
                                             1.0,
                                             -1.0,
                                             2.0,
                                             3.0,
                                             -2.5,
                                             0.1,
                                             100.0,
                                             5e-324,
                                             1e-40,
                                             1e300,
                                             -1e300,
                                             3.4028235e38,
                                             std::numeric_limits<double>::infinity(),
                                             -std::numeric_limits<double>::infinity()};

    std::vector<std::int64_t> tree_offsets_{0}, category_offsets_;
    std::vector<std::int32_t> left_, right_, feature_, category_set_, category_codes_, tree_output_, player_;
    std::vector<double> threshold_, cover_, value_;
    std::vector<std::uint8_t> goes_left_;
    std::unique_ptr<bool[]> missing_left_;  // a span of bool is no vector<bool>
};

// Rows as engines take them.
class Rows {
  public:
    Rows(const Model& model, const std::vector<double>& numbers)
        : as_double_(numbers),
          as_float_(numbers.begin(), numbers.end()),
          n_rows_(numbers.size() / at(model.n_columns)),
          n_columns_(at(model.n_columns)),
          is_float32_(model.is_float32) {}

    RowsView view() const {
        const void* const data = is_float32_ ? static_cast<const void*>(as_float_.data()) : as_double_.data();
        return {data, n_rows_, n_columns_, is_float32_};
    }
    const double* row(std::size_t i) const { return as_double_.data() + i * n_columns_; }
    std::size_t size() const { return n_rows_; }

  private:
    std::vector<double> as_double_;
    std::vector<float> as_float_;
    std::size_t n_rows_, n_columns_;
    bool is_float32_;
};

}  // namespace linear_treeshap::fuzz
