// Many threads, one compiled model: each calls engines that all of them share, in an order of its own, on rows of its
// own, with threads of the core's own below it; now and then a call is told to stop half-way, or the process is forked,
// which sends waiting threads home. Every value must be, bit for bit, what a lone call gives. ThreadSanitizer watches.
//
//   threads [models] [calls of each thread] [seed]

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "arbitrary.hpp"
#include "background/background_engine.hpp"
#include "background/prediction.hpp"
#include "sets/set_engine.hpp"
#include "values/value_engine.hpp"

namespace linear_treeshap::fuzz {
namespace {

constexpr int kCallers = 8, kThreadsOfACall = 3;
// So many that a call is shared among threads, whatever the model.
constexpr std::size_t kRows = 3000;
constexpr std::size_t kLeastWork = 600'000;  // nodes · rows

struct Stop {};

Rule shapley(int n_players) { return gauss_legendre(std::max(1, (n_players + 1) / 2)); }

// All that one model can be asked, and the right answers.
class Shared {
  public:
    explicit Shared(Bytes bytes)
        : model_(bytes),
          rows_(model_, model_.rows(bytes, kRows)),
          background_(model_, model_.rows(bytes, 50)),
          program_(compile(model_.view(), shapley, quiet_)),
          values_(program_, *kernels()[0]),
          sets_(plan_sets(program_, shapley, 1, 2, halves_, quiet_), *kernels()[0]),
          tables_(program_, *kernels()[0], background_.view(), {}, false, false, kThreadsOfACall, quiet_),
          pairs_(program_, *kernels()[0], background_.view(), {}, true, true, kThreadsOfACall, quiet_) {
        for (int kind = 0; kind < kKinds; ++kind) right_.push_back(answer(kind, rows_.view(), 1, quiet_));
        for (const double value : right_[0]) tolerance_ = std::max(tolerance_, 1e-13 * std::abs(value));
    }

    bool is_large_enough() const { return model_.n_nodes() * kRows >= kLeastWork; }

    static constexpr int kKinds = 6;

    // One call on some rows; says whether all values are right. A call that is told to stop throws.
    bool call(int kind, std::size_t first, std::size_t n, bool stops) const {
        const RowsView some = rows_.view().slice(first, n);
        int n_polls = 0;
        const Control::Poll poll = [&](double) {
            if (stops && ++n_polls > 1) throw Stop();
        };
        const std::vector<double> found = answer(kind, some, kThreadsOfACall, poll);
        const std::size_t per_row = right_[at(kind)].size() / kRows;
        const bool is_rounded = kind == 0 && n <= kFewRows;
        return std::equal(found.begin(), found.end(),
                          right_[at(kind)].begin() + static_cast<std::ptrdiff_t>(first * per_row),
                          [&](double a, double b) { return a == b || (is_rounded && std::abs(a - b) <= tolerance_); });
    }

  private:
    std::vector<double> answer(int kind, const RowsView& rows, int n_threads, const Control::Poll& poll) const {
        const std::size_t n_outputs = at(model_.n_outputs), n_players = at(model_.n_players);
        const std::size_t sizes[kKinds] = {
            n_players, sets_.program().sets.size(), n_players * n_players, n_players, pairs_.n_items(), 1};
        std::vector<double> out(rows.n_rows * sizes[kind] * n_outputs);
        switch (kind) {
            case 0:
                values_.explain<double>(rows, out, n_threads, poll);
                break;
            case 1:
                sets_.explain<double>(rows, out, n_threads, poll);
                break;
            case 2:
                sets_.explain_dense<double>(rows, out, n_threads, poll);
                break;
            case 3:
                tables_.explain<double>(rows, out, nullptr, n_threads, poll);
                break;
            case 4:
                pairs_.explain<double>(rows, out, nullptr, n_threads, poll);
                break;
            default:
                predict(program_, background_kernel_of(*kernels()[0]), rows, out, n_threads, poll);
        }
        return out;
    }

    const Control::Poll quiet_ = [](double) {};
    static constexpr double halves_[] = {1.0, -0.5};
    Model model_;
    Rows rows_, background_;
    Program program_;
    ValueEngine values_;
    SetEngine sets_;
    BackgroundEngine tables_, pairs_;
    std::vector<std::vector<double>> right_;
    double tolerance_ = 0;  // of values of few rows
};

struct Counts {
    std::atomic<long> calls{0}, stopped{0}, forks{0}, wrong{0};
};

// The child has nothing to do: it is what a fork does to the threads of this process that is watched.
void fork_once() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, nullptr, 0);
}

void caller(const Shared& shared, unsigned seed, int n_calls, Counts& counts) {
    std::minstd_rand random(seed);
    for (int i = 0; i < n_calls; ++i) {
        const auto kind = static_cast<int>(random() % Shared::kKinds);
        const std::size_t n = random() % 4 == 0 ? 1 : random() % kRows + 1;
        const std::size_t first = random() % (kRows - n + 1);
        ++counts.calls;
        try {
            if (!shared.call(kind, first, n, random() % 5 == 0)) ++counts.wrong;
        } catch (const Stop&) {
            ++counts.stopped;
        }
        if (random() % 6 == 0) {
            ++counts.forks;
            fork_once();
        }
    }
}

// Models of random bytes, the first that are large enough for threads of their own.
std::unique_ptr<Shared> random_model(std::minstd_rand& random) {
    for (;;) {
        std::vector<std::uint8_t> bytes(3000);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() >> 8);
        auto shared = std::make_unique<Shared>(Bytes(bytes));
        if (shared->is_large_enough()) return shared;
    }
}

}  // namespace
}  // namespace linear_treeshap::fuzz

int main(int n_arguments, char** arguments) {
    using namespace linear_treeshap::fuzz;
    const auto argument = [&](int i, int otherwise) { return i < n_arguments ? std::atoi(arguments[i]) : otherwise; };
    const int n_models = argument(1, 3), n_calls = argument(2, 12);
    std::minstd_rand random(static_cast<unsigned>(argument(3, 1)));
    Counts counts;
    for (int i = 0; i < n_models; ++i) {
        const auto shared = random_model(random);
        std::vector<std::thread> threads;
        for (int k = 0; k < kCallers; ++k)
            threads.emplace_back(caller, std::cref(*shared), static_cast<unsigned>(random()), n_calls,
                                 std::ref(counts));
        for (auto& thread : threads) thread.join();
    }
    std::printf("%d models, %d threads: %ld calls, %ld of them stopped, %ld forks, %ld wrong\n", n_models, kCallers,
                counts.calls.load(), counts.stopped.load(), counts.forks.load(), counts.wrong.load());
    return counts.wrong == 0 ? 0 : 1;
}
