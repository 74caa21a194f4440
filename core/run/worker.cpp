// Workspaces change hands: a worker takes the thread's own, or a new one while another call has that.

#include "run/worker.hpp"

#include <utility>

namespace linear_treeshap {
namespace {

std::unique_ptr<Workspace>& kept() {
    static thread_local std::unique_ptr<Workspace> workspace;
    return workspace;
}

}  // namespace

Worker::Worker(Control& control, bool is_caller)
    : control_(control), is_caller_(is_caller), workspace_(std::move(kept())) {
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
}

Worker::~Worker() { kept() = std::move(workspace_); }

bool Worker::advance(std::size_t work) const { return control_.advance(work, is_caller_); }

}  // namespace linear_treeshap
