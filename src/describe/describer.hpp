#pragma once

#include <bearing/catalog.hpp>
#include <bearing/description.hpp>
#include <bearing/kept.hpp>
#include <tuple>
#include <utility>

#include "describe/example.hpp"
#include "describe/makers.hpp"
#include "describe/rules.hpp"
#include "describe/values.hpp"
#include "describe/words.hpp"

// What an encoding's source says of it. One function for each page of docs/encodings/, which registry.cc calls:
//
//     void describe_kerple(Describer& to) {
//       to.record("Kerple", Kerple{KerpleForm::logarithmic}, "KERPLE, …").member("form", &Kerple::form, "The kernel.");
//       to.encoding<Kerple, 1, 1>("KerpleBias", "KERPLE as a bias by distance …",
//                                 {Parameter("r1", {"heads"}, "…").starts(…).draws(…), …}, make_with_spec<KerpleBias>)
//           .form(Form::distance)
//           .called("kerple_log", "KERPLE, logarithmic", "…", [](const auto&) { return Kerple{…}; });
//     }

namespace bearing {

using describe::constant, describe::glorot, describe::normal, describe::positive, describe::truncated_normal,
    describe::uniform, describe::ValueOf;

// Extents: by name ("heads", a size of the call, or a member of the spec), or by name and a function of the spec.

struct NamedExtent : Extent {
  NamedExtent(const char* called) : Extent(named(called)) {}
  template <class S>
  NamedExtent(const char* called, Index (S::*f)() const)
      : NamedExtent(called, [f](const Record& spec, const Sizes&) { return (spec.as<S>()->*f)(); }) {}
  /// f(const Record& spec, const Sizes&) → Index.
  template <class F>
  requires std::is_class_v<F> NamedExtent(const char* called, F f) : Extent{called, std::move(f)} {}

  NamedExtent(const char* called, Index (*f)(const Record&, const Sizes&)) : Extent{called, f} {}

