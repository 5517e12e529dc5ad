#pragma once

#include <bearing/npy.hpp>
#include <bearing/positions.hpp>
#include <bearing/say.hpp>
#include <bearing/term_list.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// The encodings of a call of attention: what say_encoding() takes, with .npy files for their parameters. KEY=FILE names
// a parameter's numbers, d_KEY=FILE says where its gradient goes.

namespace bearing::tool {

/// What the encodings of a call have to fit.
struct CallShape {
  Index batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0, dim = 0, value_dim = 0;
  const Positions *q_positions = nullptr, *k_positions = nullptr;
  Index seq_len = 0;      ///< for frequencies that depend on it; 0: not said
  bool backward = false;  ///< gradients are computed
};

/// The encodings of a call and everything that they refer to.
template <class A>
struct CallEncodings {
  TermList<A> terms;
  std::deque<std::vector<A>> numbers = {};
  std::deque<std::vector<Index>> indices = {};
  std::vector<std::shared_ptr<const void>> objects = {};
  std::vector<NpyOutput> gradients = {};                        ///< to write after the backward
  std::vector<std::function<void()>> after_backward = {};       ///< from tables' gradients to those of what made them
  std::vector<std::pair<std::string, double>> own_scales = {};  ///< (encoding, softmax scale) where it is not 1/√dim
};

/// Appends what a text says to a call's encodings. Throws UsageError for a text that is wrong, ConfigError for a file.
template <class A>
void read_encoding(const std::string& text, const CallShape& call, CallEncodings<A>& into);

/// Another term of the call; UsageError if there is no room for it.
template <class A>
void add_term(CallEncodings<A>& into, const Term<A>& term);

/// An encoding with its parameters, from what its description says of them.
template <class A>
void read_described(Said& said, const CallShape& call, CallEncodings<A>& into);

/// RoPE and xPos: their tables are made for the call.
template <class A>
void read_rope(Said& said, const CallShape& call, CallEncodings<A>& into);

}  // namespace bearing::tool
