#pragma once

#include <vector>

#include "attention/linear/linear_reference.hpp"

namespace bearing::reference {

/// ln of what is kept in each channel of the state at each step: from key to key, and from the last key that a query
/// sees to the query.
class Decays {
 public:
  Decays(const TermList<double>& terms, const LinearAttentionInputs<double>& in, Mask mask, Index dim);

  /// What is left of every channel of key j for query i of head h, at [j + 1]; first, of the state before the call.
  std::vector<double> for_query(Index b, Index h, Index i) const;
  /// … at the end of the call.
  double at_end(Index b, Index kv, Index j, Index c) const;
  /// d: the gradient of the logarithm of what is left.
  void add_query(Index b, Index h, Index i, Index j, Index c, double d);
  void add_end(Index b, Index kv, Index j, Index c, double d);
  void collect();

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  Index group() const { return in_.q.shape[1] / in_.k.shape[1]; }
  std::size_t row(Index b, Index i) const { return size(b * in_.q.shape[2] + i); }
  Index& seen(Index b, Index i) { return seen_[row(b, i)]; }
  std::size_t own(Index b, Index h, Index i) const { return size((b * in_.q.shape[1] + h) * in_.q.shape[2] + i); }
  std::size_t place(Index b, Index h, Index t, Index c) const {
    return size(((b * in_.k.shape[1] + h) * in_.k.shape[2] + t) * dim_ + c);
  }
  double sum(Index b, Index kv, Index from, Index to, Index c) const;
  double key_at(Index b, Index t) const;
  template <class Body>
  void each_side(Side side, Index b, Index h, const Body& body);
  template <class Body>
  void each_step(Side side, Index b, Index h, const Body& body);

  const LinearAttentionInputs<double>& in_;
  TermList<double> terms_;
  Index dim_;
  ParamBlocks<double> params_;
  std::vector<double> keys_, own_, d_keys_, d_own_;
  std::vector<Index> seen_;
};

}  // namespace bearing::reference
