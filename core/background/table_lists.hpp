// The tables of a background engine as lists, for devices that look rows up in them by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/background_plan.hpp"

namespace linear_treeshap {

// Tables one after another, and leaves that are in none, which are tables of nothing but their values. A state has a
// bit for each question, which is set where the row meets all of its conditions.
struct TableLists {
    // Of every split; features in the model's numbering.
    std::vector<std::int32_t> feature, category_set;
    std::vector<double> threshold;
    std::vector<std::uint8_t> missing_left;

    std::vector<std::int32_t> condition;           // 2·split + side that a row has to take
    std::vector<std::int64_t> first_condition{0};  // of each bit, and the number of all
    std::vector<std::int64_t> first_bit{0};        // of each table
    std::vector<std::int64_t> first_lane{0};       // of each table
    std::vector<std::int32_t> player, output;      // of each lane, in the model's numbering
    std::vector<std::uint8_t> is_scanned;          // of each table: is it a leaf?
    std::vector<std::int64_t> first_number{0};     // of each table
    std::vector<double> number;                    // [state][lane], eight lanes at least; of a leaf [output]

    // Adds the tables of a tree, and its leaves that are in none and have a value.
    void add(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const double* tables);

  private:
    void add_splits(const Chunk& chunk, const Tree& tree);
    void add_leaves(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, std::int32_t split_base);
    void add_edge(const Tree& tree, std::int32_t edge, std::int32_t split_base);
    void end_table(bool leaf);
};

}  // namespace linear_treeshap
