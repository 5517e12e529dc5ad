#pragma once

#include <bearing/hf_spelling.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "hf_reader.hpp"
#include "hf_towers.hpp"
#include "lasting.hpp"

// The two spellings of a config's rotary parameters (hf_spell.cc), and what a reader of one makes of the other
// (hf_spell_compare.cc).

namespace bearing::hf {

/// A file's parts, each with what was read of it.
struct ReadParts {
  Model model;
  std::vector<Part> parts;           ///< the main part, then the towers; they refer to the document
  std::vector<const Model*> models;  ///< beside each, into `model`
};

/// Calls body(parts) while the document lives; without parts for a file that is no Hugging Face config.
void with_parts(const std::string& text, const std::string& name, const std::function<void(const ReadParts&)>& body);

/// The text without rope_parameters in any part: all that a reader of the older spelling sees.
std::string without_newer(const std::string& text, const std::string& name);

/// Which layers of two models differ, "" if none does: "layers 0-3: base 10000, not 500000". `as`: what stands between
/// the two numbers.
std::string difference(const Model& found, const Model& wanted, const char* as);

/// Keys of a base, or of a part of the head, beside the dictionaries.
inline const Keys& base_keys = lasting(Keys{"rope_theta", "rotary_emb_base"});
inline const Keys& fraction_keys =
    lasting(Keys{"partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction"});

}  // namespace bearing::hf
