// Workspaces change hands: a worker takes the thread's own, or a new one while another call has that.

#include "run/worker.hpp"

#include <cstdlib>
#include <exception>
#include <system_error>
#include <utility>
#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace linear_treeshap {
namespace {

// What a thread keeps; the one who takes it owns it.
#if defined(_WIN32)

thread_local std::unique_ptr<Workspace> kept;

std::unique_ptr<Workspace> take() { return std::move(kept); }

void keep(std::unique_ptr<Workspace> workspace) { kept = std::move(workspace); }

#else

// No thread_local: of a library that is loaded later, as Python loads this one, such variables are allocated when a
// thread first looks at them, and glibc ends the process if that memory cannot be had. A key has a place in every
// thread from its start.
pthread_key_t key() {
    static const pthread_key_t made = [] {
        pthread_key_t key;
        const int error = pthread_key_create(&key, [](void* kept) { delete static_cast<Workspace*>(kept); });
        if (error != 0) throw std::system_error(error, std::generic_category());
        return key;
    }();
    return made;
}

std::unique_ptr<Workspace> take() {
    std::unique_ptr<Workspace> kept(static_cast<Workspace*>(pthread_getspecific(key())));
    if (kept) pthread_setspecific(key(), nullptr);
    return kept;
}

void keep(std::unique_ptr<Workspace> workspace) {
    const auto before = take();                                                       // of a call inside of this one
    if (pthread_setspecific(key(), workspace.get()) == 0) (void)workspace.release();  // else it is not kept
}

#endif

}  // namespace

// The library of C++ keeps what is being thrown in memory of each thread, which glibc allocates when it is first looked
// at, and ends the process if it cannot: that is, when an exception says that there is no memory. So it is looked at
// before, when as much has just been seen to be free.
bool prepare_thread() {
    constexpr std::size_t enough = std::size_t{16} << 10;
    void* const seen = std::malloc(enough);
    if (seen == nullptr) return false;
    // Through a pointer that may change, or the compiler leaves both calls out.
    static void (*volatile give_back)(void*) = std::free;
    give_back(seen);
    (void)std::uncaught_exceptions();
    return true;
}

Worker::Worker(Control& control, bool is_caller) : control_(control), is_caller_(is_caller), workspace_(take()) {
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
}

Worker::~Worker() { keep(std::move(workspace_)); }

bool Worker::advance(std::size_t work) const { return control_.advance(work, is_caller_); }

}  // namespace linear_treeshap
