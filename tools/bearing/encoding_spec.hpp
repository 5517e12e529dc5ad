#pragma once

#include <fmt/format.h>

#include <bearing/positions.hpp>
#include <bearing/term_list.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "array_files.hpp"
#include "errors.hpp"

// An encoding on the command line: NAME, NAME:KEY=VALUE,KEY=VALUE,… or rope:JSON. Numbers and words stand in the spec,
// what is learned in .npy files that it names; d_KEY=FILE says where a learned KEY's gradient goes.

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

/// One extent of a parameter: its name, its size (any: −1), and whether 1 will do.
struct Extent {
  const char* name;
  Index size;
  bool or_one = false;
  static constexpr Index any = -1;
};
using Extents = std::vector<Extent>;

/// A spec taken apart. Every key that is asked for counts as known; finish() refuses the others.
class SpecText {
 public:
  explicit SpecText(const std::string& spec);

  const std::string& name() const { return name_; }
  const std::string& json() const { return json_; }  ///< of rope:{…}, else empty
  bool given(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise);
  Index whole(const std::string& key, Index otherwise, Index lowest, Index highest = max_position);
  double number(const std::string& key, double otherwise);
  /// One of the words; the first is the default, unless `required`.
  std::string word(const std::string& key, const std::vector<std::string>& words, bool required = false);
  /// Keys that nobody asked for, with their values: what a scaling has.
  std::vector<std::pair<std::string, std::string>> rest();
  void finish();

  [[noreturn]] void fail(const std::string& text) const;
  [[noreturn]] void unknown(const std::string& key) const;
  [[noreturn]] void missing(const std::string& key, const Extents& extents) const;

 private:
  struct Value {
    std::string key, text;
    bool used = false;
  };
  std::string name_, json_;
  std::vector<Value> values_;
  std::vector<std::string> known_;
};

/// Throws ConfigError unless the file's shape is the parameter's. A leading extent of which 1 will do may be left out.
std::vector<Index> fitted_shape(const std::string& what, const std::string& file, std::vector<Index> shape,
                                const Extents& extents);

/// "2", "1e-3": throws UsageError naming the option for anything else, and for what is not finite.
double parse_number(const std::string& option, const std::string& text);

/// Reads one spec into a call's encodings.
template <class A>
class SpecReader {
 public:
  SpecReader(SpecText& text, const CallShape& shape, CallEncodings<A>& into) : spec(text), call(shape), into_(&into) {}

  SpecText& spec;
  const CallShape& call;

  /// A learned parameter; UsageError naming the file that is wanted if the spec has none.
  template <int Rank>
  Param<A, Rank> param(const std::string& key, const Extents& extents) {
    if (!spec.given(key)) spec.missing(key, extents);
    const std::string file = spec.text(key, "");
    const NpyArray array = read_npy(file);
    const std::vector<Index> shape = fitted_shape(spec.name() + "'s " + key, file, array.shape, extents);
    Param<A, Rank> result{view<Rank>(read_numbers<A>(file, array), shape)};
    const std::string d_key = "d_" + key;
    if (!spec.given(d_key)) return result;
    if (!call.backward) spec.fail(d_key + " needs --d-out");
    result.grad = view<Rank>(std::vector<A>(into_->numbers.back().size()), shape);
    into_->gradients.push_back({spec.text(d_key, ""), dtype_of<A>(), array.shape, result.grad.data});
    return result;
  }
  /// The same, or an empty one.
  template <int Rank>
  Param<A, Rank> optional_param(const std::string& key, const Extents& extents) {
    if (spec.given(key)) return param<Rank>(key, extents);
    if (spec.given("d_" + key)) spec.missing(key, extents);
    return {};
  }
  /// int64 numbers of two extents.
  View<const Index, 2> indices(const std::string& key, const Extents& extents) {
    if (!spec.given(key)) spec.missing(key, extents);
    const std::string file = spec.text(key, "");
    const NpyArray array = read_npy(file);
    if (array.dtype != "i8") bad_file(file, "the dtype must be int64 (i8), got " + array.dtype);
    const std::vector<Index> shape = fitted_shape(spec.name() + "'s " + key, file, array.shape, extents);
    const Index* from = reinterpret_cast<const Index*>(array.bytes.data());
    into_->indices.emplace_back(from, from + array.bytes.size() / sizeof(Index));
    return dense<const Index>(into_->indices.back().data(), shape[0], shape[1]);
  }
  /// Zeros that live as long as the call: a table that is computed.
  template <int Rank>
  View<A, Rank> zeros(const std::vector<Index>& shape) {
    Index count = 1;
    for (const Index extent : shape) {
      if (extent > 0 && count > (Index{1} << 31) / extent) spec.fail("asks for a table of more than 2^31 numbers");
      count *= extent;
    }
    return view<Rank>(std::vector<A>(static_cast<std::size_t>(count)), shape);
  }
  /// Something that the encoding refers to.
  template <class Object>
  const Object& keep(Object object) {
    const auto kept = std::make_shared<const Object>(std::move(object));
    into_->objects.push_back(kept);
    return *kept;
  }
  template <class Encoding>
  void act(Encoding encoding) {
    if (into_->terms.size == TermList<A>::most) {
      throw UsageError(fmt::format("--encoding: a call has at most {} encodings", TermList<A>::most));
    }
    into_->terms.terms[static_cast<std::size_t>(into_->terms.size++)] = erase<A>(keep(std::move(encoding)));
  }
  /// The encoding's own softmax scale, where it is not 1/√dim: --scale must then be said.
  void own_scale(double scale) { into_->own_scales.emplace_back(spec.name(), scale); }
  void after_backward(std::function<void()> step) { into_->after_backward.push_back(std::move(step)); }

 private:
  template <int Rank>
  View<A, Rank> view(std::vector<A> numbers, const std::vector<Index>& shape) {
    into_->numbers.push_back(std::move(numbers));
    View<A, Rank> result{into_->numbers.back().data(), {}, {}};
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      result.shape[axis] = shape[axis];
      result.stride[axis] = step;
      step *= shape[axis];
    }
    return result;
  }

  CallEncodings<A>* into_;
};

/// Appends what a spec says to a call's encodings. Throws UsageError for a spec that is wrong, ConfigError for a file.
template <class A>
void read_encoding(const std::string& spec, const CallShape& call, CallEncodings<A>& into);

/// An encoding that a call can be given, in both arithmetics.
struct Readable {
  const char* name;
  void (*in_double)(SpecReader<double>&);
  void (*in_float)(SpecReader<float>&);
};
/// Names that a spec may begin with.
std::vector<std::string> readable_names();
void list_row_encodings(std::vector<Readable>& all);
void list_biases(std::vector<Readable>& all);
void list_terms(std::vector<Readable>& all);

}  // namespace bearing::tool
