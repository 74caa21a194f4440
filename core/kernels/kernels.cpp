// The kernels of this build, in order of preference: the one place that knows which instruction sets there are.
// Like all but the kernels themselves, it is compiled for any machine.

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/background_kernel.hpp"
#include "kernels/kernel.hpp"
#include "kernels/machine.hpp"
#include "kernels/set_kernel.hpp"

namespace linear_treeshap {

#if defined(LTS_X86)
namespace avx512 {
extern const Kernel kernel;
extern const SetKernel set_kernel;
extern const BackgroundKernel background_kernel;
}  // namespace avx512
namespace avx2 {
extern const Kernel kernel;
extern const SetKernel set_kernel;
extern const BackgroundKernel background_kernel;
}  // namespace avx2
#endif
namespace baseline {
extern const Kernel kernel;
extern const SetKernel set_kernel;
extern const BackgroundKernel background_kernel;
}  // namespace baseline

namespace {

struct InstructionSet {
    bool (*is_supported)();  // by this machine
    const Kernel* kernel;
    const SetKernel* sets;
    const BackgroundKernel* background;
};

constexpr InstructionSet kInstructionSets[] = {
#if defined(LTS_X86)
    {has_avx512, &avx512::kernel, &avx512::set_kernel, &avx512::background_kernel},
    {has_avx2, &avx2::kernel, &avx2::set_kernel, &avx2::background_kernel},
#endif
    {[] { return true; }, &baseline::kernel, &baseline::set_kernel, &baseline::background_kernel},
};

const InstructionSet& instruction_set_of(const Kernel& kernel) {
    return *std::find_if(std::begin(kInstructionSets), std::end(kInstructionSets),
                         [&](const InstructionSet& one) { return one.kernel == &kernel; });
}

}  // namespace

std::span<const Kernel* const> kernels() {
    static const auto supported = [] {
        std::vector<const Kernel*> out;
        for (const auto& one : kInstructionSets)
            if (one.is_supported()) out.push_back(one.kernel);
        return out;
    }();
    return supported;
}

const SetKernel& set_kernel_of(const Kernel& kernel) { return *instruction_set_of(kernel).sets; }

const BackgroundKernel& background_kernel_of(const Kernel& kernel) { return *instruction_set_of(kernel).background; }

}  // namespace linear_treeshap
