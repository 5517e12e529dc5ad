#include <fmt/format.h>

#include <algorithm>
#include <bearing/properties.hpp>

#include "arguments.hpp"
#include "array_files.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"
#include "progress.hpp"
#include "properties_text.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

struct Options {
  std::string encoding, require;
  SizeOptions size;
  bool json = false;
  std::string out, threads = "1";
};

struct CheckReport {
  const Description* entry = nullptr;
  inspect::SpecimenOptions size = {};
  inspect::Specimen specimen = {};
  std::vector<inspect::Property> properties = {};
  std::vector<inspect::Claim> claims = {};
};

std::string to_text(const CheckReport& report, const Style& style) {
  const Description& entry = *report.entry;
  const std::string source =
      entry.paper.year > 0 ? fmt::format(" ({} {}, {})", entry.paper.authors, entry.paper.year, entry.paper.source)
                           : "";
  std::string out = wrapped(fmt::format("{}: {}{}", entry.name, entry.title, source), style.width, 0);
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
  json.member("encoding", report.entry->name);
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

/// "shift-map" of "shift map": a word for a command line.
std::string as_word(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::vector<std::string> property_names() {
  // As inspect::check() names them; the tests hold the two together.
  return {"unique", "relative",  "decay",     "extensible", "deterministic", "bounded",
          "norm",   "symmetric", "shift-map", "parameters", "memory"};
}

/// Properties that must hold: those asked for, and that results are the same again, which always must.
std::vector<std::string> required(const Options& options) {
  const std::vector<std::string> known = property_names();
  std::vector<std::string> names{"deterministic"};
  for (std::size_t from = 0; !options.require.empty() && from <= options.require.size();) {
    const std::size_t comma = std::min(options.require.find(',', from), options.require.size());
    names.push_back(as_word(options.require.substr(from, comma - from)));
    from = comma + 1;
    if (std::find(known.begin(), known.end(), names.back()) == known.end()) {
      throw UsageError(fmt::format("--require: '{}' is not a property{}; these are: {}", names.back(),
                                   suggestion(names.back(), known), fmt::join(known, ", ")));
    }
  }
  return names;
}

std::vector<inspect::Property> measure(const Description& entry, const inspect::SpecimenOptions& size,
                                       const Executor& on) {
  Progress progress;
  const std::size_t steps = property_names().size() + 1;  // the examples come first
  std::size_t step = 0;
  return inspect::check(entry, size, on, [&](const char* begins) {
    progress.show(fmt::format("{}: {} ({} of {})", entry.name, begins, ++step, steps));
  });
}

void check_encoding(const Options& options) {
  CheckReport report{.entry = &entry_of("check", options.encoding)};
  const std::vector<std::string> names = required(options);
  const inspect::SpecimenOptions asked = options.size.parse();
  const Executor on = executor_of(options.threads);
  with_library_errors("check", [&] {
    report.properties = measure(*report.entry, asked, on);  // refuses sizes that would fill the memory
    report.specimen = inspect::make(*report.entry, asked);
    report.size = report.specimen.options;  // an image's length is whole rows
  });
  report.claims = inspect::claims(report.entry->name, on);
  deliver(options.out, options.json ? to_json(report) : to_text(report, output_style(options.out)));
  std::string failed;
  for (const inspect::Property& property : report.properties) {
    if (property.verdict == inspect::Verdict::yes) continue;
    if (std::find(names.begin(), names.end(), as_word(property.name)) == names.end()) continue;
    failed += fmt::format("{}{} ({})", failed.empty() ? "" : ", ", property.name, inspect::name(property.verdict));
  }
  if (!failed.empty())
    throw CheckFailed(fmt::format("{} does not have what is required: {}", options.encoding, failed));
}

}  // namespace

Command check_command() {
  const auto options = std::make_shared<Options>();
  Command command{"check", "Measure the properties of an encoding"};
  command.options.push_back(
      {"ENCODING", "", "One of those that 'bearing list' shows", Takes::encoding, &options->encoding, {}, true});
  options->size.add_to(command);
  command.options.push_back({"--require", "NAME,...", "Properties that must hold, else exit status 1", Takes::words,
                             &options->require, property_names()});
  command.text("--threads", options->threads, "N", "Threads, 0 for all (default 1); same report for any");
  command.flag("--json", options->json, "JSON, in full precision, of a stable schema");
  command.output("-o,--out", options->out, "Where the report goes; else standard output");
  command.footer =
      "Makes an example of the encoding and measures it: every verdict comes with its\n"
      "evidence. docs/guide/properties.md says what each property means.\n"
      "\n"
      "Examples:\n"
      "  bearing check rope\n"
      "  bearing check alibi --heads 12 --length 4096\n"
      "  bearing check rope_yarn --require relative,norm";
  command.run = [options] { check_encoding(*options); };
  return command;
}

}  // namespace bearing::tool
