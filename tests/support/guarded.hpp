#pragma once

#include <algorithm>
#include <bearing/view.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "support/ulp.hpp"

namespace bearing::test {

using Shape = std::array<Index, 4>;

/// How a tensor (batch, heads, time, dim) lies in memory.
enum class Layout {
  bhtd,
  bthd,
  dim_outermost,  ///< the elements of a head far apart, time side by side
  padded,         ///< gaps behind every row, head and sequence
  reversed,       ///< every axis backwards: negative strides
  odd_address,    ///< one element past the start of the allocation
  one_head,       ///< heads share memory: stride 0, for inputs only
};
inline constexpr Layout writable_layouts[] = {Layout::bhtd,   Layout::bthd,     Layout::dim_outermost,
                                              Layout::padded, Layout::reversed, Layout::odd_address};
inline const char* name(Layout layout) {
  constexpr const char* names[] = {"bhtd", "bthd", "dim_outermost", "padded", "reversed", "odd_address", "one_head"};
  return names[static_cast<std::size_t>(layout)];
}

/// A tensor amid guard bytes, which notices writes outside its elements.
template <class T>
class Guarded {
 public:
  Guarded(const Shape& shape, Layout layout) {
    view_.shape = shape;
    const auto [batch, heads, time, dim] = shape;
    Index span = batch * heads * time * dim;
    switch (layout) {
      case Layout::bthd:
        view_ = bthd<T>(nullptr, batch, time, heads, dim);
        break;
      case Layout::dim_outermost:
        view_.stride = {time * heads, time, 1, batch * time * heads};
        break;
      case Layout::padded: {
        const Index row = dim + 3, head = time * row + 5, sequence = heads * head + 7;
        view_.stride = {sequence, head, row, 1};
        span = batch * sequence;
        break;
      }
      case Layout::reversed:
        view_.stride = {-heads * time * dim, -time * dim, -dim, -1};
        break;
      case Layout::one_head:
        view_.stride = {time * dim, 0, dim, 1};
        break;
      default:
        view_ = bhtd<T>(nullptr, batch, heads, time, dim);
    }
    memory_.resize(static_cast<std::size_t>(span + 2 * guard + 1));
    std::memset(static_cast<void*>(memory_.data()), canary, memory_.size() * sizeof(T));
    Index first = guard + (layout == Layout::odd_address ? 1 : 0);
    if (layout == Layout::reversed && view_.size() > 0) first += span - 1;
    view_.data = memory_.data() + first;
    std::vector<char> owned(memory_.size(), 0);
    char* const flags = owned.data();
    T* const begin = memory_.data();
    for_each([&](Index b, Index h, Index t, Index d) { flags[&view_(b, h, t, d) - begin] = 1; });
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (flags[i] != 0) continue;
      if (i == 0 || flags[i - 1] != 0) gaps_.push_back({i, i});
      gaps_.back().end = i + 1;
    }
  }
  Guarded(Guarded&&) noexcept = default;  // the memory stays where it is

  View<T, 4> view() const { return view_; }
  View<const T, 4> read() const { return view_; }

  template <class Body>
  void for_each(Body&& body) const {
    for (Index b = 0; b < view_.shape[0]; ++b) {
      for (Index h = 0; h < view_.shape[1]; ++h) {
        for (Index t = 0; t < view_.shape[2]; ++t) {
          for (Index d = 0; d < view_.shape[3]; ++d) body(b, h, t, d);
        }
      }
    }
  }

  /// Values in (−2, 2), a few of them 0.
  void fill(Random& random) {
    for_each([&](Index b, Index h, Index t, Index d) {
      view_(b, h, t, d) = from_double<T>(random.integer(0, 31) == 0 ? 0 : random.uniform(-2, 2));
    });
  }
  template <class U>
  void copy(View<U, 4> from) {
    for_each([&](Index b, Index h, Index t, Index d) {
      view_(b, h, t, d) = from_double<T>(to_double<std::remove_const_t<U>>(from(b, h, t, d)));
    });
  }

  /// The elements in logical order.
  std::vector<T> values() const {
    std::vector<T> all;
    all.reserve(static_cast<std::size_t>(view_.size()));
    for_each([&](Index b, Index h, Index t, Index d) { all.push_back(view_(b, h, t, d)); });
    return all;
  }
  std::vector<double> doubles() const {
    std::vector<double> all;
    all.reserve(static_cast<std::size_t>(view_.size()));
    for_each([&](Index b, Index h, Index t, Index d) { all.push_back(to_double(view_(b, h, t, d))); });
    return all;
  }

  bool guards_intact() const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(memory_.data());
    for (const Gap& gap : gaps_) {
      const unsigned char* const end = bytes + gap.end * sizeof(T);
      for (const unsigned char* byte = bytes + gap.begin * sizeof(T); byte != end; ++byte) {
        if (*byte != canary) return false;
      }
    }
    return true;
  }

  /// An output that is mostly 0, or mostly never written, proves nothing.
  bool says_something() const {
    Index dull = 0;
    for_each([&](Index b, Index h, Index t, Index d) {
      const double value = to_double(view_(b, h, t, d));
      dull += value == 0 || !std::isfinite(value) ? 1 : 0;
    });
    return 2 * dull <= view_.size();
  }

 private:
  static constexpr Index guard = 64;
  static constexpr unsigned char canary = 0xA5;
  std::vector<T> memory_;
  struct Gap {
    std::size_t begin, end;
  };
  std::vector<Gap> gaps_;  ///< what no element owns
  View<T, 4> view_{};
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace bearing::test
