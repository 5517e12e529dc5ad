#pragma once

#include <array>
#include <bearing/export.hpp>
#include <bearing/positions.hpp>
#include <string>
#include <string_view>
#include <vector>

// Where the tokens of a diffusion transformer stand: patches of a picture or a video, and words of its prompt. Each
// family counts in a way of its own, and no file says it. Link `bearing::io`.

namespace bearing {

/// A picture or a video in patches: its size divided by the compression of the model's VAE and by its patch size.
struct VideoGrid {
  Index frames = 1, height = 0, width = 0;
  bool operator==(const VideoGrid&) const = default;
};

struct PictureRequest {
  VideoGrid grid;
  Index text = 0;  ///< tokens of the prompt that stand in the same attention
  /// Further pictures, to edit or to follow: Flux (one), Flux 2 and Qwen-Image.
  std::vector<VideoGrid> references = {};
  /// CogVideoX before 1.5: sample_height and sample_width of its config over its patch size; rows and columns are
  /// resized to them. 0 otherwise.
  Index trained_height = 0, trained_width = 0;
  double fps = 0;  ///< Cosmos: frames per second of a video; 0: a picture
  /// LTX: seconds of a frame of patches, pixels of their rows and columns. The default is LTX-Video at 25 frames per
  /// second.
  std::array<double, 3> step = {8.0 / 25, 32, 32};
  bool operator==(const PictureRequest&) const = default;
};

/// Positions of one sequence, in the order in which the model's attention has its tokens.
struct PicturePositions {
  Index axes = 0, tokens = 0;
  Index text_begin = 0;        ///< the first token of the prompt; `tokens` without a prompt
  std::vector<double> values;  ///< [axes, tokens]

  /// For rotate(): refers to `values`.
  Positions positions() const {
    return Positions(View<const double, 3>{values.data(), {axes, 1, tokens}, {tokens, tokens, 1}});
  }
};

/// The positions that a family's code gives to its tokens. `model` is the _class_name of a diffusers config:
///
///     FluxTransformer2DModel             [prompt, picture, reference]   picture, row, column; prompt at 0, 0, 0; a
///                                                                       reference is picture 1
///     Flux2Transformer2DModel            [prompt, picture, references]  picture, row, column, word; references at 10,
///                                                                       20, …
///     ZImageTransformer2DModel           [picture, prompt]              place, row, column; both parts are filled up
///                                                                       to multiples of 32 tokens
///     HunyuanVideoTransformer3DModel     [video, prompt]                frame, row, column; prompt at 0, 0, 0
///     WanTransformer3DModel              [video]                        frame, row, column
///     CogVideoXTransformer3DModel        [prompt, video]                frame, row, column, resized; prompt at 0, 0, 0
///     QwenImageTransformer2DModel        [prompt, picture, references]  picture, row and column from the middle; the
///                                                                       prompt goes on after the largest
///     LTXVideoTransformer3DModel         [video]                        4 (2 c − 1), c: coordinate over training's
///     MochiTransformer3DModel            [video, prompt]                frame, row and column from the middle
///     CosmosTransformer3DModel           [video]                        frame · 24 / fps, row, column
///     ChromaTransformer2DModel, BriaTransformer2DModel                  as Flux, without a reference
///     OvisImageTransformer2DModel        [prompt, picture]              0, row, column; word i at 0, i, i
///     LongCatImageTransformer2DModel     [prompt, picture]              1, row, column from 512; word i at 0, i, i
///     Lumina2Transformer2DModel          [prompt, picture]              place, row, column
///     HunyuanVideo15Transformer3DModel   [video, prompt]                as HunyuanVideo
///     HunyuanImageTransformer2DModel     [picture, prompt]              row, column; prompt at 0, 0
///     HunyuanDiT2DModel                  [picture]                      column, row, resized to 32 each way
///     WanVACETransformer3DModel, WanAnimateTransformer3DModel, SkyReelsV2Transformer3DModel   as Wan
///     ChronoEditTransformer3DModel       [video]                        as Wan; two frames are at 0 and 7
///     ConsisIDTransformer3DModel         [prompt, video]                as CogVideoX
///     CogView4Transformer2DModel         [prompt, picture]              row and column among 256; prompt at 0, 0
///     QwenImage21Transformer2DModel      [prompt, picture]              place, row and column from the middle
///     HiDreamImageTransformer2DModel     [picture, prompt]              0, row, column; prompt at 0, 0, 0
///     AllegroTransformer3DModel          [video]                        frame / 2.2, row / 2, column / 2
///
/// A token at 0, 0, 0 does not turn: so a prompt that the model's code leaves out of its rotation is in it without
/// harm. Throws ConfigError for another model, RangeError for a request that the family has no place for (a prompt of
/// Wan's) or with more than 2^24 tokens.
BEARING_EXPORT PicturePositions picture_positions(std::string_view model, const PictureRequest& request);

/// The models that picture_positions() knows.
BEARING_EXPORT std::vector<std::string_view> picture_models();

}  // namespace bearing
