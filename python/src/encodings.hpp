#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>

#include <array>
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
#include "specs.hpp"

// Encodings as Python holds them: a spec, arrays of parameters and settings. The C++ encoding is made anew for each
// call, in the call's arithmetic, so that it always sees the parameters as they are; its gradients are new arrays.

namespace bearing::python {

/// One parameter: its name, how many axes it has, whether it may be left out.
struct ParameterInfo {
  const char* name;
  std::size_t rank;
  bool optional = false;
  std::size_t fewest = 0;           ///< axes that may be given, the first ones being left out; 0: all of them must be
  const char* for_truth = nullptr;  ///< what takes the truth values that somebody may give here, for the error
  const char* called = nullptr;     ///< in errors: as the C++ library calls it, "T5.table"
};

/// What a constructor takes beside a spec and parameters: the members of an aggregate, as spec() has them.
struct Nothing {};
template <class S = Nothing, class... T>
struct Settings {
  S defaults{};
  std::tuple<Field<S, T>...> fields{};
};
template <class S, class... T>
Settings<S, T...> settings(S defaults, Field<S, T>... field) {
  return {defaults, {field...}};
}

/// The spec of an encoding that has none.
struct NoSpec {};
/// One that may be left out is std::optional<Spec>.
template <class Spec>
inline constexpr bool is_optional = false;
template <class Spec>
inline constexpr bool is_optional<std::optional<Spec>> = true;

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

/// An argument of a constructor, as it was given.
struct GivenArgument {
  const char* name;
  nb::object value;
};

class Encoding {
 public:
  /// `given`: the spec, unless the encoding has none, one for each parameter, then the settings.
  Encoding(const char* name, std::vector<ParameterInfo> infos, std::vector<GivenArgument> given, bool has_spec);
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
  const char* name() const { return name_; }
  std::string repr() const;
  /// None where there is none.
  nb::object spec() const { return has_spec_ ? given_[0].value : nb::none(); }
  /// The array of parameter p, or None.
  const nb::object& parameter(std::size_t p) const { return given_[first_ + p].value; }
  const std::vector<GivenArgument>& given() const { return given_; }
  /// name → array, of those that are given
  nb::dict parameters() const;
  /// name → value, of all that the constructor took
  nb::dict arguments() const;

 private:
  const char* name_;
  std::vector<ParameterInfo> infos_;
  std::vector<GivenArgument> given_;
  bool has_spec_;
  std::size_t first_;  ///< of the parameters among `given_`
};

/// What a constructor was called with, in the order of `names`; None: not given.
std::vector<GivenArgument> arguments_of(const char* name, std::span<const char* const> names, const nb::args& args,
                                        const nb::kwargs& given);

/// Make: a callable make.template operator()<A>(spec, settings, Param<A, Ranks>…) that returns the encoding; without
/// the spec or the settings where there are none.
template <class Spec, class S, class Make, int... Ranks>
class BoundEncoding final : public Encoding {
 public:
  BoundEncoding(const char* name, const std::vector<ParameterInfo>& infos, std::vector<GivenArgument> given, Make make,
                Spec spec, S settings)
      : Encoding(name, infos, std::move(given), !std::is_same_v<Spec, NoSpec>),
        make_(make),
        spec_(std::move(spec)),
        settings_(std::move(settings)) {}

  MadeEncoding<float> make_f32(std::span<const ParameterMemory> parameters) const override {
    return made_or_kept(parameters, f32_);
  }
  MadeEncoding<double> make_f64(std::span<const ParameterMemory> parameters) const override {
    return made_or_kept(parameters, f64_);
  }

 private:
  /// Without parameters it is the same for all calls, of all threads: made once, as exact tables take their time.
  template <class A>
  MadeEncoding<A> made_or_kept(std::span<const ParameterMemory> parameters,
                               std::optional<MadeEncoding<A>>& kept) const {
    for (const ParameterMemory& parameter : parameters) {
      if (parameter.value != nullptr) return made<A>(parameters);
    }
    const std::lock_guard lock(mutex_);
    if (!kept) kept = made<A>(parameters);
    return *kept;
  }

  template <class A, int Rank>
  static Param<A, Rank> param(const ParameterMemory& memory) {
    Param<A, Rank> out;
    if (memory.value == nullptr) return out;
    const std::size_t missing = static_cast<std::size_t>(Rank) - memory.shape.size();
    out.value.data = static_cast<const A*>(memory.value);
    out.value.shape.fill(1);
    std::copy(memory.shape.begin(), memory.shape.end(), out.value.shape.begin() + missing);
    std::copy(memory.stride.begin(), memory.stride.end(), out.value.stride.begin() + missing);
    if (memory.grad == nullptr) return out;
    out.grad = {static_cast<A*>(memory.grad), out.value.shape, {}};
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0; step *= out.grad.shape[axis]) out.grad.stride[axis] = step;
    return out;
  }

