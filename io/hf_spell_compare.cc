#include <algorithm>

#include "dialects.hpp"
#include "hf_spell.hpp"
#include "json_edit.hpp"

namespace bearing {
namespace hf {
namespace {

/// "layers 0-3, 5"
std::string numbers_of(const std::vector<Index>& layers) {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    out += (out.empty() ? "" : ", ") + std::to_string(layers[i]);
    if (last > i) out += '-' + std::to_string(layers[last]);
    i = last + 1;
  }
  return (layers.size() == 1 ? "layer " : "layers ") + out;
}

std::string turns(const Rope& rope) { return std::to_string(rope.rotary_dim) + " of " + std::to_string(rope.head_dim); }

std::string scaling_of(const Rope& rope) {
  return std::holds_alternative<NoScaling>(rope.scaling) ? "no scaling" : scaling_name(rope.scaling);
}

/// What differs between two ropes, in one line.
std::string between(const Rope& found, const Rope& wanted, const char* as) {
  std::vector<std::string> all;
  const auto say = [&](const std::string& what, const std::string& one, const std::string& other) {
    all.push_back(what + one + as + other);
  };
  if (found.base != wanted.base) say("base ", json::shortest(found.base), json::shortest(wanted.base));
  if (!(found.scaling == wanted.scaling)) {
    const bool same_name = found.scaling.index() == wanted.scaling.index();
    say("", scaling_of(found) + (same_name ? " of other numbers" : ""), scaling_of(wanted));
  }
  if (found.rotary_dim != wanted.rotary_dim) say("turning dimensions ", turns(found), turns(wanted));
  if (!(found.axes == wanted.axes)) {
    const auto count = [](const Rope& rope) { return std::to_string(pair_axes(rope.axes, rope.rotary_dim).axes); };
    say("axes ", count(found), count(wanted));
  }
  if (all.empty()) say("", "another rotation", "this one");
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : "; ") + one;
  return text;
}

std::string between(const Layer& found, const Layer& wanted, const char* as) {
  if (found.encoding == wanted.encoding) {
    const bool same = found.temperature == wanted.temperature && found.also == wanted.also &&
                      found.type == wanted.type && found.window == wanted.window;
    return same ? "" : std::string("another temperature or window") + as + "its own";
  }
  const auto* rope = std::get_if<Rope>(&found.encoding);
  const auto* other = std::get_if<Rope>(&wanted.encoding);
  if (rope != nullptr && other != nullptr) return between(*rope, *other, as);
  return encoding_name(found.encoding) + as + encoding_name(wanted.encoding);
}

}  // namespace

void with_parts(const std::string& text, const std::string& name, const std::function<void(const ReadParts&)>& body) {
  json::Notes notes(name);
  const json::Document document(text, notes);
  const json::Object file(document.root(), "", notes);
  ReadParts read;
  if (Model other; dialects::read(file, other)) return body(read);
  read.model = parse_hf_config(text, name);
  Parts parts = parts_of(file);
  read.parts.push_back(std::move(parts.main));
  read.models.push_back(&read.model);
  for (Part& tower : parts.towers) {
    read.models.push_back(&read.model.towers.at(read.parts.size() - 1));
    read.parts.push_back(std::move(tower));
  }
  body(read);
}

std::string without_newer(const std::string& text, const std::string& name) {
  std::string out = text;
  with_parts(text, name, [&](const ReadParts& read) {
    for (const Part& part : read.parts) {
      json::ObjectText object = json::object_text(out, part.file.pointer());
      object.remove("rope_parameters");
      if (object.end > 0) out = json::text_with(out, object);
    }
  });
  return out;
}

std::string difference(const Model& found, const Model& wanted, const char* as) {
  if (found.layers.size() != wanted.layers.size()) {
    return std::to_string(found.layers.size()) + " layers" + as + std::to_string(wanted.layers.size());
  }
  std::vector<std::pair<std::string, std::vector<Index>>> all;
  for (std::size_t i = 0; i < found.layers.size(); ++i) {
    const std::string one = between(found.layers[i], wanted.layers[i], as);
    if (one.empty()) continue;
    auto at = std::find_if(all.begin(), all.end(), [&](const auto& said) { return said.first == one; });
    if (at == all.end()) at = all.insert(all.end(), {one, {}});
    at->second.push_back(static_cast<Index>(i));
  }
  std::string text;
  for (const auto& [what, layers] : all) {
    const bool everywhere = layers.size() == found.layers.size();
    text += (text.empty() ? "" : " | ") + what + (everywhere ? "" : " in " + numbers_of(layers));
  }
  return text;
}

}  // namespace hf

std::vector<ConfigWarning> older_reader_warnings(std::string_view text, const std::string& name) {
  constexpr const char* who = "a reader of rope_theta and rope_scaling alone, as transformers before 5, ";
  std::vector<ConfigWarning> warnings;
  if (text.find("rope_parameters") == text.npos) return warnings;
  const std::string whole(text), older = hf::without_newer(whole, name);
  if (older == whole) return warnings;
  hf::with_parts(whole, name, [&](const hf::ReadParts& read) {
    Model seen;
    try {
      seen = parse_hf_config(older, name);
    } catch (const ConfigError&) {
      warnings.push_back({read.parts[0].file.pointer("rope_parameters"), std::string(who) + "finds no rotary keys"});
      return;
    }
    for (std::size_t i = 0; i < read.parts.size(); ++i) {
      const Model& part = i == 0 ? seen : seen.towers.at(i - 1);
      const std::string what = hf::difference(part, *read.models[i], ", where the file says ");
      if (!what.empty()) {
        warnings.push_back({read.parts[i].file.pointer("rope_parameters"), std::string(who) + "takes " + what});
      }
    }
  });
  return warnings;
}

std::vector<ConfigWarning> older_reader_warnings_of_file(const std::string& path) {
  return older_reader_warnings(json::read_text(path), path);
}

}  // namespace bearing
