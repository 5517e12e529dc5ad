#include <array>
#include <bearing/error.hpp>
#include <bearing/positions.hpp>
#include <charconv>
#include <cmath>
#include <string>

namespace bearing {
namespace {

// The call that is being checked, for the texts.
struct Call {
  const char* function;
  const char* argument;

  std::string text(const std::string& rest) const {
    return std::string("[") + function + "] " + argument + ": " + rest;
  }
};

bool in_range(Index p) { return p >= -max_position && p <= max_position; }
bool in_range(double p) { return std::abs(p) <= static_cast<double>(max_position); }  // false for NaN

std::string number(Index p) { return std::to_string(p); }
std::string number(double p) {  // to_chars: the shortest text that reads back, in any locale
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), p).ptr};
}

void check_extent(const Call& call, const char* what, Index wanted, Index got) {
  if (got == wanted) return;
  throw ShapeError(call.text("must have " + number(wanted) + " " + what + ", got " + number(got)));
}

[[noreturn]] void refuse(const Call& call, const std::string& got, Index axis, Index b, Index t) {
  throw RangeError(call.text("must lie within -2^31 and 2^31, got " + got + " at [axis " + number(axis) + ", batch " +
                             number(b) + ", time " + number(t) + "]"));
}

// first, first + 1, … first + time − 1; compared without adding, because the sum may not fit 64 bits.
void check_run(const Call& call, Index first, Index time, Index b) {
  if (!in_range(first)) refuse(call, number(first), 0, b, 0);
  if (time - 1 > max_position - first) refuse(call, number(first) + " + " + number(time - 1), 0, b, time - 1);
}

template <class T>
void check_row(const Call& call, const T* row, Index stride, Index time, Index axis, Index b) {
  for (Index t = 0; t < time; ++t) {
    if (!in_range(row[t * stride])) refuse(call, number(row[t * stride]), axis, b, t);
  }
}

}  // namespace

void Positions::check(const char* function, const char* argument, Index axes, Index batch, Index time) const {
  const Call call{function, argument};
  const bool counts_up = step_ != 0;
  if (kind_ != Kind::offset) {
    if (shape_[0] != 1) check_extent(call, axes == 1 ? "axis" : "axes, or 1 for all of them", axes, shape_[0]);
    if (shape_[1] != any) check_extent(call, "sequences", batch, shape_[1]);
    if (!counts_up) check_extent(call, "tokens", time, shape_[2]);
  }
  if (batch <= 0 || time <= 0) return;
  if (kind_ == Kind::offset) return check_run(call, first_, time, 0);
  if (kind_ == Kind::integer ? integer_ == nullptr : real_ == nullptr) {
    throw ShapeError(call.text("must point to positions, got null"));
  }
  const Index sequences = stride_[1] == 0 ? 1 : batch;  // one row for all of them
  for (Index axis = 0; axis < shape_[0]; ++axis) {
    for (Index b = 0; b < sequences; ++b) {
      const Index row = axis * stride_[0] + b * stride_[1];
      if (counts_up) {
        check_run(call, integer_[row], time, b);
      } else if (kind_ == Kind::integer) {
        check_row(call, integer_ + row, stride_[2], time, axis, b);
      } else {
        check_row(call, real_ + row, stride_[2], time, axis, b);
      }
    }
  }
}

}  // namespace bearing
