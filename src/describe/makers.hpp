#pragma once

#include <algorithm>
#include <array>
#include <bearing/description.hpp>
#include <bearing/kept.hpp>
#include <concepts>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "describe/values.hpp"

// Between a description and the constructors and functions of an encoding: parameters come as memory, specs as records.

namespace bearing {

/// The spec of an encoding that has none, the settings of one without any.
struct NoSpec {};
struct NoSettings {};

namespace describe {

/// A parameter's memory as the encoding's constructor takes it.
template <class P>
struct FromMemory;
template <class A, int Rank>
struct FromMemory<Param<A, Rank>> {
  static Param<A, Rank> of(const ParameterMemory& memory) {
    Param<A, Rank> out;
    if (memory.value == nullptr) return out;
    const std::size_t missing = static_cast<std::size_t>(Rank) - memory.shape.size();
    out.value.data = static_cast<const A*>(memory.value);
    out.value.device = memory.device;
    out.value.shape.fill(1);
    std::copy(memory.shape.begin(), memory.shape.end(), out.value.shape.begin() + missing);
    std::copy(memory.stride.begin(), memory.stride.end(), out.value.stride.begin() + missing);
    if (memory.grad == nullptr) return out;
    out.grad = row_major(static_cast<A*>(memory.grad), out.value.shape);
    out.grad.device = memory.device;
    return out;
  }
};
template <std::integral I, int Rank>
struct FromMemory<View<const I, Rank>> {
  static View<const I, Rank> of(const ParameterMemory& memory) { return FromMemory<Param<I, Rank>>::of(memory).value; }
};
/// Ranks in encoding<…>: n > 0 numbers of n axes, n < 0 whole numbers of −n axes.
template <class A, int Rank>
struct GivenOf : std::type_identity<Param<A, Rank>> {};
template <class A, int Rank>
requires(Rank<0 && Rank> - 100) struct GivenOf<A, Rank> : std::type_identity<View<const Index, -Rank>> {
};
template <class A, int Rank>
using Given = typename GivenOf<A, Rank>::type;

/// An encoding that made_of() made.
template <class E, class A>
E& object_of(const Made<A>& made) {
  return *static_cast<E*>(const_cast<void*>(made.encoding.get()));
}
template <class E>
void destroy(const void* encoding) {
  delete static_cast<const E*>(encoding);
}
/// Takes an encoding that `new` made. One kind of shared pointer holds all encodings.
template <class A, class E>
Made<A> made_of(E* made) {
  Made<A> out;
  out.encoding = std::shared_ptr<const void>(static_cast<const void*>(made), destroy<E>);
  const E& kept = *made;
  if constexpr (std::is_copy_constructible_v<E> && kept_whole) {
    out.copy = [](const Made<A>& from) { return made_of<A>(new E(std::as_const(object_of<E>(from)))); };
  }
  if constexpr (kept_whole) {
    out.move = [](const Made<A>& from) { return made_of<A>(new E(std::move(object_of<E>(from)))); };
  }
  constexpr bool values = ValueTerm<E, A> || ValueRowTerm<E, A>;
  if constexpr (ScoreTerm<E, A> || values || RowTerm<E, A>) out.term = erase<A>(kept);
  if constexpr (InputTerm<E, A>) out.input.emplace(kept);
  if constexpr (RowTerm<E, A>) out.rows.emplace(kept);
  if constexpr (requires { kept.rows_by_index(); }) out.rows_by_index = &kept.rows_by_index();
  return out;
}

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// EncodingInfo::check_given() of memory.
void check_memory(const EncodingInfo& info, const Record& spec, std::span<const ParameterMemory> memory);

/// The spec as a maker takes it.
template <class Spec>
Spec spec_from(const Record& record) {
  if constexpr (std::is_same_v<Spec, NoSpec> || std::is_same_v<Spec, NoSettings>) {
    return {};
  } else if constexpr (is_optional<Spec>) {
    return record ? Spec(ValueOf<typename Spec::value_type>::from(record)) : Spec();
  } else {
    return ValueOf<Spec>::from(record);
  }
}

/// make(spec, settings, parameters…), without those that there are none of.
template <class A, class Spec, class Settings, int... Ranks, class Make>
auto call_maker(const Make& make, const Record& spec, const Record& settings, std::span<const ParameterMemory> memory) {
  return [&]<std::size_t... P>(std::index_sequence<P...>) {
    const auto with_parameters = [&](const auto&... first) {
      return make.template operator()<A>(first..., FromMemory<Given<A, Ranks>>::of(memory[P])...);
    };
    constexpr bool has_spec = !std::is_same_v<Spec, NoSpec>, has_settings = !std::is_same_v<Settings, NoSettings>;
    if constexpr (has_spec && has_settings)
      return with_parameters(spec_from<Spec>(spec), spec_from<Settings>(settings));
    else if constexpr (has_spec)
      return with_parameters(spec_from<Spec>(spec));
    else if constexpr (has_settings)
      return with_parameters(spec_from<Settings>(settings));
    else
      return with_parameters();
  }
  (std::make_index_sequence<sizeof...(Ranks)>());
}

/// Adds how a parameter is computed: compute.operator()<A>(call, View<A, Rank> numbers, Param<A, FromRanks>…) and
/// backward.operator()<A>(call, View<const A, Rank> d_numbers, Param<A, FromRanks>…).
template <int Rank, int... FromRanks, class Compute, class Backward>
const ComputedInfo& add_computed(std::deque<ComputedInfo>& to, ComputedInfo added, Compute compute, Backward backward) {
  ComputedInfo& info = to.emplace_back(std::move(added));  // it stays where it is
  const auto of = [&info]<class A, class F>(std::type_identity<A>, F f) {
    return [&info, f](const ComputedCall& call, std::span<const ParameterMemory> from, A* numbers) {
      std::array<Index, Rank> shape{};
      const std::vector<Index> extents = info.shape(call);
      std::copy(extents.begin(), extents.end(), shape.begin());
      [&]<std::size_t... P>(std::index_sequence<P...>) {
        f.template operator()<std::remove_const_t<A>>(
            call, row_major(numbers, shape), FromMemory<Param<std::remove_const_t<A>, FromRanks>>::of(from[P])...);
      }
      (std::make_index_sequence<sizeof...(FromRanks)>());
    };
  };
  info.compute_f64 = of(std::type_identity<double>{}, compute);
  if constexpr (kept_whole) {
    info.compute_f32 = of(std::type_identity<float>{}, compute);
    info.backward_f32 = of(std::type_identity<const float>{}, backward);
    info.backward_f64 = of(std::type_identity<const double>{}, backward);
  }
  return info;
}

}  // namespace describe
}  // namespace bearing
