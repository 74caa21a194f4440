// What the machine has that this process runs on, as the processor and the operating system say. Compiled for any
// machine, as whoever asks is not yet sure of anything more.
#pragma once

namespace linear_treeshap {

// All that the kernels of these names are compiled for (CMakeLists.txt lists it).
bool has_avx2();
bool has_avx512();

}  // namespace linear_treeshap
