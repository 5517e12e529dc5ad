#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <bearing/rows.hpp>
#include <bearing/term_list.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"

// Encodings as Python holds them: a spec and arrays of parameters. The C++ encoding is made anew for each call, in the
// call's arithmetic, so that it always sees the parameters as they are; its gradients are new arrays.

namespace bearing::python {

/// A parameter's gradient of one call.
struct Gradient {
  std::string name;
  nb::object array;
};

/// An encoding made for one call. What it lacks is empty.
template <class A>
struct MadeEncoding {
  std::shared_ptr<const void> encoding;
  std::optional<Term<A>> term;  ///< query and key rows, scores and values
  std::optional<InputEncoding<A>> input;
  std::optional<RowEncoding<A>> rows;
  std::vector<Gradient> gradients;  ///< zeros, added to by a backward
};

/// Whether a call wants gradients of parameters.
enum class Wanted { values, gradients };

class Encoding {
 public:
  virtual ~Encoding() = default;

  virtual MadeEncoding<float> make_f32(const char* function, Wanted wanted) const = 0;
  virtual MadeEncoding<double> make_f64(const char* function, Wanted wanted) const = 0;
  virtual std::string repr() const = 0;
  virtual nb::object spec() const = 0;
  /// name → array
  virtual nb::dict parameters() const = 0;

  template <class A>
  MadeEncoding<A> make(const char* function, Wanted wanted) const {
    if constexpr (std::is_same_v<A, double>)
      return make_f64(function, wanted);
    else
      return make_f32(function, wanted);
  }
};

/// One parameter: its name, how many axes it has, whether it may be left out.
struct ParameterInfo {
  const char* name;
  int rank;
  bool optional = false;
};

/// E: the class template of the encoding. Make: a callable make.template operator()<A>(spec, Param<A, Ranks>…).
template <class Spec, class Make, int... Ranks>
class BoundEncoding final : public Encoding {
 public:
  static constexpr std::size_t count = sizeof...(Ranks);

  BoundEncoding(const char* name, const std::array<ParameterInfo, count>& infos, Make make, nb::object spec,
                std::array<nb::object, count> parameters)
      : name_(name), infos_(infos), make_(make), spec_(std::move(spec)), parameters_(std::move(parameters)) {
    for (std::size_t p = 0; p < count; ++p) {
      if (!infos_[p].optional && parameters_[p].is_none()) {
        throw nb::type_error((std::string("[") + name_ + "] " + infos_[p].name + ": must be given").c_str());
      }
    }
  }

  MadeEncoding<float> make_f32(const char* function, Wanted wanted) const override {
    return made<float>(function, wanted);
  }
  MadeEncoding<double> make_f64(const char* function, Wanted wanted) const override {
    return made<double>(function, wanted);
  }
  std::string repr() const override {
    std::string text = std::string(name_) + "(";
    if (!spec_.is_none()) text += nb::cast<std::string>(nb::repr(spec_));
    for (std::size_t p = 0; p < count; ++p) {
      if (parameters_[p].is_none()) continue;
      if (text.back() != '(') text += ", ";
      text += std::string(infos_[p].name) + "=<" +
              nb::cast<std::string>(nb::repr(nb::object(parameters_[p].attr("shape")))) + ">";
    }
    return text + ")";
  }
  nb::object spec() const override { return spec_; }
  nb::dict parameters() const override {
    nb::dict all;
    for (std::size_t p = 0; p < count; ++p) {
      if (!parameters_[p].is_none()) all[infos_[p].name] = parameters_[p];
    }
    return all;
  }

 private:
  template <class A, int Rank>
  Param<A, Rank> param(std::size_t p, const char* function, Wanted wanted, std::vector<Gradient>& gradients) const {
    if (parameters_[p].is_none()) return {};
    const Array array(parameters_[p], {function, infos_[p].name});
    constexpr DataType needed = std::is_same_v<A, double> ? DataType::f64 : DataType::f32;
    if (array.type() != needed) {
      array.argument().fail(std::string(name_of(needed)) + ", the arithmetic of this call", name_of(array.type()));
    }
    Param<A, Rank> out{array.view<A, Rank>()};
    if (wanted == Wanted::gradients) {
      const NewArray grad = new_array(array.kind(), array.type(), array.shape());
      std::memset(grad.data, 0, static_cast<std::size_t>(out.value.size()) * sizeof(A));
      out.grad = view_of<A, Rank>(grad, out.value.shape);
      gradients.push_back({infos_[p].name, grad.object});
    }
    return out;
  }

