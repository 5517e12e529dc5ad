#pragma once

#include <bearing/io.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hf_families.hpp"
#include "json_file.hpp"

// The steps from a config.json to a Model, each on what the earlier ones found.

namespace bearing::hf {

/// A layer holds its own encoding, 1.5 KB and its numbers. The deepest models have a few hundred layers.
inline constexpr Index most_layers = 4'096;
/// Of every how many layers one is of another kind: a number past the last layer says that none is.
inline constexpr Index most_period = 65'536;
inline constexpr Index most_heads = 65'536;
inline constexpr Index most_head_dim = 65'536;
inline constexpr Index most_positions = max_position;
/// Of slopes or factors in all layers together, so that a hostile file's model stays at 8 MiB of them.
inline constexpr Index most_copied_numbers = Index{1} << 20;
/// Of pairs whose frequencies are resolved while a file is read: 192 bits for each, 30 microseconds.
inline constexpr Index most_resolved_pairs = Index{1} << 14;

using Keys = std::vector<std::string_view>;

/// Types of layers, as files call them.
inline constexpr const char *full_attention = "full_attention", *sliding_attention = "sliding_attention",
                            *linear_attention = "linear_attention";

/// One file's language model: the object that describes it, its row in the table, and its sizes.
struct Config {
  json::Object file;  ///< the text_config of a multimodal file
  Family family;
  bool known = true;  ///< model_type is in the table
  std::string model_type;
  std::string part = {};  ///< of a composite: "encoder", …

  Index heads = 0, kv_heads = 0, head_dim = 0, layers = 0;
  Index rotary_dim = 0;  ///< of latent attention (MLA), else 0
  Index positions = 0;   ///< max_position_embeddings, 0 if unknown
  Index window = 0;

  /// The class' own rope_scaling, for a file that has none; kept here because objects refer to it.
  std::shared_ptr<json::Document> class_scaling = {};

  std::vector<std::string> types = {};                              ///< of all layers
  std::set<std::string, std::less<>> kinds = {};                    ///< the different ones among them
  std::vector<std::pair<std::string_view, Index>> from_class = {};  ///< sizes that the file does not give

  json::Notes& notes() const { return file.notes(); }

  /// Whether the table says what the model's own code reads; and that code, for messages.
  bool states_its_code() const { return known && !family.is(remote_code); }
  std::string code() const;
  /// "default of llama", where a file does not give a number; and the warning that says so.
  std::string default_name() const { return "default of " + model_type; }
  void warn_of_default(std::string_view key, const std::string& value) const {
    file.warn(key, "not in the file; " + value + " is the " + default_name(), json::Weight::slight);
  }

