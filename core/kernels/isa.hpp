// Which instruction set a file of this room is compiled for, and where its code begins and ends.
//
// The build names the instruction set: LTS_ISA is the namespace of all that is compiled for it, LTS_FEATURES what it
// has beyond any machine (none of the baseline). Only what stands between LTS_BEGIN_ISA and LTS_END_ISA is compiled
// for these; the rest of the file, which is what it includes, is for any machine. Flags for the whole file would be
// simpler, and wrong: inline functions and templates of other headers, the standard library's among them, would
// then be compiled for that machine too, and the linker keeps one copy of each for everyone.
//
// So every file includes all it needs first, and opens its namespace between the two. Functions that compilers write
// themselves are for any machine as well, and refuse to handle vectors: write constructors out, and capture something
// in a lambda that returns a vector, or it comes with a function pointer.
#pragma once

#define LTS_INLINE [[gnu::always_inline]] inline
#define LTS_INLINED __attribute__((always_inline))  // of a lambda

#define LTS_PRAGMA(text) _Pragma(#text)
#if !defined(LTS_FEATURES)
#define LTS_BEGIN_ISA
#define LTS_END_ISA
#elif defined(__clang__)
#define LTS_TARGET(features) LTS_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define LTS_BEGIN_ISA LTS_TARGET(LTS_FEATURES)
#define LTS_END_ISA LTS_PRAGMA(clang attribute pop)
#else
#define LTS_TARGET(features) LTS_PRAGMA(GCC push_options) LTS_PRAGMA(GCC target(features))
#define LTS_BEGIN_ISA LTS_TARGET(LTS_FEATURES)
#define LTS_END_ISA LTS_PRAGMA(GCC pop_options)
#endif
