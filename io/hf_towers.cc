#include "hf_towers.hpp"

#include <algorithm>
#include <set>

#include "hf_reader.hpp"
#include "lasting.hpp"

namespace bearing::hf {
namespace {

using json::Object;

constexpr int deepest_part = 4;
constexpr std::size_t most_towers = 64;  // models have up to ten

/// Where files of any model_type keep their language model, and where their towers.
const Keys& text_keys = lasting(Keys{"text_config", "llm_config", "language_config", "thinker_config"});
const Keys& tower_keys = lasting(Keys{"vision_config", "audio_config"});

/// "vision_config" → "vision tower", "depth_decoder_config" → "depth decoder".
std::string name_of(std::string_view key) {
  constexpr std::string_view towers[] = {"vision", "audio", "image", "speech", "video"};
  if (key.ends_with("_config")) key.remove_suffix(7);
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', ' ');
  const bool tower = std::find(std::begin(towers), std::end(towers), key) != std::end(towers);
  return tower ? name + " tower" : name;
}

/// A part's own word counts. Old files repeat the composite's there, or the beginning of the part's.
std::string type_of(const Object& part, const CompositePart& row) {
  const std::string own = part.text("model_type", json::longest_word).value_or("");
  const bool repeats = own.empty() || own == row.composite || (!known_type(own) && row.model_type.starts_with(own));
  return repeats ? std::string(row.model_type) : own;
}

/// The rows of a model_type, and keys that files of any type may have.
std::vector<CompositePart> rows_of(const std::string& model_type) {
  std::vector<CompositePart> rows = composite_parts(model_type);
  for (const std::string_view key : tower_keys) {
    const auto same = [&](const CompositePart& row) { return row.key == key; };
    if (std::none_of(rows.begin(), rows.end(), same)) rows.push_back({model_type, key, {}});
  }
  return rows;
}

class Takes {
 public:
  /// The main part of a file; towers are kept.
  Part apart(const Object& file, const std::string& name, const std::string& model_type, int level) {
    const std::vector<CompositePart> rows = rows_of(model_type);
    const CompositePart main = main_of(file, model_type, rows);
    Part part{name, model_type, file};
    if (level < deepest_part) {
      if (!main.key.empty() && file.has(main.key)) {
        const Object object = *file.object(main.key);
        std::string type = object.text("model_type", json::longest_word).value_or(std::string(main.model_type));
        const bool says_nothing = type.empty() || type == main.composite;
        if (says_nothing && !main.model_type.empty()) type = main.model_type;
        part = apart(object, name.empty() ? main_name(main.key) : name, type.empty() ? model_type : type, level + 1);
      } else if (!main.model_type.empty() && find_family(model_type) == nullptr) {
        part = {name.empty() ? main_name(main.key) : name, innermost(main.model_type), file};
      }
      for (const CompositePart& row : rows) {
        if (row.key.empty() || row.key == main.key || !file.has(row.key) || !file.find(row.key)->IsObject()) continue;
        add_tower(*file.object(row.key), row, name, level);
      }
    }
    return part;
  }

  std::vector<Part> take() { return std::move(towers_); }

 private:
  static std::string main_name(std::string_view key) {
    const bool text = key.empty() || std::find(text_keys.begin(), text_keys.end(), key) != text_keys.end();
    return text ? "" : name_of(key);
  }

  /// The main part of a composite's main part, as far down as it goes.
  static std::string innermost(std::string_view model_type) {
    for (int level = 0; level < deepest_part && find_family(model_type) == nullptr; ++level) {
      const std::vector<CompositePart> rows = composite_parts(model_type);
      if (rows.empty() || rows.front().model_type.empty()) break;
      model_type = rows.front().model_type;
    }
    return std::string(model_type);
  }

  static CompositePart main_of(const Object& file, const std::string& model_type,
                               const std::vector<CompositePart>& rows) {
    const bool listed = !composite_parts(model_type).empty();
    const bool its_text = listed && std::find(text_keys.begin(), text_keys.end(), rows.front().key) != text_keys.end();
    if (listed && !its_text) return rows.front();
    const std::string_view key = counting(file, text_keys);
    if (its_text) return key.empty() ? rows.front() : CompositePart{model_type, key, rows.front().model_type};
    return {model_type, key, {}};
  }

  void add_tower(const Object& object, const CompositePart& row, const std::string& of, int level) {
    const std::string own = row.key == "text_config" ? "text model" : name_of(row.key);
    const std::string name = of.empty() ? own : of + ", " + own;
    const std::size_t at = towers_.size();
    if (at == most_towers) object.notes().fail(object.pointer(), "must be one of at most 64 parts, got more");
    Part part = apart(object, name, type_of(object, row), level + 1);
    towers_.insert(towers_.begin() + static_cast<std::ptrdiff_t>(at), std::move(part));
  }

  std::vector<Part> towers_;
};

}  // namespace

bool known_type(std::string_view model_type) {
  static const auto& named = lasting([] {
    const std::vector<std::string_view> all = model_types();
    return std::set<std::string_view>(all.begin(), all.end());
  }());
  return named.contains(model_type) || find_family(model_type) != nullptr;
}

Parts parts_of(const Object& file) {
  Takes takes;
  Part main = takes.apart(file, "", file.text("model_type", json::longest_word).value_or(""), 0);
  return {std::move(main), takes.take()};
}

}  // namespace bearing::hf
