#pragma once

#include <bearing/error.hpp>
#include <bearing/term_list.hpp>
#include <cmath>
#include <limits>
#include <string_view>

#include "tensor_checks.hpp"
#include "text.hpp"

// Checks that encodings of scores and values share.

namespace bearing {

/// Throws ShapeError for a list whose size was set to what it cannot hold.
template <class A>
void check_list(const char* function, const TermList<A>& terms) {
  if (terms.size >= 0 && terms.size <= TermList<A>::most) return;
  throw ShapeError(
      text::concat("[", function, "] terms: must be from 0 to ", TermList<A>::most, ", got a size of ", terms.size));
}

/// A gradient's name, made only where an error is said.
struct GradOf {
  std::string_view name;
  friend void append(std::string& to, const GradOf& x) { to.append(x.name).append(".grad"); }
};

/// Throws ShapeError unless a parameter lies on the host and its gradient, if one is wanted, too and has its shape.
template <class A, int Rank>
void check_grad(std::string_view function, std::string_view name, const Param<A, Rank>& param) {
  check_host(function, name, param.value.device);
  check_aligned(function, name, param.value.data);
  if (param.grad.data == nullptr) return;
  check_aligned(function, GradOf{name}, param.grad.data);
  if (!param.grad.device.is_host()) check_host(function, text::concat(name, ".grad"), param.grad.device);
  if (param.grad.shape == param.value.shape) return check_countable(function, GradOf{name}, param.grad);
  throw ShapeError(text::concat("[", function, "] ", name, ".grad: must have the shape of its parameter, ",
                                param.value.shape, ", got ", param.grad.shape));
}

/// Throws RangeError for a distance at which a window cannot end.
inline void check_clip(const char* function, Index clip) {
  if (clip >= 0 && clip <= max_position) return;
  throw RangeError(text::concat("[", function, "] clip: must be from 0 to 2^31, got ", clip));
}

/// Throws ShapeError for an encoding whose numbers were moved to another one.
inline void check_present(std::string_view function, std::string_view encoding, bool present) {
  if (present) return;
  throw ShapeError(
      text::concat("[", function, "] ", encoding, ": must have its numbers, got an object that was moved from"));
}

/// Throws ShapeError unless a parameter is there, on the host, and has the shape that it must have, and so has its
/// gradient.
template <class A, int Rank>
void check_param(std::string_view function, std::string_view name, const Param<A, Rank>& param,
                 const std::type_identity_t<std::array<Index, Rank>>& shape, std::string_view axes) {
  if (param.value.shape == shape) {
    check_extents(function, name, param.value);
    check_countable(function, name, param.value);
    if (param.value.data != nullptr || param.value.size() == 0) return check_grad(function, name, param);
  }
  const bool missing = param.value.data == nullptr;
  throw ShapeError(text::concat("[", function, "] ", name, ": must be ", axes, " = ", shape, ", got ",
                                missing ? "nothing" : text::concat("shape ", param.value.shape)));
}

/// Throws RangeError unless all numbers of a parameter are finite and at most `most` in size; `where` says for what, if
/// that limit depends on the call. For parameters of few numbers, of which whole rows or columns of results are made:
/// one that is infinite would be a NaN there.
template <class A, int Rank>
void check_finite(std::string_view function, std::string_view name, const View<const A, Rank>& numbers,
                  double most = std::numeric_limits<double>::max(), std::string_view where = {}) {
  std::array<Index, Rank> at{};
  for (Index left = numbers.size(); left > 0; --left) {
    const A* one = numbers.data;
    for (std::size_t axis = 0; axis < Rank; ++axis) one += at[axis] * numbers.stride[axis];
    const auto number = static_cast<double>(*one);
    if (!(std::fabs(number) <= most)) {
      const bool bounded = std::isfinite(number);
      throw RangeError(text::concat("[", function, "] ", name, ": must be finite",
                                    bounded ? text::concat(" and at most ", most, " in size", where) : "", ", got ",
                                    number, " at ", at));
    }
    for (std::size_t axis = Rank; axis-- > 0 && ++at[axis] == numbers.shape[axis];) at[axis] = 0;
  }
}

/// Throws ShapeError unless a parameter's features lie side by side on the host and its gradient, if wanted, has its
/// shape.
template <class A, int Rank>
void check_features(std::string_view function, std::string_view name, const Param<A, Rank>& param) {
  if (param.value.stride[Rank - 1] != 1 && param.value.shape[Rank - 1] > 1) {
    throw ShapeError(
        text::concat("[", function, "] ", name, ": must have a last stride of 1, got ", param.value.stride[Rank - 1]));
  }
  check_extents(function, name, param.value);
  check_countable(function, name, param.value);
  check_grad(function, name, param);
}

/// Throws RangeError unless positions on an axis are whole numbers.
inline void check_whole(std::string_view function, std::string_view argument, std::string_view encoding,
                        const Positions& at, Index batch, Index time, Index axis = 0) {
  if (at.integral()) return;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      const double p = at.real(axis, b, t);
      if (p == std::floor(p)) continue;
      throw RangeError(text::concat("[", function, "] ", argument, ": must be whole numbers for ", encoding, ", got ",
                                    p, " for token ", t, " of sequence ", b));
    }
  }
}
inline void check_whole(std::string_view function, std::string_view encoding, const Problem& problem) {
  check_whole(function, "q_positions", encoding, *problem.q_positions, problem.batch, problem.q_len);
  check_whole(function, "k_positions", encoding, *problem.k_positions, problem.batch, problem.k_len);
}

/// Throws ShapeError unless there are queries and keys, of that dim.
inline void check_dim(std::string_view function, std::string_view argument, Index dim, const Problem& problem) {
  if (problem.dim == 0) {
    throw ShapeError(text::concat("[", function, "] ", argument, ": must have queries and keys to multiply, got none"));
  }
  if (dim != problem.dim) {
    throw ShapeError(
        text::concat("[", function, "] ", argument, ": must have q's dim of ", problem.dim, ", got ", dim));
  }
}

}  // namespace bearing