  static Extent named(const char* called);
};
/// 1 will do for all of them.
inline NamedExtent or_one(NamedExtent extent) {
  extent.or_one = true;
  return extent;
}
/// f(const Record& spec, const Sizes&) → Index: its size where a caller says none.
template <class F>
NamedExtent usually(NamedExtent extent, F f) {
  extent.usual = f;
  return extent;
}
/// A size that the caller chooses.
inline NamedExtent any(const char* name) {
  return {name, [](const Record&, const Sizes&) { return Extent::any; }};
}

struct Parameter : ParameterInfo {
  Parameter(const char* called, std::initializer_list<NamedExtent> axes, const char* about);
  Parameter& starts([[maybe_unused]] Rule rule) {
    if constexpr (kept_whole) start = std::move(rule);
    return *this;
  }
  Parameter& draws(Rule rule) { return drawn = std::move(rule), *this; }
  Parameter& may_be_left_out() { return optional = true, *this; }
  /// Only specs of which it is true have it: f(const Record&).
  template <class F>
  Parameter& only_if(F f) {
    wanted = f;
    return may_be_left_out();
  }
  /// Whole numbers, which the caller gives.
  Parameter& of_indices() { return indices = true, learned = false, *this; }
  /// The spec says it already, and it may be learned all the same.
  Parameter& may_be_learned() { return beside_spec = true, may_be_left_out(); }
  /// [rows, heads]: a score is one of its numbers as it is, or 0.
  Parameter& is_picked_from() { return picked = true, *this; }
  /// The model computes it for each call.
  Parameter& computed() { return learned = false, *this; }
  /// Other libraries' attention takes it as an argument of that name.
  Parameter& elsewhere_called(std::initializer_list<const char*> arguments) {
    return elsewhere.assign(arguments.begin(), arguments.end()), *this;
  }
  Parameter& truth_goes_to(const char* what) { return for_truth = what, *this; }
};

namespace describe {

/// An argument of a described function. A build that only draws calls functions, and knows no names of arguments.
template <bool Kept>
struct ArgumentOf : ArgumentInfo {
  ArgumentOf(const char* called) { name = called; }
  template <class T>
  ArgumentOf(const char* called, T value) : ArgumentOf(called) {
    otherwise = ValueOf<T>::to(value);
  }
  ArgumentOf& named() { return by_name = true, *this; }
};
template <>
struct ArgumentOf<false> {
  ArgumentOf(const char*) {}
  template <class T>
  ArgumentOf(const char*, T) {}
  ArgumentOf& named() { return *this; }
};

}  // namespace describe

using Argument = describe::ArgumentOf<kept_whole>;
using Arguments = std::initializer_list<Argument>;

/// Who published an encoding, in constants.
struct PaperSaid {
  const char* authors;
  int year;
  const char* source;
  operator Paper() const { return {authors, year, source}; }
};

namespace describe {

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... T>
struct Signature<R (*)(T...)> {
  using Result = R;
  using Arguments = std::tuple<std::remove_cvref_t<T>...>;
};
template <class C, class R, class... T>
struct Signature<R (C::*)(T...) const> : Signature<R (*)(T...)> {};

template <class F>
inline constexpr std::size_t argument_count = std::tuple_size_v<typename Signature<F>::Arguments>;
template <class F>
using ResultOf = std::remove_cvref_t<typename Signature<F>::Result>;

/// Figures ask for functions of a spec alone that give an array, models for methods that give another spec.
template <class F>
inline constexpr bool is_kept = kept_whole || (argument_count<F> == 1 && std::is_same_v<ResultOf<F>, Tensor>);
template <class R>
inline constexpr bool is_kept_method = kept_whole || (std::is_class_v<R> && !std::is_same_v<R, std::string>);

/// The last arguments' names and defaults; a method's first, which is not given, is the object.
template <bool Kept>
void name_arguments(FunctionInfo& info, std::initializer_list<ArgumentOf<Kept>> given) {
  if constexpr (Kept) {
    std::size_t at = info.arguments.size() - given.size();
    for (const ArgumentInfo& one : given) {
      ArgumentInfo& to = info.arguments[at++];
      to.name = one.name, to.otherwise = one.otherwise, to.by_name = one.by_name;
    }
  }
}

template <class F>
FunctionInfo function_info(const char* name, F f, Arguments given, const char* text, const char* result) {
  using Types = typename Signature<F>::Arguments;
  using R = ResultOf<F>;
  FunctionInfo info{name, text, {}, ValueOf<R>::type(), result, {}};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    info.arguments = {{"self", ValueOf<std::tuple_element_t<I, Types>>::type(), {}}...};
    info.call = [f](const Values& values) -> Value {
      return ValueOf<R>::to(f(ValueOf<std::tuple_element_t<I, Types>>::from(values[I])...));
    };
  }
  (std::make_index_sequence<std::tuple_size_v<Types>>());
  name_arguments<kept_whole>(info, given);
  return info;
}

void add_member(RecordType& type, const char* name, const char* text, const MemberAccess& access,
                void* (*object)(std::any&), std::ptrdiff_t offset);

template <class S>
void* object_in(std::any& any) {
  return std::any_cast<S>(&any);
}

}  // namespace describe

template <class S>
class RecordDescriber {
 public:
  explicit RecordDescriber(RecordType& type) : type_(type) {}

