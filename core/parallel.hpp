// Runs numbered tasks on threads of our own, which live as long as the call: nothing is left behind
// to break after a fork or to clash with another library's thread pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace linear_treeshap {

// How a long call looks up from its work: `poll` is asked now and then, on the calling thread, with
// the share of the work that is done; it throws to stop everything.
class Control {
  public:
    using Poll = std::function<void(double share_done)>;

    Control(Poll poll, std::size_t total_work) : poll_(std::move(poll)), total_(total_work) {}

    // Called after each piece of work by whoever did it. Returns false if the work must stop.
    bool advance(std::size_t work, bool is_caller) {
        const std::size_t done = done_.fetch_add(work, std::memory_order_relaxed) + work;
        if (is_caller && Clock::now() >= next_poll_) poll_now(done);
        return !stopped_.load(std::memory_order_relaxed);
    }
    void stop() { stopped_ = true; }
    bool stopped() const { return stopped_; }

    static constexpr auto kInterval = std::chrono::milliseconds(50);

  private:
    using Clock = std::chrono::steady_clock;

    void poll_now(std::size_t done) {
        next_poll_ = Clock::now() + kInterval;
        poll_(static_cast<double>(done) / static_cast<double>(total_));
    }

    Poll poll_;
    std::size_t total_;
    std::atomic<std::size_t> done_{0};
    std::atomic<bool> stopped_{false};
    Clock::time_point next_poll_ = Clock::now() + kInterval;
};

// Calls run(task, is_caller) for each task below n_tasks; the calling thread works too. The first
// exception stops the rest and is thrown again here.
template <class Run>
void parallel_for(std::size_t n_tasks, int n_threads, Control& control, const Run& run) {
    std::atomic<std::size_t> next{0};
    std::atomic<int> n_working{0};
    std::exception_ptr error;
    std::mutex error_mutex;
    const auto work = [&](bool is_caller) {
        try {
            for (std::size_t task; !control.stopped() && (task = next.fetch_add(1)) < n_tasks;) run(task, is_caller);
        } catch (...) {
            control.stop();
            const std::lock_guard lock(error_mutex);
            if (!error) error = std::current_exception();
        }
    };
    std::vector<std::jthread> threads;
    const auto n_extra = std::min(n_tasks, static_cast<std::size_t>(n_threads)) - (n_tasks > 0 ? 1 : 0);
    for (std::size_t i = 0; i < n_extra; ++i) {
        n_working.fetch_add(1);
        threads.emplace_back([&] {
            work(false);
            n_working.fetch_sub(1);
        });
    }
    work(true);
    // The others may have long tasks left: keep listening to the user until they are done.
    auto pause = std::chrono::microseconds(20);
    while (n_working.load() > 0) {
        std::this_thread::sleep_for(pause);
        pause = std::min<std::chrono::microseconds>(2 * pause, std::chrono::milliseconds(5));
        try {
            control.advance(0, true);
        } catch (...) {
            control.stop();
            const std::lock_guard lock(error_mutex);
            if (!error) error = std::current_exception();
        }
    }
    threads.clear();  // joins
    if (error) std::rethrow_exception(error);
}

}  // namespace linear_treeshap
