#include <fmt/format.h>

#include <algorithm>
#include <bearing/properties.hpp>

#include "array_files.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "myths_pictures.hpp"
#include "outputs.hpp"
#include "picture_words.hpp"
#include "plot_terminal.hpp"
#include "progress.hpp"
#include "properties_text.hpp"
#include "terminal.hpp"

namespace bearing::tool {

using inspect::Claim;
using inspect::Verdict;

namespace {

struct MythsOptions {
  std::vector<std::string> encodings;
  bool picture = false, json = false;
  std::string out, format, threads = "1";
};

/// Those that fail first, then those that measuring cannot decide, then those that hold.
int rank(const Claim& claim) { return claim.holds == Verdict::no ? 0 : claim.holds == Verdict::yes ? 2 : 1; }

std::vector<Claim> asked_claims(const MythsOptions& options, const Executor& on) {
  std::vector<Claim> claims;
  std::vector<std::string> names;
  for (const std::string& text : options.encodings) {
    for (const Subject& subject : subjects_of("myths", text)) {
      const std::string& name = subject.description.name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (names.empty()) claims = inspect::claims(on);
  for (const std::string& name : names) {
    for (Claim& claim : inspect::claims(name, on)) claims.push_back(std::move(claim));
  }
  std::stable_sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) { return rank(a) < rank(b); });
  return claims;
}

std::string summary(const std::vector<Claim>& claims) {
  const auto count = [&](int which) {
    return std::count_if(claims.begin(), claims.end(), [&](const Claim& claim) { return rank(claim) == which; });
  };
  return fmt::format("{} things that are often said, measured: {} fail, {} hold, {} no measurement decides.",
                     claims.size(), count(0), count(2), count(1));
}

/// The claims with the line that draws each, or with the picture itself.
std::string to_text(const std::vector<Claim>& claims, const MythsOptions& options, const Executor& on) {
  const Style style = output_style();
  if (claims.empty()) return wrapped("Nothing that is often said of these encodings is known here.", style.width, 0);
  std::string out = wrapped(summary(claims), style.width, 0);
  Progress progress;
  for (const Claim& claim : claims) {
    out += '\n' + claim_text(claim, style);
    if (claim.picture.kind.empty()) continue;
    out += fmt::format("{:9}{}\n", "", plot_line(claim.picture, style.width, 9));
    if (!options.picture) continue;
    progress.show(claim.says);
    out += '\n' + figure_as_text(figure_of(claim.picture, on), text_style({}));
  }
  return out;
}

std::string claims_json(const std::vector<Claim>& claims) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.myths/1");
  write_claims(json, claims);
  json.end_object();
  return json.text();
}

void check_options(const MythsOptions& o) {
  if (o.json && o.picture) throw UsageError("--json and --picture exclude each other");
  if (o.json && !o.format.empty()) throw UsageError("--json and --format exclude each other");
  if (!o.json && o.picture && !o.out.empty()) throw UsageError("--picture and --out exclude each other");
  if (!o.format.empty() && o.out.empty()) throw UsageError("--format needs --out FOLDER");
}

void myths(const MythsOptions& options) {
  check_options(options);
  const Executor on = executor_of(options.threads);
  const std::vector<Claim> claims = asked_claims(options, on);
  if (options.json) return deliver(options.out, claims_json(claims));
  if (options.out.empty()) return print(to_text(claims, options, on));
  if (claims.empty()) throw UsageError("myths: nothing that is often said of these encodings is known here");
  write_pictures(claims, summary(claims), options.out, options.format.empty() ? "svg" : options.format, on);
}

}  // namespace

Command myths_command() {
  const auto options = std::make_shared<MythsOptions>();
  Command command{"myths", "Measure what is often said of encodings"};
  command.options.push_back(
      {"ENCODING", "...", "Which ones, as check takes them (default: all)", Takes::encoding, &options->encodings});
  command.flag("--picture", options->picture, "Draw each picture below its claim");
  command.output("-o,--out", options->out,
                 "The folder of all pictures, with a page that shows\nthem; with --json the file");
  command.word("--format", options->format, "FORMAT", {"svg", "png", "pdf"},
               "Of the pictures: svg (default), png or pdf");
  command.flag("--json", options->json, "JSON of a stable schema");
  command.text("--threads", options->threads, "N", "Threads (default 1, 0: all); results do not change");
  command.footer =
      "What fails stands first, then what no measurement decides, then what holds.\n"
      "Below most claims stands a command that draws a picture of it.\n"
      "\n"
      "Examples:\n"
      "  bearing myths\n"
      "  bearing myths rope --picture\n"
      "  bearing myths -o myths                          # pictures, and index.html";
  command.run = [options] { myths(*options); };
  return command;
}

}  // namespace bearing::tool
