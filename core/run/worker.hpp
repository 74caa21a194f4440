// What a thread has while it works for a call: memory, and a way to hear that the work must stop.
//
// Whoever works may look up from it at any time (`advance`), and then Python may run: a progress callback or a signal
// handler, which may itself explain rows, on this very thread. So memory is lent: it belongs to one call until that
// ends, and a call that begins meanwhile gets memory of its own. The thread keeps it from call to call, because one
// row costs less than asking the system for memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "run/buffer.hpp"
#include "run/control.hpp"

namespace linear_treeshap {

// What a new thread does first: gets what C++ needs to throw. Returns false if there is no memory for that, and then
// the thread must do nothing that can fail.
bool prepare_thread();

struct Workspace {
    Buffer<double> x;                            // [block][column][64 rows], of the model's number type
    Buffer<double> phi;                          // [walk][player, pair or set][output][rows of the walk]
    Buffer<double> stack;                        // what a walk keeps of each level
    Buffer<double> tables;                       // of the trees at hand, where they are not kept
    Buffer<double> values;                       // of a task, before they are written where they belong
    Buffer<std::uint64_t> words;                 // [condition, or edge][block of the walk] a bit per row
    Buffer<std::uint64_t> satisfied;             // [edge, or split][block of the walk] a bit per row
    Buffer<std::uint8_t> states;                 // of a few rows, their answers
    Buffer<double> background_x;                 // as x and satisfied, of background rows
    Buffer<std::uint64_t> background_satisfied;  //
};

class Worker {
  public:
    Worker(Control& control, bool is_caller);
    ~Worker();
    Worker(const Worker&) = delete;

    Workspace& workspace() const { return *workspace_; }
    // As Control::advance. What is in the workspace stays as it is.
    bool advance(std::size_t work) const;

  private:
    Control& control_;
    bool is_caller_;
    std::unique_ptr<Workspace> workspace_;
};

}  // namespace linear_treeshap
