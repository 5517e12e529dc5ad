#include <fmt/format.h>

#include <algorithm>
#include <bearing/version.hpp>
#include <filesystem>
#include <map>
#include <system_error>

#include "array_files.hpp"
#include "check_report.hpp"
#include "commands.hpp"
#include "compare_report.hpp"
#include "outputs.hpp"
#include "picture_words.hpp"
#include "properties_text.hpp"
#include "report_figures.hpp"
#include "report_page.hpp"
#include "report_sources.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

struct ReportOptions {
  std::vector<std::string> encodings;
  SizeOptions size;
  bool no_pictures = false;
  std::string out, threads = "1";
};

using Facts = std::vector<std::pair<std::string, std::string>>;

Facts pairs_of(const std::vector<Fact>& facts) {
  Facts out;
  for (const Fact& fact : facts) out.emplace_back(fact.label, fact.text);
  return out;
}

std::vector<std::vector<PageCell>> cells_of(std::vector<std::vector<std::string>> rows) {
  std::vector<std::vector<PageCell>> out;
  for (std::vector<std::string>& row : rows) {
    std::vector<PageCell>& cells = out.emplace_back();
    for (std::string& text : row) cells.push_back({std::move(text)});
  }
  return out;
}

PageTable claims_table(const std::vector<inspect::Claim>& claims, const std::string& caption) {
  PageTable table{caption, {"claim", "verdict", "measured"}, {}};
  for (const inspect::Claim& claim : claims) {
    const std::string trained = claim.trained.empty() ? "" : ". Trained: " + claim.trained;
    table.rows.push_back({{claim.says}, {claim_verdict(claim)}, {claim.measured + trained}});
  }
  return table;
}

/// A part with what was found out about it.
struct Found {
  const ReportPart* part = nullptr;
  std::vector<PagePicture> pictures = {};
  SizeOptions size = {};  ///< of the measurement
  std::optional<CheckReport> check = {};
  std::string refused = {};  ///< why it could not be measured
};

std::string size_text(const inspect::SpecimenOptions& size) {
  return fmt::format("{} of {} dimensions over {}, seed {}", counted(size.heads, "head"), size.dim,
                     counted(size.length, "token"), size.seed);
}

/// "--heads 2 --length 512", as far as it is not what the command does by itself.
std::string size_options(const SizeOptions& size) {
  std::string out;
  for (const auto& [name, value] : {std::pair("--heads", &size.heads), std::pair("--dim", &size.dim),
                                    std::pair("--length", &size.length), std::pair("--seed", &size.seed)}) {
    if (!value->empty()) out += fmt::format(" {} {}", name, *value);
  }
  return out;
}

void write_measured(HtmlPage& page, const Found& found) {
  if (!found.refused.empty()) {
    page.heading("Measured");
    page.paragraph("It could not be measured: " + found.refused);
  }
  if (!found.check) return;
  const CheckReport& check = *found.check;
  const Sizes& model = check.subject.model;
  page.heading("Measured");
  std::string size =
      fmt::format("It acts on: {}. Measured with {}.", inspect::sites(check.specimen), size_text(check.size));
  if (check.size.heads < model.heads || check.size.length < model.length) {
    size += " The model is larger: ";
    if (model.heads > 0) size += counted(model.heads, "head") + ", ";
    size += fmt::format("{} tokens; an example is as large as can be measured in a moment.", grouped(model.length));
  }
  page.paragraph(size);
  PageTable table{"Properties", {"property", "verdict", "evidence"}, {}};
  for (const inspect::Property& property : check.properties) {
    table.rows.push_back({{property.name}, {inspect::name(property.verdict)}, {property.evidence}});
  }
  page.table(table);
  page.paragraph("The same numbers in full precision:");
  page.command("bearing check " + shell_word(check.subject.text) + size_options(found.size) + " --json");
  if (check.claims.empty()) return;
  page.heading("Often said");
  page.table(claims_table(check.claims, "What is often said of it, and what was measured"));
}

