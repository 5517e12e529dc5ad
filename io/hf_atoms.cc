#include "hf_reader.hpp"

// ESMFold2's atoms, which turn by where they are: three real coordinates and the number of their group. Facts:
// configuration_esmfold2.py and modeling_esmfold2.py of Hugging Face transformers 5.24.0.

namespace bearing::hf {
namespace {

constexpr std::string_view atoms = "esmfold2_atoms";
/// So many atoms of both sides together, by their index.
void see_width(Layer& layer, Index width) { layer.window = width / 2 + 1, layer.window_after = width / 2; }

constexpr const char* where = "x, y and z of the atom, and the number of its group";

}  // namespace

void add_atom_types(std::vector<std::string_view>& to) { to.push_back(atoms); }

bool read_atoms(const Config& config, Model& model) {
  if (config.model_type != atoms) return false;
  const json::Object& file = config.file;
  model.heads = model.kv_heads = plain_size(file, {"num_attention_heads"}, 4, most_heads);
  const Index dim =
      file.integer("head_dim", 2, most_head_dim).value_or(plain_size(file, {"hidden_size"}, 128) / model.heads);
  const Index of_axis = file.integer("num_spatial_rope_pairs_per_axis", 1, most_head_dim).value_or(2);
  const Index of_group = file.integer("num_uid_rope_pairs", 1, most_head_dim).value_or(10);
  const Index pairs = 3 * of_axis + of_group;
  if (dim < 2 * pairs || dim % 2 != 0 || dim > most_head_dim) {
    const std::string_view key = file.spelled({"head_dim", "hidden_size"});
    file.notes().fail(file.pointer(key.empty() ? "head_dim" : key),
                      "must give heads of an even number of dimensions from " + std::to_string(2 * pairs) +
                          ", for 3 num_spatial_rope_pairs_per_axis + num_uid_rope_pairs pairs, got " +
                          std::to_string(dim));
  }
  Rope rope{.head_dim = dim, .rotary_dim = dim, .pairing = Pairing::half};
  rope.axes = RopeAxes::axial({of_axis, of_axis, of_axis, of_group});
  const double space = file.number("spatial_rope_base_frequency", base_range).value_or(20);
  const double group = file.number("uid_rope_base_frequency", base_range).value_or(10'000);
  rope.axes.bases = {space, space, space, group};
  rope.axes.still = dim / 2 - pairs;
  model.head_dim = dim;
  const Index layers = plain_size(file, {"num_hidden_layers"}, 3, most_layers);
  Layer layer{.encoding = rope, .type = sliding_attention, .positions = where};
  see_width(layer, 128);
  model.layers.assign(static_cast<std::size_t>(layers), layer);
  return true;
}

void limit_atoms(const json::Object& file, Model& model) {
  if (file.text("model_type") != "esmfold2") return;
  const Index width = file.integer("sliding_window", 1, most_positions).value_or(128);
  for (Model& tower : model.towers) {
    for (Layer& layer : tower.layers) {
      if (tower.model_type == atoms && layer.type == sliding_attention) see_width(layer, width);
    }
  }
}

}  // namespace bearing::hf
