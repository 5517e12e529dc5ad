#include <algorithm>
#include <bearing/memory.hpp>
#include <cstdint>
#include <new>
#include <numeric>

#include "overlaps.hpp"
#include "tensor_checks.hpp"

namespace bearing {

namespace {

/// c · stride bytes, c from `low` to `high`: what an axis adds to the distance of two elements.
struct Step {
  Index stride, low, high;
};

/// All ways to choose an element's byte in either tensor, as sums of steps; equal strides are one step.
class Distances {
 public:
  void add(const Memory& of, Index sign) {
    add(1, of.bytes, sign);
    for (std::size_t axis = 0; axis < Memory::most_axes; ++axis) {
      if (of.shape[axis] <= 1 || of.stride[axis] == 0) continue;
      add((of.stride[axis] < 0 ? -of.stride[axis] : of.stride[axis]) * of.bytes, of.shape[axis], sign);
    }
  }

  /// Whether some choice adds up to `distance`.
  bool reach(Index distance) {
    std::sort(steps_.begin(), steps_.begin() + count_,
              [](const Step& a, const Step& b) { return a.stride > b.stride; });
    for (int n = count_; n-- > 0;) {
      const Step& step = steps_[at(n)];
      const Rest& behind = rest_[at(n + 1)];
      rest_[at(n)] = {behind.low + step.stride * step.low, behind.high + step.stride * step.high,
                      std::gcd(behind.divisor, step.stride), behind.all && step.stride <= behind.high - behind.low + 1};
    }
    return between_multiples(distance) && reach(0, distance);
  }

 private:
  /// What the steps from one on can add up to: low … high, multiples of the divisor; all of those numbers, or some.
  struct Rest {
    Index low = 0, high = 0, divisor = 0;
    bool all = true;
  };

  /// False where the first steps, whose sum is a multiple of what divides them all, leave too much to the others.
  bool between_multiples(Index distance) const {
    Index divisor = 0;
    for (int n = 0; n < count_; ++n) {
      divisor = std::gcd(divisor, steps_[at(n)].stride);
      const Rest& behind = rest_[at(n + 1)];
      if (floor(distance - behind.low, divisor) * divisor < distance - behind.high) return false;
    }
    return true;
  }

  static std::size_t at(int n) { return static_cast<std::size_t>(n); }

  void add(Index stride, Index extent, Index sign) {
    const auto same =
        std::find_if(steps_.begin(), steps_.begin() + count_, [=](const Step& step) { return step.stride == stride; });
    if (same == steps_.begin() + count_) steps_[at(count_++)] = {stride, 0, 0};
    (sign > 0 ? same->high : same->low) += sign * (extent - 1);
  }

  /// Whether the steps from `n` on reach it: the largest stride leaves few choices that the others can make up for.
  bool reach(int n, Index distance) {
    const Rest& here = rest_[at(n)];
    if (distance < here.low || distance > here.high) return false;
    if (here.all) return true;  // also at the end, where low and high are 0
    if (distance % here.divisor != 0) return false;
    const Step& step = steps_[at(n)];
    const Rest& behind = rest_[at(n + 1)];
    const Index first = std::max(step.low, -floor(behind.high - distance, step.stride));
    const Index last = std::min(step.high, floor(distance - behind.low, step.stride));
    for (Index c = first; c <= last; ++c) {
      if (--budget_ < 0 || reach(n + 1, distance - c * step.stride)) return true;
    }
    return false;
  }

  static Index floor(Index x, Index by) { return x >= 0 ? x / by : -((-x + by - 1) / by); }

  static constexpr std::size_t most = 2 * (Memory::most_axes + 1);
  std::array<Step, most> steps_{};
  std::array<Rest, most + 1> rest_{};
  int count_ = 0;
  Index budget_ = 100'000;
};

}  // namespace

void refuse_device(std::string_view function, std::string_view argument, const Device& device) {
  throw ShapeError(text::concat("[", function, "] ", argument, ": must lie in host memory, got memory on ", device));
}

bool shares_memory(const Memory& a, const Memory& b) {
  if (a.device != b.device && !(a.device.is_host() && b.device.is_host())) return false;
  const MemoryExtent of_a(a), of_b(b);
  if (!of_a.meets(of_b)) return false;
  Distances distances;
  distances.add(a, 1);
  distances.add(b, -1);
  return distances.reach(static_cast<Index>(of_b.first - of_a.first));
}

void check_bytes_apart(const char* function, const char* argument, const Memory& written, const char* than,
                       const Memory& other) {
  if (!shares_memory(written, other)) return;
  throw ShapeError(
      text::concat("[", function, "] ", argument, ": must share no memory with ", than, ", got tensors that overlap"));
}

void CallMemory::add(const char* name, MemoryUse use, const Memory& memory) {
  if (memory.bytes == 0) return;
  if (!memory.device.is_host()) {
    check_host(function_, text::concat(name, use == MemoryUse::add ? ".grad" : ""), memory.device);
  }
  if (count_ < few) {
    new (&entries_[count_]) Entry{name, use, MemoryExtent(memory), memory};
  } else {
    more_.push_back({name, use, MemoryExtent(memory), memory});
  }
  ++count_;
}

void CallMemory::check_pairs() const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Entry& written = entry(i);
    if (written.use == MemoryUse::read) continue;
    for (std::size_t j = 0; j < count_; ++j) {
      const Entry& other = entry(j);
      if (i == j || (j > i && other.use != MemoryUse::read) || !written.extent.meets(other.extent)) continue;
      if (written.use == MemoryUse::add && other.use == MemoryUse::add && written.memory == other.memory) continue;
      if (shares_memory(written.memory, other.memory)) refuse(written, other);
    }
  }
}

void CallMemory::refuse(const Entry& written, const Entry& other) const {
  const auto grad = [](const Entry& entry) { return entry.use == MemoryUse::add ? ".grad" : ""; };
  throw ShapeError(text::concat("[", function_, "] ", written.name, grad(written), ": must share no memory with ",
                                other.name, grad(other), ", got tensors that overlap"));
}

}  // namespace bearing