void write_part(HtmlPage& page, const std::string& id, const std::string& title, const Found& found) {
  const ReportPart& part = *found.part;
  page.section(id, title);
  if (part.subject) {
    const Description& entry = part.subject->description;
    const std::string source =
        entry.paper.year > 0 ? fmt::format(" ({} {}, {})", entry.paper.authors, entry.paper.year, entry.paper.source)
                             : "";
    page.paragraph(fmt::format("{}{}: {}.", entry.title, source, entry.does));
  }
  page.facts(pairs_of(part.facts));
  if (!part.remark.empty()) page.paragraph(part.remark);
  if (!part.pairs.empty()) {
    std::vector<std::vector<std::string>> rows = part.pairs;
    PageTable table{fmt::format("All {} pairs", rows.size() - 1), rows[0], {}};
    rows.erase(rows.begin());
    table.rows = cells_of(std::move(rows));
    page.hidden_table(table);
  }
  if (!found.pictures.empty()) page.heading("Pictures");
  for (const PagePicture& picture : found.pictures) page.picture(picture);
  write_measured(page, found);
}

/// Everything that is warned of, the file named where there are several.
void write_warnings(HtmlPage& page, const std::vector<ReportSource>& sources) {
  std::vector<std::string> all;
  for (const ReportSource& source : sources) {
    if (!source.model) continue;
    for (const ConfigWarning& warning : source.model->warnings) {
      all.push_back((sources.size() > 1 ? source.text + ": " : "") + warning_text(warning));
    }
  }
  if (all.empty()) return;
  page.section("warnings", all.size() == 1 ? "One warning" : fmt::format("{} warnings", all.size()), "warnings");
  page.list(all);
}

std::string foot() { return fmt::format("Made by bearing {}.", version()); }

void draw_all(const std::vector<PagePicture*>& pictures) {
  if (!pictures.empty()) draw_pictures(pictures);
}

// One model, or one encoding

/// The size of one of a model's `kinds` of layers, which share the time that measuring takes.
SizeOptions shared_size(const Subject& subject, SizeOptions size, Index kinds) {
  const Sizes asked = size.asked();
  if (kinds < 2 || asked.length > 0) return size;
  const inspect::SpecimenOptions whole = measured_size(subject.description, asked, subject.model);
  constexpr Index short_enough = 8192;  // takes no time
  if (whole.length <= short_enough) return size;
  size.length = fmt::format("{}", std::max(short_enough, whole.length / kinds));
  size.heads = fmt::format("{}", whole.heads);
  return size;
}

/// How many encodings of a model are measured; a file may have as many as layers.
constexpr Index most_measured = 32;

/// What is measured of a part. A model has a report also where its encoding cannot be measured.
void find_out(Found& found, const ReportOptions& options, Index kinds, bool of_model, const Executor& on) {
  if (!found.part->subject || !found.refused.empty()) return;
  found.size = shared_size(*found.part->subject, options.size, kinds);
  try {
    found.check = check_subject(*found.part->subject, found.size, on);
  } catch (const UsageError& error) {
    if (!of_model) throw;
    found.refused = error.what();
  }
}

