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
// both are named and nothing is written.

namespace bearing::test::overlaps {

inline constexpr Index batch = 2, heads = 4, time = 3, dim = 8;

enum class Does { read, write };

/// An argument: `count` numbers of 8 bytes, in the memory that the test chooses.
struct Argument {
  const char* name;
  Index count;
  Does does = Does::read;
  std::vector<Index> holds = {};  ///< what it must hold for the call to be right; else all is 0
};

/// A call, given the arguments' addresses in order; each may be read as double, Index or bool.
struct Sweep {
  std::string name;
  std::vector<Argument> arguments;
  std::function<void(const std::vector<double*>&)> call;
};

class Arena {
 public:
  explicit Arena(const Sweep& sweep) : sweep_(sweep), memory_((sweep.arguments.size() + 2) * apart) {
    for (std::size_t i = 0; i < sweep.arguments.size(); ++i) at_.push_back(memory_.data() + (i + 1) * apart);
  }

  double* at(std::size_t i) const { return at_[i]; }
  void place(std::size_t i, double* where) { at_[i] = where; }

  /// The text of the refusal, empty if there was none; what must be in memory is put there first.
  std::string call() {
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const std::vector<Index>& holds = sweep_.arguments[i].holds;
      std::memcpy(at_[i], holds.data(), holds.size() * sizeof(Index));
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
  std::vector<double*> at_;
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

inline View<double, 4> rows(double* at, Index of_heads = heads, Index of_time = time) {
  return bhtd(at, batch, of_heads, of_time, dim);
}
inline View<const double, 4> read(double* at, Index of_heads = heads, Index of_time = time) {
  return rows(at, of_heads, of_time);
}
inline Positions positions(double* at, Index of_time = time) {
  return dense(reinterpret_cast<const Index*>(at), batch, of_time);
}
template <class... I>
View<const Index, sizeof...(I)> indices(double* at, I... shape) {
  return dense(reinterpret_cast<const Index*>(at), shape...);
}
template <class... I>
View<const bool, sizeof...(I)> flags(double* at, I... shape) {
  return dense(reinterpret_cast<const bool*>(at), shape...);
}
template <class... I>
Param<double, sizeof...(I)> param(double* value, double* grad, I... shape) {
  return {dense<const double>(value, shape...), dense(grad, shape...)};
}

inline constexpr Index row_count = batch * heads * time * dim, key_count = batch * 2 * 5 * dim,
                       score_count = batch * heads * time * 5;
inline constexpr Index lse_count = batch * heads * time;

}  // namespace bearing::test::overlaps
