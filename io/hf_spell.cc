#include "hf_spell.hpp"

#include <algorithm>

#include "json_edit.hpp"

// A config's rotary keys in the other spelling. What they say is taken from what was read, so that nothing is known
// twice; their values are copied as the file has them.

namespace bearing {
namespace hf {
namespace {

using json::MemberText;
using json::ObjectText;
using json::Pair;

/// A number as the object has it, if some key of it says just that; else in its shortest form.
std::string number_text(const ObjectText& object, double value) {
  const auto says = [&](std::string_view text) {
    json::Notes notes("number");
    const json::Document document(std::string(text), notes);
    return document.root().IsNumber() && document.root().GetDouble() == value;
  };
  for (const std::string_view key :
       {"rope_theta", "rotary_emb_base", "rope_local_base_freq", "global_rope_theta", "local_rope_theta"}) {
    const MemberText* member = object.find(key);
    if (member != nullptr && says(member->value)) return member->value;
  }
  return json::shortest(value);
}

bool is_object(const MemberText* member) { return member != nullptr && member->value.starts_with('{'); }

/// One part of a file, as text and as what was read of it.
class Respelled {
 public:
  Respelled(const std::string& text, const Part& part, const Model& model)
      : part_(part),
        model_(model),
        family_(find_family(part.model_type)),
        object_(json::object_text(text, part.file.pointer())) {
    const std::string indentation = object_.indentation();
    step_ = part.file.pointer().empty() ? indentation : "  ";
    if (step_.empty()) step_ = "  ";
  }

  bool changes(HfSpelling to) const {
    if (to == HfSpelling::v4) return object_.find("rope_parameters") != nullptr;
    return !kinds().empty() && (is_object(object_.find("rope_scaling")) || !base_keys_there().empty() ||
                                object_.find("rope_scaling") != nullptr);
  }

  std::string text_in(const std::string& text, HfSpelling to) {
    to == HfSpelling::v5 ? newer() : older();
    return json::text_with(text, object_);
  }

 private:
  bool is(Trait trait) const { return family_ != nullptr && family_->is(trait); }
  bool axial() const { return family_ == nullptr && !part_.name.empty(); }

  /// The different types of layers that turn, in order of their first.
  std::vector<const Layer*> kinds() const {
    std::vector<const Layer*> found;
    for (const Layer& layer : model_.layers) {
      const auto same = [&](const Layer* other) { return other->type == layer.type; };
      if (!std::holds_alternative<Rope>(layer.encoding) || std::any_of(found.begin(), found.end(), same)) continue;
      found.push_back(&layer);
    }
    return found;
  }

  std::vector<std::string_view> base_keys_there() const {
    Keys keys = base_keys;
    if (is(local_base)) keys.push_back("rope_local_base_freq");
    if (is(modern_bases)) keys = {"global_rope_theta", "local_rope_theta", "rope_theta"};
    std::erase_if(keys, [&](std::string_view key) { return object_.find(key) == nullptr; });
    return keys;
  }

  /// The key beside the dictionary that says how much of a head turns, and goes into it.
  std::string_view fraction_key() const {
    if (family_ != nullptr && !is(partial_heads)) return {};
    for (const std::string_view key : fraction_keys) {
      const MemberText* member = object_.find(key);
      if (member != nullptr && member->value != "null") return key;
    }
    return {};
  }

  /// Of a dictionary, or of its part for a layer type, the members; `rope_type` first and in the newer spelling.
  std::vector<Pair> members_of(std::string_view dictionary, const std::string& layer_type) const {
    ObjectText object = json::parse_object_text(dictionary);
    if (is_object(object.find(layer_type))) object = json::parse_object_text(object.find(layer_type)->value);
    const MemberText* type = object.find("rope_type") != nullptr ? object.find("rope_type") : object.find("type");
    std::string word = type == nullptr ? "\"default\"" : type->value;
    if (word == "\"mrope\"") word = "\"default\"";
    if (word == "\"su\"" || (word == "\"yarn\"" && is(top_level_original))) word = "\"longrope\"";
    std::vector<Pair> members = {{"rope_type", word}};
    for (const MemberText& member : object.members) {
      if (member.key == "rope_type" || member.key == "type" || object.find(member.key) != &member) continue;
      if (!is_object(&member)) members.push_back({member.key, member.value});
    }
    return members;
  }

  static void put(std::vector<Pair>& members, const std::string& key, const std::string& value) {
    std::erase_if(members, [&](const Pair& pair) { return pair.key == key; });
    members.push_back({key, value});
  }

