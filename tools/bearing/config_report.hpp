#pragma once

#include <bearing/description.hpp>
#include <bearing/hf_spelling.hpp>
#include <bearing/io.hpp>
#include <bearing/rope_report.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace bearing::tool {

struct Style;

/// A group of layers with its numbers; those of a layer that does not rotate are empty.
struct GroupReport {
  LayerGroup group;
  std::optional<RopeFrequencies> frequencies;
  std::vector<double> wavelength;
};

/// All that `bearing config` says, as text or as JSON.
struct ConfigReport {
  Model model;
  Index seq_len = 0;  ///< as asked for; 0: the trained length
  Index reach = 0;    ///< trained length times the scaling's factor, where the factor means that
  std::vector<GroupReport> groups = {};
  std::vector<ConfigWarning> warnings = {};  ///< the file's, then those about the numbers
  std::vector<ConfigReport> towers = {};     ///< of the model's towers
};

/// What an encoding's spec says, member by member; nothing for rotary ones, which are shown by themselves.
template <class Encoding>
Record record_of(const Encoding& encoding) {
  return std::visit(
      []<class Spec>(const Spec& spec) -> Record {
        if constexpr (std::is_same_v<Spec, Rope> || std::is_same_v<Spec, NoPosition> ||
                      std::is_same_v<Spec, OtherEncoding>)
          return {};
        else
          return Record::of(spec);
      },
      encoding);
}

/// A file, a model's folder, or - for standard input; pipes are read as they come.
Model read_model(const std::string& file);

/// The text of such a file in another spelling.
SpelledConfig spelled(const std::string& file, HfSpelling spelling);

enum class Pairs { elided, all };
/// The groups of layers, or the one that holds `layer`. `seq_len` 0: frequencies of the trained length. Of many groups
/// the first ones, unless all is asked for; a warning counts the others.
ConfigReport config_report(Model model, Index seq_len = 0, Index layer = -1, Pairs pairs = Pairs::elided);

// In words

/// "pairing": "half: i and i + 64 turn together [ccccssss]"
struct Fact {
  std::string label, text;
};
std::vector<Fact> model_facts(const ConfigReport& report);
std::string input_name(const ModelInput& input);  ///< "input", "input (x)", "input of the encoder"
std::string input_title(const ModelInput& input);
std::vector<Fact> input_facts(const ModelInput& input);
std::string group_title(const LayerGroup& group);
/// "vision tower: siglip_vision_model, 27 layers"
std::string tower_title(const Model& tower);
std::vector<Fact> group_facts(const GroupReport& group, const ConfigReport& report);
/// `base_from`: Layer's.
std::vector<Fact> rope_facts(const Rope& rope, const RopeFrequencies& numbers, Index seq_len = 0,
                             const std::string& base_from = {});
/// One for each member of a spec, and of a spec in it; JSON's names with blanks.
std::vector<Fact> record_facts(const Record& record);
std::string warning_text(const ConfigWarning& warning);

/// The rows of the table of pairs, its heading first; a long table without its middle, unless all are asked for.
std::vector<std::vector<std::string>> pair_rows(const GroupReport& group, Pairs pairs);
/// An earlier group whose table of pairs is this one's; null if there is none.
const GroupReport* same_table(const GroupReport& group, const ConfigReport& report);

/// "layers 0-2, 5"
std::string layers_text(const std::vector<Index>& layers);

std::string to_text(const ConfigReport& report, const Style& style, Pairs pairs);

/// A table with a column for each report; as many stand beside each other as the width allows.
std::string side_by_side(const std::vector<ConfigReport>& reports, const Style& style);

/// docs/guide/config-json-schema.md, "bearing.config/2".
std::string to_json(const ConfigReport& report);

/// {0, 1, 2, 5} → "0-2, 5"; {0, 2, 4, 6} → "0, 2, ..., 6".
std::string ranges(const std::vector<Index>& numbers);

}  // namespace bearing::tool
