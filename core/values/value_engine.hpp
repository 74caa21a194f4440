// Path-dependent values of a compiled model: the kernel chosen for this machine and, for small models, the tables of
// trees that are one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/kernel.hpp"
#include "run/parallel.hpp"

namespace linear_treeshap {

// Calls of no more rows may be added up in other orders than larger ones.
inline constexpr std::size_t kFewRows = 16;

class ValueEngine {
  public:
    // The program must outlive this.
    ValueEngine(const Program& program, const Kernel& kernel);
    ValueEngine(const ValueEngine&) = delete;

    // Writes values[row][player][output] of all rows, with the bits that they have among many others if that is asked
    // for.
    template <class Value>
    void explain(const RowsView& rows, std::span<Value> values, int n_threads, const Control::Poll& poll,
                 bool among_many = false) const;

    const Program& program() const { return program_; }

  private:
    Way way_for(std::size_t n_rows) const;
    MostRows find_most_rows() const;
    std::size_t rows_per_task() const;
    std::vector<std::size_t> cuts(std::size_t n_rows, int n_threads) const;

    const Program& program_;
    const Kernel& kernel_;
    Buffer<double> tables_;
    std::size_t task_rows_;
    MostRows most_;  // more walk in blocks
};

}  // namespace linear_treeshap