  /// The dictionary of one type of layers.
  std::vector<Pair> newer_members(const Layer& layer) const {
    const Rope& rope = std::get<Rope>(layer.encoding);
    const MemberText* said = object_.find("rope_scaling");
    if (!is_object(said)) said = object_.find("rope_parameters");
    const bool unscaled = std::holds_alternative<NoScaling>(rope.scaling) && layer.type == "sliding_attention" &&
                          (is(local_base) || is(scale_full_only));
    std::vector<Pair> members = {{"rope_type", "\"default\""}};
    if (is_object(said) && !unscaled) members = members_of(said->value, layer.type);
    const auto has = [&](const std::string& key) {
      return std::any_of(members.begin(), members.end(), [&](const Pair& pair) { return pair.key == key; });
    };
    put(members, "rope_theta", number_text(object_, rope.base));
    const std::string_view fraction = fraction_key();
    if (!fraction.empty() && !has("partial_rotary_factor")) {
      members.push_back({"partial_rotary_factor", object_.find(fraction)->value});
    }
    return members;
  }

  void newer() {
    const std::string indentation = object_.indentation();
    const auto all = kinds();
    std::string value;
    if (family_ != nullptr && groups_per_type(*family_)) {
      std::vector<Pair> types;
      const std::string deeper = indentation.empty() ? "" : indentation + step_;
      types.reserve(all.size());
      for (const Layer* layer : all) {
        types.push_back({layer->type, json::object_of(newer_members(*layer), deeper, step_)});
      }
      value = json::object_of(types, indentation, step_);
    } else {
      value = json::object_of(newer_members(*all.front()), indentation, step_);
    }
    Keys gone = base_keys_there();
    gone.push_back("rope_scaling");
    gone.push_back("rope_parameters");
    if (const std::string_view key = fraction_key(); !key.empty()) gone.push_back(key);
    replace(gone, {{"rope_parameters", value}});
  }

  /// In place of the first of some keys, others.
  void replace(const Keys& gone, const std::vector<Pair>& come) {
    const auto goes = [&](const MemberText& member) {
      return std::find(gone.begin(), gone.end(), member.key) != gone.end();
    };
    const auto first = std::find_if(object_.members.begin(), object_.members.end(), goes);
    auto at = static_cast<std::size_t>(first - object_.members.begin());
    // Before they go, that the new ones have a neighbour to stand like.
    for (const Pair& pair : come) object_.insert(at++, std::string("+") + pair.key, pair.value);
    for (const std::string_view key : gone) object_.remove(key);
    for (MemberText& member : object_.members) {
      if (member.key.starts_with('+')) member.key.erase(0, 1);
    }
  }

  /// What the older class calls the base and the part of a head that turns.
  std::string own_key(const Keys& keys) const {
    const Spellings* row = find_spellings(part_.model_type);
    const auto between_blanks = [](std::string_view words) { return std::string(1, ' ').append(words).append(1, ' '); };
    const std::string instead = row == nullptr ? "" : between_blanks(row->instead);
    for (const std::string_view key : keys) {
      if (instead.find(between_blanks(key)) != std::string::npos) return std::string(key);
    }
    return std::string(keys.front());
  }

  const Layer* kind(std::string_view type) const {
    for (const Layer* layer : kinds()) {
      if (layer->type == type) return layer;
    }
    return nullptr;
  }

  double base_of(const Layer* layer) const { return layer == nullptr ? 0 : std::get<Rope>(layer->encoding).base; }

  /// The dictionary that all layers have, as transformers 4 knows it; null where it says nothing.
  std::string older_scaling(std::vector<Pair> members) const {
    std::erase_if(members, [&](const Pair& pair) {
      return pair.key == "rope_theta" || pair.key == "partial_rotary_factor" ||
             (is(top_level_original) && pair.key != "rope_type" && pair.key != "short_factor" &&
              pair.key != "long_factor");
    });
    const std::string type = members.front().value;
    constexpr std::string_view known[] = {"\"default\"", "\"linear\"",   "\"dynamic\"",
                                          "\"yarn\"",    "\"longrope\"", "\"llama3\""};
    if (axial() && type == "\"axial\"") return "null";
    if (std::find(std::begin(known), std::end(known), type) == std::end(known)) {
      part_.file.notes().fail(part_.file.pointer("rope_parameters"),
                              "must be default, linear, dynamic, yarn, longrope or llama3 to be written for "
                              "transformers 4, got " +
                                  type);
    }
    if (type == "\"default\"" && members.size() == 1) return "null";
    if (is(top_level_original)) members.front().key = "type";  // Phi-3's class of transformers 4 reads no other word
    return json::object_of(members, object_.indentation(), step_);
  }

