#pragma once

#include <bearing/view.hpp>
#include <span>
#include <string_view>

// What model types add to their input, as data.

namespace bearing::hf {

enum class InputKind {
  learned,        ///< a table; `extra` rows before that of position 0 (2 in BART, OPT, BioGPT: fairseq's padding slots)
  after_padding,  ///< positions begin after the padding row, and the file counts rows (RoBERTa)
  patches,        ///< learned: one row per patch, and `extra` before them (class and distillation tokens)
  grid,           ///< the same, where the file states the grid (`positions` is a side)
  concatenated,   ///< sinusoidal [sin|cos], 2i/dim (Marian, Pegasus, CTRL)
  interleaved,    ///< sinusoidal, sine and cosine in turn, 2i/dim
  tensor2tensor,  ///< sinusoidal [sin|cos], i/(dim/2 - 1) (Whisper); `extra` is the first position
  cos_first,      ///< the same with cosines first (MusicGen)
  fairseq,        ///< tensor2tensor's layout, a zero row for padding, first position after it
  grid_sinusoids,  ///< sinusoidal on two axes, MAE's layout; positions are columns and rows of patches
};

/// What stands for a token's position where a model's code makes the rows of an image from those of the table, for
/// each image's grid. Only on the table's own grid is a row that of a patch.
namespace resampled {
inline constexpr const char* corners =
    "index of the patch on the table's own grid; the code resizes the table to the image's, linear, align_corners";
inline constexpr const char* linear =
    "index of the patch on the table's own grid; the code resizes the table to the image's, linear";
inline constexpr const char* zeros =
    "index of the patch on the table's own grid; the code resizes the table to the image's, linear, with zeros around "
    "it";
inline constexpr const char* cubic =
    "index of the patch on the table's own grid; the code resizes the table to the image's, cubic";
inline constexpr const char* antialias =
    "index of the patch on the table's own grid; the code resizes the table to the image's, linear, antialias";
inline constexpr const char* shares =
    "index on the table's own grid of the place at the patch's share of the image's height and width";
}  // namespace resampled

struct InputRow {
  std::string_view model_type;
  InputKind kind;
  Index positions, dim;  ///< what the configuration class assumes; patches: the image's side, and the hidden size
  Index extra = 0;
  Index patch = 0;                  ///< patches: a patch's side
  const char* key = nullptr;        ///< of the positions, where it is not one of the common ones
  const char* dim_key = nullptr;    ///< as key
  std::string_view part = {};       ///< "encoder", "decoder", or "both" for one each
  const char* token_position = "";  ///< what counts as a token's position, if not its index
  std::string_view label = {};      ///< which of a type's several inputs
};

/// Whether a position is one of `resampled`.
bool is_resampled(std::string_view position);

/// One row per encoding, those of a type in order (hf_input_rows.cc).
std::span<const InputRow> input_rows();

}  // namespace bearing::hf
