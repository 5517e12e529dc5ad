#pragma once

#include <bearing/error.hpp>
#include <bearing/kept.hpp>
#include <bearing/memory.hpp>
#include <bearing/positions.hpp>
#include <bearing/term_list.hpp>
#include <cstdint>
#include <vector>

#include "text.hpp"

// Whether what a call is given lies in host memory, and what it writes apart from all else. Every public function that
// writes tells CallMemory of all its tensors.

namespace bearing {

/// The memory that a tensor's elements lie in: [first, last) in bytes; empty for no elements.
struct MemoryExtent {
  std::uintptr_t first = 0, last = 0;

  explicit MemoryExtent(const Memory& of) : MemoryExtent(of.data, of.bytes, of.shape, of.stride) {}
  template <class T, int Rank>
  explicit MemoryExtent(const View<T, Rank>& x) : MemoryExtent(x.data, Index{sizeof(T)}, x.shape, x.stride) {}

  bool meets(const MemoryExtent& other) const { return first < other.last && other.first < last; }

 private:
  template <std::size_t Rank>
  MemoryExtent(const void* data, Index bytes, const std::array<Index, Rank>& shape,
               const std::array<Index, Rank>& stride) {
    if (data == nullptr || bytes == 0) return;
    for (const Index extent : shape) {
      if (extent == 0) return;  // whatever the strides are
    }
    Index low = 0, high = 1;
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      (stride[axis] < 0 ? low : high) += (shape[axis] - 1) * stride[axis];
    }
    const auto base = reinterpret_cast<std::uintptr_t>(data);
    first = base + static_cast<std::uintptr_t>(low * bytes);
    last = base + static_cast<std::uintptr_t>(high * bytes);
  }
};

/// Throws ShapeError if tensors share memory whose extents meet.
void check_bytes_apart(const char* function, const char* argument, const Memory& written, const char* than,
                       const Memory& other);

/// Throws ShapeError unless a tensor that is written lies apart from another one. Either is a View or a Memory.
template <class Written, class Other>
void check_apart(const char* function, const char* argument, const Written& written, const char* than,
                 const Other& other) {
  if constexpr (!kept_whole) return;
  if (MemoryExtent(written).meets(MemoryExtent(other))) check_bytes_apart(function, argument, written, than, other);
}

/// Throws ShapeError unless `out` is the very view `in` or lies elsewhere.
template <class T, int Rank>
void check_same_or_apart(const char* function, const char* argument, const View<const T, Rank>& in,
                         const View<T, Rank>& out) {
  if constexpr (!kept_whole) return;
  if (in.data == out.data && in.shape == out.shape && in.stride == out.stride) return;
  if (!MemoryExtent(in).meets(MemoryExtent(out)) || !shares_memory(in, out)) return;
  throw ShapeError(text::concat("[", function, "] ", argument,
                                ": must be the input's own view or share no memory with it, got views that overlap"));
}

/// All memory of a call, to be checked pair by pair; ShapeError for a tensor that does not lie on the host. Tensors
/// that are not given take no part. Allocates nothing for up to 48 tensors. A build that only draws, whose tensors are
/// all the library's own, checks nothing.
class CallMemory {
 public:
  explicit CallMemory(const char* function) : function_(function) {}

  CallMemory& reads(const char* name, const Memory& memory) { return with(name, MemoryUse::read, memory); }
  template <class T, int Rank>
  CallMemory& reads(const char* name, const View<T, Rank>& x) {
    return x.data == nullptr ? *this : with(name, MemoryUse::read, x);  // most are not given: that costs nothing
  }
  template <class T, int Rank>
  CallMemory& writes(const char* name, const View<T, Rank>& x) {
    return x.data == nullptr ? *this : with(name, MemoryUse::write, x);
  }
  CallMemory& reads_positions(const char* name, const Positions& positions) {
    return positions.is_offset() ? *this : reads(name, positions.memory());
  }

  /// What an encoding (a Term, a RowEncoding, an InputEncoding) refers to; its gradients only where they are added to.
  template <class E>
  CallMemory& forward(const E& encoding) {
    return tell<false>(encoding);
  }
  template <class E>
  CallMemory& backward(const E& encoding) {
    return tell<true>(encoding);
  }
  /// A parameter, whose gradient is added to.
  template <class A, int Rank>
  CallMemory& param(const char* name, const Param<A, Rank>& of) {
    return reads(name, of.value).with(name, MemoryUse::add, of.grad);
  }

  /// Throws ShapeError naming both, if a tensor that is written shares a byte with another one.
  void check() const {
    if constexpr (kept_whole) check_pairs();
  }

 private:
  struct Entry {
    const char* name;
    MemoryUse use;
    MemoryExtent extent;
    Memory memory;
  };
  static constexpr std::size_t few = 48;

  CallMemory& with(const char* name, MemoryUse use, const Memory& memory) {
    if constexpr (kept_whole) {
      if (memory.bytes != 0) add(name, use, memory);
    }
    return *this;
  }
  template <bool Grads, class E>
  CallMemory& tell(const E& encoding) {
    if (!kept_whole || encoding.borrows == nullptr) return *this;
    MemoryList list(this, [](void* to, const char* name, MemoryUse use, const Memory& memory) {
      if (Grads || use == MemoryUse::read) static_cast<CallMemory*>(to)->add(name, use, memory);
    });
    encoding.borrows(encoding.self, list);
    return *this;
  }

  void add(const char* name, MemoryUse use, const Memory& memory);
  void check_pairs() const;
  const Entry& entry(std::size_t i) const { return i < few ? entries_[i] : more_[i - few]; }
  [[noreturn]] void refuse(const Entry& written, const Entry& other) const;

  const char* function_;
  std::size_t count_ = 0;
  union {  // raw: 48 entries are not set to 0 for each call
    Entry entries_[few];
  };
  std::vector<Entry> more_;
};

}  // namespace bearing
