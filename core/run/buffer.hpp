// Memory aligned for any vector; grows, never shrinks, and does not keep its contents when it grows.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace linear_treeshap {

template <class T, std::size_t kAlignment = 64>
class Buffer {
  public:
    T* reserve(std::size_t n) {
        if (n > size_) {
            data_.reset();
            size_ = 0;
            const std::size_t bytes = (n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
            data_.reset(static_cast<T*>(::operator new(bytes, std::align_val_t{kAlignment})));
            size_ = n;
        }
        return data_.get();
    }
    const T* data() const { return data_.get(); }
    T* data() { return data_.get(); }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t{kAlignment}); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t size_ = 0;
};

// For lists that are read and written side by side. Processors first compare addresses within a page: a read waits for
// a write shortly before it that is whole pages away. Where all such lists begin as pages do, there is none.
template <class T>
using PageBuffer = Buffer<T, 4096>;

}  // namespace linear_treeshap
