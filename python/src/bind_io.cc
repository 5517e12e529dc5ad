// Model files in, encodings out.

#include <nanobind/stl/optional.h>

#include <bearing/io.hpp>

#include "bind.hpp"
#include "config_given.hpp"
#include "records.hpp"
#include "rope_tables.hpp"

namespace bearing::python {

namespace {

/// The spec of each encoding, in a tuple.
nb::object objects_of_specs(const std::vector<LayerEncoding>& all) {
  nb::list list;
  for (const LayerEncoding& one : all) list.append(object_of_spec(one));
  return nb::tuple(list);
}

/// From a path, a dictionary or an object with to_dict(), as transformers' configs have.
Model model_from(nb::handle config, const char* function) {
  const ConfigGiven given = config_given(config, function);
  const Unlocked released;
  return given.is_path ? read_hf_config(given.path) : parse_hf_config(given.text, given.path);
}

template <class S>
bool equal(const std::any& a, const std::any& b) {
  return std::any_cast<const S&>(a) == std::any_cast<const S&>(b);
}

// What a file may say in place of an encoding that the library describes.

const RecordType& no_position() {
  static const RecordType type{.name = "NoPosition",
                               .text = "A layer without any positional encoding.",
                               .type = typeid(NoPosition),
                               .initial = NoPosition{},
                               .members = {},
                               .equal = equal<NoPosition>};
  return type;
}

MemberInfo word_of_other(const char* name, const char* text, std::string OtherEncoding::*member) {
  return {.name = name,
          .text = text,
          .type = {.kind = Kind::word},
          .get = [member](const std::any& of) -> Value { return std::any_cast<const OtherEncoding&>(of).*member; },
          .set = [member](
                     std::any& of,
                     const Value& value) { std::any_cast<OtherEncoding&>(of).*member = std::get<std::string>(value); }};
}

const RecordType& other_encoding() {
  static const RecordType type{
      .name = "OtherEncoding",
      .text = "An encoding that is recognised by its name. Its numbers are not read.",
      .type = typeid(OtherEncoding),
      .initial = OtherEncoding{},
      .members = {word_of_other("name", "The encoding's name, as the file has it.", &OtherEncoding::name),
                  word_of_other("why", "Why its numbers are not read, where there is more to say.",
                                &OtherEncoding::why)},
      .equal = equal<OtherEncoding>};
  return type;
}

nb::object limits_of(const Window& window) {
  const bool limits = window.before >= 0 || window.after >= 0;
  return limits ? nb::object(nb::make_tuple(window.before, window.after)) : nb::none();
}

nb::object limits_of(const Band& band) { return band.limits() ? spec_object(Record::of(band)) : nb::none(); }

void bind_layers(nb::module_& m) {
  bind_record(m, no_position());
  bind_record(m, other_encoding());
  record<Layer>(
      m, "Layer", "What one layer of a model does with positions.",
      {{"encoding", "Any", [](const Layer& l) { return object_of_spec(l.encoding); },
        "The spec of an encoding, NoPosition or OtherEncoding."},
       {"name", "str", [](const Layer& l) { return text(encoding_name(l.encoding)); },
        "The encoding's name in the literature: 'rope', 'alibi', 't5', …; 'none'."},
       {"type", "str", [](const Layer& l) { return text(l.type); },
        "What the file calls the layer's type: full_attention, sliding_attention, …"},
       {"window", "int", [](const Layer& l) { return number(l.window); },
        "The sliding window or chunk in tokens: the query and those before it that it sees; 0 if there is none."},
       {"window_after", "int", [](const Layer& l) { return number(l.window_after); },
        "How many tokens after the query the window holds, where the layer looks both ways: ModernBERT, …"},
       {"chunks_before", "int", [](const Layer& l) { return number(l.chunks_before); },
        "How many chunks before its own the query sees too, in a layer of chunks; -1 for all: SeamlessM4T 2."},
       {"attention_window", "tuple[int, int] | None", [](const Layer& l) { return limits_of(l.attention_window()); },
        "What attention() takes as window: (before, after), or None if it has no window or sees chunks. None too for "
        "windows of the image (window_attention): each is a packed sequence."},
       {"attention_band", "DistanceBand | None", [](const Layer& l) { return limits_of(l.attention_band()); },
        "What attention() takes as band: the query's chunk and chunks_before, or None if it does not see chunks. "
        "None too for windows of the image (window_attention): each is a packed sequence."},
       {"part", "str", [](const Layer& l) { return text(l.part); },
        "'encoder' or 'decoder' in a model that has both, else ''."},
       {"temperature", "Any",
        [](const Layer& l) -> nb::object { return l.temperature ? object_of_spec(*l.temperature) : nb::none(); },
        "The spec of what multiplies queries (Llama 4, Ministral 3), or None."},
       {"also", "tuple[Any, ...]", [](const Layer& l) { return objects_of_specs(l.also); },
        "The specs of further encodings beside the first (LayoutLMv3's tables)."},
       {"positions", "str", [](const Layer& l) { return text(l.positions); },
        "What a token's position is, if it is not its index: 'row and column of the patch, from 0'."},
       {"grid", "tuple[int, int]",
        [](const Layer& l) -> nb::object { return nb::make_tuple(l.grid.height, l.grid.width); },
        "The patches of the images that it was trained on (Pixtral: of the largest), rows and columns: image_size over "
        "patch_size, the file's or, with a warning, the class' defaults; (0, 0) if images have any size, or these give "
        "no grid."},
       {"span", "float", [](const Layer& l) -> nb::object { return nb::float_(l.span); },
        "Positions run from -span to span across the image, whatever its size: DINOv3; 0 if they count patches."},
       {"values", "Any", [](const Layer& l) -> nb::object { return l.values ? object_of_spec(*l.values) : nb::none(); },
        "The Rope that turns values, and back what they add up to (RotaryValues): DeepSeek-V4; or None."},
       {"base_from", "str", [](const Layer& l) { return text(l.base_from); },
        "Where the base of its rotation comes from: 'rope_theta', 'default of llama'; '' if not told."}});
  record<ModelInput>(
      m, "ModelInput", "What is added to the input of a model.",
      {{"encoding", "Any", [](const ModelInput& i) { return object_of_spec(i.encoding); },
        "The spec of an encoding of inputs, or OtherEncoding."},
       {"name", "str", [](const ModelInput& i) { return text(encoding_name(i.encoding)); },
        "The encoding's name in the literature."},
       {"part", "str", [](const ModelInput& i) { return text(i.part); },
        "'encoder' or 'decoder' in a model that has both, else ''."},
       {"first_position", "int", [](const ModelInput& i) { return number(i.first_position); },
        "The position of the first token: 2 in fairseq's sinusoidal tables."},
       {"positions", "str", [](const ModelInput& i) { return text(i.positions); },
        "What a token's position is, if it is not its index."},
       {"length", "int", [](const ModelInput& i) { return number(i.length); },
        "Tokens of its part, where the file says so and the encoding does not; else 0."},
       {"label", "str", [](const ModelInput& i) { return text(i.label); },
        "Which of several inputs of its part: LayoutLM's 'text', 'x', 'y', 'height', 'width'; else ''."}});
  record<ConfigWarning>(m, "ConfigWarning", "A warning: something in a file may be a mistake, or users should know it.",
                        {{"pointer", "str", [](const ConfigWarning& w) { return text(w.pointer); },
                          "The JSON pointer of the key; '' for the whole file."},
                         {"text", "str", [](const ConfigWarning& w) { return text(w.text); }, "The warning."}});
  record<LayerGroup>(
      m, "LayerGroup", "Layers that are alike in everything.",
      {{"layers", "tuple[int, ...]", [](const LayerGroup& g) { return Member<std::vector<Index>>::to(g.layers); },
        "The layers' indices."},
       {"layer", "Layer", [](const LayerGroup& g) { return nb::cast(g.layer); },
        "What each of the layers does with positions."}});
}

}  // namespace

Rope rope_from_config(nb::handle config, std::optional<Index> layer) {
  const Model model = model_from(config, "from_config");
  const auto count = static_cast<Index>(model.layers.size());
  if (layer && (*layer < 0 || *layer >= count)) {
    throw RangeError("[from_config] layer: must be from 0 to " + std::to_string(count - 1) + ", got " +
                     std::to_string(*layer));
  }
  const Rope* found = nullptr;
  for (Index i = 0; i < count; ++i) {
    if (layer && i != *layer) continue;
    const auto* rope = std::get_if<Rope>(&model.layers[static_cast<std::size_t>(i)].encoding);
    if (rope == nullptr) continue;
    if (found != nullptr && !(*rope == *found)) {
      throw ConfigError("[from_config] layer: must be given, as the layers of " + model.file +
                        " have different rotary encodings; read_hf_config() has them all");
    }
    found = rope;
  }
  if (found == nullptr) {
    throw ConfigError("[from_config] config: must have a rotary encoding, got " +
                      encoding_name(model.layers[static_cast<std::size_t>(layer.value_or(0))].encoding));
  }
  return *found;
}

void bind_io(nb::module_& m) {
  bind_layers(m);
  record<Model>(
      m, "Model", "What a model's file says about positions. read_hf_config() returns it.",
      {{"file", "str", [](const Model& x) { return text(x.file); }, "The file's path."},
       {"part", "str", [](const Model& x) { return text(x.part); },
        "What a composite's part is: 'vision tower', 'audio tower', 'encoder', …; '' for the language model."},
       {"model_type", "str", [](const Model& x) { return text(x.model_type); },
        "The model's type, as the file has it."},
       {"task", "str", [](const Model& x) { return text(x.task); },
        "What the model's class is for, as choose() calls it; '' if the file's `architectures` do not say."},
       {"heads", "int", [](const Model& x) { return number(x.heads); }, "How many heads queries have."},
       {"kv_heads", "int", [](const Model& x) { return number(x.kv_heads); }, "How many heads keys and values have."},
       {"head_dim", "int", [](const Model& x) { return number(x.head_dim); },
        "How many dimensions a head of queries or keys has."},
       {"trained_length", "int", [](const Model& x) { return number(x.trained_length); },
        "How many tokens the model was trained for, before any stretching; 0 if the file does not say."},
       {"context_length", "int", [](const Model& x) { return number(x.context_length); },
        "How many tokens the model serves; 0 if the file does not say."},
       {"layers", "tuple[Layer, ...]", [](const Model& x) { return tuple_of(x.layers); },
        "The layers; the encoder's come first."},
       {"inputs", "tuple[ModelInput, ...]", [](const Model& x) { return tuple_of(x.inputs); },
        "What is added to the input."},
       {"warnings", "tuple[ConfigWarning, ...]", [](const Model& x) { return tuple_of(x.warnings); },
        "Warnings about the file, its towers too."},
       {"towers", "tuple[Model, ...]", [](const Model& x) { return tuple_of(x.towers); },
        "The other parts of a composite, each with its own layers and inputs."},
       {"regions", "DualChunk | None",
        [](const Model& x) -> nb::object {
          return x.regions ? spec_object(Record::of(x.regions->chunks)) : nb::none();
        },
        "The regions of one softmax that the file asks for: attention()'s argument; or None."}})
      .def(
          "softmax_factor",
          [](const Model& self, Index length) { return self.regions ? self.regions->softmax_factor(length) : 1.0; },
          nb::arg("length"), nb::sig("def softmax_factor(self, length: int) -> float"),
          "Returns what the scale of the softmax is multiplied by in a text of so many tokens: more than 1 with "
          "regions "
          "alone.")
      .def(
          "layer_groups", [](const Model& self) { return tuple_of(layer_groups(self)); },
          nb::sig("def layer_groups(self) -> tuple[LayerGroup, ...]"),
          "Returns groups of layers that are alike in everything, in the order of their first layers.");
  m.def(
      "layer_groups", [](const Model& model) { return tuple_of(layer_groups(model)); }, nb::arg("model"),
      nb::sig("def layer_groups(model: Model) -> tuple[LayerGroup, ...]"),
      "Returns groups of a model's layers that are alike in everything, as model.layer_groups() does.");
  m.def(
      "read_hf_config", [](nb::handle config) { return model_from(config, "read_hf_config"); },
      nb::arg("config").none(), nb::sig("def read_hf_config(config: ConfigSource) -> Model"),
      "Reads what a Hugging Face config says about positions, and returns it as a Model.\n\n"
      "config: a path, a dictionary, or a config object of transformers.\n\n"
      "Raises ConfigError. Its text names the file, the line and column or the JSON pointer, what must hold and what "
      "was found.\n"
      "Nothing is fetched, executed or written.");
}

}  // namespace bearing::python
