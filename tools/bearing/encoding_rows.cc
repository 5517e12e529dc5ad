#include <algorithm>
#include <bearing/encodings/fope.hpp>
#include <bearing/encodings/lie_rope.hpp>
#include <bearing/encodings/pope.hpp>
#include <bearing/encodings/position_temperature.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/string_rope.hpp>
#include <bearing/io.hpp>
#include <bearing/rope_report.hpp>
#include <cmath>

#include "encoding_spec.hpp"
#include "json_writer.hpp"

// Specs of encodings that turn queries and keys.

namespace bearing::tool {
namespace {

Pairing pairing_of(SpecText& spec) {
  return spec.word("pairing", {"half", "interleaved"}, true) == "half" ? Pairing::half : Pairing::interleaved;
}

/// true, false and numbers are JSON as they are; other words become strings.
bool is_json_literal(const std::string& text) {
  return text == "true" || text == "false" || (!text.empty() && text.find_first_not_of("+-.0123456789eE") == text.npos);
}

/// One member of a scaling: a number, or the numbers of a file for those that are lists.
void write_scaling_member(JsonWriter& json, const std::string& key, const std::string& text) {
  static const std::vector<std::string> lists = {"short_factor", "long_factor", "inv_freq", "divisors"};
  if (std::find(lists.begin(), lists.end(), key) != lists.end()) {
    json.list(key, read_numbers<double>(text, read_npy(text)));
  } else if (text == "true" || text == "false") {
    json.member(key, text == "true");
  } else if (is_json_literal(text)) {
    const double number = parse_number("--encoding rope: " + key, text);
    if (number == std::trunc(number) && std::abs(number) < 1e15) {
      json.member(key, static_cast<Index>(number));
    } else {
      json.member(key, number);
    }
  } else {
    json.member(key, text);
  }
}

/// What rope:KEY=VALUE,… says, as the JSON that it abbreviates; keys that are not the rotation's are its scaling's.
std::string rope_json(SpecText& spec, const std::string& scaling, Index head_dim) {
  JsonWriter json;
  json.begin_object();
  json.member("head_dim", head_dim);
  json.member("pairing", pairing_of(spec) == Pairing::half ? "half" : "interleaved");
  json.member("base", spec.number("base", 10'000));
  json.member("rotary_dim", spec.whole("rotary_dim", 0, 0));
  json.member("part", spec.word("part", {"first", "last"}));
  json.key("scaling");
  json.begin_object();
  json.member("type", scaling);
  if (scaling == "default") spec.finish();  // a rotation that is not scaled has no more keys
  for (const auto& [key, text] : spec.rest()) write_scaling_member(json, key, text);
  json.end_object();
  json.end_object();
  return json.text();
}

/// ": /scaling/fact: must be one of: type, factor, …" in the words of the spec.
[[noreturn]] void refuse_scaling(SpecText& spec, std::string text) {
  const std::string place = ": /", group = "scaling/", unknown = ": must be one of: type, ";
  const std::size_t at = text.find(place);
  if (at == text.npos) spec.fail(text);
  text.erase(0, at + place.size());
  if (text.starts_with(group)) text.erase(0, group.size());
  const std::size_t list = text.find(unknown);
  if (list == text.npos) spec.fail(text);
  const std::string words = text.substr(list + unknown.size());
  for (std::size_t from = 0; from < words.size();) {
    const std::size_t end = std::min(words.find(", ", from), words.size());
    spec.given(words.substr(from, end - from));
    from = end + 2;
  }
  spec.unknown(text.substr(0, list));
}

Rope rope_of(SpecText& spec, const std::string& scaling, Index head_dim) {
  if (!spec.json().empty()) return parse_rope(spec.json(), "--encoding rope");
  try {
    return parse_rope(rope_json(spec, scaling, head_dim), "");
  } catch (const ConfigError& error) {  // the JSON is ours, so the line in it says nothing
    refuse_scaling(spec, error.what());
  }
}

/// The length of the table that all positions of the call fall in; others are computed when they are met.
Index table_length(const CallShape& call) {
  const auto end = [](const Positions& at, Index time) { return at.is_offset() ? at.first() + time : time; };
  return std::clamp<Index>(std::max(end(*call.q_positions, call.q_len), end(*call.k_positions, call.k_len)), 0,
                           max_position);
}

template <class A>
void act(SpecReader<A>& read, const RopeFrequencies& numbers) {
  if (numbers.softmax_scale_factor != 1) {
    read.own_scale(numbers.softmax_scale_factor / std::sqrt(static_cast<double>(read.call.dim)));
  }
  read.act(RotaryRows<A>(read.keep(RopeTable<A>(numbers, table_length(read.call), TableMemory::compact))));
}

const char* scaling_of(const std::string& name) {
  static const std::vector<std::pair<std::string, const char*>> types = {
      {"rope_linear", "linear"},
      {"rope_ntk", "ntk"},
      {"rope_dynamic_ntk", "dynamic"},
      {"rope_alpha", "alpha"},
      {"rope_ntk_by_parts", "ntk-by-parts"},
      {"rope_yarn", "yarn"},
      {"rope_deepseek_yarn", "deepseek-yarn"},
      {"rope_longrope", "longrope"},
      {"rope_llama3", "llama3"},
      {"rope_proportional", "proportional"},
  };
  for (const auto& [stem, type] : types) {
    if (stem == name) return type;
  }
  return "default";
}

template <class A>
void rope(SpecReader<A>& read) {
  SpecText& spec = read.spec;
  const Angles angles = spec.word("angles", {"exact", "as_float32"}) == "exact" ? Angles::exact : Angles::as_float32;
  const Rope made = rope_of(spec, scaling_of(spec.name()), read.call.dim);
  if (depends_on_length(made.scaling) && read.call.seq_len == 0) {
    throw UsageError("--length must be given: the frequencies of " + spec.name() + " depend on the sequence's length");
  }
  act(read, resolve(made, read.call.seq_len, angles));
}

template <class A>
void rope_axial(SpecReader<A>& read) {
  Rope made = rope_of(read.spec, "default", read.call.dim);
  const Index pairs = (made.rotary_dim > 0 ? made.rotary_dim : made.head_dim) / 2;
  made.axes = RopeAxes::axial({pairs / 2, pairs - pairs / 2});
  act(read, resolve(made));
}

template <class A>
void rope_high_frequency(SpecReader<A>& read) {
  if (!read.spec.given("trained_length")) read.spec.fail("trained_length=N is missing");
  const Index trained = read.spec.whole("trained_length", 0, 1);
  act(read, high_frequency(resolve(rope_of(read.spec, "default", read.call.dim)), trained));
}

template <class A>
void rope_negative_angle(SpecReader<A>& read) {
  act(read, negative_angle(resolve(rope_of(read.spec, "default", read.call.dim))));
}

template <class A>
void xpos(SpecReader<A>& read) {
  SpecText& spec = read.spec;
  const double scale_base = spec.number("scale_base", 512), gamma = spec.number("gamma", 0.4);
  const double centre = spec.number("centre", 0);
  const Xpos made{
      .rope = rope_of(spec, "default", read.call.dim), .scale_base = scale_base, .gamma = gamma, .centre = centre};
  const XposTable<A>& table = read.keep(XposTable<A>(made, table_length(read.call), {.memory = TableMemory::compact}));
  read.act(XposRows<A>(table));
}

/// How many heads share a set of parameters.
Index group_of(const CallShape& call, Index sets) { return std::max<Index>(1, call.heads / std::max<Index>(sets, 1)); }

template <class A>
void rope_mixed(SpecReader<A>& read) {
  const Index dim = read.call.dim;
  const Pairing pairing = pairing_of(read.spec);
  const Param<A, 3> frequencies =
      read.template param<3>("frequencies", {{"axes", Extent::any}, {"sets", Extent::any}, {"dim/2", dim / 2}});
  const auto [axes, sets, pairs] = frequencies.value.shape;
  read.act(
      RopeMixedRows<A>({.head_dim = dim, .axes = axes, .pairing = pairing}, frequencies, group_of(read.call, sets)));
}

template <class A>
void cayley_string(SpecReader<A>& read) {
  const Index dim = read.call.dim;
  const Pairing pairing = pairing_of(read.spec);
  const Param<A, 3> frequencies =
      read.template param<3>("frequencies", {{"axes", Extent::any}, {"sets", Extent::any}, {"dim/2", dim / 2}});
  const auto [axes, sets, pairs] = frequencies.value.shape;
  const Param<A, 2> skew = read.template param<2>("skew", {{"sets", sets}, {"dim(dim-1)/2", dim * (dim - 1) / 2}});
  const CayleyString made{{.head_dim = dim, .axes = axes, .pairing = pairing}};
  read.act(CayleyStringRows<A>(made, frequencies, skew, group_of(read.call, sets)));
}

template <class A>
void circulant_string(SpecReader<A>& read) {
  const Param<A, 3> c =
      read.template param<3>("c", {{"axes", Extent::any}, {"sets", Extent::any}, {"dim", read.call.dim}});
  const CirculantString made{.head_dim = read.call.dim, .axes = c.value.shape[0]};
  read.act(CirculantStringRows<A>(made, c, group_of(read.call, c.value.shape[1])));
}

template <class A>
void lie_rope(SpecReader<A>& read) {
  const Index dim = read.call.dim, block = std::max<Index>(1, read.spec.whole("block", dim, 1));
  const Param<A, 4> generators = read.template param<4>("generators", {{"sets", Extent::any},
                                                                       {"axes", Extent::any},
                                                                       {"blocks", dim / block},
                                                                       {"block(block-1)/2", block * (block - 1) / 2}});
  const LieRope made{.head_dim = dim, .axes = generators.value.shape[1], .block = block};
  read.act(LieRopeRows<A>(made, generators, group_of(read.call, generators.value.shape[0])));
}

template <class A>
void fope(SpecReader<A>& read) {
  SpecText& spec = read.spec;
  if (!spec.given("trained_length")) spec.fail("trained_length=N is missing");
  const Fope made{.head_dim = read.call.dim,
                  .base = spec.number("base", 10'000),
                  .trained_length = spec.whole("trained_length", 0, 1),
                  .kept = spec.whole("kept", 0, 0),
                  .pairing = pairing_of(spec)};
  const auto kept = static_cast<Index>(fope_frequencies(made).size());
  const Extents extents = {{"sets", Extent::any}, {"kept", kept}, {"mixed", Extent::any}};
  const Param<A, 3> cos = read.template param<3>("cos", extents);
  const Param<A, 3> sin =
      read.template param<3>("sin", {{"sets", cos.value.shape[0]}, {"kept", kept}, {"mixed", cos.value.shape[2]}});
  read.act(FopeRows<A>(made, cos, sin, group_of(read.call, cos.value.shape[0])));
}

template <class A>
void pope(SpecReader<A>& read) {
  const Pope made{.head_dim = read.call.dim, .base = read.spec.number("base", 10'000)};
  const Param<A, 2> offsets =
      read.template optional_param<2>("offsets", {{"sets", Extent::any}, {"dim", read.call.dim}});
  const Index sets = offsets.value.data == nullptr ? 1 : offsets.value.shape[0];
  read.act(PopeRows<A>(made, offsets, offsets.value.data == nullptr ? 1 : group_of(read.call, sets)));
}

template <class A>
void position_temperature(SpecReader<A>& read) {
  SpecText& spec = read.spec;
  if (!spec.given("first")) spec.fail("first=N is missing, what position 0 counts as: 1 in Llama 4, 0 in Ministral 3");
  const double beta = spec.number("beta", 0.1), length = spec.number("length", 8192);
  read.act(TemperatureRows<A>(
      PositionTemperature{.beta = beta, .length = length, .first = spec.whole("first", 0, -max_position)}));
}

template <class A>
void nope(SpecReader<A>&) {}

}  // namespace

void list_row_encodings(std::vector<Readable>& all) {
  for (const char* name : {"rope", "rope_linear", "rope_ntk", "rope_dynamic_ntk", "rope_alpha", "rope_ntk_by_parts",
                           "rope_yarn", "rope_deepseek_yarn", "rope_longrope", "rope_llama3", "rope_proportional"}) {
    all.push_back({name, rope<double>, rope<float>});
  }
  all.insert(all.end(), {{"rope_axial", rope_axial<double>, rope_axial<float>},
                         {"rope_high_frequency", rope_high_frequency<double>, rope_high_frequency<float>},
                         {"rope_negative_angle", rope_negative_angle<double>, rope_negative_angle<float>},
                         {"xpos", xpos<double>, xpos<float>},
                         {"rope_mixed", rope_mixed<double>, rope_mixed<float>},
                         {"lie_rope", lie_rope<double>, lie_rope<float>},
                         {"cayley_string", cayley_string<double>, cayley_string<float>},
                         {"circulant_string", circulant_string<double>, circulant_string<float>},
                         {"fope", fope<double>, fope<float>},
                         {"pope", pope<double>, pope<float>},
                         {"position_temperature", position_temperature<double>, position_temperature<float>},
                         {"nope", nope<double>, nope<float>}});
}

}  // namespace bearing::tool