  /// " (num_hidden_layers = 30: not in the file, the default of gemma4_text)" of keys of which this is so, else "".
  std::string defaults_among(const Keys& keys) const;
};

/// The one of several spellings that counts: what the model's own code reads, then the first of the list; "" if none is
/// there. Warns about others that say something else (`alike` compares; null: their values), and about one that the
/// model's code would not read.
using Alike = std::function<bool(const json::Object& file, std::string_view key, std::string_view counting)>;
std::string_view counting(const Config& config, const Keys& keys, const Alike& alike = {});

/// Those of several spellings that the family's own code reads, in our order.
Keys own_of(const Family& family, const Keys& keys);

/// The same for a file whose model's code is not looked at: the first of the list.
std::string_view counting(const json::Object& file, const Keys& keys, const Alike& alike = {});

/// Whether a word of layer_types is one that models use.
bool known_layer_type(std::string_view type);

/// heads, head_dim, layers, …: given, or the class' defaults, or derived.
void read_sizes(Config& config);

/// Whether its code runs with heads that are no whole part of the width, and with an odd number that turns: GLM-4.5's
/// class has 96 heads in 4096 dimensions. A head is rounded down, to 42; the 21 that turn are rounded up, to 22.
bool rounds_heads(const Config& config);

/// A base, and where it comes from (Layer::base_from).
struct Base {
  double value = 0;
  std::string from = {};
  bool operator<(const Base& other) const { return std::tie(value, from) < std::tie(other.value, other.from); }
};

/// What one layer has of its own: what its type and the file as a whole say holds where a member is empty.
struct LayerRope {
  Index head_dim = 0, rotary_dim = 0;  ///< rotary_dim of latent attention
  bool none = false;                   ///< nothing turns
  bool scaled = true;                  ///< the scaling holds for it
  std::optional<Base> base = {};
  std::optional<double> fraction = {};
  std::optional<double> stated_base = {};  ///< the file's word, which its code does not read
  std::optional<Index> window = {};
  bool operator<(const LayerRope& other) const {  // optional's <=> is younger than some standard libraries
    const auto all = [](const LayerRope& r) {
      return std::tie(r.head_dim, r.rotary_dim, r.none, r.scaled, r.base, r.fraction, r.stated_base, r.window);
    };
    return all(*this) < all(other);
  }
};
std::vector<LayerRope> read_layer_ropes(const Config& config);

/// A letter per layer: F full, S sliding, R reference sliding, I indexed, H hybrid, L linear attention, C convolution,
/// K heavily compressed, P compressed and sparse, E experts (moe), M mlp, W window attention. They are repeated, those
/// before | are not; after $ stands the last layer; < counts from the back.
std::vector<std::string> types_by_pattern(std::string_view pattern, Index layers, bool slides);
const char* type_of_letter(char letter, bool slides);

/// What a hybrid model's own keys say of its layers (hf_hybrids.cc); nothing where the file has none of them.
std::optional<std::vector<std::string>> types_of_hybrid(const Config& config);

/// DeepSeek-V4 (hf_compressed.cc): the types that compress_ratios gives, one number per layer; the label of a type's
/// dictionary in rope_parameters; what its layers have of their own; and, once its rotation is read, where compressed
/// keys stand and that values turn.
inline constexpr double usual_compressed_base = 160'000;
std::optional<std::vector<std::string>> types_by_ratio(const Config& config);
std::string_view compressed_label(std::string_view layer_type);
void read_compressed(const Config& config, std::vector<LayerRope>& layers);
std::map<std::string, std::string> positions_of_compressed(const Config& config);  ///< by type, empty for other models
void finish_compressed(const std::map<std::string, std::string>& positions, Layer& layer);
void warn_about_the_indexer(const Config& config);

/// The rotary encoding of layers of a type, and where its base comes from; nothing if the file says that they have
/// none.
struct Rotation {
  Rope rope;
  std::string base_from = {};
};
std::optional<Rotation> read_rope(const Config& config, const std::string& layer_type, const LayerRope& layer);

/// Whether its code has rotary parameters for each layer type; and whether its older files have them too, in keys
/// beside one flat dictionary (Gemma 3, ModernBERT, OLMo 3).
bool groups_per_type(const Family& family);
bool bases_per_type(const Family& family);

/// Throws for a key whose meaning is not known; warns about one that the model's own code does not read.
void refuse_by_key(const Config& config);

/// An unknown model with qk_rope_head_dim: its last dimensions turn, neighbours unless rope_interleave is false.
void assume_latent_attention(Config& config);

/// What queries of such a layer are multiplied by, if anything.
std::optional<PositionTemperature> read_temperature(const Config& config, const Layer& layer);

/// RoPE's scaling from one dictionary of parameters (hf_scaling.cc).
class Parameters;
RopeScaling read_scaling(const Config& config, const Parameters& parameters, Index rotary_dim);

/// RoPE's axes: M-RoPE's sections (hf_sections.cc).
RopeAxes read_axes(const Config& config, const Parameters& parameters, Index rotary_dim);

/// A layer's window, which is the file's number of tokens, as the model's code counts it (hf_windows.cc).
void see_as_its_code_does(const Config& config, Layer& layer);

/// A layer whose queries see their own chunk of so many tokens, both ways, and `before` chunks before it (−1: all).
void see_chunks(Layer& layer, Index chunk, Index before);

/// What the layers of a model that is not rotary see, where its code has windows or chunks.
void read_windows(const Config& config, Model& model);

/// All layers: type, window and encoding. Fills config.types and config.kinds.
std::vector<Layer> read_layers(Config& config);

/// Whether the file has keys that only rotary models have.
bool has_rotary_keys(const json::Object& file);

/// Fills the model if it is known not to be rotary, by model_type or by a flag in the file; else false (hf_other.cc).
bool read_not_rotary(const Config& config, Model& model);

/// What a model that is not rotary adds to its input, and what its layers add to scores; false for a model_type whose
/// numbers are not read (hf_inputs.cc, hf_scores.cc).
bool read_inputs(const Config& config, Model& model);
void read_inputs_beside_rotation(const Config& config, Model& model);
bool read_scores(const Config& config, Model& model);

/// Adds so many layers, all alike (hf_scores.cc).
void all_layers(Model& model, Index count, const LayerEncoding& encoding, const std::string& part = {});

/// Of these, the rotary towers of several axes (hf_axial.cc), atoms (hf_atoms.cc), Conformers (hf_conformers.cc), and
/// the other towers and documents (hf_tower_scores.cc).
bool read_axial(const Config& config, Model& model);
bool read_atoms(const Config& config, Model& model);
void limit_atoms(const json::Object& file, Model& model);  ///< the whole file says what the atoms of its parts see
bool read_conformers(const Config& config, Model& model);
bool read_tower_scores(const Config& config, Model& model);

/// … and relative logits made by content (hf_relative_logits.cc).
bool read_relative_logits(const Config& config, Model& model);

/// … and pairs with an angle for each member (hf_two_angles.cc): of all layers, or of a rotary model's rope.
bool read_two_angles(const Config& config, Model& model);
std::optional<ElementwiseRope> with_two_angles(const Config& config, const Rope& rope);

/// Regions of one softmax, of a model whose layers are read (hf_regions.cc).
void read_regions(const Config& config, Model& model);

/// Model::task of a whole file.
std::string task_of(const json::Object& file);

/// Every model_type that the tables name: those that are known by name, that act on scores, on the input, and rotary
/// ones. Each adds those of its file.
std::vector<std::string_view> model_types();
void add_score_types(std::vector<std::string_view>& to);
void add_axial_types(std::vector<std::string_view>& to);
void add_atom_types(std::vector<std::string_view>& to);
void add_conformer_types(std::vector<std::string_view>& to);
void add_tower_score_types(std::vector<std::string_view>& to);
void add_relative_logits_types(std::vector<std::string_view>& to);
void add_input_types(std::vector<std::string_view>& to);
void add_named_types(std::vector<std::string_view>& to);
void add_rotary_types(std::vector<std::string_view>& to);

/// A size of a model that is not rotary: given, or the default of its class, with a warning.
Index plain_size(const json::Object& file, const Keys& keys, Index usual, Index most = most_heads * most_head_dim);

/// image_size (or another key) over patch_size, numbers or pairs of them, each way rounded down.
GridSize divided_image(const json::Object& file, Index usual_image, Index usual_patch,
                       std::string_view image_key = "image_size");

/// Whether that is a grid: 1 to 65,536 patches each way.
bool is_patch_grid(const GridSize& grid);

/// Patches of an image, as divided_image() says. Throws ConfigError unless they are a grid.
GridSize patch_grid(const json::Object& file, Index usual_image, Index usual_patch,
                    std::string_view image_key = "image_size");

/// The parameters of one layer type: rope_scaling, rope_parameters or both, the first that has a key counting.
class Parameters {
 public:
  void add(json::Object part) { parts_.push_back(std::move(part)); }
  bool empty() const { return parts_.empty(); }
  const std::vector<json::Object>& parts() const { return parts_; }

  const json::Object* with(std::string_view key) const;  ///< the part that has a key, or null
  std::optional<double> number(std::string_view key, json::Range range) const;
  std::optional<Index> integer(std::string_view key, Index least, Index most) const;
  std::optional<bool> flag(std::string_view key) const;
  std::string pointer(std::string_view key) const;
  [[noreturn]] void missing(std::string_view key, const std::string& wanted) const;
  void warn(std::string_view key, const std::string& text) const;

  /// rope_type, or type, which older files use; "default" if neither is there.
  std::string type() const;

 private:
  std::vector<json::Object> parts_;
};

/// Where a layer type's parameters stand: `absent` if the file says that its layers have no encoding (null).
struct LayerParameters {
  Parameters parameters;
  bool absent = false;
  bool per_type = false;  ///< in a dictionary of this type's own
};
LayerParameters find_parameters(const Config& config, const std::string& layer_type);

/// The pointer of the class' own dictionary.
inline constexpr const char* class_default = "/(class default)";

inline constexpr json::Range factor_range{1e-6, 1e12};
inline constexpr json::Range base_range{.least = 1, .most = 1e100, .above = true};

}  // namespace bearing::hf
