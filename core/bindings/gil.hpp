// Python's global lock, let go while C++ works and taken again to look up and to return.
//
// A daemon thread may ask for it when the interpreter is shutting down. CPython up to 3.13 then ends that thread with
// pthread_exit, wherever it is: the stack is unwound through destructors that must not throw, which aborts the
// process, or is simply gone while our own threads still read from it. As CPython 3.14 does, such a thread is held
// where it is instead, until the process ends: nothing that it shares with its workers is touched any more.
#pragma once

#include <nanobind/nanobind.h>

#if defined(_WIN32)
#include <atomic>
#include <chrono>
#include <thread>
#else
#include <pthread.h>
#include <unistd.h>
#endif

namespace linear_treeshap {

#if defined(_WIN32)

// There nothing is unwound: the thread is gone, and so is its stack. So whoever would ask waits before asking, once the
// interpreter has begun to end (`hold_others_at_exit`), unless it is the thread that ends it.
inline std::atomic<bool> is_ending{false};
inline std::atomic<int> n_asking{0};
inline thread_local bool is_last_thread = false;

template <class Call>
void or_wait_for_the_end(const Call& call) {
    ++n_asking;  // before looking at the other: one of both sides sees what the other did
    if (!is_ending || is_last_thread) {
        call();
        --n_asking;
        return;
    }
    --n_asking;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Called as the interpreter begins to end, with the lock. Those who are asking already are given it; one that is in
// a function of the user's for longer than that is ended where it is.
inline void hold_others_at_exit() {
    is_last_thread = true;
    is_ending = true;
    const nanobind::gil_scoped_release no_gil;
    for (int i = 0; i < 1000 && n_asking > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

#else

// Calls functions of Python's C interface that may not return, because they end the thread; those are not to be
// unwound by anything but C.
template <class Call>
void or_wait_for_the_end(const Call& call) {
    const auto wait = [](void*) {
        for (;;) pause();
    };
    pthread_cleanup_push(wait, nullptr);
    call();
    pthread_cleanup_pop(0);
}

#endif

class WithoutGil {
  public:
    WithoutGil() : state_(PyEval_SaveThread()) {}
    ~WithoutGil() {
        or_wait_for_the_end([this] { PyEval_RestoreThread(state_); });
    }
    WithoutGil(const WithoutGil&) = delete;

  private:
    PyThreadState* state_;
};

class WithGil {
  public:
    WithGil() {
        or_wait_for_the_end([this] { state_ = PyGILState_Ensure(); });
    }
    ~WithGil() { PyGILState_Release(state_); }
    WithGil(const WithGil&) = delete;

  private:
    PyGILState_STATE state_;
};

// Calls a function of one argument; it may let go of the lock and ask for it again, as any Python does.
inline nanobind::object call_python(nanobind::handle function, nanobind::handle argument) {
    PyObject* result = nullptr;
    or_wait_for_the_end([&] { result = PyObject_CallFunctionObjArgs(function.ptr(), argument.ptr(), nullptr); });
    if (result == nullptr) throw nanobind::python_error();
    return nanobind::steal(result);
}

}  // namespace linear_treeshap
