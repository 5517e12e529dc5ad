#pragma once

#include <bearing/figures.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config_report.hpp"
#include "inspect_options.hpp"

namespace bearing::tool {

/// A section of a report: an encoding, or what a model's file says of some layers or of the input.
struct ReportPart {
  std::string title;
  std::string name = {};  ///< short, for pictures
  std::vector<Fact> facts = {};
  std::vector<std::vector<std::string>> pairs =
      {};                               ///< the table of all pairs, its heading first; empty: there is none
  std::string remark = {};              ///< why it has no pictures
  std::optional<Subject> subject = {};  ///< what is drawn and measured
};

/// What one text of the command line says.
struct ReportSource {
  std::string text;
  std::optional<ConfigReport> model = {};  ///< of a model's file
  std::vector<ReportPart> parts = {};
};

/// `text` is a model's file or folder, with or without @, or an encoding as every command takes it, of the sizes that
/// are asked for where it says none. Throws UsageError and ConfigError.
ReportSource report_source(const std::string& text, const Sizes& asked);

/// What a model's file says, in whole sentences.
std::vector<std::string> model_summary(const ConfigReport& report);

}  // namespace bearing::tool
