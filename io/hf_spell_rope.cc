#include <bearing/hf_spelling.hpp>
#include <cmath>

#include "json_edit.hpp"
#include "json_file.hpp"

// A rotary spec as the members of a config.json.

namespace bearing {
namespace {

using json::Pair;
using json::shortest;

[[noreturn]] void refuse(const std::string& member, const std::string& wanted, const std::string& got) {
  throw ConfigError("[hf_rope] " + member + ": must be " + wanted + ", got " + got);
}

/// The dictionary of a scaling, member by member.
class Dictionary {
 public:
  explicit Dictionary(HfSpelling spelling) : spelling_(spelling) {}

  void operator()(const NoScaling&) { type("default"); }
  void operator()(const LinearScaling& s) { type("linear"), put("factor", s.factor); }
  void operator()(const DynamicNtkScaling& s) {
    type("dynamic"), put("factor", s.factor);
    positions = s.trained_length;
  }
  /// transformers 5 wants a factor of each "dynamic", which its code for Hunyuan then does not read.
  void operator()(const AlphaScaling& s) {
    type("dynamic"), put("alpha", s.alpha);
    if (spelling_ == HfSpelling::v5) put("factor", 1.0);
  }
  void operator()(const NtkScaling&) { type("default"); }  // the base says it
  void operator()(const YarnScaling& s) {
    if (s.mscale_slope != 0.1) refuse("mscale_slope", "0.1, which transformers knows", shortest(s.mscale_slope));
    type("yarn"), put("factor", s.factor), trained(s.trained_length);
    put("beta_fast", s.beta_fast), put("beta_slow", s.beta_slow);
    if (!s.truncate) members.push_back({"truncate", "false"});
    put("attention_factor", s.attention_factor), put("mscale", s.mscale), put("mscale_all_dim", s.mscale_all_dim);
  }
  void operator()(const DeepseekYarnScaling& s) {
    type("yarn"), put("factor", s.factor), trained(s.trained_length);
    put("beta_fast", s.beta_fast), put("beta_slow", s.beta_slow);
    put("mscale", s.mscale), put("mscale_all_dim", s.mscale_all_dim), put("attention_factor", s.attention_factor);
  }
  void operator()(const LongRopeScaling& s) {
    type("longrope"), put("factor", s.factor), trained(s.trained_length);
    put("short_factor", s.short_factor), put("long_factor", s.long_factor);
    put("attention_factor", s.attention_factor);
    put("short_mscale", s.short_mscale), put("long_mscale", s.long_mscale);
  }
  void operator()(const Llama3Scaling& s) {
    type("llama3"), put("factor", s.factor), put("low_freq_factor", s.low_freq_factor);
    put("high_freq_factor", s.high_freq_factor), trained(s.trained_length);
  }
  void operator()(const ProportionalScaling& s) {
    if (spelling_ == HfSpelling::v4) unknown(s);
    type("proportional"), put("partial_rotary_factor", s.fraction);
    if (s.factor != 1) put("factor", s.factor);
  }
  template <class Other>
  void operator()(const Other& s) {
    unknown(s);
  }

  std::vector<Pair> members = {};
  Index positions = 0;  ///< max_position_embeddings, where it stands for the trained length

 private:
  [[noreturn]] void unknown(const RopeScaling& scaling) const {
    refuse("scaling", spelling_ == HfSpelling::v4 ? "one of transformers 4" : "one of transformers 5",
           scaling_name(scaling));
  }
  void type(const char* word) { members.push_back({"rope_type", '"' + std::string(word) + '"'}); }
  void put(const char* key, double value) { members.push_back({key, shortest(value)}); }
  void put(const char* key, const std::optional<double>& value) {
    if (value) put(key, *value);
  }
  void put(const char* key, const std::vector<double>& values) {
    std::string text;
    for (const double value : values) text += (text.empty() ? "" : ", ") + shortest(value);
    members.push_back({key, '[' + text + ']'});
  }
  void trained(Index length) { members.push_back({"original_max_position_embeddings", std::to_string(length)}); }

  HfSpelling spelling_;
};

/// M-RoPE's sections, in order or in turn; what else axes can be, a config has no words for.
void add_axes(const RopeAxes& axes, std::vector<Pair>& members) {
  if (axes == RopeAxes{}) return;
  const bool shared = axes.frequencies == RopeAxes::Frequencies::shared && axes.order != RopeAxes::Order::listed;
  if (!shared || !axes.bases.empty() || !axes.ntk_factors.empty() || axes.still != 0) {
    refuse("axes", "sections or interleaved, with one run of frequencies", "another form");
  }
  std::string text;
  for (const Index pairs : axes.pairs) text += (text.empty() ? "" : ", ") + std::to_string(pairs);
  members.push_back({"mrope_section", '[' + text + ']'});
  if (axes.order == RopeAxes::Order::interleaved) members.push_back({"mrope_interleaved", "true"});
}

/// The part of a head that turns; "" for a whole head.
std::string fraction_of(const Rope& rope) {
  if (rope.part.where == RotaryPart::Where::window) refuse("part", "the first or the last dimensions", "a window");
  if (rope.rotary_dim == 0 || rope.rotary_dim == rope.head_dim) return "";
  if (rope.part.where == RotaryPart::Where::last) return "";  // latent attention: qk_rope_head_dim says it
  const double fraction = static_cast<double>(rope.rotary_dim) / static_cast<double>(rope.head_dim);
  // What readers make of it: the product, rounded down.
  const bool exact = std::floor(static_cast<double>(rope.head_dim) * fraction) == static_cast<double>(rope.rotary_dim);
  return shortest(exact ? fraction : std::nextafter(fraction, 1));
}

/// The base that a config says: of static NTK, which it has no word for, the larger one that is the same.
double base_of(const Rope& rope) {
  const auto* ntk = std::get_if<NtkScaling>(&rope.scaling);
  if (ntk == nullptr) return rope.base;
  const double r = static_cast<double>(rope.turned());
  return rope.base * std::pow(ntk->factor, r / (r - 2));
}

}  // namespace

std::string hf_rope(const Rope& rope, HfSpelling spelling) {
  resolve(rope);  // a spec that cannot be is refused as everywhere
  if (rope.attention_factor != 1) {
    refuse("attention_factor", "1 beside what the scaling has", shortest(rope.attention_factor));
  }
  if (!rope.log_factors.empty()) refuse("log_factors", "empty: they stand in the weights", "some");
  Dictionary dictionary(spelling);
  std::visit(dictionary, rope.scaling);
  std::vector<Pair>& parameters = dictionary.members;
  add_axes(rope.axes, parameters);
  const std::string fraction = fraction_of(rope);
  std::vector<Pair> members;
  if (dictionary.positions > 0) members.push_back({"max_position_embeddings", std::to_string(dictionary.positions)});
  if (spelling == HfSpelling::v5) {
    parameters.push_back({"rope_theta", shortest(base_of(rope))});
    if (!fraction.empty()) parameters.push_back({"partial_rotary_factor", fraction});
    members.push_back({"rope_parameters", json::object_of(parameters, "", "")});
  } else {
    members.push_back({"rope_theta", shortest(base_of(rope))});
    if (!fraction.empty()) members.push_back({"partial_rotary_factor", fraction});
    const bool unscaled =
        std::holds_alternative<NoScaling>(rope.scaling) || std::holds_alternative<NtkScaling>(rope.scaling);
    const bool nothing = parameters.size() == 1 && unscaled;
    members.push_back({"rope_scaling", nothing ? "null" : json::object_of(parameters, "", "")});
  }
  return json::object_of(members, "", "");
}

}  // namespace bearing
