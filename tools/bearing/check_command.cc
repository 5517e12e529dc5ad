#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bearing/properties.hpp>

#include "arguments.hpp"
#include "array_files.hpp"
#include "check_report.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"
#include "properties_text.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

struct CheckOptions {
  std::vector<std::string> encodings;
  std::string require;
  SizeOptions size;
  bool json = false, markdown = false;
  std::string out, threads = "1";
};

std::string to_text(const CheckReport& report, const Style& style) {
  const Description& entry = report.subject.description;
  const std::string source =
      entry.paper.year > 0 ? fmt::format(" ({} {}, {})", entry.paper.authors, entry.paper.year, entry.paper.source)
                           : "";
  std::string out =
      wrapped(fmt::format("{}: {}{}", printable(report.subject.text), entry.title, source), style.width, 0);
  out += wrapped(fmt::format("acts on: {}; {} of {}, length {}, seed {}", inspect::sites(report.specimen),
                             counted(report.size.heads, "head"), report.size.dim, report.size.length, report.size.seed),
                 style.width, 0);
  std::vector<std::vector<std::string>> rows;
  for (const inspect::Property& property : report.properties) {
    rows.push_back({property.name, inspect::name(property.verdict), property.evidence});
  }
  out += '\n' + text_table({"property", "verdict", "evidence"}, rows, style);
  if (!report.claims.empty()) out += '\n' + claims_text("Often said:", report.claims, style);
  return out;
}

std::string check_json(const CheckReport& report) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.check/1");
  json.member("encoding", std::string_view(report.subject.text));
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

/// Properties that must hold: those asked for, and that results are the same again, which always must.
std::vector<std::string> required(const CheckOptions& options) {
  const std::vector<std::string> known = property_names();
  std::vector<std::string> names{"deterministic"};
  for (std::size_t from = 0; !options.require.empty() && from <= options.require.size();) {
    const std::size_t comma = std::min(options.require.find(',', from), options.require.size());
    names.push_back(as_word(options.require.substr(from, comma - from)));
    from = comma + 1;
    if (std::find(known.begin(), known.end(), names.back()) == known.end()) {
      const std::string meant = suggestion(names.back(), known);
      throw UsageError(fmt::format("--require: '{}' is not a property{} {}", names.back(),
                                   meant.empty() ? "; properties are" : meant + " Properties are",
                                   fmt::join(known, ", ")));
    }
  }
  return names;
}

/// A row for each property with every encoding's verdict. Evidence has numbers that differ by rounding between
/// machines.
std::string to_markdown(const std::vector<CheckReport>& reports) {
  const inspect::SpecimenOptions& size = reports[0].size;
  std::vector<std::string> headings{"property"}, lengths{"length"};
  std::vector<std::vector<std::string>> rows;
  bool alike = true;  // an image's length is whole rows
  for (const CheckReport& report : reports) {
    headings.push_back(reports.size() == 1 ? "verdict" : markdown_code(report.subject.text));
    lengths.push_back(fmt::format("{}", report.size.length));
    alike = alike && report.size.length == size.length;
    rows.resize(report.properties.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].empty()) rows[i].push_back(report.properties[i].name);
      rows[i].emplace_back(inspect::name(report.properties[i].verdict));
    }
  }
  if (!alike) rows.insert(rows.begin(), lengths);
  return fmt::format("Measured on {} of {}, {}seed {}:\n\n", counted(size.heads, "head"), size.dim,
                     alike ? fmt::format("length {}, ", size.length) : "", size.seed) +
         markdown_table(headings, rows);
}

/// Of one encoding its report; of several texts one after the other, or a JSON array.
std::string reports_text(const std::vector<CheckReport>& reports, const CheckOptions& options) {
  if (options.markdown) return to_markdown(reports);
  std::string out;
  for (const CheckReport& report : reports) {
    if (!out.empty()) out += options.json ? "," : "\n";
    out += options.json ? check_json(report) : to_text(report, output_style(options.out));
    if (options.json) out.pop_back();  // the newline
  }
  if (!options.json) return out;
  return reports.size() == 1 ? out + '\n' : '[' + out + "]\n";
}

void check_encodings(const CheckOptions& options) {
  if (options.json && options.markdown) throw UsageError("--json and --markdown exclude each other");
  const std::vector<std::string> names = required(options);
  const Executor on = executor_of(options.threads);
  std::vector<CheckReport> reports;
  for (const std::string& text : options.encodings) {
    for (Subject& subject : subjects_of("check", text)) {
      reports.push_back(check_subject(std::move(subject), options.size, on));
    }
  }
  deliver(options.out, reports_text(reports, options));
  for (const CheckReport& report : reports) {
    std::string failed;
    for (const inspect::Property& property : report.properties) {
      if (property.verdict == inspect::Verdict::yes) continue;
      if (std::find(names.begin(), names.end(), as_word(property.name)) == names.end()) continue;
      failed += fmt::format("{}{} ({})", failed.empty() ? "" : ", ", property.name, inspect::name(property.verdict));
    }
    if (failed.empty()) continue;
    throw CheckFailed(fmt::format("{} does not have what is required: {}", report.subject.text, failed));
  }
}

}  // namespace

Command check_command() {
  const auto options = std::make_shared<CheckOptions>();
  Command command{"check", "Measure the properties of encodings"};
  command.options.push_back({"ENCODING", "...", encoding_help, Takes::encoding, &options->encodings, {}, true});
  options->size.add_to(command);
  command.options.push_back({"--require", "NAME,...", "Properties that must hold, else exit status 1", Takes::words,
                             &options->require, property_names()});
  command.text("--threads", options->threads, "N", "Threads (default 1, 0: all); results do not change");
  command.flag("--json", options->json, "JSON, in full precision, of a stable schema");
  command.flag("--markdown", options->markdown, "A table of the verdicts, in Markdown");
  command.output("-o,--out", options->out, "Where the report goes; else standard output");
  command.footer =
      "Makes an example of the encoding and measures it: every verdict comes with its\n"
      "evidence. docs/guide/properties.md says what each property means.\n"
      "\n"
      "Examples:\n"
      "  bearing check rope\n"
      "  bearing check alibi --heads 12 --length 4096\n"
      "  bearing check @config.json                      # a model, at its sizes\n"
      "  bearing check rope_yarn --require relative,norm";
  command.run = [options] { check_encodings(*options); };
  return command;
}

}  // namespace bearing::tool
