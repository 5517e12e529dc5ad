#include <algorithm>
#include <bearing/io.hpp>
#include <cmath>

#include "json_file.hpp"

namespace bearing {
namespace {

using json::Object;

constexpr std::size_t most_pairs = 32'768;
constexpr Index most_head_dim = 65'536;
constexpr json::Range finite{-1e300, 1e300};

// Each scaling's members, once for both directions: visit(key, member).

template <class Visit>
void members(NoScaling&, Visit&&) {}
template <class Visit>
void members(LinearScaling& s, Visit&& visit) {
  visit("factor", s.factor);
}
template <class Visit>
void members(NtkScaling& s, Visit&& visit) {
  visit("factor", s.factor);
}
template <class Visit>
void members(DynamicNtkScaling& s, Visit&& visit) {
  visit("factor", s.factor);
  visit("trained_length", s.trained_length);
}
template <class Visit>
void members(AlphaScaling& s, Visit&& visit) {
  visit("alpha", s.alpha);
}
template <class Visit>
void members(NtkByPartsScaling& s, Visit&& visit) {
  visit("factor", s.factor);
  visit("trained_length", s.trained_length);
  visit("beta_slow", s.beta_slow);
  visit("beta_fast", s.beta_fast);
  visit("gamma_slow", s.gamma_slow);
  visit("gamma_fast", s.gamma_fast);
}
template <class Visit>
void members(YarnScaling& s, Visit&& visit) {
  visit("factor", s.factor);
  visit("trained_length", s.trained_length);
  visit("beta_fast", s.beta_fast);
  visit("beta_slow", s.beta_slow);
  visit("truncate", s.truncate);
  visit("attention_factor", s.attention_factor);
  visit("mscale", s.mscale);
  visit("mscale_all_dim", s.mscale_all_dim);
  visit("mscale_slope", s.mscale_slope);
}
template <class Visit>
void members(DeepseekYarnScaling& s, Visit&& visit) {
  visit("factor", s.factor);
  visit("trained_length", s.trained_length);
  visit("beta_fast", s.beta_fast);
  visit("beta_slow", s.beta_slow);
  visit("mscale", s.mscale);
  visit("mscale_all_dim", s.mscale_all_dim);
  visit("attention_factor", s.attention_factor);
}
template <class Visit>
void members(LongRopeScaling& s, Visit&& visit) {
  visit("short_factor", s.short_factor);
  visit("long_factor", s.long_factor);
  visit("trained_length", s.trained_length);
  visit("factor", s.factor);
  visit("attention_factor", s.attention_factor);
  visit("short_mscale", s.short_mscale);
  visit("long_mscale", s.long_mscale);
}
template <class Visit>
void members(Llama3Scaling& s, Visit&& visit) {
  visit("factor", s.factor);
  visit("low_freq_factor", s.low_freq_factor);
  visit("high_freq_factor", s.high_freq_factor);
  visit("trained_length", s.trained_length);
}
template <class Visit>
void members(ProportionalScaling& s, Visit&& visit) {
  visit("fraction", s.fraction);
  visit("factor", s.factor);
}
template <class Visit>
void members(ExplicitFrequencies& s, Visit&& visit) {
  visit("inv_freq", s.inv_freq);
}
template <class Visit>
void members(FrequencyDivisors& s, Visit&& visit) {
  visit("divisors", s.divisors);
}

struct Names {
  static constexpr std::string_view pairing[] = {"interleaved", "half"};
  static constexpr std::string_view part[] = {"first", "last"};
  static constexpr std::string_view order[] = {"contiguous", "interleaved", "listed"};
  static constexpr std::string_view frequencies[] = {"shared", "restarted", "strided"};
};

/// Appends `"key": value` members to an object's text.
class Writer {
 public:
  void operator()(std::string_view key, double value) { raw(key, number(value)); }
  void operator()(std::string_view key, Index value) { raw(key, std::to_string(value)); }
  void operator()(std::string_view key, bool value) { raw(key, value ? "true" : "false"); }
  void operator()(std::string_view key, std::string_view word) { raw(key, '"' + std::string(word) + '"'); }
  void operator()(std::string_view key, const std::optional<double>& value) {
    if (value) (*this)(key, *value);
  }
  void operator()(std::string_view key, const std::vector<double>& values) { list(key, values); }
  void operator()(std::string_view key, const std::vector<Index>& values) { list(key, values); }

