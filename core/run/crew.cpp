// Seats are taken under a lock, which is held for moments only.

#include "run/crew.hpp"

#include <algorithm>
#include <iterator>
#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#endif

#include "run/worker.hpp"

namespace linear_treeshap {
namespace {

using namespace std::chrono_literals;

// How long a thread waits to be needed, and how long everybody keeps looking before going to sleep: to sleep and to be
// woken takes about as long.
constexpr auto kIdleTime = 5s;
constexpr auto kLookingTime = 50us;

// Asks until something is so, for that time at most.
template <class Condition>
bool look(const Condition& is_so) {
    const auto until = std::chrono::steady_clock::now() + kLookingTime;
    while (!is_so()) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::yield();
    }
    return true;
}

// Who finds the lock taken by many, and sleeps, is woken after all of them, one by one.
void take(std::unique_lock<std::mutex>& lock) {
    if (!look([&] { return lock.try_lock(); })) lock.lock();
}

std::atomic<Crew*> crew_of_process{nullptr};

// Signals are for threads that were there before us.
class NoSignals {
  public:
#if defined(_WIN32)
    NoSignals() {}
#else
    NoSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_;
#endif
};

}  // namespace

Crew& Crew::here() {
#if !defined(_WIN32)
    [[maybe_unused]] static const int is_registered = pthread_atfork(
        [] {
            if (Crew* const crew = crew_of_process.load()) crew->send_home();
        },
        nullptr, [] { crew_of_process.store(nullptr); });
#endif
    Crew* crew = crew_of_process.load();
    if (crew == nullptr) {
        auto* const made = new Crew;
        if (crew_of_process.compare_exchange_strong(crew, made))
            crew = made;
        else
            delete made;  // another thread was quicker
    }
    return *crew;
}

// The lock is held.
void Crew::add_member() {
    const auto me = members_.emplace(members_.end());
    try {
        const NoSignals in_the_new_thread;
        me->thread = std::thread([this, me] { attend(me); });
    } catch (...) {
        members_.erase(me);
        throw;
    }
}

void Crew::attend(std::list<Member>::iterator me) {
    const bool is_ready = prepare_thread();
    std::unique_lock lock(mutex_);
    for (;;) {
        me->is_idle = true;
        lock.unlock();
        look([&] { return n_wanted_ > 0; });
        take(lock);
        const auto is_called = [&] { return !open_.empty() || me->is_sent_home; };
        const bool is_patient = is_ready && is_wanted_.wait_for(lock, kIdleTime, is_called);
        me->is_idle = false;
        if (me->is_sent_home) return;  // whoever sends us waits for us
        if (!is_patient) {
            me->thread.detach();
            members_.erase(me);
            return;
        }
        Shift& shift = *open_.front();
        if (--shift.n_seats_ == 0) open_.pop_front();
        --n_wanted_;
        ++shift.n_working_;
        lock.unlock();
        shift.job_();
        take(lock);
        if (--shift.n_working_ == 0) is_done_.notify_all();  // from here on the shift may be gone
    }
}

void Crew::send_home() {
    std::list<Member> leaving;
    {
        const std::lock_guard lock(mutex_);
        for (auto member = members_.begin(); member != members_.end();) {
            const auto next = std::next(member);
            if (member->is_idle) {
                member->is_sent_home = true;
                leaving.splice(leaving.end(), members_, member);
            }
            member = next;
        }
        is_wanted_.notify_all();
    }
    for (auto& member : leaving) member.thread.join();
}

Crew::Shift::Shift(Crew& crew, std::size_t n_threads, const std::function<void()>& job)
    : crew_(crew), job_(job), n_seats_(n_threads) {
    const std::lock_guard lock(crew.mutex_);
    crew.open_.push_back(this);
    crew.n_wanted_ += n_threads;
    std::size_t n_seats = 0;
    for (const auto* shift : crew.open_) n_seats += shift->n_seats_;
    const auto is_idle = [](const Member& member) { return member.is_idle; };
    auto n_idle = static_cast<std::size_t>(std::count_if(crew.members_.begin(), crew.members_.end(), is_idle));
    if (n_idle > n_threads)
        for (std::size_t i = 0; i < n_threads; ++i) crew.is_wanted_.notify_one();
    else
        crew.is_wanted_.notify_all();
    try {
        for (; n_idle < n_seats; ++n_idle) crew.add_member();
    } catch (...) {  // there are no more to be had: those there are do all the work
    }
}

Crew::Shift::~Shift() {
    while (!is_over(1h)) {
    }
}

bool Crew::Shift::is_over(std::chrono::milliseconds patience) {
    std::unique_lock lock(crew_.mutex_, std::defer_lock);
    take(lock);
    if (n_seats_ > 0) {
        crew_.open_.remove(this);
        crew_.n_wanted_ -= n_seats_;
        n_seats_ = 0;
    }
    lock.unlock();
    look([&] { return n_working_ == 0; });
    take(lock);
    return crew_.is_done_.wait_for(lock, patience, [&] { return n_working_ == 0; });
}

}  // namespace linear_treeshap
