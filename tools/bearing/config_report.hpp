#pragma once

#include <bearing/description.hpp>
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
  std::vector<GroupReport> groups;
  std::vector<ConfigWarning> warnings;  ///< the file's, then those about the numbers
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

enum class Pairs { elided, all };

std::string to_text(const ConfigReport& report, const Style& style, Pairs pairs);

/// docs/guide/config-json-schema.md, "bearing.config/2".
std::string to_json(const ConfigReport& report);

/// {0, 1, 2, 5} → "0-2, 5"; {0, 2, 4, 6} → "0, 2, ..., 6".
std::string ranges(const std::vector<Index>& numbers);

}  // namespace bearing::tool