  void raw(std::string_view key, const std::string& value) {
    text_ += text_.empty() ? "{" : ", ";
    text_ += '"' + std::string(key) + "\": " + value;
  }
  std::string text() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  static std::string number(double value) {
    if (!std::isfinite(value)) {
      throw RangeError("[to_json] rope: must hold finite numbers only, got " + json::shortest(value));
    }
    return json::shortest(value);
  }
  static std::string number(Index value) { return std::to_string(value); }

  template <class T>
  void list(std::string_view key, const std::vector<T>& values) {
    std::string text = "[";
    for (const T& value : values) text += (text.size() == 1 ? "" : ", ") + number(value);
    raw(key, text + "]");
  }

  std::string text_;
};

/// Reads members that are there and remembers their names: a key that nobody asked for is a mistake.
class MemberReader {
 public:
  explicit MemberReader(const Object& object) : object_(object) {}

  void operator()(std::string_view key, double& value) { set(key, value, object_.number(key, finite)); }
  void operator()(std::string_view key, Index& value) { set(key, value, object_.integer(key, 0, max_position)); }
  void operator()(std::string_view key, bool& value) { set(key, value, object_.flag(key)); }
  void operator()(std::string_view key, std::optional<double>& value) {
    asked_.push_back(key);
    value = object_.number(key, finite);
  }
  void operator()(std::string_view key, std::vector<double>& values) {
    set(key, values, object_.numbers(key, most_pairs, finite));
  }
  void asked(std::string_view key) { asked_.push_back(key); }

  void refuse_the_rest() const {
    for (std::string_view key : object_.keys()) {
      if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
      std::string known;
      for (std::string_view name : asked_) known += (known.empty() ? "" : ", ") + std::string(name);
      object_.notes().fail(object_.pointer(key), "must be one of: " + known);
    }
  }

 private:
  template <class T>
  void set(std::string_view key, T& value, std::optional<T> given) {
    asked_.push_back(key);
    if (given) value = std::move(*given);
  }