  template <class A>
  MadeEncoding<A> made([[maybe_unused]] const char* function, [[maybe_unused]] Wanted wanted) const {
    MadeEncoding<A> out;
    std::size_t next = 0;
    // Braces: from left to right.
    const std::tuple<Param<A, Ranks>...> params{param<A, Ranks>(next++, function, wanted, out.gradients)...};
    using E = decltype(std::declval<const Make&>().template operator()<A>(std::declval<const Spec&>(),
                                                                          std::declval<const Param<A, Ranks>&>()...));
    const auto encoding = std::make_shared<const E>(std::apply(
        [&](const auto&... one) { return make_.template operator()<A>(nb::cast<const Spec&>(spec_), one...); },
        params));
    out.encoding = encoding;
    if constexpr (ScoreTerm<E, A> || ValueTerm<E, A> || RowTerm<E, A>) out.term = erase<A>(*encoding);
    if constexpr (InputTerm<E, A>) out.input.emplace(*encoding);
    if constexpr (RowTerm<E, A>) out.rows.emplace(*encoding);
    return out;
  }

  const char* name_;
  std::array<ParameterInfo, count> infos_;
  Make make_;
  nb::object spec_;
  std::array<nb::object, count> parameters_;
};

/// Binds encoding(spec, parameter, …): encoding<T5, 2>(m, "T5Bias", doc, {{{"table", 2}}}, make).
template <class Spec, int... Ranks, class Make>
void encoding(nb::module_& m, const char* name, const char* doc, std::array<ParameterInfo, sizeof...(Ranks)> infos,
              Make make) {
  using Bound = BoundEncoding<Spec, Make, Ranks...>;
  auto* signature = new std::string("def __init__(self, spec: ");
  *signature += nb::cast<std::string>(nb::type<Spec>().attr("__name__"));
  for (const ParameterInfo& info : infos) {
    *signature += std::string(", ") + info.name + ": ArrayLike" + (info.optional ? " | None = None" : "");
  }
  *signature += ") -> None";
  nb::class_<Bound, Encoding>(m, name, doc)
      .def(
          "__init__",
          [=](Bound* self, const nb::args& args, const nb::kwargs& given) {
            nb::object spec = nb::none();
            std::array<nb::object, sizeof...(Ranks)> parameters;
            parameters.fill(nb::none());
            if (args.size() > 1 + infos.size()) {
              throw nb::type_error((std::string("[") + name + "] takes a spec and " + std::to_string(infos.size()) +
                                    " parameters, got " + std::to_string(args.size()) + " arguments")
                                       .c_str());
            }
            for (std::size_t i = 0; i < args.size(); ++i) (i == 0 ? spec : parameters[i - 1]) = nb::borrow(args[i]);
            for (auto [key, value] : given) {
              const std::string word = nb::cast<std::string>(key);
              bool known = word == "spec";
              if (known) spec = nb::borrow(value);
              for (std::size_t p = 0; p < infos.size(); ++p) {
                if (word != infos[p].name) continue;
                parameters[p] = nb::borrow(value);
                known = true;
              }
              if (!known) throw nb::type_error((std::string("[") + name + "] has no parameter " + word).c_str());
            }
            if (!nb::isinstance<Spec>(spec)) {
              throw nb::type_error((std::string("[") + name + "] spec: must be a " +
                                    nb::cast<std::string>(nb::type<Spec>().attr("__name__")) + ", got " +
                                    nb::cast<std::string>(nb::repr(spec)))
                                       .c_str());
            }
            new (self) Bound(name, infos, make, spec, std::move(parameters));
          },
          nb::sig(signature->c_str()));
}

/// Several of them for one call, from a Python list, tuple or single encoding (or None).
template <class A>
struct MadeList {
  std::vector<MadeEncoding<A>> made;
  TermList<A> terms;

  MadeList(const char* function, nb::handle encodings, Wanted wanted) {
    std::vector<const Encoding*> all;
    if (nb::isinstance<Encoding>(encodings)) {
      all.push_back(nb::cast<const Encoding*>(encodings));
    } else if (!encodings.is_none()) {
      for (nb::handle one : encodings) {
        if (!nb::isinstance<Encoding>(one)) {
          Argument{function, "encodings"}.fail("encodings", nb::cast<std::string>(nb::repr(one)));
        }
        all.push_back(nb::cast<const Encoding*>(one));
      }
    }
    if (all.size() > static_cast<std::size_t>(TermList<A>::most)) {
      Argument{function, "encodings"}.fail("at most 8 encodings", std::to_string(all.size()));
    }
    made.reserve(all.size());
    for (const Encoding* one : all) {
      made.push_back(one->make<A>(function, wanted));
      if (!made.back().term) {
        Argument{function, "encodings"}.fail("encodings of rows, scores or values", one->repr());
      }
      terms.terms[static_cast<std::size_t>(terms.size++)] = *made.back().term;
    }
  }

  /// One dictionary of gradients for each encoding.
  nb::list gradients() const {
    nb::list all;
    for (const MadeEncoding<A>& one : made) {
      nb::dict of;
      for (const Gradient& gradient : one.gradients) of[gradient.name.c_str()] = gradient.array;
      all.append(of);
    }
    return all;
  }
};

}  // namespace bearing::python
