/* What a call takes from the heap at its peak, to the byte: loaded before the C library (LD_PRELOAD), it passes every
   request on and keeps count. glibc only. */

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static atomic_long in_use, at_peak, at_start;

static void count(long bytes) {
    const long now = atomic_fetch_add(&in_use, bytes) + bytes;
    long peak = atomic_load(&at_peak);
    while (now > peak && !atomic_compare_exchange_weak(&at_peak, &peak, now)) {
    }
}

static void* counted(void* block) {
    if (block) count((long)malloc_usable_size(block));
    return block;
}

void* malloc(size_t size) { return counted(__libc_malloc(size)); }

void* calloc(size_t number, size_t size) { return counted(__libc_calloc(number, size)); }

void* realloc(void* block, size_t size) {
    const long before = block ? (long)malloc_usable_size(block) : 0;
    void* const moved = __libc_realloc(block, size);
    if (moved || size == 0) count(-before);
    return counted(moved);
}

void free(void* block) {
    if (block) count(-(long)malloc_usable_size(block));
    __libc_free(block);
}

void* memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
    void* const found = memalign(alignment, size);
    if (!found) return ENOMEM;
    *block = found;
    return 0;
}

void heap_start(void) {
    atomic_store(&at_start, atomic_load(&in_use));
    atomic_store(&at_peak, atomic_load(&in_use));
}

long heap_peak(void) { return atomic_load(&at_peak) - atomic_load(&at_start); }
