// Python's global lock, let go while C++ works and taken again to look up and to return.
//
// A daemon thread may ask for it when the interpreter is shutting down. CPython up to 3.13 then ends that thread with
// pthread_exit, wherever it is: the stack is unwound through destructors that must not throw, which aborts the
// process, or is simply gone while our own threads still read from it. As CPython 3.14 does, such a thread is held
// where it is instead, until the process ends: nothing that it shares with its workers is touched any more.
#pragma once

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

namespace linear_treeshap {

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