  template <class A, std::size_t... P>
  auto build([[maybe_unused]] std::span<const ParameterMemory> memory, std::index_sequence<P...>) const {
    constexpr bool has_spec = !std::is_same_v<Spec, NoSpec>, has_settings = !std::is_same_v<S, Nothing>;
    if constexpr (has_spec && has_settings)
      return make_.template operator()<A>(spec_, settings_, param<A, Ranks>(memory[P])...);
    else if constexpr (has_spec)
      return make_.template operator()<A>(spec_, param<A, Ranks>(memory[P])...);
    else if constexpr (has_settings)
      return make_.template operator()<A>(settings_, param<A, Ranks>(memory[P])...);
    else
      return make_.template operator()<A>(param<A, Ranks>(memory[P])...);
  }

  template <class A>
  MadeEncoding<A> made(std::span<const ParameterMemory> memory) const {
    constexpr auto all = std::make_index_sequence<sizeof...(Ranks)>();
    using E = decltype(build<A>(memory, all));
    const auto encoding = std::make_shared<const E>(build<A>(memory, all));
    MadeEncoding<A> out{encoding, {}, {}, {}};
    if constexpr (ScoreTerm<E, A> || ValueTerm<E, A> || RowTerm<E, A>) out.term = erase<A>(*encoding);
    if constexpr (InputTerm<E, A>) out.input.emplace(*encoding);
    if constexpr (RowTerm<E, A>) out.rows.emplace(*encoding);
    return out;
  }

  Make make_;
  Spec spec_;
  S settings_;
  mutable std::mutex mutex_;
  mutable std::optional<MadeEncoding<float>> f32_;
  mutable std::optional<MadeEncoding<double>> f64_;
};

/// The spec among a constructor's arguments.
template <class Spec>
Spec spec_of(const char* name, const std::vector<GivenArgument>& given) {
  if constexpr (std::is_same_v<Spec, NoSpec>) {
    return {};
  } else {
    return Member<Spec>::from(given[0].value, {name, "spec"});
  }
}

/// The parameters of an encoding, with what errors call them.
std::vector<ParameterInfo> named_in_errors(const char* encoding, bool has_spec, std::vector<ParameterInfo> infos);
/// Makes every argument of a type of encodings readable: bias.table. Those before `first` are so already.
void bind_arguments(nb::handle type, const std::vector<const char*>& names, std::size_t first, std::size_t arrays);

/// Binds NAME(spec, parameter, …, setting, …): encoding<T5, 2>(m, "T5Bias", doc, {{"table", 2}}, make).
template <class Spec, int... Ranks, class Make, class S = Nothing, class... T>
void encoding(nb::module_& m, const char* name, const char* doc, const std::vector<ParameterInfo>& parameters,
              Make make, const Settings<S, T...>& extra = Settings<>{}) {
  using Bound = BoundEncoding<Spec, S, Make, Ranks...>;
  const std::vector<ParameterInfo> infos = named_in_errors(name, !std::is_same_v<Spec, NoSpec>, parameters);
  std::vector<const char*> names;
  auto* signature = new std::string("def __init__(self");  // kept as long as the module, which is for ever
  if constexpr (!std::is_same_v<Spec, NoSpec>) {
    names.push_back("spec");
    *signature += ", spec: " + Member<Spec>::name() + (is_optional<Spec> ? " = None" : "");
  }
  for (const ParameterInfo& info : infos) {
    names.push_back(info.name);
    *signature += std::string(", ") + info.name + ": ArrayLike" + (info.optional ? " | None = None" : "");
  }
  each(extra.fields, [&]<class M>(const Field<S, M>& one) {
    names.push_back(one.name);
    *signature += std::string(", ") + one.name + ": " + Member<M>::name();
    if constexpr (!is_required<M>) {
      *signature += " = " + nb::cast<std::string>(nb::repr(Member<M>::to(extra.defaults.*one.member)));
    }
  });
  *signature += ") -> None";
  nb::class_<Bound, Encoding> type(m, name, doc);
  bind_arguments(type, names, std::is_same_v<Spec, NoSpec> ? 0 : 1, infos.size());
  type.def(
      "__init__",
      [=](Bound* self, const nb::args& args, const nb::kwargs& given) {
        std::vector<GivenArgument> arguments = arguments_of(name, names, args, given);
        S chosen = extra.defaults;
        std::size_t next = names.size() - sizeof...(T);
        each(extra.fields, [&]<class M>(const Field<S, M>& one) {
          GivenArgument& from = arguments[next++];
          if (is_required<M> || !from.value.is_none())
            chosen.*one.member = Member<M>::from(from.value, {name, one.name});
          from.value = Member<M>::to(chosen.*one.member);
        });
        Spec spec = spec_of<Spec>(name, arguments);
        new (self) Bound(name, infos, std::move(arguments), make, std::move(spec), std::move(chosen));
      },
      nb::sig(signature->c_str()));
}

/// `Encoding`, the base of them all.
void bind_encoding(nb::module_& m);

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
  std::vector<MadeEncoding<A>> made;
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
