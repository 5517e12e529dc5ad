#include <algorithm>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/rotary_values.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/rope_report.hpp>
#include <cmath>

#include "encoding_spec.hpp"
#include "errors.hpp"

// RoPE, of rows or of values, and xPos in a call: the table is as long as the call's positions need it.

namespace bearing::tool {
namespace {

/// The length of the table that all positions of the call fall in; others are computed when they are met.
Index table_length(const CallShape& call) {
  const auto end = [](const Positions& at, Index time) { return at.is_offset() ? at.first() + time : time; };
  return std::clamp<Index>(std::max(end(*call.q_positions, call.q_len), end(*call.k_positions, call.k_len)), 0,
                           max_position);
}

/// Something that the encoding refers to.
template <class A, class Object>
const Object& keep(CallEncodings<A>& into, Object object) {
  const auto kept = std::make_shared<const Object>(std::move(object));
  into.objects.push_back(kept);
  return *kept;
}

bool turns_values(const Said& said) {
  const EncodingInfo* info = said.description().encoding;
  return info != nullptr && info->turns_values;
}

template <class A>
void act(const RopeFrequencies& numbers, const Said& said, const CallShape& call, CallEncodings<A>& into) {
  const bool values = turns_values(said);
  if (numbers.softmax_scale_factor != 1 && !values) {
    into.own_scales.emplace_back(said.description().name,
                                 numbers.softmax_scale_factor / std::sqrt(static_cast<double>(call.dim)));
  }
  const RopeTable<A>& table = keep(into, RopeTable<A>(numbers, table_length(call), TableMemory::compact));
  if (values) return add_term(into, erase<A>(keep(into, RotaryValues<A>(table))));
  add_term(into, erase<A>(keep(into, RotaryRows<A>(table))));
}

Angles angles_of(Said& said) {
  const ValueType words{.kind = Kind::word, .words = {"exact", "as_float32"}};
  const Value word = said.take("angles", words, std::string("exact"));
  return std::get<std::string>(word) == "exact" ? Angles::exact : Angles::as_float32;
}

}  // namespace

template <class A>
void read_rope(Said& said, const CallShape& call, CallEncodings<A>& into) {
  const std::string& name = said.description().name;
  const Angles angles = angles_of(said);
  const bool only_fast = name == "rope_high_frequency";
  const Value trained = only_fast ? said.take("trained_length", {.kind = Kind::whole}, Index{0}) : Index{0};
  const Record spec =
      said.complete({.heads = call.heads, .dim = turns_values(said) ? call.value_dim : call.dim, .length = call.k_len});
  said.finish();
  const Xpos* xpos = spec.as<Xpos>();
  const Rope& rope = xpos != nullptr ? xpos->rope : *spec.as<Rope>();
  if (depends_on_length(rope.scaling) && call.seq_len == 0) {
    throw UsageError("--length must be given: the frequencies of " + name + " depend on the sequence's length");
  }
  if (xpos != nullptr) {
    const TableOptions options{.seq_len = call.seq_len, .angles = angles, .memory = TableMemory::compact};
    const XposTable<A>& table = keep(into, XposTable<A>(*xpos, table_length(call), options));
    return add_term(into, erase<A>(keep(into, XposRows<A>(table))));
  }
  if (only_fast && std::get<Index>(trained) < 1) said.fail("trained_length must be given: which pairs complete a turn");
  const RopeFrequencies numbers = resolve(rope, call.seq_len, angles);
  if (only_fast) return act(high_frequency(numbers, std::get<Index>(trained)), said, call, into);
  act(name == "rope_negative_angle" ? negative_angle(numbers) : numbers, said, call, into);
}

template void read_rope(Said&, const CallShape&, CallEncodings<double>&);
template void read_rope(Said&, const CallShape&, CallEncodings<float>&);

}  // namespace bearing::tool
