#pragma once

#include <bearing/view.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace bearing {

/// `size` numbers, uninitialised, on a 64-byte border; from 4 MiB up on 2 MiB pages where the system grants them, which
/// spares a large table its page faults.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(Index size) : size_(size) {
    if (size <= 0) return;
    if (static_cast<std::uint64_t>(size) > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T))
      throw std::bad_alloc();
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    align_ = bytes >= (std::size_t{4} << 20) ? std::size_t{2} << 20 : 64;
    data_ = static_cast<T*>(::operator new (bytes, std::align_val_t{align_}));
#ifdef __linux__
    if (align_ > 64) ::madvise(data_, bytes, MADV_HUGEPAGE);  // a wish: refusal changes nothing
#endif
  }
  AlignedArray(AlignedArray&& other) noexcept { swap(other); }
  AlignedArray& operator=(AlignedArray&& other) noexcept {
    swap(other);
    return *this;
  }
  AlignedArray(const AlignedArray& other) : AlignedArray(other.size_) {
    for (Index i = 0; i < size_; ++i) data_[i] = other.data_[i];
  }
  AlignedArray& operator=(const AlignedArray& other) {
    AlignedArray copy(other);
    swap(copy);
    return *this;
  }
  ~AlignedArray() {
    if (data_ != nullptr) ::operator delete (data_, std::align_val_t{align_});
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  Index size() const { return size_; }
  T& operator[](Index i) { return data_[i]; }
  const T& operator[](Index i) const { return data_[i]; }

 private:
  void swap(AlignedArray& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(align_, other.align_);
  }

  T* data_ = nullptr;
  Index size_ = 0;
  std::size_t align_ = 64;
};

/// An allocator on 64-byte borders, so that no vector of the widest kind lies across two cache lines.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t border{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(::operator new(n * sizeof(T), border));
  }
  void deallocate(T* data, std::size_t) { ::operator delete(data, border); }
  bool operator==(const AlignedAllocator&) const = default;
};

/// A std::vector whose numbers begin on a 64-byte border.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace bearing
