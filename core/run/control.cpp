// Not in the header: kernels look up too, and what they include is compiled for their instruction set alone.

#include "run/control.hpp"

#include <algorithm>
#include <utility>

namespace linear_treeshap {

Control::Control(Poll poll, std::size_t total_work)
    : poll_(std::move(poll)), total_(std::max<std::size_t>(1, total_work)) {}

bool Control::advance(std::size_t work, bool is_caller) {
    const std::size_t done = done_.fetch_add(work, std::memory_order_relaxed) + work;
    if (is_caller && Clock::now() >= next_poll_) {
        next_poll_ = Clock::now() + kInterval;
        poll_(static_cast<double>(done) / static_cast<double>(total_));
    }
    return !stopped_.load(std::memory_order_relaxed);
}

}  // namespace linear_treeshap