  template <class M>
  RecordDescriber& member(const char* name, M S::*at, const char* text) {
    const S& initial = *std::any_cast<S>(&type_.initial);
    const auto place = [](const auto& x) { return reinterpret_cast<const char*>(&x); };
    describe::add_member(type_, name, text, describe::AccessTo<M>::access, describe::object_in<S>,
                         place(initial.*at) - place(initial));
    return *this;
  }
  /// f(const S&, …): a member function or any other.
  template <class F>
  RecordDescriber& method(const char* name, F f, Arguments arguments, const char* text, const char* result = "") {
    if constexpr (describe::is_kept_method<describe::ResultOf<F>>) {
      type_.methods.push_back(describe::function_info(name, f, arguments, text, result));
    }
    return *this;
  }
  template <class R, class... T>
  RecordDescriber& method(const char* name, R (S::*f)(T...) const, Arguments arguments, const char* text) {
    return method(
        name, [f](const S& self, T... given) { return (self.*f)(given...); }, arguments, text);
  }
  /// f(…) → S.
  template <class F>
  RecordDescriber& maker(const char* name, F f, Arguments arguments, const char* text) {
    if constexpr (kept_whole) type_.makers.push_back(describe::function_info(name, f, arguments, text, ""));
    return *this;
  }
  template <class T>
  RecordDescriber& constant(const char* name, T value, const char* text) {
    if constexpr (kept_whole) type_.constants.push_back({name, text, Value(value)});
    return *this;
  }

 private:
  RecordType& type_;
};

/// An example's size, for what a name stands for.
using ExampleSize = inspect::SpecimenOptions;

/// What the names of an encoding are made with, whatever its spec is.
struct EncodingNames {
  EncodingInfo& info;
  std::vector<Description>& names;
  std::deque<ComputedInfo>& all_computed;
  const Paper& paper;
  const std::string& home;
  const ComputedInfo* computed = nullptr;

  Description& add(const char* name, const char* title, const char* does) const;
};

template <class Spec>
class EncodingDescriber {
 public:
  explicit EncodingDescriber(const EncodingNames& names) : names_(names), info_(names.info) {}

  EncodingDescriber& form(Form form) { return info_.form = form, *this; }
  /// What a class that learns its parameters is called.
  EncodingDescriber& module(const char* name) { return info_.module = name, *this; }
  EncodingDescriber& by_index() { return info_.by_index = true, *this; }
  EncodingDescriber& by_hand() { return info_.by_hand = true, *this; }
  EncodingDescriber& needs_one() { return info_.needs_one = true, *this; }
  EncodingDescriber& reads_content() { return info_.reads_content = true, *this; }
  /// f(const Spec&) → bool.
  template <class F>
  EncodingDescriber& causal(F f) {
    info_.causal = [f](const Record& spec) { return f(describe::spec_from<Spec>(spec)); };
    return *this;
  }
  EncodingDescriber& causal() {
    info_.causal = [](const Record&) { return true; };
    return *this;
  }
  /// f(const Spec&) → bool.
  template <class F>
  EncodingDescriber& both_sides(F f) {
    info_.both_sides = [f](const Record& spec) { return f(describe::spec_from<Spec>(spec)); };
    return *this;
  }
  EncodingDescriber& both_sides() {
    info_.both_sides = [](const Record&) { return true; };
    return *this;
  }
  /// f(const Spec&) → bool.
  template <class F>
  EncodingDescriber& whole_positions(F f) {
    info_.whole_positions = [f](const Record& spec) { return f(describe::spec_from<Spec>(spec)); };
    return *this;
  }
  EncodingDescriber& whole_positions() {
    info_.whole_positions = [](const Record&) { return true; };
    return *this;
  }
  /// f(const Spec&, Index dim) → double.
  template <class F>
  EncodingDescriber& softmax_scale(F f) {
    info_.softmax_scale = [f](const Record& spec, Index dim) { return f(describe::spec_from<Spec>(spec), dim); };
    return *this;
  }
  template <class F>
  EncodingDescriber& out_dim(F f) {
    info_.out_dim = [f](const Record& spec, Index dim) { return f(describe::spec_from<Spec>(spec), dim); };
    return *this;
  }
  /// f(const Spec&, Index length) → GridSize: what so many tokens form.
  template <class F>
  EncodingDescriber& grid(F f) {
    info_.grid = [f](const Record& spec, Index length) { return f(describe::spec_from<Spec>(spec), length); };
    return *this;
  }
  template <class F>
  EncodingDescriber& tables(F f) {
    info_.tables = [f](const Record& spec) { return f(describe::spec_from<Spec>(spec)); };
    return *this;
  }
  /// The names that follow compute a parameter: `info` without its functions; Ranks as of describe::add_computed().
  template <int Rank, int... FromRanks, class Compute, class Backward>
  EncodingDescriber& computes(ComputedInfo info, Compute compute, Backward backward) {
    info.encoding = &info_;
    names_.computed =
        &describe::add_computed<Rank, FromRanks...>(names_.all_computed, std::move(info), compute, backward);
    return *this;
  }
  /// The models of a name that was described before have this term too, where its parameters are given.
  EncodingDescriber& beside(std::string_view name) {
    for (Description& one : names_.names) {
      if (one.name == name) one.beside.push_back(&info_);
    }
    return *this;
  }
  /// A name, with the spec that it stands for: spec(const ExampleSize&) → Spec, of a model of that size.
  template <class F>
  EncodingDescriber& called(const char* name, const char* title, const char* does, F spec) {
    Description& one = names_.add(name, title, does);
    one.spec = [spec](const ExampleSize& size) { return Record::of(spec(size)); };
    return *this;
  }
  /// The same without a spec.
  EncodingDescriber& called(const char* name, const char* title, const char* does) {
    names_.add(name, title, does);
    return *this;
  }
  /// Other spellings of the last name.
  EncodingDescriber& also(std::initializer_list<const char*> aliases) {
    names_.names.back().aliases.assign(aliases.begin(), aliases.end());
    return *this;
  }
  /// The last name has another page than its home's.
  EncodingDescriber& page(const char* stem) {
    names_.names.back().page = stem;
    return *this;
  }
  /// The last name was published elsewhere.
  EncodingDescriber& published(const PaperSaid& paper) {
    names_.names.back().paper = paper;
    return *this;
  }
  /// The last name's example is no plain one: make(const ExampleSize&, const Spec&) → Specimen.
  template <class F>
  EncodingDescriber& example(F make) {
    names_.names.back().specimen = [make, of = names_.names.back().spec](const ExampleSize& size, const Record& spec) {
      return make(size, describe::spec_from<Spec>(spec || !of ? spec : of(size)));
    };
    return *this;
  }