  const Object& object_;
  std::vector<std::string_view> asked_;
};

/// The place of a word in a list of names.
template <std::size_t N>
std::optional<std::size_t> choice(const Object& object, std::string_view key, const std::string_view (&names)[N]) {
  const auto word = object.text(key);
  if (!word) return {};
  const auto at = std::find(std::begin(names), std::end(names), *word);
  if (at == std::end(names)) {
    std::string wanted;
    for (std::string_view name : names) wanted += (wanted.empty() ? "" : " or ") + json::quoted(name);
    object.wrong(key, wanted);
  }
  return static_cast<std::size_t>(at - std::begin(names));
}

/// Calls body with a default-made scaling of each kind in turn.
template <std::size_t I = 0, class Body>
void each_scaling(Body&& body) {
  if constexpr (I < std::variant_size_v<RopeScaling>) {
    body(std::variant_alternative_t<I, RopeScaling>{});
    each_scaling<I + 1>(body);
  }
}

RopeScaling read_scaling(const Object& object) {
  const auto type = object.text("type");
  if (!type) object.missing("type", "the scaling's name");
  std::optional<RopeScaling> found;
  std::string known;
  each_scaling([&](auto scaling) {
    const std::string name = scaling_name(scaling);
    known += (known.empty() ? "" : ", ") + name;
    if (name != *type) return;
    MemberReader reader(object);
    reader.asked("type");
    members(scaling, reader);
    reader.refuse_the_rest();
    found = scaling;
  });
  if (!found) object.wrong("type", "one of " + known);
  return *found;
}

RotaryPart read_part(const Object& rope) {
  const rapidjson::Value* value = rope.find("part");
  if (value == nullptr) return {};
  if (value->IsObject()) {
    const Object window = *rope.object("part");
    const auto begin = window.integer("begin", 0, most_head_dim);
    if (!begin) window.missing("begin", "the window's first dimension");
    MemberReader reader(window);
    reader.asked("begin");
    reader.refuse_the_rest();
    return RotaryPart::window(*begin);
  }
  if (!value->IsString()) rope.wrong("part", R"("first", "last" or {"begin": …})");
  return choice(rope, "part", Names::part) == 0 ? RotaryPart::first() : RotaryPart::last();
}

RopeAxes read_axes(const Object& object) {
  RopeAxes axes;
  if (auto pairs = object.integers("pairs", most_pairs, 0, most_head_dim)) axes.pairs = std::move(*pairs);
  axes.order = static_cast<RopeAxes::Order>(choice(object, "order", Names::order).value_or(0));
  axes.frequencies = static_cast<RopeAxes::Frequencies>(choice(object, "frequencies", Names::frequencies).value_or(0));
  MemberReader reader(object);
  for (const char* key : {"pairs", "order", "frequencies"}) reader.asked(key);
  reader.refuse_the_rest();
  return axes;
}

std::string axes_json(const RopeAxes& axes) {
  Writer writer;
  writer("pairs", axes.pairs);
  writer("order", Names::order[static_cast<std::size_t>(axes.order)]);
  writer("frequencies", Names::frequencies[static_cast<std::size_t>(axes.frequencies)]);
  return writer.text();
}

}  // namespace

std::string to_json(const Rope& rope) {
  Writer writer;
  writer("head_dim", rope.head_dim);
  if (rope.rotary_dim != 0) writer("rotary_dim", rope.rotary_dim);
  writer("pairing", Names::pairing[static_cast<std::size_t>(Pairing{rope.pairing})]);
  writer("base", rope.base);
  if (!std::holds_alternative<NoScaling>(rope.scaling)) {
    Writer scaling;
    scaling("type", std::string_view(scaling_name(rope.scaling)));
    std::visit([&](auto kind) { members(kind, scaling); }, rope.scaling);
    writer.raw("scaling", scaling.text());
  }
  if (rope.part.where == RotaryPart::Where::last) writer("part", std::string_view("last"));
  if (rope.part.where == RotaryPart::Where::window) {
    Writer window;
    window("begin", rope.part.begin);
    writer.raw("part", window.text());
  }
  if (rope.axes != RopeAxes{}) writer.raw("axes", axes_json(rope.axes));
  if (rope.attention_factor != 1) writer("attention_factor", rope.attention_factor);
  return writer.text();
}

Rope parse_rope(std::string_view text, const std::string& name) {
  json::Notes notes(name);
  const json::Document document(std::string(text), notes);
  const Object object(document.root(), "", notes);

  const auto pairing = choice(object, "pairing", Names::pairing);
  if (!pairing) object.missing("pairing", R"("half" or "interleaved")");
  Rope rope{.pairing = static_cast<Pairing>(*pairing)};
  const auto head_dim = object.integer("head_dim", 2, most_head_dim);
  if (!head_dim) object.missing("head_dim", "a whole number from 2 to 65536");
  rope.head_dim = *head_dim;
  rope.rotary_dim = object.integer("rotary_dim", 0, *head_dim).value_or(0);
  if (rope.rotary_dim % 2 != 0) object.wrong("rotary_dim", "even");
  rope.base = object.number("base", json::positive).value_or(rope.base);
  rope.part = read_part(object);
  if (const auto scaling = object.object("scaling")) rope.scaling = read_scaling(*scaling);
  if (const auto axes = object.object("axes")) rope.axes = read_axes(*axes);
  rope.attention_factor = object.number("attention_factor", json::positive).value_or(rope.attention_factor);

  MemberReader reader(object);
  for (const char* key : {"head_dim", "rotary_dim", "pairing", "base", "scaling", "part", "axes", "attention_factor"})
    reader.asked(key);
  reader.refuse_the_rest();
  // There is nowhere to put a warning, and a spec is short enough to be right.
  if (const auto warnings = notes.take(); !warnings.empty()) notes.fail(warnings[0].pointer, warnings[0].text);
  return rope;
}

}  // namespace bearing
