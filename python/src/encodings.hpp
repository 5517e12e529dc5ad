#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>

#include <array>
#include <bearing/rows.hpp>
#include <bearing/term_list.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"

// Encodings as Python holds them: a spec and arrays of parameters. The C++ encoding is made anew for each call, in the
// call's arithmetic, so that it always sees the parameters as they are; its gradients are new arrays.

namespace bearing::python {

/// One parameter: its name, how many axes it has, whether it may be left out.
struct ParameterInfo {
  const char* name;
  std::size_t rank;
  bool optional = false;
};

/// A parameter's memory in a call, in the call's arithmetic; null: not given. grad null: not wanted.
struct ParameterMemory {
  const void* value = nullptr;
  void* grad = nullptr;  ///< row-major
  std::vector<Index> shape, stride;
};

/// An encoding made for one call. What it lacks is empty.
template <class A>
struct MadeEncoding {
  std::shared_ptr<const void> encoding;
  std::optional<Term<A>> term;  ///< query and key rows, scores and values
  std::optional<InputEncoding<A>> input;
  std::optional<RowEncoding<A>> rows;
};

/// Whether a call wants gradients of parameters.
enum class Wanted { values, gradients };

/// A parameter's gradient of one call.
struct Gradient {
  const char* name;
  nb::object array;
};

class Encoding {
 public:
  Encoding(const char* name, std::vector<ParameterInfo> infos, nb::object spec, std::vector<nb::object> parameters);
  virtual ~Encoding() = default;

  /// Knows nothing of Python: for calls that come from elsewhere.
  virtual MadeEncoding<float> make_f32(std::span<const ParameterMemory> parameters) const = 0;
  virtual MadeEncoding<double> make_f64(std::span<const ParameterMemory> parameters) const = 0;
  template <class A>
  MadeEncoding<A> make(std::span<const ParameterMemory> parameters) const {
    if constexpr (std::is_same_v<A, double>)
      return make_f64(parameters);
    else
      return make_f32(parameters);
  }

  /// The memory of its own arrays, which must be of this type; gradients, if wanted, are new arrays of zeros.
  std::vector<ParameterMemory> memory(const char* function, DataType arithmetic, Wanted wanted,
                                      std::vector<Gradient>& gradients) const;

  const std::vector<ParameterInfo>& infos() const { return infos_; }
  std::string repr() const;
  nb::object spec() const { return spec_; }
  /// name → array, of those that are given
  nb::dict parameters() const;

 private:
  const char* name_;
  std::vector<ParameterInfo> infos_;
  nb::object spec_;
  std::vector<nb::object> parameters_;
};

/// What a constructor was called with: the spec, and one object for each parameter (None: not given).
struct EncodingArguments {
  nb::object spec;
  std::vector<nb::object> parameters;

  EncodingArguments(const char* name, std::span<const ParameterInfo> infos, const nb::args& args,
                    const nb::kwargs& given);
};

/// Make: a callable make.template operator()<A>(spec, Param<A, Ranks>…) that returns the encoding.
template <class Spec, class Make, int... Ranks>
class BoundEncoding final : public Encoding {
 public:
  BoundEncoding(const char* name, const std::vector<ParameterInfo>& infos, Make make, EncodingArguments given)
      : Encoding(name, infos, given.spec, std::move(given.parameters)),
        make_(make),
        spec_(nb::cast<const Spec&>(given.spec)) {}

  MadeEncoding<float> make_f32(std::span<const ParameterMemory> parameters) const override {
    return made<float>(parameters, std::make_index_sequence<sizeof...(Ranks)>());
  }
  MadeEncoding<double> make_f64(std::span<const ParameterMemory> parameters) const override {
    return made<double>(parameters, std::make_index_sequence<sizeof...(Ranks)>());
  }

 private:
  template <class A, int Rank>
  static Param<A, Rank> param(const ParameterMemory& memory) {
    Param<A, Rank> out;
    if (memory.value == nullptr) return out;
    out.value.data = static_cast<const A*>(memory.value);
    std::copy_n(memory.shape.begin(), Rank, out.value.shape.begin());
    std::copy_n(memory.stride.begin(), Rank, out.value.stride.begin());
    if (memory.grad == nullptr) return out;
    out.grad = {static_cast<A*>(memory.grad), out.value.shape, {}};
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0; step *= out.grad.shape[axis]) out.grad.stride[axis] = step;
    return out;
  }

  template <class A, std::size_t... P>
  MadeEncoding<A> made([[maybe_unused]] std::span<const ParameterMemory> memory, std::index_sequence<P...>) const {
    using E = decltype(make_.template operator()<A>(spec_, param<A, Ranks>(memory[P])...));
    const auto encoding = std::make_shared<const E>(make_.template operator()<A>(spec_, param<A, Ranks>(memory[P])...));
    MadeEncoding<A> out{encoding, {}, {}, {}};
    if constexpr (ScoreTerm<E, A> || ValueTerm<E, A> || RowTerm<E, A>) out.term = erase<A>(*encoding);
    if constexpr (InputTerm<E, A>) out.input.emplace(*encoding);
    if constexpr (RowTerm<E, A>) out.rows.emplace(*encoding);
    return out;
  }

  Make make_;
  Spec spec_;
};

/// Binds NAME(spec, parameter, …): encoding<T5, 2>(m, "T5Bias", doc, {{"table", 2}}, make).
template <class Spec, int... Ranks, class Make>
void encoding(nb::module_& m, const char* name, const char* doc, const std::vector<ParameterInfo>& infos, Make make) {
  using Bound = BoundEncoding<Spec, Make, Ranks...>;
  const auto spec_name = nb::cast<std::string>(nb::object(nb::type<Spec>().attr("__name__")));
  auto* signature = new std::string("def __init__(self, spec: " + spec_name);
  for (const ParameterInfo& info : infos) {
    *signature += std::string(", ") + info.name + ": ArrayLike" + (info.optional ? " | None = None" : "");
  }
  *signature += ") -> None";
  nb::class_<Bound, Encoding>(m, name, doc)
      .def(
          "__init__",
          [=](Bound* self, const nb::args& args, const nb::kwargs& given) {
            EncodingArguments arguments(name, infos, args, given);
            if (!nb::isinstance<Spec>(arguments.spec)) {
              Argument{name, "spec"}.fail("a " + spec_name, nb::cast<std::string>(nb::repr(arguments.spec)));
            }
            new (self) Bound(name, infos, make, std::move(arguments));
          },
          nb::sig(signature->c_str()));
}

/// Several encodings of one call: from a Python list or tuple of them, one alone, or None.
std::vector<const Encoding*> encodings_of(const char* function, nb::handle encodings);

/// They, made for this call.
template <class A>
struct MadeList {
  std::vector<MadeEncoding<A>> made;
  std::vector<std::vector<Gradient>> gradients;
  TermList<A> terms;

  MadeList(const char* function, nb::handle encodings, Wanted wanted) {
    const std::vector<const Encoding*> all = encodings_of(function, encodings);
    made.reserve(all.size());
    for (const Encoding* one : all) {
      constexpr DataType arithmetic = std::is_same_v<A, double> ? DataType::f64 : DataType::f32;
      const auto memory = one->memory(function, arithmetic, wanted, gradients.emplace_back());
      made.push_back(one->make<A>(memory));
      if (!made.back().term) Argument{function, "encodings"}.fail("encodings of rows, scores or values", one->repr());
      terms.terms[static_cast<std::size_t>(terms.size++)] = *made.back().term;
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