 private:
  EncodingNames names_;
  EncodingInfo& info_;
};

/// Fills the registry; one source's descriptions after the other's.
class Describer {
 public:
  explicit Describer(Registry& to) : to_(to) {}

  /// Of what follows: the header's, source's and page's name, and who published it.
  void home(const char* stem, const PaperSaid& paper) { home_ = stem, paper_ = paper; }

  /// A type of specs. `initial` has the defaults, and anything where a member must be given.
  template <class S>
  RecordDescriber<S> record(const char* name, S initial, const char* text) {
    RecordType& type = add_record(name, text, typeid(S), std::any(std::move(initial)));
    type.equal = [](const std::any& a, const std::any& b) { return *std::any_cast<S>(&a) == *std::any_cast<S>(&b); };
    return RecordDescriber<S>(type);
  }
  /// What constructors take after the parameters.
  template <class S>
  RecordDescriber<S> settings(const char* name, S initial) {
    RecordDescriber<S> made = record(name, std::move(initial), "");
    to_.records_.back().is_setting = true;
    return made;
  }

  /// make.template operator()<A>(spec, parameters…) → the encoding; Ranks: a parameter's axes, negative for whole
  /// numbers.
  template <class Spec, int... Ranks, class Make>
  EncodingDescriber<Spec> encoding(const char* name, const char* text, std::vector<ParameterInfo> parameters,
                                   Make make) {
    return encoding_with<Spec, NoSettings, Ranks...>(name, text, std::move(parameters), make);
  }
  /// The same with settings between the two.
  template <class Spec, class Settings, int... Ranks, class Make>
  EncodingDescriber<Spec> encoding_with(const char* name, const char* text, std::vector<ParameterInfo> parameters,
                                        Make make) {
    EncodingInfo& info = add_encoding(name, text, std::move(parameters));
    if constexpr (!std::is_same_v<Spec, NoSpec>) add_specs(info, ValueOf<Spec>::type());
    if constexpr (!std::is_same_v<Settings, NoSettings>) {
      info.settings = to_.record(typeid(Settings));
      info.grouped = info.settings->member("group") != nullptr;
    }
    if constexpr (kept_whole) info.make_f32 = maker<float, Spec, Settings, Ranks...>(info, make);
    info.make_f64 = maker<double, Spec, Settings, Ranks...>(info, make);
    using E = decltype(describe::call_maker<double, Spec, Settings, Ranks...>(make, {}, {}, {}));
    info.inputs = InputTerm<E, double>, info.rows = RowTerm<E, double>;
    info.scores = ScoreTerm<E, double>, info.turns_values = ValueRowTerm<E, double>;
    info.values = ValueTerm<E, double> || info.turns_values;
    if constexpr (requires { E::whole_rows; }) info.whole_rows = E::whole_rows;
    info.decays = StateTerm<E>;
    return EncodingDescriber<Spec>({info, to_.descriptions_, to_.computed_, paper_, home_});
  }

