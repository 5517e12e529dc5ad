// GGUF files in, and the rotary part of one out.

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <array>
#include <bearing/gguf.hpp>

#include "bind.hpp"
#include "config_given.hpp"
#include "records.hpp"
#include "specs.hpp"
#include "values.hpp"

namespace bearing::python {

namespace {

/// The format's numbers are the places here.
constexpr std::array<const char*, 13> type_names = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                    "bool", "string", "array", "u64", "i64", "f64"};

nb::object value_object(const GgufEntry& entry) {
  if (const auto* word = std::get_if<std::string>(&entry.value)) return text(*word);
  if (const auto* real = std::get_if<double>(&entry.value)) return nb::float_(*real);
  if (const auto* whole = std::get_if<std::int64_t>(&entry.value)) {
    return entry.type == GgufType::boolean ? nb::object(nb::bool_(*whole != 0)) : nb::object(nb::int_(*whole));
  }
  nb::list list;
  for (const std::int64_t one : std::get<std::vector<std::int64_t>>(entry.value)) list.append(nb::int_(one));
  return list;
}

nb::object metadata_of(const GgufRope& part) {
  nb::dict all;
  for (const GgufEntry& entry : part.metadata) all[text(entry.key)] = value_object(entry);
  return all;
}

nb::object types_of(const GgufRope& part) {
  nb::dict all;
  for (const GgufEntry& entry : part.metadata) {
    const bool list = std::holds_alternative<std::vector<std::int64_t>>(entry.value);
    all[text(entry.key)] = text(std::string(type_names.at(static_cast<std::size_t>(entry.type))) + (list ? "[]" : ""));
  }
  return all;
}

nb::object tensors_of(const GgufRope& part) {
  nb::dict all;
  for (const GgufFactors& one : part.tensors) {
    all[text(one.name)] = object_of(Value(Tensor{{static_cast<Index>(one.values.size())}, one.values}));
  }
  return all;
}

Model read(nb::handle path) {
  const std::string file = path_of(path);
  const Unlocked released;
  return read_gguf(file);
}

GgufModel model_of(const Model& model, const std::string& architecture) {
  const Unlocked released;
  return gguf_model(model, architecture);
}

nb::bytes bytes_of(const GgufModel& model) {
  const std::string bytes = gguf_bytes(model);
  return nb::bytes(bytes.data(), bytes.size());
}

nb::list architectures() {
  nb::list all;
  for (const std::string_view one : gguf_architectures()) all.append(nb::str(one.data(), one.size()));
  return all;
}

}  // namespace

void bind_gguf(nb::module_& m) {
  record<GgufRope>(
      m, "GgufRope", "The rotary part of a GGUF file. gguf_rope() returns it; str() of it has a line for each key.",
      {{"metadata", "dict[str, Any]", metadata_of, "The keys, and what they hold."},
       {"types", "dict[str, str]", types_of, "The format's type of each key: 'u32', 'f32', 'string', 'i32[]'."},
       {"tensors", "dict[str, Array]", tensors_of, "The tensors that llama.cpp divides frequencies by, [n]."}})
      .def(
          "__str__", [](const GgufRope& self) { return to_text(self); }, nb::sig("def __str__(self) -> str"));
  record<GgufModel>(
      m, "GgufModel", "What a GGUF file must hold of a model's positions. gguf_model() returns it.",
      {{"architecture", "str", [](const GgufModel& x) { return text(x.architecture); },
        "llama.cpp's name of the code."},
       {"part", "GgufRope", [](const GgufModel& x) { return nb::cast(x.part); }, "The keys and the tensors."},
       {"warnings", "tuple[ConfigWarning, ...]", [](const GgufModel& x) { return tuple_of(x.warnings); },
        "What its user must do, or what was left out."}});
  m.def("read_gguf", read, nb::arg("path"), nb::sig("def read_gguf(path: str | bytes | os.PathLike[str]) -> Model"),
        "Reads what a GGUF file says about positions, and returns it as a Model, as llama.cpp computes it.\n\n"
        "path: a GGUF file of version 2 or 3. Of its tensors only those of frequencies' factors are read.\n\n"
        "Raises ConfigError. Its text names the file, the byte or the key, what must hold and what was found.");
  m.def("gguf_rope", gguf_rope, nb::arg("rope"), nb::arg("architecture"),
        nb::sig("def gguf_rope(rope: Rope, architecture: str) -> GgufRope"),
        "Returns what a GGUF file of an architecture must hold so that llama.cpp turns queries and keys as the spec "
        "says.\n\n"
        "architecture: one of gguf_architectures(), such as 'llama'.\n\n"
        "Raises ConfigError for what the architecture's code cannot do, such as another pairing, and names it.");
  m.def("gguf_model", model_of, nb::arg("model"), nb::arg("architecture") = "",
        nb::sig("def gguf_model(model: Model, architecture: str = '') -> GgufModel"),
        "Returns what a GGUF file must hold so that llama.cpp turns queries and keys of all layers as the model's file "
        "says. It is read again, and every layer must come out the same.\n\n"
        "model: what read_hf_config() returns.\n"
        "architecture: one of gguf_architectures(); the one that gguf_architecture_of() gives if it is empty.\n\n"
        "Raises ConfigError for an architecture that is not known, and for a layer that its code computes in another "
        "way; names the layer.");
  m.def("gguf_bytes", bytes_of, nb::arg("model"), nb::sig("def gguf_bytes(model: GgufModel) -> bytes"),
        "Returns a GGUF file of version 3 that holds that part of a model, and no weights but its factors.");
  m.def("gguf_architecture_of", gguf_architecture_of, nb::arg("model_type"),
        nb::sig("def gguf_architecture_of(model_type: str) -> str"),
        "Returns llama.cpp's name for the code of a model type of transformers, 'llama' for 'mistral'; '' if it is not "
        "known.");
  m.def("gguf_architectures", architectures, nb::sig("def gguf_architectures() -> list[str]"),
        "Names the architectures that read_gguf() knows, sorted.");
}

}  // namespace bearing::python
