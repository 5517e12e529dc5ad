#include <algorithm>
#include <bearing/rope_report.hpp>
#include <bearing/say.hpp>
#include <variant>

#include "answers.hpp"
#include "pair_change.hpp"

namespace bearing::explorer {
namespace {

void write_warnings(PageJson& to, const Model& model) {
  to.key("warnings");
  to.begin_array();
  for (const ConfigWarning& warning : model.warnings) {
    to.begin_object();
    to.member("pointer", warning.pointer);
    to.member("text", warning.text);
    to.end_object();
  }
  to.end_array();
}

/// What the frequencies are, where a scaling bends them, and what the model's users should know.
void write_rope(PageJson& to, const Rope& rope, const Model& model) {
  const RopeFrequencies frequencies = resolve(rope);
  to.key("rope");
  to.begin_object();
  to.member("json", to_json(rope));
  to.member("pairs", frequencies.pairs());
  to.member("rotary_dim", frequencies.rotary_dim);
  to.member("attention_factor", frequencies.attention_factor);
  to.member("softmax_factor", frequencies.softmax_scale_factor);
  to.key("runs");
  to.begin_array();
  for (const PairRun& run : pair_runs(frequencies)) {
    to.begin_object();
    to.member("change", tool::name_of(run.change));
    to.member("first", run.first);
    to.member("last", run.last);
    to.end_object();
  }
  to.end_array();
  to.key("frequencies");
  to.begin_array();
  for (const auto& frequency : frequencies.inv_freq) to.value(static_cast<double>(frequency));
  to.end_array();
  to.list("warnings", rope_warnings(rope, {.trained = model.trained_length,
                                           .longest = std::max(model.trained_length, model.context_length)}));
  to.end_object();
}

void write_groups(PageJson& to, const Model& model) {
  to.key("groups");
  to.begin_array();
  for (const LayerGroup& group : layer_groups(model)) {
    to.begin_object();
    to.list("layers", group.layers);
    to.member("encoding", encoding_name(group.layer.encoding));
    to.member("type", group.layer.type);
    to.member("window", group.layer.window);
    to.member("windowAfter", group.layer.window_after);
    to.member("part", group.layer.part);
    if (const Rope* rope = std::get_if<Rope>(&group.layer.encoding)) write_rope(to, *rope, model);
    to.end_object();
  }
  to.end_array();
}

/// Whether there is anything to go by: OtherEncoding is a name alone.
bool has_numbers(const Model& model) {
  bool silent = model.inputs.empty();
  for (const ModelInput& input : model.inputs) {
    if (!std::holds_alternative<OtherEncoding>(input.encoding)) return true;
  }
  for (const Layer& layer : model.layers) {
    const bool none = std::holds_alternative<NoPosition>(layer.encoding);
    if (!none && !std::holds_alternative<OtherEncoding>(layer.encoding)) return true;
    silent &= none;
  }
  return silent;
}

void write_sayings(PageJson& to, const Model& model) {
  to.key("sayings");
  to.begin_array();
  for (const Said& said : has_numbers(model) ? say_encodings(model) : std::vector<Said>()) {
    to.begin_object();
    to.member("text", said.text());
    to.member("name", said.description().name);
    to.member("title", said.description().title);
    to.end_object();
  }
  to.end_array();
}

}  // namespace

void answer_model(const json::Object& request, PageJson& to) {
  const Model model = parse_hf_config(request.text("config").value_or(""));
  to.begin_object();
  to.member("model_type", model.model_type);
  to.member("heads", model.heads);
  to.member("kv_heads", model.kv_heads);
  to.member("head_dim", model.head_dim);
  to.member("trained", model.trained_length);
  to.member("context", model.context_length);
  to.member("layers", static_cast<Index>(model.layers.size()));
  write_warnings(to, model);
  write_groups(to, model);
  to.key("inputs");
  to.begin_array();
  for (const ModelInput& input : model.inputs) {
    to.begin_object();
    to.member("encoding", encoding_name(input.encoding));
    to.member("part", input.part);
    to.end_object();
  }
  to.end_array();
  write_sayings(to, model);
  to.end_object();
}

}  // namespace bearing::explorer
