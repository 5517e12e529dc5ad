#pragma once

#include <cstddef>
#include <cstdint>

namespace bearing::bench {

/// Zero-filled memory from the kernel, aligned to 2 MiB, for which huge pages were asked. A page is present once it was
/// touched.
class HugeBuffer {
 public:
  explicit HugeBuffer(std::size_t bytes);
  ~HugeBuffer();
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* mapping_ = nullptr;
  void* data_ = nullptr;
  std::size_t mapped_ = 0, bytes_ = 0;
};

/// The two tensors that a case, limit or peer works on: those of the side that was chosen last.
HugeBuffer& source();
HugeBuffer& destination();

/// Each side of a comparison has tensors of its own, so that none works on numbers that another one put there. Their
/// memory is kept for the next comparison: to touch it anew would take most of the time.
void choose_side(std::size_t side);

/// Fills the first `bytes` of a buffer with 16-bit words from 0x3F80 to 0x3FFF, scattered: whichever of our four
/// types they are read as, all values are normal, finite and of one magnitude.
void fill_with_numbers(HugeBuffer& buffer, std::size_t bytes);

}  // namespace bearing::bench
