// Memory aligned for any vector; grows, never shrinks, and does not keep its contents when it grows.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace linear_treeshap {

template <class T>
class Buffer {
  public:
    T* reserve(std::size_t n) {
        if (n > size_) {
            data_.reset();
            size_ = 0;
            const std::size_t bytes = (n * sizeof(T) + 63) / 64 * 64;
            data_.reset(static_cast<T*>(::operator new(bytes, std::align_val_t{64})));
            size_ = n;
        }
        return data_.get();
    }
    const T* data() const { return data_.get(); }
    T* data() { return data_.get(); }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t size_ = 0;
};

}  // namespace linear_treeshap