  /// A function that belongs to the module.
  template <class F>
  void function(const char* name, F f, Arguments arguments, const char* text, const char* result = "") {
    if constexpr (describe::is_kept<F>) {
      to_.functions_.push_back(describe::function_info(name, f, arguments, text, result));
    }
  }

  /// What computes a parameter of an encoding that was described before, from a spec of another type: `info` without
  /// its functions.
  template <int Rank, int... FromRanks, class Compute, class Backward>
  const ComputedInfo& computed(const char* encoding, ComputedInfo info, Compute compute, Backward backward) {
    info.encoding = to_.encoding(encoding);
    return describe::add_computed<Rank, FromRanks...>(to_.computed_, std::move(info), compute, backward);
  }

  /// A name for what is no encoding of this list: made by hand.
  Description& name(Description one);

 private:
  template <class A, class Spec, class Settings, int... Ranks, class Make>
  static EncodingInfo::Make<A> maker(const EncodingInfo& info, Make make) {
    return [&info, make](const Record& spec, const Record& settings, std::span<const ParameterMemory> memory) {
      describe::check_memory(info, spec, memory);
      return describe::made_of<A>(
          new auto(describe::call_maker<A, Spec, Settings, Ranks...>(make, spec, settings, memory)));
    };
  }
  RecordType& add_record(const char* name, const char* text, std::type_index type, std::any initial);
  EncodingInfo& add_encoding(const char* name, const char* text, std::vector<ParameterInfo> parameters);
  void add_specs(EncodingInfo& info, const ValueType& type);

  Registry& to_;
  std::string home_;
  Paper paper_;
};

/// Makes Encoding<A>(spec, parameters…).
template <template <class> class Encoding>
struct MakeWithSpec {
  template <class A, class... Arguments>
  Encoding<A> operator()(const Arguments&... arguments) const {
    return Encoding<A>(arguments...);
  }
};
template <template <class> class Encoding>
inline constexpr MakeWithSpec<Encoding> make_with_spec{};

/// Head h uses set h / group of the parameters.
struct Grouped {
  Index group = 1;
  bool operator==(const Grouped&) const = default;
};
/// Makes Encoding<A>(spec, parameters…, group).
template <template <class> class Encoding>
struct MakeGrouped {
  template <class A, class Spec, class... Parameters>
  Encoding<A> operator()(const Spec& spec, const Grouped& by, const Parameters&... parameters) const {
    return Encoding<A>(spec, parameters..., by.group);
  }
};
template <template <class> class Encoding>
inline constexpr MakeGrouped<Encoding> make_grouped{};

}  // namespace bearing
