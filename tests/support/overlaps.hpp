#pragma once

#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/positions.hpp>
#include <bearing/term.hpp>
#include <bearing/view.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

// A function that writes, and every pair of its arguments of which one is written: where they overlap, it is refused,
// both are named and nothing is written. And every one of its arguments in another device's memory.

namespace bearing::test::overlaps {

inline constexpr Index batch = 2, heads = 4, time = 3, dim = 8;

enum class Does { read, write };
enum class Is { tensor, pointer };  ///< a pointer has no device

/// An argument: `count` numbers of 8 bytes, in the memory that the test chooses.
struct Argument {
  const char* name;
  Index count;
  Does does = Does::read;
  std::vector<Index> holds = {};  ///< what it must hold for the call to be right; else all is 0
  Is is = Is::tensor;
};

/// Where a call is told that an argument lies; may be read as double, Index or bool.
struct Place {
  double* data = nullptr;
  Device device{};
};

/// A call, given the arguments' places in order.
struct Sweep {
  std::string name;
  std::vector<Argument> arguments;
  std::function<void(const std::vector<Place>&)> call;
};

class Arena {
 public:
  explicit Arena(const Sweep& sweep) : sweep_(sweep), memory_((sweep.arguments.size() + 2) * apart) {
    for (std::size_t i = 0; i < sweep.arguments.size(); ++i) at_.push_back({memory_.data() + (i + 1) * apart});
  }

  double* at(std::size_t i) const { return at_[i].data; }
  void place(std::size_t i, double* where) { at_[i].data = where; }
  /// Says so, but the memory stays where it is.
  void place_on(std::size_t i, Device device) { at_[i].device = device; }

  /// The text of the refusal, empty if there was none; what must be in memory is put there first.
  std::string call() {
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const std::vector<Index>& holds = sweep_.arguments[i].holds;
      std::memcpy(at_[i].data, holds.data(), holds.size() * sizeof(Index));
    }
    const std::vector<double> before = memory_;
    try {
      sweep_.call(at_);
    } catch (const ShapeError& error) {
      EXPECT_EQ(std::memcmp(before.data(), memory_.data(), memory_.size() * sizeof(double)), 0) << error.what();
      return error.what();
    }
    return {};
  }

 private:
  static constexpr std::size_t apart = 4096;
  const Sweep& sweep_;
  std::vector<double> memory_;
  std::vector<Place> at_;
};

inline void expect_all_overlaps_refused(const Sweep& sweep) {
  SCOPED_TRACE(sweep.name);
  Arena right(sweep);
  ASSERT_EQ(right.call(), "");
  for (std::size_t i = 0; i < sweep.arguments.size(); ++i) {
    if (sweep.arguments[i].does != Does::write) continue;
    for (std::size_t j = 0; j < sweep.arguments.size(); ++j) {
      const Argument &written = sweep.arguments[i], &other = sweep.arguments[j];
      if (i == j) continue;
      for (const Index offset : {other.count - 1, 1 - written.count, (other.count - written.count) / 2}) {
        Arena arena(sweep);
        if (offset == 0 && written.count == other.count) continue;  // the very same view is another question
        arena.place(i, arena.at(j) + offset);
        const std::string text = arena.call();
        EXPECT_NE(text.find("overlap"), std::string::npos)
            << written.name << ", " << other.name << " moved by " << offset << ": " << (text.empty() ? "taken" : text);
        const auto names = [&](const std::string& name) { return text.find(name) != std::string::npos; };
        const bool in_place = text.find("the input's own view") != std::string::npos;
        EXPECT_TRUE(in_place || (names(written.name) && names(other.name)))
            << written.name << ", " << other.name << ": " << text;
      }
    }
  }
}

using bearing::dense;
template <class T = double, class... I>
View<T, sizeof...(I)> dense(const Place& at, I... shape) {
  View<T, sizeof...(I)> view = bearing::dense(reinterpret_cast<T*>(at.data), shape...);
  view.device = at.device;
  return view;
}
inline View<double, 4> rows(const Place& at, Index of_heads = heads, Index of_time = time) {
  return dense(at, batch, of_heads, of_time, dim);
}
inline View<const double, 4> read(const Place& at, Index of_heads = heads, Index of_time = time) {
  return rows(at, of_heads, of_time);
}
inline Positions positions(const Place& at, Index of_time = time) { return dense<const Index>(at, batch, of_time); }
template <class... I>
View<const Index, sizeof...(I)> indices(const Place& at, I... shape) {
  return dense<const Index>(at, shape...);
}
template <class... I>
View<const bool, sizeof...(I)> flags(const Place& at, I... shape) {
  return dense<const bool>(at, shape...);
}
template <class... I>
Param<double, sizeof...(I)> param(const Place& value, const Place& grad, I... shape) {
  return {dense<const double>(value, shape...), dense(grad, shape...)};
}

inline constexpr Index row_count = batch * heads * time * dim, key_count = batch * 2 * 5 * dim,
                       score_count = batch * heads * time * 5;
inline constexpr Index lse_count = batch * heads * time;

/// Every argument but pointers, one by one, in another device's memory and in what the host may read of it.
inline void expect_other_devices_refused(const Sweep& sweep) {
  for (std::size_t i = 0; i < sweep.arguments.size(); ++i) {
    const std::string name = sweep.arguments[i].name;
    SCOPED_TRACE(sweep.name + ", " + name);
    if (sweep.arguments[i].is == Is::pointer) continue;
    Arena elsewhere(sweep), near(sweep);
    elsewhere.place_on(i, {Device::Kind::cuda, 1});
    const std::string text = elsewhere.call();
    EXPECT_TRUE(text.ends_with(": must lie in host memory, got memory on cuda:1")) << text;
    // A constructor calls "a.table" by its last name; tied parameters are called by the first one's.
    EXPECT_NE(text.find(name.substr(name.find('.') + 1)), std::string::npos) << text;
    near.place_on(i, {Device::Kind::cuda_host, 1});
    EXPECT_EQ(near.call(), "");
  }
}

}  // namespace bearing::test::overlaps
