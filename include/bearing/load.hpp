#pragma once

#include <bearing/description.hpp>
#include <bearing/export.hpp>
#include <bearing/io.hpp>
#include <string>
#include <vector>

// A model's folder in, its encodings with their numbers out: what config.json says, and the tables that training
// learned, from the weights beside it. Link `bearing::io`.

namespace bearing {

/// A parameter of an encoding, with the numbers of a trained model.
struct LoadedParameter {
  std::string name;    ///< as the encoding's description has it: "table"
  std::string tensor;  ///< what the weights call it
  Tensor numbers;      ///< float32, in the shape that the encoding takes
};

/// An encoding of some layers, or of an input, ready to be made.
struct LoadedEncoding {
  Record spec;                             ///< empty where there is none, and where the encoding takes none
  const EncodingInfo* encoding = nullptr;  ///< null: none, or `missing` says why
  std::vector<LoadedParameter> parameters = {};
  /// Parameters that the model computes from its input for each call, and that are not among `parameters`: Inkling's r,
  /// XLNet's segments.
  std::vector<std::string> per_call = {};
  /// What a model multiplies those by first, heads before their second axis: Inkling 2's scale of r [heads, rank].
  std::vector<LoadedParameter> factors = {};
  std::vector<Index> layers = {};  ///< which layers of the model have it; none: it acts on the input
  std::string part = {};           ///< "encoder" or "decoder", in a model that has both
  std::string missing = {};        ///< why its numbers are not there
};

struct LoadedModel {
  Model model;
  std::vector<LoadedEncoding> inputs = {};  ///< as many as model.inputs
  std::vector<LoadedEncoding> layers = {};  ///< a layer of the model may be in several: a temperature, two more tables
  std::vector<LoadedModel> towers = {};     ///< as many as model.towers
  std::string missing = {};                 ///< of a tower: why nothing of it was read
};

/// Reads config.json of a folder and the tables of its encodings from model.safetensors, or from the files of its
/// index. Only those files are opened that hold them.
///
/// Throws ConfigError as read_hf_config() and Weights do, for a table that is not there or is there twice, for a shape
/// that contradicts the config (both are named), and for numbers that are not finite. In a tower nothing throws: its
/// `missing` says it.
///
/// length: the tokens to serve, for encodings whose rows are computed for each distance (Transformer-XL, XLNet and
/// Parakeet without clamp_len); 0: not stated, and `missing` asks for it.
BEARING_EXPORT LoadedModel load_model(const std::string& folder, Index length = 0);

}  // namespace bearing
