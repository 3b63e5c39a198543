#pragma once
// A vector of at most N elements inside the object: operations are made by the million and must not allocate.

#include <array>
#include <cstddef>

#include "runtime/core/error.hpp"

namespace oomb {

template <class T, std::size_t N>
class InlineVector {
  public:
    InlineVector() = default;
    InlineVector(std::initializer_list<T> items) {
        for (const T& item : items) {
            push_back(item);
        }
    }

    void push_back(const T& item) {
        require(size_ < N, "InlineVector: more than {} elements", N);
        items_[size_++] = item;
    }
    void clear() { size_ = 0; }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](std::size_t i) { return items_[i]; }
    const T& operator[](std::size_t i) const { return items_[i]; }
    T* begin() { return items_.data(); }
    T* end() { return items_.data() + size_; }
    const T* begin() const { return items_.data(); }
    const T* end() const { return items_.data() + size_; }

  private:
    std::array<T, N> items_{};
    std::size_t size_ = 0;
};

}  // namespace oomb
