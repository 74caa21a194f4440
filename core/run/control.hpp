// How a long call looks up from its work: a function is asked now and then, on the calling thread, with the share of
// the work that is done; it throws to stop everything.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

namespace linear_treeshap {

class Control {
  public:
    using Poll = std::function<void(double share_done)>;

    Control(Poll poll, std::size_t total_work);

    // Called after each piece of work by whoever did it. Returns false if the work must stop.
    bool advance(std::size_t work, bool is_caller);
    void stop() { stopped_ = true; }
    bool stopped() const { return stopped_; }

    static constexpr auto kInterval = std::chrono::milliseconds(50);

  private:
    using Clock = std::chrono::steady_clock;

    Poll poll_;
    std::size_t total_;
    std::atomic<std::size_t> done_{0};
    std::atomic<bool> stopped_{false};
    Clock::time_point next_poll_ = Clock::now() + kInterval;
};

}  // namespace linear_treeshap
