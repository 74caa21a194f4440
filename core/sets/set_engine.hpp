// Indices of sets of players, for any number of rows.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kernels/set_kernel.hpp"

namespace linear_treeshap {

class SetEngine {
  public:
    SetEngine(SetProgram program, const Kernel& kernel);

    // Writes values[row][set][output].
    template <class Value>
    void explain(const RowsView& rows, std::span<Value> values, int n_threads, const Control::Poll& poll) const;
    // Writes values[row][player][player][output] of orders 1 and 2: pairs split half and half.
    template <class Value>
    void explain_dense(const RowsView& rows, std::span<Value> values, int n_threads, const Control::Poll& poll) const;
    // Adds values, and absolute values, of all rows to [set][output].
    void add_up(const RowsView& rows, std::span<double> sum, std::span<double> sum_abs, int n_threads,
                const Control::Poll& poll) const;

    const SetProgram& program() const { return program_; }

  private:
    // Calls use(first_row, n_rows, values) with the values of some rows, on any thread; they lie in `out`, or if that
    // is null in a buffer that is used again.
    using Use = std::function<void(std::size_t, std::size_t, const double*)>;
    void for_blocks(const RowsView& rows, double* out, int n_threads, const Control::Poll& poll, const Use& use) const;

    SetProgram program_;
    const SetKernel& kernel_;
};

}  // namespace linear_treeshap
