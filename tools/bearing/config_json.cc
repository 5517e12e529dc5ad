#include <rapidjson/document.h>

#include "config_report.hpp"
#include "json_writer.hpp"
#include "pair_change.hpp"
#include "record_text.hpp"

namespace bearing::tool {
namespace {

/// A parsed value again, numbers in the shortest form.
void write_value(JsonWriter& json, const rapidjson::Value& value) {
  if (value.IsObject()) {
    json.begin_object();
    for (const auto& member : value.GetObject()) {
      json.key({member.name.GetString(), member.name.GetStringLength()});
      write_value(json, member.value);
    }
    json.end_object();
  } else if (value.IsArray()) {
    json.begin_array();
    for (const auto& item : value.GetArray()) write_value(json, item);
    json.end_array();
  } else if (value.IsString()) {
    json.value(std::string_view(value.GetString(), value.GetStringLength()));
  } else if (value.IsInt64()) {
    json.value(Index{value.GetInt64()});
  } else if (value.IsNumber()) {
    json.value(value.GetDouble());
  } else if (value.IsBool()) {
    json.value(value.GetBool());
  } else {
    json.null();
  }
}

void write_rope(JsonWriter& json, const Rope& rope, const GroupReport& group) {
  const RopeFrequencies& numbers = *group.frequencies;
  json.member("pairing", rope.pairing == Pairing::half ? "half" : "interleaved");
  json.member("head_dim", numbers.head_dim);
  json.member("rotary_dim", numbers.rotary_dim);
  json.member("begin", numbers.begin);
  json.member("base", rope.base);
  json.member("base_from", std::string_view(group.group.layer.base_from));
  rapidjson::Document spec;
  spec.Parse<rapidjson::kParseFullPrecisionFlag>(to_json(rope).c_str());
  json.key("scaling");
  if (spec.HasMember("scaling")) {
    write_value(json, spec["scaling"]);
  } else {
    json.begin_object();
    json.member("type", scaling_name(rope.scaling));
    json.end_object();
  }
  json.key("rope");
  write_value(json, spec);
  json.member("attention_factor", numbers.attention_factor);
  json.member("softmax_scale_factor", numbers.softmax_scale_factor);
  json.list("inv_freq", numbers.inv_freq);
  json.list("wavelength", group.wavelength);
  std::vector<const char*> changes;
  for (PairChange change : numbers.change) changes.push_back(name_of(change));
  json.list("change", changes);
  json.member("axes", numbers.axes);
  json.list("axis", numbers.axis);
}

/// Why an encoding is a name and no numbers.
template <class Encoding>
void write_why(JsonWriter& json, const Encoding& encoding) {
  const auto* other = std::get_if<OtherEncoding>(&encoding);
  if (other != nullptr && !other->why.empty()) json.member("why", std::string_view(other->why));
}

void write_input(JsonWriter& json, const ModelInput& input) {
  json.begin_object();
  json.member("part", std::string_view(input.part));
  if (!input.label.empty()) json.member("label", std::string_view(input.label));
  json.member("encoding", std::string_view(encoding_name(input.encoding)));
  json.member("first_position", input.first_position);
  if (input.length > 0) json.member("length", input.length);
  if (!input.positions.empty()) json.member("positions", std::string_view(input.positions));
  write_why(json, input.encoding);
  write_members(json, record_of(input.encoding));
  json.end_object();
}

/// A rotation as rope-json.md has it.
void write_spec(JsonWriter& json, const char* key, const Rope& rope) {
  rapidjson::Document spec;
  spec.Parse<rapidjson::kParseFullPrecisionFlag>(to_json(rope).c_str());
  json.key(key);
  write_value(json, spec);
}

/// Further encodings of a layer: "rope" as rope-json.md has it, others as their members.
void write_also(JsonWriter& json, const std::vector<LayerEncoding>& also) {
  json.key("also");
  json.begin_array();
  for (const LayerEncoding& further : also) {
    json.begin_object();
    json.member("encoding", std::string_view(encoding_name(further)));
    if (const Rope* rope = std::get_if<Rope>(&further)) write_spec(json, "rope", *rope);
    write_members(json, record_of(further));
    json.end_object();
  }
  json.end_array();
}

void write_group(JsonWriter& json, const GroupReport& group) {
  const Layer& layer = group.group.layer;
  json.begin_object();
  json.list("layers", group.group.layers);
  json.member("part", std::string_view(layer.part));
  json.member("type", std::string_view(layer.type));
  json.member("window", layer.window);
  json.member("window_after", layer.window_after);
  if (layer.chunks_before != 0) json.member("chunks_before", layer.chunks_before);
  json.member("encoding", std::string_view(encoding_name(layer.encoding)));
  if (const Rope* rope = std::get_if<Rope>(&layer.encoding)) write_rope(json, *rope, group);
  write_members(json, record_of(layer.encoding));
  write_why(json, layer.encoding);
  if (layer.temperature) {
    json.key("temperature");
    write_value(json, Record::of(*layer.temperature));
  }
  if (!layer.positions.empty()) json.member("positions", std::string_view(layer.positions));
  if (layer.values) write_spec(json, "values", *layer.values);
  if (!layer.also.empty()) write_also(json, layer.also);
  json.end_object();
}

void write_parts(JsonWriter& json, const ConfigReport& report) {
  json.key("inputs");
  json.begin_array();
  for (const ModelInput& input : report.model.inputs) write_input(json, input);
  json.end_array();
  json.key("groups");
  json.begin_array();
  for (const GroupReport& group : report.groups) write_group(json, group);
  json.end_array();
}

void write_tower(JsonWriter& json, const ConfigReport& tower) {
  const Model& model = tower.model;
  json.begin_object();
  json.member("part", std::string_view(model.part));
  json.member("model_type", std::string_view(model.model_type));
  json.member("layers", static_cast<Index>(model.layers.size()));
  json.member("heads", model.heads);
  json.member("kv_heads", model.kv_heads);
  json.member("head_dim", model.head_dim);
  json.member("context_length", model.context_length);
  write_parts(json, tower);
  json.end_object();
}

}  // namespace

std::string to_json(const ConfigReport& report) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.config/2");
  json.member("file", std::string_view(report.model.file));
  json.member("model_type", std::string_view(report.model.model_type));
  json.member("layers", static_cast<Index>(report.model.layers.size()));
  json.member("heads", report.model.heads);
  json.member("kv_heads", report.model.kv_heads);
  json.member("head_dim", report.model.head_dim);
  json.member("trained_length", report.model.trained_length);
  json.member("context_length", report.model.context_length);
  json.member("scaled_length", report.reach);
  json.member("seq_len", report.seq_len);
  if (const auto& regions = report.model.regions) {
    json.key("regions");
    write_value(json, Record::of(regions->chunks));
    json.member("regions_original_length", regions->original_length);
  }
  write_parts(json, report);
  json.key("warnings");
  json.begin_array();
  for (const ConfigWarning& warning : report.warnings) {
    json.begin_object();
    json.member("pointer", std::string_view(warning.pointer));
    json.member("text", std::string_view(warning.text));
    json.end_object();
  }
  json.end_array();
  json.member("part", std::string_view(report.model.part));
  json.key("towers");
  json.begin_array();
  for (const ConfigReport& tower : report.towers) write_tower(json, tower);
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace bearing::tool
