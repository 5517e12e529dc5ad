#include <algorithm>
#include <bearing/io.hpp>
#include <bearing/say.hpp>
#include <utility>

#include "json_file.hpp"
#include "say_model.hpp"

namespace bearing {
namespace {

/// Levenshtein's distance: insertions, deletions and replacements of one character.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// "'rope', 'rope_yarn'": the closest name, and names that the word is a part of or that begin it; at most four.
std::string near(const std::string& word) {
  std::vector<std::string> all, found;
  for (const Description& one : inspect::catalog()) all.push_back(one.name);
  const std::string best = closest(word, all);
  if (!best.empty()) found.push_back(best);
  for (const std::string& name : all) {
    const bool related = word.size() > 1 && (name.find(word) != name.npos || word.starts_with(name));
    if (related && name != best && found.size() < 4) found.push_back(name);
  }
  std::string out;
  for (const std::string& name : found) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

/// Words of a name, in lower case.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return words;
}

/// "dinov3_vit has 'rope_axial'": types of models whose names have all of the words, at most three, each with all of
/// its encodings; the type itself alone.
std::string models_called(const std::string& name) {
  const std::vector<std::string> wanted = words_of(name);
  bool exact = false;
  std::vector<std::pair<std::string, std::string>> found;  // a type and its encodings
  for (const Description& one : inspect::catalog()) {
    for (const std::string& type : model_types_of(one.name)) {
      const std::vector<std::string> words = words_of(type);
      exact = exact || words == wanted;
      const bool has = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
        return std::find(words.begin(), words.end(), word) != words.end();
      });
      if (!has) continue;
      const auto same =
          std::find_if(found.begin(), found.end(), [&](const auto& other) { return other.first == type; });
      if (same == found.end()) {
        found.emplace_back(type, "'" + one.name + "'");
      } else {
        same->second += " and '" + one.name + "'";
      }
    }
  }
  std::string out;
  std::size_t told = 0;
  for (const auto& [type, encodings] : found) {
    if ((exact && words_of(type) != wanted) || ++told > 3) continue;
    out.append(out.empty() ? "" : ", ").append(type).append(" has ").append(encodings);
  }
  return out;
}

const Description& named(const std::string& name) {
  if (const Description* found = inspect::find(name)) return *found;
  const std::string models = models_called(name), names = models.empty() ? near(name) : "";
  throw ShapeError("[encoding] '" + name + "' is not an encoding" +
                   (!models.empty()  ? "; models of that name: " + models
                    : !names.empty() ? "; did you mean " + names + "?"
                                     : "; 'bearing list' shows all"));
}

/// Whether JSON begins here.
bool is_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{';
}

/// JSON, and the keys after it.
struct Json {
  std::string text, keys;

  explicit Json(const std::string& all) {
    const std::size_t end = all.rfind('}');
    const bool more = end != all.npos && end + 1 < all.size() && all[end + 1] == ':';
    text = more ? all.substr(0, end + 1) : all;
    if (more) keys = all.substr(end + 2);
  }
};

Said said_by_json(const std::string& text, const std::string& name, const std::string& as_said,
                  const Description* description) {
  std::vector<const RecordType*> among;
  if (description != nullptr) {
    if (description->spec) among = {&description->spec({}).type()};
    if (among.empty()) Said(as_said, *description).fail("has no spec that JSON could say");
  } else {
    for (const RecordType& type : registry().records()) {
      if (description_of(type.make()) != nullptr) among.push_back(&type);
    }
  }
  const Record spec = parse_record(text, name, among);
  if (description == nullptr) description = description_of(spec);
  if (description == nullptr) throw ConfigError(name + ": " + spec.type().name + " is no encoding by itself");
  return {as_said, *description, spec};
}

/// A file that says an encoding has its "type". A model's file has none, and is said with an @.
std::string read_spec(const std::string& file) {
  std::string text = json::read_text(file);
  json::Notes notes(file);
  const json::Document document(text, notes);
  const json::Object object(document.root(), "", notes);
  const std::string_view key = object.has("type") ? "" : object.spelled({"model_type", "architectures"});
  if (!key.empty()) {
    throw ConfigError(file + ": must be written @" + file + ": it is a model's file, as it has " + std::string(key));
  }
  return text;
}

Said said_by_text(const std::string& text) {
  if (is_json(text)) {
    const Json json(text);
    Said said = said_by_json(json.text, "encoding", text, nullptr);
    if (!json.keys.empty()) said.add_keys(json.keys);
    return said;
  }
  const std::string ending = ".json";
  if (const std::size_t end = text.find(ending); end != text.npos && end < text.find('=')) {
    const std::string file = text.substr(0, end + ending.size()), rest = text.substr(end + ending.size());
    Said said = said_by_json(read_spec(file), file, text, nullptr);
    if (!rest.empty() && rest[0] != ':') said.fail("after a file only :KEY=VALUE,... may follow, got '" + rest + "'");
    if (!rest.empty()) said.add_keys(rest.substr(1));
    return said;
  }
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const Description& description = named(name);
  if (colon == text.npos) return {text, description};
  const std::string rest = text.substr(colon + 1);
  if (is_json(rest)) {
    const Json json(rest);
    Said said = said_by_json(json.text, name, text, &description);
    if (!json.keys.empty()) said.add_keys(json.keys);
    return said;
  }
  Said said(text, description);
  said.add_keys(rest);
  return said;
}

}  // namespace

std::string closest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::vector<Said> say_encodings(const std::string& text) {
  if (text.starts_with('@')) return say::said_by_model(text.substr(1));
  return {said_by_text(text)};
}

Said say_encoding(const std::string& text) {
  std::vector<Said> all = say_encodings(text);
  if (all.size() == 1) return std::move(all[0]);
  std::string names;
  for (const Said& one : all) names += (names.empty() ? "" : ", ") + one.text();
  throw ShapeError("[encoding] " + text + " says several: must be one of " + names);
}

}  // namespace bearing
