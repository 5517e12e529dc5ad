#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bearing/properties.hpp>
#include <exception>

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
  std::vector<std::string> encodings;
  SizeOptions size;
  bool json = false;
  std::string out, threads = "1";
};

struct CompareReport {
  inspect::SpecimenOptions size;
  std::vector<inspect::Comparison> rows = {};
  std::vector<inspect::Claim> claims = {};
};

std::string to_text(const CompareReport& report, const Style& style) {
  std::string out = wrapped(fmt::format("{} heads of {}, length {}, seed {}", report.size.heads, report.size.dim,
                                        report.size.length, report.size.seed),
                            style.width, 0);
  std::vector<std::vector<std::string>> rows;
  for (const inspect::Comparison& row : report.rows) {
    rows.push_back({row.stem, row.learnable ? grouped(row.parameters) : "-", row.past_length,
                    inspect::name(row.relative), inspect::name(row.decay), row.memory});
  }
  out += '\n' + text_table({"encoding", "learned", "past length", "relative", "decay", "memory"}, rows, style);
  std::vector<inspect::Claim> wrong;
  for (const inspect::Claim& claim : report.claims) {
    if (claim.holds == inspect::Verdict::no) wrong.push_back(claim);
  }
  if (!wrong.empty()) out += '\n' + claims_text("Often said, and not so:", wrong, style);
  return out;
}

std::string to_json(const CompareReport& report) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.compare/1");
  json.member("heads", report.size.heads);
  json.member("dim", report.size.dim);
  json.member("length", report.size.length);
  json.member("seed", static_cast<Index>(report.size.seed));
  json.key("encodings");
  json.begin_array();
  for (const inspect::Comparison& row : report.rows) {
    json.begin_object();
    json.member("name", row.stem);
    json.member("sites", row.sites);
    json.member("learnable", row.learnable);
    json.member("parameters", row.parameters);
    json.member("extensible", inspect::name(row.extensible));
    json.member("past_length", row.past_length);
    json.member("relative", inspect::name(row.relative));
    json.member("decay", inspect::name(row.decay));
    json.member("memory", row.memory);
    json.end_object();
  }
  json.end_array();
  write_claims(json, report.claims);
  json.end_object();
  return json.text();
}

/// A row, or why there is none.
struct Measured {
  inspect::Comparison row = {};
  std::exception_ptr error = {};
};

/// The encodings run side by side; one alone cuts its own work.
std::vector<Measured> measure(const std::vector<const Description*>& entries, const inspect::SpecimenOptions& size,
                              const Executor& on) {
  std::vector<Measured> all(entries.size());
  Progress progress;
  std::atomic<std::size_t> done = 0;
  parallel(on, static_cast<Index>(entries.size()), [&](Index task) noexcept {
    const auto i = static_cast<std::size_t>(task);
    try {
      with_library_errors("compare", [&] { all[i].row = inspect::compare(*entries[i], size, on); });
      progress.show(fmt::format("{} ({} of {})", entries[i]->name, ++done, entries.size()));
    } catch (...) {
      all[i].error = std::current_exception();
    }
  });
  return all;
}

void compare_encodings(const Options& options) {
  CompareReport report{.size = options.size.parse()};
  const Executor on = executor_of(options.threads);
  std::vector<const Description*> entries;
  for (const std::string& stem : options.encodings) entries.push_back(&entry_of("compare", stem));
  if (entries.empty()) {
    for (const Description& entry : inspect::catalog()) entries.push_back(&entry);
  }
  std::vector<Measured> measured = measure(entries, report.size, on);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    try {
      if (measured[i].error) std::rethrow_exception(measured[i].error);
      report.rows.push_back(std::move(measured[i].row));
    } catch (const UsageError& error) {
      if (!options.encodings.empty()) throw;
      // Of all, those that can serve this size; the others are named where they do no harm.
      note(fmt::format("{} is left out: {}", entries[i]->name, error.what()));
    }
  }
  for (inspect::Claim& claim : inspect::claims(on)) {
    const auto shown = [&](const Description* entry) { return entry->name == claim.stem; };
    if (std::any_of(entries.begin(), entries.end(), shown)) report.claims.push_back(std::move(claim));
  }
  deliver(options.out, options.json ? to_json(report) : to_text(report, output_style(options.out)));
}

}  // namespace

Command compare_command() {
  const auto options = std::make_shared<Options>();
  Command command{"compare", "Compare encodings, by measurement"};
  command.options.push_back({"ENCODING", "...", "Which ones (default: all)", Takes::encoding, &options->encodings});
  options->size.add_to(command);
  command.text("--threads", options->threads, "N", "Threads, 0 for all (default 1); same report for any");
  command.flag("--json", options->json, "JSON of a stable schema");
  command.output("-o,--out", options->out, "Where the report goes; else standard output");
  command.footer =
      "learned: how many numbers training learns. past length: what becomes of\n"
      "positions past --length. relative: logits stay when all tokens move alike.\n"
      "decay: octave maxima fall with distance. memory: how what is kept grows with\n"
      "the length. What is often said of these encodings and fails follows.\n"
      "\n"
      "Examples:\n"
      "  bearing compare sinusoidal learned t5 alibi rope\n"
      "  bearing compare --json > comparison.json";
  command.run = [options] { compare_encodings(*options); };
  return command;
}

}  // namespace bearing::tool
