// What all files that are compiled for an instruction set share.
#pragma once

#define LTS_INLINE [[gnu::always_inline]] inline
#define LTS_INLINED __attribute__((always_inline))  // of a lambda