  void older() {
    const MemberText* said = object_.find("rope_parameters");
    std::vector<Pair> come;
    if (is_object(said) && !kinds().empty()) {
      const Layer* full = kind("full_attention") != nullptr ? kind("full_attention") : kinds().front();
      const Layer* sliding = kind("sliding_attention") != nullptr ? kind("sliding_attention") : full;
      // Where both dictionaries are there, rope_scaling counts and stays.
      const bool stays = is_object(object_.find("rope_scaling"));
      const std::vector<Pair> members = members_of(said->value, full->type);
      const ObjectText inside = json::parse_object_text(said->value);
      const auto number = [&](const Layer* layer) {
        const ObjectText own =
            is_object(inside.find(layer->type)) ? json::parse_object_text(inside.find(layer->type)->value) : inside;
        return number_text(own, base_of(layer));
      };
      come.push_back({is(modern_bases) ? "global_rope_theta" : own_key(base_keys), number(full)});
      if (is(modern_bases)) come.push_back({"local_rope_theta", number(sliding)});
      if (is(local_base)) come.push_back({"rope_local_base_freq", number(sliding)});
      for (const Pair& pair : members) {
        const bool original = is(top_level_original) && pair.key == "original_max_position_embeddings";
        const bool moves = original && object_.find(pair.key) == nullptr;
        if (moves) come.push_back(pair);
        const bool part = family_ == nullptr || is(partial_heads) || (pair.value != "1" && pair.value != "1.0");
        if (pair.key == "partial_rotary_factor" && part) come.push_back({own_key(fraction_keys), pair.value});
      }
      if (!stays) come.push_back({"rope_scaling", older_scaling(members)});
    }
    Keys gone = {"rope_parameters"};
    for (const Pair& pair : come) gone.push_back(pair.key);
    replace(gone, come);
  }

  const Part& part_;
  const Model& model_;
  const Family* family_;
  ObjectText object_;
  std::string step_;
};

/// The same model in every layer of every part, or an error.
void check_same(const std::string& written, const Model& wanted, const std::string& name, const char* reader) {
  const auto fail = [&](const std::string& why) {
    throw ConfigError(name + ": must have rotary parameters that " + reader + " can say, got others: " + why);
  };
  Model found;
  try {
    found = parse_hf_config(written, name);
  } catch (const ConfigError& error) {
    fail(error.what());
  }
  for (std::size_t i = 0; i <= wanted.towers.size(); ++i) {
    const Model& one = i == 0 ? found : found.towers.at(i - 1);
    const Model& other = i == 0 ? wanted : wanted.towers.at(i - 1);
    const std::string what = difference(one, other, " in place of ");
    if (!what.empty()) fail("it would be read as " + what);
  }
}

bool has_llama3(const Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const Layer& layer) {
    const auto* rope = std::get_if<Rope>(&layer.encoding);
    return rope != nullptr && std::holds_alternative<Llama3Scaling>(rope->scaling);
  });
}

}  // namespace
}  // namespace hf

SpelledConfig spell_hf_config(std::string_view text, HfSpelling spelling, const std::string& name) {
  const std::string whole(text);
  SpelledConfig written{whole, {}};
  hf::with_parts(whole, name, [&](const hf::ReadParts& read) {
    if (read.parts.empty()) throw ConfigError(name + ": must be a Hugging Face config to be spelled, got another file");
    for (std::size_t i = 0; i < read.parts.size(); ++i) {
      hf::Respelled part(written.text, read.parts[i], *read.models[i]);
      if (part.changes(spelling)) written.text = part.text_in(written.text, spelling);
    }
    const bool older = spelling == HfSpelling::v4;
    const char* reader = older ? "transformers 4" : "transformers 5";
    hf::check_same(written.text, read.model, name, reader);
    if (older) {
      hf::check_same(hf::without_newer(written.text, name), read.model, name, reader);
      if (hf::has_llama3(read.model)) {
        written.warnings.push_back({read.parts[0].file.pointer("rope_scaling"),
                                    "transformers before 4.43 does not know rope_type llama3, and refuses the file"});
      }
    }
  });
  if (spelling == HfSpelling::v5) written.warnings = older_reader_warnings(written.text, name);
  return written;
}

SpelledConfig spell_hf_config_file(const std::string& path, HfSpelling spelling) {
  return spell_hf_config(json::read_text(path), spelling, path);
}

}  // namespace bearing