std::string single_page(const std::vector<ReportSource>& sources, const ReportOptions& options, const Executor& on) {
  const ReportSource& source = sources.front();
  std::vector<Found> all;
  Index kinds = 0;
  for (const ReportPart& part : source.parts) {
    Found& found = all.emplace_back(Found{&part});
    if (!part.subject) continue;
    if (kinds == most_measured) {  // each takes a part of a second, and its pictures more
      found.refused = fmt::format("a page has pictures and measurements of the first {} encodings", most_measured);
      continue;
    }
    ++kinds;
    if (!options.no_pictures) found.pictures = report_pictures({&part}, options.size, on);
  }
  std::vector<PagePicture*> pictures;
  for (Found& found : all) {
    for (PagePicture& picture : found.pictures) pictures.push_back(&picture);
  }
  draw_all(pictures);  // first: whether gnuplot is there shows before the long part
  for (Found& found : all) find_out(found, options, kinds, source.model.has_value(), on);
  std::string title = "Positional encoding " + source.text, subtitle = source.parts.front().title;
  if (source.model) {
    const Model& model = source.model->model;
    title = "Positional encodings of " + (model.model_type.empty() ? model.file : model.model_type);
    subtitle = model.file;
  }
  HtmlPage page(title, subtitle);
  write_warnings(page, sources);
  if (source.model) {
    page.section("summary", "In short");
    for (const std::string& sentence : model_summary(*source.model)) page.paragraph(sentence);
    page.facts(pairs_of(model_facts(*source.model)));
  }
  std::size_t number = 0;
  for (const Found& found : all) {
    const std::string part_title = source.model ? found.part->title : "What it is";
    write_part(page, fmt::format("part-{}", ++number), part_title, found);
  }
  return page.text(foot());
}

// Several

/// "O(log L)" comes before "O(L)".
std::string growth_order(const std::string& growth) {
  constexpr std::array known = {"O(1)", "O(log L)", "O(sqrt L)", "O(L)", "O(L^2)"};
  return fmt::format("{}", std::find(known.begin(), known.end(), growth) - known.begin());
}

PageTable comparison_table(const CompareReport& report) {
  const std::vector<std::string> sizes = size_headings(report);
  PageTable table{
      fmt::format("Measured with {}. A heading sorts.", sizes_text(report)),
      {"encoding", "acts on", "learned numbers", "extensible", "past the length", "relative", "decay", "memory"},
      {},
      true};
  table.headings.insert(table.headings.begin() + 1, sizes.begin(), sizes.end());
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const inspect::Comparison& row = report.rows[i];
    table.rows.push_back({{row.name},
                          {row.sites},
                          {row.learnable ? grouped(row.parameters) : "-", row.learnable ? "" : "0"},
                          {inspect::name(row.extensible)},
                          {row.past_length},
                          {inspect::name(row.relative)},
                          {inspect::name(row.decay)},
                          {row.memory, growth_order(row.memory)}});
    std::vector<PageCell>& cells = table.rows.back();
    std::size_t column = 1;
    for (const std::string& number : size_cells(report, i)) {
      cells.insert(cells.begin() + static_cast<std::ptrdiff_t>(column++), {number});
    }
  }
  return table;
}

/// Names that tell encodings of several sources apart: "gemma-3-4b#5" where no other file has that name.
void name_parts(std::vector<ReportSource>& sources) {
  const auto short_name = [](const std::string& text) {
    const std::filesystem::path path(text.substr(0, text.find('#')));
    const bool plain = path.filename() == "config.json" || path.filename().empty();
    const std::string name = (plain ? path.parent_path().filename() : path.stem()).string();
    const std::size_t at = name.starts_with('@') ? 1 : 0;
    return name.size() > at ? name.substr(at) : text;
  };
  std::map<std::string, int> uses;
  for (const ReportSource& source : sources) ++uses[source.model ? short_name(source.text) : source.text];
  for (ReportSource& source : sources) {
    if (!source.model) continue;
    const std::string name = short_name(source.text);
    for (ReportPart& part : source.parts) {
      if (!part.subject) continue;
      const std::size_t hash = part.subject->text.find('#');
      const std::string place = hash == std::string::npos ? "" : part.subject->text.substr(hash);
      part.name = uses[name] == 1 ? name + place : part.subject->text;
    }
  }
}

