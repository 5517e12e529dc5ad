#include <fmt/format.h>

#include <algorithm>
#include <bearing/properties.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "properties_text.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

struct Options {
  std::string encoding, require;
  SizeOptions size;
  bool json = false;
};

struct CheckReport {
  const inspect::Entry* entry = nullptr;
  inspect::SpecimenOptions size = {};
  inspect::Specimen specimen = {};
  std::vector<inspect::Property> properties = {};
  std::vector<inspect::Claim> claims = {};
};

std::string to_text(const CheckReport& report, const Style& style) {
  const inspect::Entry& entry = *report.entry;
  const std::string source = entry.year > 0 ? fmt::format(" ({} {}, {})", entry.authors, entry.year, entry.source) : "";
  std::string out = wrapped(fmt::format("{}: {}{}", entry.stem, entry.title, source), style.width, 0);
  out += wrapped(fmt::format("acts on: {}; {} heads of {}, length {}, seed {}", inspect::sites(report.specimen),
                             report.size.heads, report.size.dim, report.size.length, report.size.seed),
                 style.width, 0);
  std::vector<std::vector<std::string>> rows;
  for (const inspect::Property& property : report.properties) {
    rows.push_back({property.name, inspect::name(property.verdict), property.evidence});
  }
  out += '\n' + text_table({"property", "verdict", "evidence"}, rows, style);
  if (!report.claims.empty()) out += '\n' + claims_text("Often said:", report.claims, style);
  return out;
}

std::string to_json(const CheckReport& report) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.check/1");
  json.member("encoding", report.entry->stem);
  json.member("sites", inspect::sites(report.specimen));
  json.member("causal", report.specimen.causal);
  json.member("heads", report.size.heads);
  json.member("dim", report.size.dim);
  json.member("length", report.size.length);
  json.member("seed", static_cast<Index>(report.size.seed));
  json.key("properties");
  json.begin_array();
  for (const inspect::Property& property : report.properties) {
    json.begin_object();
    json.member("name", property.name);
    json.member("verdict", inspect::name(property.verdict));
    json.member("number", property.number);
    json.member("evidence", property.evidence);
    json.end_object();
  }
  json.end_array();
  write_claims(json, report.claims);
  json.end_object();
  return json.text();
}

/// Names of properties that must hold: those asked for, and that results are the same again, which always must.
std::vector<std::string> required(const Options& options, const std::vector<inspect::Property>& properties) {
  std::vector<std::string> known, names{"deterministic"};
  for (const inspect::Property& property : properties) known.push_back(property.name);
  std::string rest = options.require;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    names.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
    if (std::find(known.begin(), known.end(), names.back()) == known.end()) {
      throw UsageError(
          fmt::format("--require: '{}' is not a property{}", names.back(), suggestion(names.back(), known)));
    }
  }
  return names;
}

void check_encoding(const Options& options) {
  CheckReport report{.entry = &entry_of("check", options.encoding)};
  const inspect::SpecimenOptions asked = options.size.parse();
  with_library_errors("check", [&] {
    report.properties = inspect::check(*report.entry, asked);  // refuses sizes that would fill the memory
    report.specimen = inspect::make(*report.entry, asked);
    report.size = report.specimen.options;  // an image's length is whole rows
  });
  const std::vector<std::string> names = required(options, report.properties);
  for (inspect::Claim& claim : inspect::claims()) {
    if (claim.stem == report.entry->stem) report.claims.push_back(std::move(claim));
  }
  print(options.json ? to_json(report) : to_text(report, output_style()));
  std::string failed;
  for (const inspect::Property& property : report.properties) {
    if (property.verdict == inspect::Verdict::yes) continue;
    if (std::find(names.begin(), names.end(), property.name) == names.end()) continue;
    failed += fmt::format("{}{} ({})", failed.empty() ? "" : ", ", property.name, inspect::name(property.verdict));
  }
  if (!failed.empty())
    throw CheckFailed(fmt::format("{} does not have what is required: {}", options.encoding, failed));
}

}  // namespace

Action add_check_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("check", "Measure the properties of an encoding");
  const auto options = std::make_shared<Options>();
  command->add_option("ENCODING", options->encoding, "One of those that 'bearing list' shows")
      ->required()
      ->type_name("");
  options->size.add_to(*command);
  command->add_option("--require", options->require, "Properties that must hold, else exit status 1")
      ->type_name("NAME,...");
  command->add_flag("--json", options->json, "JSON, in full precision, of a stable schema");
  command->footer(
      "Makes an example of the encoding and measures it: every verdict comes with its\n"
      "evidence. docs/guide/properties.md says what each property means.\n"
      "\n"
      "Examples:\n"
      "  bearing check rope\n"
      "  bearing check alibi --heads 12 --length 4096\n"
      "  bearing check rope_yarn --require relative,norm");
  return [options] { check_encoding(*options); };
}

}  // namespace bearing::tool
