#pragma once

#include <bearing/bearing.hpp>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>

// Memory for the code of the pages: it is freed after each block.
namespace given {

using bearing::Index;

inline std::deque<std::shared_ptr<void>> kept;

/// So many zeros.
template <class T>
T* zeros(Index count = Index{1} << 20) {
  void* const raw = std::calloc(static_cast<std::size_t>(count), sizeof(T));
  if (raw == nullptr) throw std::bad_alloc();
  kept.emplace_back(raw, std::free);
  return static_cast<T*>(raw);
}

/// A dense view of these extents, of numbers from −0.75 to 0.75.
template <class T, class... Extents>
auto numbers(Extents... extents) {
  const Index count = (Index{1} * ... * static_cast<Index>(extents));
  T* const all = zeros<T>(count);
  for (Index i = 0; i < count; ++i) all[i] = T(static_cast<float>(i * 5 % 13 - 6) / 8.0F);
  return bearing::dense(all, static_cast<Index>(extents)...);
}

}  // namespace given
