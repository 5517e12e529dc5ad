#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <bearing/description.hpp>
#include <bearing/rows.hpp>
#include <bearing/term_list.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "functions.hpp"
#include "specs.hpp"

// Encodings as Python holds them: a spec, arrays of parameters and settings. The C++ encoding is made anew for each
// call, in the call's arithmetic, so that it always sees the parameters as they are; its gradients are new arrays.

namespace bearing::python {

/// A parameter as Python gives it: its name, how many axes it has, whether it may be left out.
struct ArrayInfo {
  const char* name;
  std::size_t rank;
  bool optional = false;
  std::size_t fewest = 0;           ///< axes that may be given, the first ones being left out; 0: all of them must be
  const char* for_truth = nullptr;  ///< what takes the truth values that somebody may give here, for the error
  const char* called = nullptr;     ///< in errors: "Encoding.parameter", as the C++ library calls it
  bool indices = false;             ///< whole numbers, which are copied
};

/// Whether a call wants gradients of parameters.
enum class Wanted { values, gradients };

/// A parameter's gradient of one call.
struct Gradient {
  const char* name;
  nb::object array;
};

/// What all encodings of a class share: what is described, as Python takes it.
struct EncodingClass {
  const char* name;
  std::vector<ArrayInfo> arrays;  ///< one for each parameter
  bool has_spec = false;
  const EncodingInfo* info = nullptr;  ///< null: a class that makes encodings in its own way
};

class Encoding {
 public:
  /// `given`: the spec, unless the encoding has none, one for each parameter, then the settings, as they were given;
  /// whole numbers become tuples, as they are copied.
  Encoding(const EncodingClass& of, std::vector<GivenArgument> given, Record spec = {}, Record settings = {});
  virtual ~Encoding() = default;

  /// Knows nothing of Python: for calls that come from elsewhere. Whole numbers need not be given.
  template <class A>
  Made<A> make(std::span<const ParameterMemory> parameters) const {
    if constexpr (std::is_same_v<A, double>)
      return make_f64(parameters);
    else
      return make_f32(parameters);
  }

  /// The memory of its own arrays, which must be of this type; gradients, if wanted, are new arrays of zeros.
  std::vector<ParameterMemory> memory(const char* function, DataType arithmetic, Wanted wanted,
                                      std::vector<Gradient>& gradients) const;

  /// That, and the memory of whole numbers, which are copies.
  std::vector<ParameterMemory> with_whole_numbers(std::span<const ParameterMemory> given) const;

  const EncodingClass& of() const { return of_; }
  const std::vector<ArrayInfo>& infos() const { return of_.arrays; }
  const char* name() const { return of_.name; }
  std::string repr() const;
  /// None where there is none.
  nb::object spec() const { return of_.has_spec ? given_[0].value : nb::none(); }
  /// The array of parameter p, or None.
  const nb::object& parameter(std::size_t p) const { return given_[(of_.has_spec ? 1 : 0) + p].value; }
  /// Whether calls read an array of the caller's for it.
  bool reads(std::size_t p) const { return !of_.arrays[p].indices && !parameter(p).is_none(); }
  const Record& record() const { return spec_; }
  const Record& settings() const { return settings_; }
  const std::vector<GivenArgument>& given() const { return given_; }
  /// Lets go of what was given, in cycles of references that Python's collector breaks.
  void forget();
  /// name → array, of those that are given
  nb::dict parameters() const;
  /// name → value, of all that the constructor took
  nb::dict arguments() const;

 protected:
  virtual Made<float> make_f32(std::span<const ParameterMemory> parameters) const {
    return made_or_kept(parameters, f32_);
  }
  virtual Made<double> make_f64(std::span<const ParameterMemory> parameters) const {
    return made_or_kept(parameters, f64_);
  }

 private:
  template <class A>
  Made<A> made_or_kept(std::span<const ParameterMemory> given, std::optional<Made<A>>& kept) const;

  const EncodingClass& of_;
  std::vector<GivenArgument> given_;
  Record spec_, settings_;
  std::vector<Tensor> whole_numbers_;  ///< one for each parameter
  mutable std::mutex mutex_;
  mutable std::optional<Made<float>> f32_;
  mutable std::optional<Made<double>> f64_;
};

/// Binds `Encoding`, the base of them all.
void bind_encoding(nb::module_& m);
/// Binds the class of an encoding.
void bind_encoding(nb::module_& m, const EncodingInfo& info);
/// Makes every argument of a class of encodings readable: bias.table. Those before `first` are so already.
void bind_arguments(nb::handle type, const std::vector<const char*>& names, std::size_t first, std::size_t arrays);

/// The encodings of one call, and what keeps them.
struct EncodingList {
  std::vector<const Encoding*> all;
  std::vector<nb::object> kept;

  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
};

/// From a Python list or tuple of them, one alone, or None. A RopeTable counts as RotaryRows of it, a Rope as those of
/// a table of this arithmetic.
EncodingList encodings_of(const char* function, nb::handle encodings, DataType arithmetic = DataType::f32);
/// The same for an argument that is one encoding.
EncodingList encoding_of(const Argument& argument, nb::handle encoding, DataType arithmetic = DataType::f32);

/// They, made for this call.
template <class A>
struct MadeList {
  EncodingList list;
  std::vector<Made<A>> made;
  std::vector<std::vector<Gradient>> gradients;
  TermList<A> terms;

  MadeList(const char* function, nb::handle encodings, Wanted wanted) {
    constexpr DataType arithmetic = std::is_same_v<A, double> ? DataType::f64 : DataType::f32;
    list = encodings_of(function, encodings, arithmetic);
    made.reserve(list.all.size());
    for (const Encoding* one : list) {
      const auto memory = one->memory(function, arithmetic, wanted, gradients.emplace_back());
      made.push_back(one->make<A>(memory));
      if (!made.back().term) Argument{function, "encodings"}.fail("encodings of rows, scores or values", one->repr());
      terms.add(*made.back().term);
    }
  }

  /// One dictionary of gradients for each encoding.
  nb::list gradient_arrays() const {
    nb::list all;
    for (const std::vector<Gradient>& one : gradients) {
      nb::dict of;
      for (const Gradient& gradient : one) of[gradient.name] = gradient.array;
      all.append(of);
    }
    return all;
  }
};

}  // namespace bearing::python
