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

// Looks up for those who plan: on the calling thread, alone, with no share of the work to tell. `tick` may be called
// as often as there is something to count: the clock is looked at rarely, and the user heard more rarely still.
class Listener {
  public:
    explicit Listener(const Control::Poll& poll) : control_(poll, 1) {}
    void tick(std::size_t work = 1) {
        if ((work_ += work) < kWork) return;
        work_ = 0;
        control_.advance(0, true);
    }

  private:
    static constexpr std::size_t kWork = std::size_t{1} << 14;  // nodes, or places on a path: a millisecond
    Control control_;
    std::size_t work_ = 0;
};

}  // namespace linear_treeshap
