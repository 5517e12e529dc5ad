#include <bearing/error.hpp>
#include <bearing/positions.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing {
namespace {

// The call that is being checked, for the texts.
struct Call {
  const char* function;
  const char* argument;

  template <class... Pieces>
  std::string message(const Pieces&... pieces) const {
    return text::concat("[", function, "] ", argument, ": ", pieces...);
  }
};

bool in_range(Index p) { return p >= -max_position && p <= max_position; }
bool in_range(double p) { return std::abs(p) <= static_cast<double>(max_position); }  // false for NaN

void check_extent(const Call& call, const char* what, Index wanted, Index got) {
  if (got == wanted) return;
  throw ShapeError(call.message("must have ", wanted, " ", what, ", got ", got));
}

[[noreturn]] void refuse(const Call& call, const std::string& got, Index axis, Index b, Index t, const char* way = "") {
  throw RangeError(
      call.message("must be from -2^31 to 2^31, got ", got, " at [axis ", axis, ", batch ", b, ", time ", t, "]", way));
}

/// Milliseconds since 1970 are beyond 2^40; a count of tokens, or what went wrong in one, is not.
template <class T>
const char* way_of(T p) {
  const double size = std::abs(static_cast<double>(p));
  return size > 0x1p40 && size < 0x1p62 ? "; of times on a clock, subtract the first one" : "";
}

// first, first + 1, … first + time − 1; compared without adding, because the sum may not fit 64 bits.
void check_run(const Call& call, Index first, Index time, Index b) {
  if (!in_range(first)) refuse(call, text::concat(first), 0, b, 0);
  if (time - 1 > max_position - first) refuse(call, text::concat(first, " + ", time - 1), 0, b, time - 1);
}

template <class T>
void check_row(const Call& call, const T* row, Index stride, Index time, Index axis, Index b) {
  for (Index t = 0; t < time; ++t) {
    if (!in_range(row[t * stride])) refuse(call, text::concat(row[t * stride]), axis, b, t, way_of(row[t * stride]));
  }
}

}  // namespace

Memory Positions::memory() const {
  const auto of = [this]<class T>(const T* numbers) -> Memory {
    return View<const T, 3>{numbers, shape_, stride_, device_};
  };
  switch (kind_) {
    case Kind::int64:
      return of(numbers<Index>());
    case Kind::int32:
      return of(numbers<std::int32_t>());
    case Kind::real:
      return of(numbers<double>());
    case Kind::offset:
      break;
  }
  return {};
}

template <class T>
void Positions::check_numbers(const char* function, const char* argument, Index batch, Index time) const {
  const Call call{function, argument};
  const bool alone = shape_[0] == 1 && batch == 1 && time == 1;  // then strides lead nowhere
  if (!alone) check_span<T>(function, argument, shape_, stride_);
  if (numbers_ == nullptr) throw ShapeError(call.message("must point to positions, got null"));
  check_aligned(function, argument, numbers<T>());
  const Index sequences = stride_[1] == 0 ? 1 : batch;  // one row for all of them
  for (Index axis = 0; axis < shape_[0]; ++axis) {
    for (Index b = 0; b < sequences; ++b) {
      const T* row = numbers<T>() + axis * stride_[0] + b * stride_[1];
      if (step_ != 0) {
        check_run(call, static_cast<Index>(*row), time, b);
      } else if constexpr (!std::is_same_v<T, std::int32_t>) {  // whose numbers all are in range
        check_row(call, row, stride_[2], time, axis, b);
      }
    }
  }
}

void Positions::check(const char* function, const char* argument, Index axes, Index batch, Index time) const {
  const Call call{function, argument};
  if (kind_ != Kind::offset) {
    if (shape_[0] != 1) check_extent(call, axes == 1 ? "axis" : "axes, or 1 for all of them", axes, shape_[0]);
    if (shape_[1] != 1) check_extent(call, batch == 1 ? "sequence" : "sequences", batch, shape_[1]);
    if (step_ == 0) check_extent(call, time == 1 ? "token" : "tokens", time, shape_[2]);
  }
  if (batch <= 0 || time <= 0) return;
  if (kind_ == Kind::offset) return check_run(call, first_, time, 0);
  check_host(function, argument, device_);
  if (kind_ == Kind::real) return check_numbers<double>(function, argument, batch, time);
  if (kind_ == Kind::int32) return check_numbers<std::int32_t>(function, argument, batch, time);
  check_numbers<Index>(function, argument, batch, time);
}

}  // namespace bearing
