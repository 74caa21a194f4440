// Runs numbered tasks on the calling thread and on others, which wait for it between calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

#include "run/crew.hpp"
#include "run/worker.hpp"

namespace linear_treeshap {

// Calls run(task, worker) for each task below n_tasks; the calling thread works too. The first exception stops the
// rest and is thrown again here.
template <class Run>
void parallel_for(std::size_t n_tasks, int n_threads, Control& control, const Run& run) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    std::mutex mutex;  // of the error
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
    const std::size_t n_others = std::min(n_tasks, static_cast<std::size_t>(n_threads)) - (n_tasks > 0 ? 1 : 0);
    if (n_others == 0) {
        work(true);
    } else {
        const std::function<void()> help = [&] { work(false); };
        Crew::Shift shift(Crew::here(), n_others, help);
        work(true);
        // The others may have long tasks left: keep listening to the user until they are done.
        while (!shift.is_over(Control::kInterval)) guarded([&] { control.advance(0, true); });
    }
    if (error) std::rethrow_exception(error);
}

}  // namespace linear_treeshap
