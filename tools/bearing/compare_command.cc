#include <fmt/format.h>

#include <algorithm>
#include <bearing/properties.hpp>

#include "array_files.hpp"
#include "commands.hpp"
#include "compare_report.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"
#include "properties_text.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

struct CompareOptions {
  std::vector<std::string> encodings;
  SizeOptions size;
  bool json = false, markdown = false;
  std::string out, threads = "1";
};

std::string to_text(const CompareReport& report, const Style& style) {
  std::string out = wrapped(sizes_text(report), style.width, 0);
  out += '\n' + text_table(compare_headings(report), compare_rows(report), style);
  std::vector<inspect::Claim> wrong;
  for (const inspect::Claim& claim : report.claims) {
    if (claim.holds == inspect::Verdict::no) wrong.push_back(claim);
  }
  if (!wrong.empty()) out += '\n' + claims_text("Often said, and not so:", wrong, style);
  return out;
}

std::string compare_json(const CompareReport& report) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.compare/1");
  json.member("heads", report.size.heads);
  json.member("dim", report.size.dim);
  json.member("length", report.size.length);
  json.member("seed", static_cast<Index>(report.size.seed));
  json.key("encodings");
  json.begin_array();
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const inspect::Comparison& row = report.rows[i];
    json.begin_object();
    json.member("name", row.name);
    json.member("sites", row.sites);
    json.member("learnable", row.learnable);
    json.member("parameters", row.parameters);
    json.member("extensible", inspect::name(row.extensible));
    json.member("past_length", row.past_length);
    json.member("relative", inspect::name(row.relative));
    json.member("decay", inspect::name(row.decay));
    json.member("memory", row.memory);
    json.member("heads", report.sizes[i].heads);
    json.member("dim", report.sizes[i].dim);
    json.member("length", report.sizes[i].length);
    json.end_object();
  }
  json.end_array();
  write_claims(json, report.claims);
  json.end_object();
  return json.text();
}

std::vector<Subject> asked_subjects(const CompareOptions& options) {
  std::vector<Subject> subjects;
  for (const std::string& text : options.encodings) {
    for (Subject& subject : subjects_of("compare", text)) subjects.push_back(std::move(subject));
  }
  if (!options.encodings.empty()) return subjects;
  for (const Description& one : inspect::catalog()) subjects.push_back({one.name, one});
  return subjects;
}

/// A name that Markdown would take apart, as that of a file, is code.
std::string to_markdown(const CompareReport& report) {
  std::vector<std::vector<std::string>> rows = compare_rows(report);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& name = report.rows[i].name;
    if (name.find_first_of("`<>&*[]|\\") != name.npos) rows[i][0] = markdown_code(name);
  }
  return markdown_table(compare_headings(report), rows);
}

std::string to_report(const CompareReport& report, const CompareOptions& options) {
  if (options.markdown) return to_markdown(report);
  return options.json ? compare_json(report) : to_text(report, output_style(options.out));
}

void compare_encodings(const CompareOptions& options) {
  if (options.json && options.markdown) throw UsageError("--json and --markdown exclude each other");
  const Executor on = executor_of(options.threads);
  const CompareReport report = compare_subjects(asked_subjects(options), options.size, on);
  for (const CompareReport::LeftOut& one : report.left_out) {
    if (!options.encodings.empty()) throw UsageError(one.why);
    // Of all, those that can serve this size; the others are named where they do no harm.
    note(fmt::format("{} is left out: {}", printable(one.text), one.why));
  }
  deliver(options.out, to_report(report, options));
}

}  // namespace

Command compare_command() {
  const auto options = std::make_shared<CompareOptions>();
  Command command{"compare", "Compare encodings, by measurement"};
  command.options.push_back(
      {"ENCODING", "...", "Which ones, as check takes them (default: all)", Takes::encoding, &options->encodings});
  options->size.add_to(command);
  command.text("--threads", options->threads, "N", "Threads (default 1, 0: all); results do not change");
  command.flag("--json", options->json, "JSON of a stable schema");
  command.flag("--markdown", options->markdown, "The table alone, in Markdown");
  command.output("-o,--out", options->out, "Where the report goes; else standard output");
  command.footer =
      "The columns: learned, how many numbers training learns; past length, what\n"
      "happens at positions past --length; relative, whether scores stay the same when\n"
      "all tokens move alike; decay, whether the largest score of each octave of\n"
      "distance falls; memory, how memory grows with the length. Where sizes differ,\n"
      "heads, dim and length have columns of their own. Below the table stand\n"
      "common claims about these encodings that fail when they are measured.\n"
      "\n"
      "Examples:\n"
      "  bearing compare sinusoidal learned t5 alibi rope\n"
      "  bearing compare rope:base=500000 @config.json alibi\n"
      "  bearing compare --json > comparison.json";
  command.run = [options] { compare_encodings(*options); };
  return command;
}

}  // namespace bearing::tool
