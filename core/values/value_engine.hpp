// Path-dependent values of a compiled model: the kernel chosen for this machine and, for small models, every
// tree's constants, kept expanded so that a few rows are quick.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "kernels/kernel.hpp"
#include "run/parallel.hpp"

namespace linear_treeshap {

class ValueEngine {
  public:
    // The program must outlive this.
    ValueEngine(const Program& program, const Kernel& kernel);
    ValueEngine(const ValueEngine&) = delete;

    // Writes values[row][player][output] of all rows.
    template <class Value>
    void explain(const RowsView& rows, std::span<Value> values, int n_threads, const Control::Poll& poll) const;

    const Program& program() const { return program_; }

  private:
    void keep_constants();
    std::size_t rows_per_task() const;
    std::vector<std::size_t> cuts(std::size_t n_rows, int n_threads, bool is_expanding) const;

    const Program& program_;
    const Kernel& kernel_;
    Buffer<double> expanded_;
    std::vector<OneRowTree> one_row_;
    std::size_t task_rows_;
    std::size_t max_plain_rows_ = std::numeric_limits<std::size_t>::max();  // where constants are not kept
};

}  // namespace linear_treeshap
