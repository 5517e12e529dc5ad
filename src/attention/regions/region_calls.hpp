#pragma once

#include <bearing/regions.hpp>
#include <deque>
#include <vector>

#include "attention/softmax/attention_call.hpp"

namespace bearing {

/// A call in regions as calls of attention(), one for each: checked before any of them runs.
template <class T>
class RegionCalls {
 public:
  using A = Compute<T>;

  /// Throws what attention_in_regions() says of inputs, regions and options, and std::bad_alloc. All arguments must
  /// outlive this.
  RegionCalls(const char* function, const AttentionInputs<T>& in, std::span<const Region> regions,
              const TermList<A>& terms, const AttentionOptions<A>& options);
  RegionCalls(const RegionCalls&) = delete;
  RegionCalls& operator=(const RegionCalls&) = delete;

  /// The first region's: it stands for all of them where regions make no difference.
  const AttentionCall<A>& first() const { return parts_.front().call; }

  /// body(inputs, options, n) for each region that any query sees a key of, in order, and for the first one always.
  template <class Body>
  void each(const Body& body) const {
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      if (n == 0 || sees(parts_[n].call)) body(parts_[n].in, parts_[n].options, n);
    }
  }

 private:
  struct Part {
    AttentionInputs<T> in;
    AttentionOptions<A> options;
    AttentionCall<A> call;

    Part(const char* function, const AttentionInputs<T>& inputs, const TermList<A>& terms,
         const AttentionOptions<A>& given)
        : in(inputs), options(given), call(function, in, terms, options) {}
  };

  static bool sees(const AttentionCall<A>& call);
  std::optional<Positions> place(const Placing& placing, const Positions& at, Index batch, Index time);

  std::deque<std::vector<double>> positions_;
  std::deque<Part> parts_;  ///< whose calls refer to them: they do not move
};

}  // namespace bearing
