// Threads that wait between calls: starting one costs as much as explaining some rows, and so does the memory that it
// keeps (worker.hpp). They leave when nobody has needed them for a while.
//
// A process has one crew, which grows as it is needed. Before a fork those who wait are sent home, and the child begins
// with a crew of its own. None is ever destroyed: a process may end while they wait. They never enter Python, and hear
// no signals.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace linear_treeshap {

class Crew {
  public:
    // The crew of this process.
    static Crew& here();

    // A job that up to so many threads do together, each once, beside the one who asks.
    class Shift {
      public:
        // At least one thread; the job must not throw.
        Shift(Crew& crew, std::size_t n_threads, const std::function<void()>& job);
        ~Shift();
        Shift(const Shift&) = delete;

        // Nobody joins any more. Returns whether those who did are done; waits so long for them at most.
        bool is_over(std::chrono::milliseconds patience);

      private:
        friend Crew;
        Crew& crew_;
        const std::function<void()>& job_;
        std::size_t n_seats_;  // not taken
        std::atomic<std::size_t> n_working_{0};
    };

  private:
    struct Member {
        std::thread thread;
        bool is_idle = true, is_sent_home = false;  // idle: on the way here, too
    };

    void add_member();
    void attend(std::list<Member>::iterator me);
    void send_home();

    std::mutex mutex_;  // of all that follows, and of shifts
    std::condition_variable is_wanted_, is_done_;
    std::list<Shift*> open_;                // with seats that are not taken
    std::atomic<std::size_t> n_wanted_{0};  // these seats, to be looked at without the lock
    std::list<Member> members_;
};

}  // namespace linear_treeshap
