// Models number what they have with 32 bits, and memory is counted with more: a number, as a place in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace linear_treeshap {

constexpr std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

}  // namespace linear_treeshap
