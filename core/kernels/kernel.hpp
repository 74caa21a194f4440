// The kernel as its callers see it: one source (value_kernel.cpp), compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "compile/one_row.hpp"
#include "compile/program.hpp"

namespace linear_treeshap {

// Memory aligned for any vector; grows, never shrinks, and does not keep its contents when it grows.
template <class T>
class Buffer {
  public:
    T* reserve(std::size_t n) {
        if (n > size_) {
            data_.reset();
            size_ = 0;
            const std::size_t bytes = (n * sizeof(T) + 63) / 64 * 64;
            data_.reset(static_cast<T*>(::operator new(bytes, std::align_val_t{64})));
            size_ = n;
        }
        return data_.get();
    }
    const T* data() const { return data_.get(); }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t size_ = 0;
};

// What a thread needs besides its stack; reused from call to call.
struct Workspace {
    Buffer<double> x;                 // [block][column][64 rows], of the model's number type
    Buffer<double> phi;               // [walk][player][output][rows of the walk]
    Buffer<double> stack;             // C and H of each level
    Buffer<double> expansion;         // constants of the tree at hand
    Buffer<std::uint64_t> satisfied;  // [walk][edge][block of the walk] a bit per row
    Buffer<std::uint8_t> states;      // [walk][treelet][row of the walk]; of one row, what it satisfies
};

struct RowsView {
    const void* data;  // (n_rows, n_columns) row-major, float or double as Program::is_float32 says
    std::size_t n_rows;
};

// The constants of all trees, where they are kept; null, and they are expanded by whoever needs them.
struct Constants {
    const double* expanded;
    const OneRowTree* one_row;  // of all trees, in order
};

struct Kernel {
    std::string_view name;
    // Precomputes a tree's constants; `out` has room for expansion_doubles(…).
    void (*expand)(const Program&, const Chunk&, const Tree&, double* out);
    // Adds the values that a chunk of trees gives to some rows to values[row][player][output].
    void (*explain)(const Program&, const Chunk&, const RowsView&, const Constants&, Workspace&, double* values);
};

// The kernels that this machine can run, the best first.
std::span<const Kernel* const> kernels();

}  // namespace linear_treeshap
