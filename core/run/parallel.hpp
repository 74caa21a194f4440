// Runs numbered tasks on threads of our own, which live as long as the call: nothing is left behind
// to break after a fork or to clash with another library's thread pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "run/worker.hpp"

namespace linear_treeshap {

// std::jthread, which not every standard library has.
class JoinedThread : public std::thread {
  public:
    using std::thread::thread;
    JoinedThread(JoinedThread&&) = default;
    ~JoinedThread() {
        if (joinable()) join();
    }
};

// Calls run(task, worker) for each task below n_tasks; the calling thread works too. The first exception stops the
// rest and is thrown again here.
template <class Run>
void parallel_for(std::size_t n_tasks, int n_threads, Control& control, const Run& run) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    std::size_t n_working = 0;
    std::mutex mutex;  // of the two above
    std::condition_variable someone_is_done;
    const auto guarded = [&](const auto& action) {
        try {
            action();
        } catch (...) {
            control.stop();
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
        }
    };
    const auto work = [&](bool is_caller) {
        guarded([&] {
            const Worker worker(control, is_caller);
            for (std::size_t task; !control.stopped() && (task = next.fetch_add(1)) < n_tasks;) run(task, worker);
        });
    };
    std::vector<JoinedThread> threads;
    n_working = std::min(n_tasks, static_cast<std::size_t>(n_threads)) - (n_tasks > 0 ? 1 : 0);
    std::size_t n_missing = n_working;
    try {
        for (; n_missing > 0; --n_missing)
            threads.emplace_back([&] {
                if (prepare_thread()) work(false);
                const std::lock_guard lock(mutex);
                --n_working;
                someone_is_done.notify_one();
            });
    } catch (const std::system_error&) {  // there are no more to be had: those there are do all the work
        const std::lock_guard lock(mutex);
        n_working -= n_missing;
    }
    work(true);
    // The others may have long tasks left: keep listening to the user until they are done.
    std::unique_lock lock(mutex);
    while (n_working > 0) {
        if (someone_is_done.wait_for(lock, Control::kInterval) == std::cv_status::no_timeout) continue;
        lock.unlock();
        guarded([&] { control.advance(0, true); });
        lock.lock();
    }
    lock.unlock();
    threads.clear();  // joins
    if (error) std::rethrow_exception(error);
}

}  // namespace linear_treeshap
