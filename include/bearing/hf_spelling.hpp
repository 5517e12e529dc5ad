#pragma once

#include <bearing/export.hpp>
#include <bearing/io.hpp>
#include <string>
#include <string_view>
#include <vector>

// One model's config.json has two spellings: that of transformers 4 and that of transformers 5. Link `bearing::io`.

namespace bearing {

/// How a config says its rotary parameters.
enum class HfSpelling {
  v4,  ///< rope_theta, rope_scaling, partial_rotary_factor, … beside the other keys: transformers before 5
  v5,  ///< one dictionary, rope_parameters, or one in it for each type of layers: transformers 5
};

struct SpelledConfig {
  std::string text;
  std::vector<ConfigWarning> warnings;  ///< what readers that know the other spelling alone make of the text
};

/// The text of a Hugging Face config.json in another spelling. Only rotary keys change: the other bytes stay as they
/// are. A text that is spelled so already is returned as it is.
///
/// What is written is read again, and must be the same model in every layer of every part: a reader of that spelling
/// alone gets what the file said. Throws ConfigError where no such text exists, and says which layers differ: the
/// older spelling has no word for a base per type of layers, except in Gemma 3, OLMo 3 and ModernBERT, and none for
/// the rope_type "proportional". Throws as parse_hf_config() for a file that cannot be read.
BEARING_EXPORT SpelledConfig spell_hf_config(std::string_view text, HfSpelling spelling,
                                             const std::string& name = "config.json");

/// The same from a file.
BEARING_EXPORT SpelledConfig spell_hf_config_file(const std::string& path, HfSpelling spelling);

/// What a reader that knows the older spelling alone makes of a config: a warning for each part of the model that it
/// takes for another one, with both numbers ("takes base 10000, where the file says 500000"). It passes over
/// rope_parameters without a word, as transformers before 5 does. None if it reads the same model.
BEARING_EXPORT std::vector<ConfigWarning> older_reader_warnings(std::string_view text,
                                                                const std::string& name = "config.json");
BEARING_EXPORT std::vector<ConfigWarning> older_reader_warnings_of_file(const std::string& path);

/// A rotary spec as the members of a config.json, "{"rope_theta": 500000, …}", that read_hf_config() reads back to it
/// in a file of a model with that head_dim and pairing. Static NTK (NtkScaling), for which configs have no word, is
/// written as the base that it makes, b · s^(r/(r−2)), and read as that base without a scaling. Throws ConfigError for
/// what the spelling cannot say: a scaling that transformers has not, axes in an order of their own, frequencies that
/// restart.
BEARING_EXPORT std::string hf_rope(const Rope& rope, HfSpelling spelling);

}  // namespace bearing
