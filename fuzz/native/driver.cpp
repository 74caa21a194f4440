// libFuzzer around a target that GCC has compiled. Of GCC's instrumentation (-fsanitize-coverage=trace-pc) libFuzzer
// knows the comparisons, but no longer the calls at every block: those are counted here, in counters of the kind that
// it reads. The linker puts this function in place of its own (--wrap).

#include <cstddef>
#include <cstdint>

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerRunDriver(int* n_arguments, char*** arguments, int (*target)(const std::uint8_t*, std::size_t));
void __sanitizer_cov_8bit_counters_init(std::uint8_t* begin, std::uint8_t* end);
extern const char __executable_start;

namespace {
constexpr int kBits = 18;
std::uint8_t counters[std::size_t{1} << kBits];
}  // namespace

void __wrap___sanitizer_cov_trace_pc() {
    // From the start of the program, which is loaded somewhere else every time.
    const std::uint64_t place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) -
                                reinterpret_cast<std::uintptr_t>(&__executable_start);
    ++counters[place * 0x9E3779B97F4A7C15 >> (64 - kBits)];
}

// GCC's alone: comparisons of floating-point numbers, which libFuzzer has no use for.
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
}

int main(int n_arguments, char** arguments) {
    __sanitizer_cov_8bit_counters_init(counters, counters + sizeof counters);
    return LLVMFuzzerRunDriver(&n_arguments, &arguments, LLVMFuzzerTestOneInput);
}
