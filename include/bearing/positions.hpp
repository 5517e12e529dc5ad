#pragma once

#include <bearing/export.hpp>
#include <bearing/memory.hpp>
#include <bearing/view.hpp>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace bearing {

/// The largest position, either way: |p| ≤ 2^31.
inline constexpr Index max_position = Index{1} << 31;

/// What a position may be in memory.
template <class T>
concept PositionNumber = (std::same_as<std::remove_const_t<T>, Index> ||
                          std::same_as<std::remove_const_t<T>, std::int32_t> ||
                          std::same_as<std::remove_const_t<T>, double>);

/// Where each token stands. Positions are always given, never taken from an array's index, because in packed batches,
/// caches, left padding, sharded sequences and images the two differ.
///
///     Positions{}                          0, 1, 2, … in every sequence
///     Positions(past)                      past, past + 1, … in every sequence (a cache of `past` keys)
///     Positions::starting_at(firsts)       firsts[b], firsts[b] + 1, … : firsts [batch]
///     Positions(view)                      one position per token: [time], [batch, time] or [axes, batch, time]
///
/// Values are int64, int32 (as ggml and llama.cpp hold them) or double (real positions: seconds, normalised
/// coordinates, augmented positions), in any order, repeated or negative, up to ±2^31. They are read where they lie.
/// With several axes (M-RoPE: time, height, width; an image: its two coordinates) the first extent is the axis. A batch
/// of 1 serves every sequence. Positions refer to the caller's memory, which must outlive the call they are passed to.
class BEARING_EXPORT Positions {
 public:
  Positions(Index first = 0) : first_(first) {}
  template <std::floating_point F>
  Positions(F) = delete;  ///< it would be cut to a whole number: real positions are given for each token

  template <PositionNumber T>
  Positions(View<T, 1> per_token)
      : Positions(
            View<T, 3>{per_token.data, {1, 1, per_token.shape[0]}, {0, 0, per_token.stride[0]}, per_token.device}) {}
  template <PositionNumber T>
  Positions(View<T, 2> per_token) : Positions(batch_of_one(per_token)) {}
  template <PositionNumber T>
  Positions(View<T, 3> per_token)
      : kind_(kind_of<std::remove_const_t<T>>()),
        numbers_(per_token.data),
        shape_(per_token.shape),
        stride_(per_token.stride),
        device_(per_token.device) {
    if (shape_[1] == 1) stride_[1] = 0;  // it serves all sequences
  }

  /// Sequence b starts at firsts[b] and counts up: a decode step over sequences of different lengths.
  static Positions starting_at(View<const Index, 1> firsts) { return counting_from(firsts); }
  static Positions starting_at(View<const std::int32_t, 1> firsts) { return counting_from(firsts); }

  /// True unless the positions are doubles.
  bool integral() const { return kind_ != Kind::real; }
  /// True if every sequence has the positions first(), first() + 1, …
  bool is_offset() const { return kind_ == Kind::offset; }
  Index first() const { return first_; }
  Index axes() const { return kind_ == Kind::offset ? 1 : shape_[0]; }

  /// The position of token t of sequence b along an axis; integer() only if integral().
  Index integer(Index axis, Index b, Index t) const {
    if (kind_ == Kind::offset) return first_ + t;
    const Index at = place(axis, b, t);
    return (kind_ == Kind::int32 ? Index{numbers<std::int32_t>()[at]} : numbers<Index>()[at]) + step_ * t;
  }
  double real(Index axis, Index b, Index t) const {
    if (kind_ != Kind::real) return static_cast<double>(integer(axis, b, t));
    return numbers<double>()[place(axis, b, t)];
  }

  /// The memory that they lie in; none for positions that only count up from a number.
  Memory memory() const;

  /// Throws ShapeError unless these are positions for `batch` sequences of `time` tokens on `axes` axes (one axis
  /// serves all of them: text) and the host can read them, RangeError if one of them is past ±2^31 or not a number.
  void check(const char* function, const char* argument, Index axes, Index batch, Index time) const;

 private:
  enum class Kind { offset, int64, int32, real };
  template <class T>
  static constexpr Kind kind_of() {
    return std::same_as<T, double> ? Kind::real : std::same_as<T, std::int32_t> ? Kind::int32 : Kind::int64;
  }
  template <class T>
  static Positions counting_from(View<const T, 1> firsts) {
    Positions at(View<const T, 3>{firsts.data, {1, firsts.shape[0], 1}, {0, firsts.stride[0], 0}, firsts.device});
    at.step_ = 1;
    return at;
  }
  template <class T>
  const T* numbers() const {
    return static_cast<const T*>(numbers_);
  }
  Index place(Index axis, Index b, Index t) const { return axis * stride_[0] + b * stride_[1] + t * stride_[2]; }
  template <class T>
  void check_numbers(const char* function, const char* argument, Index batch, Index time) const;

  Kind kind_ = Kind::offset;
  Index first_ = 0, step_ = 0;  // a step of 1: one number for each sequence, which counts up
  const void* numbers_ = nullptr;
  std::array<Index, 3> shape_{1, 1, 1}, stride_{};
  Device device_{};
};

}  // namespace bearing
