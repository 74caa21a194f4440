// The kernels of this build, in order of preference.

#include <array>

#include "kernel.hpp"

namespace linear_treeshap {

#if defined(LTS_X86)
namespace avx512 {
extern const Kernel kernel;
}
namespace avx2 {
extern const Kernel kernel;
}
#endif
namespace baseline {
extern const Kernel kernel;
}

std::span<const Kernel* const> kernels() {
    static constexpr std::array all{
#if defined(LTS_X86)
        &avx512::kernel,
        &avx2::kernel,
#endif
        &baseline::kernel,
    };
    return all;
}

}  // namespace linear_treeshap