std::string comparison_page(std::vector<ReportSource>& sources, const ReportOptions& options, const Executor& on) {
  name_parts(sources);
  std::vector<const ReportPart*> parts;
  std::vector<Subject> subjects;
  for (const ReportSource& source : sources) {
    for (const ReportPart& part : source.parts) {
      if (part.subject) parts.push_back(&part), subjects.push_back(*part.subject);
    }
  }
  std::vector<PagePicture> pictures;
  if (!options.no_pictures) pictures = report_pictures(parts, options.size, on);
  std::vector<PagePicture*> to_draw;
  to_draw.reserve(to_draw.size() + pictures.size());
  for (PagePicture& picture : pictures) to_draw.push_back(&picture);
  draw_all(to_draw);
  const CompareReport compared = compare_subjects(subjects, options.size, on);
  if (compared.rows.empty() && !compared.left_out.empty()) throw UsageError(compared.left_out.front().why);

  std::string names;
  for (const ReportSource& source : sources) names += (names.empty() ? "" : ", ") + source.text;
  HtmlPage page("Positional encodings compared", names);
  write_warnings(page, sources);
  page.section("comparison", "Measured side by side");
  page.table(comparison_table(compared));
  for (const CompareReport::LeftOut& one : compared.left_out) {
    page.paragraph(fmt::format("{} is not in the table: {}", one.text, one.why));
  }
  if (!pictures.empty()) page.section("pictures", "Pictures");
  for (const PagePicture& picture : pictures) page.picture(picture);
  if (!compared.claims.empty()) {
    page.section("claims", "Often said");
    PageTable table = claims_table(compared.claims, "What is often said of them, and what was measured");
    table.headings.insert(table.headings.begin(), "encoding");
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      table.rows[i].insert(table.rows[i].begin(), {compared.claims[i].encoding});
    }
    page.table(table);
  }
  std::size_t number = 0;
  for (const ReportSource& source : sources) {
    for (const ReportPart& part : source.parts) {
      const std::string title = source.model ? source.text + ": " + part.title : part.title;
      write_part(page, fmt::format("part-{}", ++number), title, {&part});
    }
  }
  return page.text(foot());
}

/// A report does not take the place of what it reports on.
void spare_inputs(const std::vector<ReportSource>& sources, const std::string& out) {
  std::error_code ignored;
  for (const ReportSource& source : sources) {
    if (!source.model || out.empty() || !std::filesystem::equivalent(source.model->model.file, out, ignored)) continue;
    throw UsageError(fmt::format("--out: must be another file than the model's, got '{}'", out));
  }
}

void report(const ReportOptions& options) {
  const Executor on = executor_of(options.threads);
  std::vector<ReportSource> sources;
  for (const std::string& text : options.encodings) sources.push_back(report_source(text, options.size.asked()));
  spare_inputs(sources, options.out);
  const bool alone = sources.size() == 1 && (sources.front().model || sources.front().parts.size() == 1);
  deliver(options.out, alone ? single_page(sources, options, on) : comparison_page(sources, options, on));
}

}  // namespace

Command report_command() {
  const auto options = std::make_shared<ReportOptions>();
  Command command{"report", "Write a page about a model, or about encodings"};
  command.options.push_back({"FILE|ENCODING",
                             "...",
                             "A model's config.json or folder, or encodings as check\ntakes them; several are compared",
                             Takes::encoding,
                             &options->encodings,
                             {},
                             true});
  options->size.add_to(command);
  command.flag("--no-pictures", options->no_pictures, "Words and tables alone; needs no gnuplot");
  command.text("--threads", options->threads, "N", "Threads (default 1, 0: all); results do not change");
  command.output("-o,--out", options->out, "Where the page goes; else standard output");
  command.footer =
      "The page is one HTML file. It loads nothing from elsewhere, is dark or light\n"
      "as its reader's screen is, and can be printed. gnuplot draws its pictures.\n"
      "For a model it has a summary, warnings, and the numbers, pictures and measured\n"
      "properties of each kind of layer. For several encodings it has what compare\n"
      "measures, in a table that can be sorted, and pictures side by side.\n"
      "\n"
      "Examples:\n"
      "  bearing report config.json -o report.html\n"
      "  bearing report rope alibi t5 -o comparison.html\n"
      "  bearing report @llama/ @gemma/ alibi --no-pictures -o models.html";
  command.run = [options] { report(*options); };
  return command;
}

}  // namespace bearing::tool
