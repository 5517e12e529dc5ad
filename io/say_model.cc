#include "say_model.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bearing/io.hpp>
#include <charconv>
#include <variant>

#include "posix.hpp"

namespace bearing::say {
namespace {

/// "config.json#3:table=t5.npy", taken apart.
struct Place {
  std::string file, part, keys;

  Place() = default;
  explicit Place(const std::string& text) {
    const std::size_t hash = text.find('#');
    std::size_t colon = text.find(':', hash == text.npos ? 0 : hash);
    if (hash == text.npos && colon != text.npos && text.find('=', colon) == text.npos)
      colon = text.npos;  // of the path
    file = text.substr(0, std::min(hash, colon));
    if (hash != text.npos) part = text.substr(hash + 1, colon == text.npos ? colon : colon - hash - 1);
    if (colon != text.npos) keys = text.substr(colon + 1);
  }
  static Place whole(const std::string& file) {
    Place place;
    return place.file = file, place;
  }
};

Model model_of(const std::string& file) {
  const posix::KeepErrno keep;
  struct stat status {};
  const bool folder = ::stat(file.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  return read_hf_config(folder ? file + (file.ends_with('/') ? "" : "/") + "config.json" : file);
}

Sizes sizes_of(const Model& model) {
  return {.heads = model.heads,
          .kv_heads = model.kv_heads,
          .dim = model.head_dim,
          .length = model.trained_length > 0 ? model.trained_length : model.context_length};
}

/// A record that is no encoding's spec gives one: a model's of the encoding in its layers.
Record spec_of(const Record& record) {
  if (description_of(record) != nullptr) return record;
  for (const FunctionInfo& method : record.type().methods) {
    if (method.result.kind != Kind::record) continue;
    Values arguments(method.arguments.size(), Index{1});
    arguments.front() = record;
    return std::get<Record>(method.call(arguments));
  }
  return record;
}

/// What a model says of a layer or its input; nothing where its numbers are not read.
class Sayings {
 public:
  explicit Sayings(const Place& place) : place_(place) {}

  template <class Spec>
  void add(const std::string& part, const Spec& spec, Sizes sizes, const RopeLengths& lengths) {
    if constexpr (std::is_same_v<Spec, OtherEncoding>) {
      others_ += (others_.empty() ? "" : ", ") + spec.name;
    } else if constexpr (std::is_same_v<Spec, NoPosition>) {
      add(part, inspect::find("nope"), {}, sizes, lengths);
    } else {
      if constexpr (std::is_same_v<Spec, Rope>) sizes.dim = spec.head_dim;
      if constexpr (requires { spec.dim; }) sizes.dim = spec.dim;
      if constexpr (requires { spec.length; }) sizes.length = spec.length;
      const Record record = spec_of(Record::of(spec));
      add(part, description_of(record), record, sizes, lengths);
    }
  }

  std::vector<Said> take() {
    if (!all_.empty()) return std::move(all_);
    throw ConfigError(place_.file + ": " +
                      (others_.empty() ? "has no encoding there"
                                       : "the numbers of " + others_ + " are not read: there is nothing to go by"));
  }

 private:
  void add(const std::string& part, const Description* description, const Record& spec, const Sizes& sizes,
           const RopeLengths& lengths) {
    if (description == nullptr) return;
    Said said("@" + place_.file + (part.empty() ? "" : "#" + part), *description, spec, sizes, lengths);
    if (!place_.keys.empty()) said.add_keys(place_.keys);
    all_.push_back(std::move(said));
  }

  const Place& place_;
  std::string others_;
  std::vector<Said> all_;
};

std::vector<Said> said_at(const Place& place, const Model& model, const std::string& text) {
  Sayings sayings(place);
  const Sizes sizes = sizes_of(model);
  const bool input = place.part == "input", all = place.part.empty();
  Index layer = -1;
  if (!all && !input) {
    const auto [end, error] = std::from_chars(place.part.data(), place.part.data() + place.part.size(), layer);
    const auto layers = static_cast<Index>(model.layers.size());
    if (error != std::errc{} || end != place.part.data() + place.part.size() || layer < 0 || layer >= layers) {
      throw ShapeError("[encoding] @" + text + ": after # must stand a layer from 0 to " + std::to_string(layers - 1) +
                       " or input, got '" + place.part + "'");
    }
  }
  if (all || input) {
    for (const ModelInput& one : model.inputs) {
      std::visit([&](const auto& spec) { sayings.add("input", spec, sizes, lengths_of(model, {})); }, one.encoding);
    }
  }
  const std::vector<LayerGroup> groups = layer_groups(model);
  std::vector<const LayerEncoding*> said;
  for (const LayerGroup& group : groups) {
    const LayerEncoding& encoding = group.layer.encoding;
    const bool asked = std::find(group.layers.begin(), group.layers.end(), layer) != group.layers.end();
    // A layer that does nothing is said of a model that does nothing elsewhere; what several do, once.
    const bool nothing = std::holds_alternative<NoPosition>(encoding) && (!model.inputs.empty() || groups.size() > 1);
    const auto alike = [&](const LayerEncoding* other) { return *other == encoding; };
    if (input || (all ? nothing || std::any_of(said.begin(), said.end(), alike) : !asked)) continue;
    said.push_back(&encoding);
    const bool only = all && groups.size() == 1 && model.inputs.empty();
    const RopeLengths lengths = lengths_of(model, group.layer);
    const std::string part = only ? "" : std::to_string(group.layers[0]);
    std::visit([&](const auto& spec) { sayings.add(part, spec, sizes, lengths); }, encoding);
  }
  return sayings.take();
}

}  // namespace

std::vector<Said> said_by_model(const std::string& text) {
  const Place place(text);
  return said_at(place, model_of(place.file), text);
}

}  // namespace bearing::say

namespace bearing {

std::vector<Said> say_encodings(const Model& model) {
  return say::said_at(say::Place::whole(model.file), model, model.file);
}

}  // namespace bearing
