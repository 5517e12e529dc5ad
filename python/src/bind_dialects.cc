// Configs in another spelling, and positions of diffusion transformers' tokens.

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bearing/hf_spelling.hpp>
#include <bearing/picture_positions.hpp>

#include "bind.hpp"
#include "config_given.hpp"
#include "records.hpp"
#include "specs.hpp"
#include "values.hpp"

namespace bearing::python {

namespace {

HfSpelling spelling_of(const std::string& word, const char* function) {
  if (word != "v4" && word != "v5") Argument{function, "spelling"}.fail("'v4' or 'v5'", "'" + word + "'");
  return word == "v4" ? HfSpelling::v4 : HfSpelling::v5;
}

SpelledConfig spell(nb::handle config, const std::string& spelling) {
  const ConfigGiven given = config_given(config, "spell_hf_config");
  const HfSpelling wanted = spelling_of(spelling, "spell_hf_config");
  const Unlocked released;
  return given.is_path ? spell_hf_config_file(given.path, wanted) : spell_hf_config(given.text, wanted, given.path);
}

nb::object older(nb::handle config) {
  const ConfigGiven given = config_given(config, "older_reader_warnings");
  std::vector<ConfigWarning> warnings;
  {
    const Unlocked released;
    warnings =
        given.is_path ? older_reader_warnings_of_file(given.path) : older_reader_warnings(given.text, given.path);
  }
  return tuple_of(warnings);
}

nb::object members_of(const Rope& rope, const std::string& spelling) {
  return nb::module_::import_("json").attr("loads")(hf_rope(rope, spelling_of(spelling, "hf_rope")));
}

using Grid = std::array<Index, 3>;

VideoGrid grid_of(const Grid& grid) { return {grid[0], grid[1], grid[2]}; }

nb::object positions(const std::string& model, const Grid& grid, Index text, const std::vector<Grid>& references,
                     Index trained_height, Index trained_width, double fps, const std::array<double, 3>& step) {
  PictureRequest request{.grid = grid_of(grid),
                         .text = text,
                         .trained_height = trained_height,
                         .trained_width = trained_width,
                         .fps = fps,
                         .step = step};
  for (const Grid& reference : references) request.references.push_back(grid_of(reference));
  Tensor tensor;
  {
    const Unlocked released;
    PicturePositions found = picture_positions(model, request);
    tensor = {{found.axes, found.tokens}, std::move(found.values)};
  }
  return object_of(Value(std::move(tensor)));
}

}  // namespace

void bind_dialects(nb::module_& m) {
  record<SpelledConfig>(
      m, "SpelledConfig", "A config in another spelling. spell_hf_config() returns it.",
      {{"text", "str", [](const SpelledConfig& x) { return text(x.text); }, "The text of the file."},
       {"warnings", "tuple[ConfigWarning, ...]", [](const SpelledConfig& x) { return tuple_of(x.warnings); },
        "What readers that know the other spelling alone make of the text."}});
  m.def("spell_hf_config", spell, nb::arg("config").none(), nb::arg("spelling"),
        nb::sig("def spell_hf_config(config: ConfigSource, spelling: Literal['v4', 'v5']) -> SpelledConfig"),
        "Writes a Hugging Face config in the spelling of transformers 4 (rope_theta, rope_scaling) or 5 "
        "(rope_parameters), and returns it as a SpelledConfig.\n\n"
        "config: a path, a dictionary, or a config object of transformers. Only rotary keys change: the other bytes of "
        "a file stay as they are.\n\n"
        "Raises ConfigError where the spelling cannot say what the config says: what is written is read again, and "
        "must be the same model in every layer.");
  m.def(
      "older_reader_warnings", older, nb::arg("config").none(),
      nb::sig("def older_reader_warnings(config: ConfigSource) -> tuple[ConfigWarning, ...]"),
      "Returns what a reader makes of a config that knows rope_theta and rope_scaling alone, as transformers before 5 "
      "does: a warning for each part of the model that it takes for another one.\n\n"
      "config: a path, a dictionary, or a config object of transformers.\n\n"
      "Raises ConfigError, as read_hf_config() does.");
  m.def("hf_rope", members_of, nb::arg("rope"), nb::arg("spelling"),
        nb::sig("def hf_rope(rope: Rope, spelling: Literal['v4', 'v5']) -> dict[str, Any]"),
        "Returns a rotary spec as the members of a Hugging Face config, such as {'rope_theta': 500000, ...}.\n\n"
        "Static NTK (NtkScaling), for which configs have no word, is written as the base that it makes.\n\n"
        "Raises ConfigError for what the spelling cannot say.");
  m.def("picture_positions", positions, nb::arg("model"), nb::arg("grid"), nb::arg("text") = 0,
        nb::arg("references") = std::vector<Grid>{}, nb::arg("trained_height") = 0, nb::arg("trained_width") = 0,
        nb::arg("fps") = 0.0, nb::arg("step") = std::array<double, 3>{8.0 / 25, 32, 32},
        nb::sig("def picture_positions(model: str, grid: tuple[int, int, int], text: int = 0, references: "
                "Sequence[tuple[int, int, int]] = (), trained_height: int = 0, trained_width: int = 0, fps: float = "
                "0.0, step: tuple[float, float, float] = (0.32, 32.0, 32.0)) -> Float64Array"),
        "Returns the positions that a diffusion transformer's code gives to its tokens, [axes, tokens].\n\n"
        "model: the _class_name of a diffusers config, such as 'QwenImageTransformer2DModel'.\n"
        "grid: frames, rows and columns in patches. references: those of further pictures (Flux, Flux 2, Qwen-Image).\n"
        "text: tokens of the prompt in the same attention.\n"
        "trained_height, trained_width: rows and columns that CogVideoX resizes to. fps: frames per second (Cosmos).\n"
        "step: seconds of a frame, pixels of its rows and columns (LTX).\n\n"
        "Raises ConfigError for another model, RangeError for a request that it has no place for.");
}

}  // namespace bearing::python
