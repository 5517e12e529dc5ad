#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bearing/figure_file.hpp>
#include <bearing/figures.hpp>
#include <bearing/npy.hpp>
#include <limits>
#include <optional>
#include <utility>

#include "array_files.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"
#include "plot_files.hpp"
#include "plot_subjects.hpp"
#include "progress.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {

using inspect::DocumentFigure;
using inspect::Figure;
using inspect::FigureKind;
using inspect::FigureOptions;

namespace {

struct PlotOptions {
  std::string kind;
  std::vector<std::string> encodings;
  std::string heads, dim, length, seed, what, positions, dims, head, offset, window, sinks, packed, words, w_q, w_k;
  bool causal = false, no_causal = false, list = false, json = false, dark = false, script = false;
  std::string figure, out, format, background, width, threads = "1";
};

/// "0,1,5"; lengths can be said in k and M.
std::vector<Index> parse_list(const std::string& option, const std::string& text, Index lowest) {
  std::vector<Index> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    numbers.push_back(parse_index(option, text.substr(begin, comma - begin), lowest, max_position));
    begin = comma + 1;
  }
  return numbers;
}

std::vector<Index> parse_positions(const std::string& text) {
  const bool list = text.find_first_not_of("0123456789,-kM") == text.npos;
  return list ? parse_list("--positions", text, -max_position) : read_index_file(text);
}

/// A matrix of a file, as the first and only one of an array.
std::optional<inspect::Array> read_matrix(const std::string& file) {
  if (file.empty()) return {};
  const NpyArray read = read_npy(file);
  if (read.shape.size() != 2 || (read.dtype != "f8" && read.dtype != "f4")) {
    bad_file(file, fmt::format("must be float64 or float32 (f8, f4) of two axes, got {} {}", read.dtype,
                               shape_text(read.shape)));
  }
  inspect::Array matrix(1, read.shape[0], read.shape[1]);
  const auto fill = [&](const auto* from) { std::copy(from, from + matrix.values.size(), matrix.values.begin()); };
  if (read.dtype == "f8") fill(reinterpret_cast<const double*>(read.bytes.data()));
  if (read.dtype == "f4") fill(reinterpret_cast<const float*>(read.bytes.data()));
  return matrix;
}

FigureOptions parse_options(const PlotOptions& o) {
  if (o.causal && o.no_causal) throw UsageError("--causal and --no-causal exclude each other");
  const auto number = [](const char* option, const std::string& text, Index lowest, Index most) {
    return text.empty() ? 0 : parse_index(option, text, lowest, most);
  };
  FigureOptions options;
  options.heads = number("--heads", o.heads, 1, largest_example.heads);
  options.dim = number("--dim", o.dim, 1, largest_example.dim);
  // Wavelengths need no example as long as that.
  options.length = number("--length", o.length, 1, o.kind == "wavelengths" ? max_position : largest_example.length);
  options.window = number("--window", o.window, 1, max_position);
  options.sinks = number("--sink-tokens", o.sinks, 1, max_position);
  constexpr Index most_seed = std::numeric_limits<std::int64_t>::max();
  if (!o.seed.empty()) options.seed = static_cast<std::uint64_t>(parse_index("--seed", o.seed, 0, most_seed));
  options.what = o.what;
  if (!o.positions.empty()) options.positions = parse_positions(o.positions);
  if (!o.dims.empty()) options.dims = parse_list("--dims", o.dims, 0);
  if (!o.packed.empty()) options.packed = parse_list("--packed", o.packed, 1);
  if (!o.head.empty()) options.head = parse_index("--head", o.head, 0, largest_example.heads - 1);
  if (!o.offset.empty()) options.offset = parse_index("--offset", o.offset, -max_position, max_position);
  if (o.causal || o.no_causal) options.causal = o.causal;
  options.words = read_matrix(o.words), options.w_q = read_matrix(o.w_q), options.w_k = read_matrix(o.w_k);
  options.on = executor_of(o.threads);
  return options;
}

/// One of a figure's options that stands on the command line; empty if none does.
std::string given_option(const PlotOptions& o) {
  const std::pair<const char*, const std::string*> all[] = {{"--heads", &o.heads},
                                                            {"--dim", &o.dim},
                                                            {"--length", &o.length},
                                                            {"--seed", &o.seed},
                                                            {"--what", &o.what},
                                                            {"--dims", &o.dims},
                                                            {"--head", &o.head},
                                                            {"--positions", &o.positions},
                                                            {"--offset", &o.offset},
                                                            {"--window", &o.window},
                                                            {"--sink-tokens", &o.sinks},
                                                            {"--packed", &o.packed},
                                                            {"--words", &o.words},
                                                            {"--w-q", &o.w_q},
                                                            {"--w-k", &o.w_k}};
  for (const auto& [name, value] : all) {
    if (!value->empty()) return name;
  }
  return o.causal ? "--causal" : o.no_causal ? "--no-causal" : "";
}

/// What the command line calls a member of FigureOptions.
std::string option_named(const std::string& member) {
  std::string name = member == "sinks" ? "--sink-tokens" : "--" + member;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Why an encoding has nothing of the kind to show; empty if it has.
std::string why_not(const std::string& kind, const Subject& one, const FigureOptions& options) {
  try {
    (void)subjects_figure(kind, {one}, options);
  } catch (const std::logic_error& error) {
    const std::string what = error.what(), about = "[figure] " + one.text + ": ";
    if (what.starts_with(about)) return what.substr(about.size());
  }
  return "";
}

/// Of what a text says, those that have something of the kind to show, if a model says several. Notes name the others.
std::vector<Subject> shown_of(const std::string& kind, const std::vector<Subject>& all, const FigureOptions& options) {
  std::vector<Subject> shown;
  std::vector<std::string> notes;
  for (const Subject& one : all) {
    const std::string why = all.size() > 1 ? why_not(kind, one, options) : "";
    if (why.empty()) shown.push_back(one);
    if (!why.empty()) notes.push_back(fmt::format("{} is left out: {}", printable(one.text), why));
  }
  if (shown.empty()) return all;
  for (const std::string& one : notes) note(one);
  return shown;
}

std::vector<Subject> joined(const std::vector<std::vector<Subject>>& lists) {
  std::vector<Subject> all;
  for (const std::vector<Subject>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// All subjects in one picture; where one of a model's has nothing to show, the others.
Figure drawn(const std::string& kind, const std::vector<std::string>& encodings, const FigureOptions& options) {
  std::vector<std::vector<Subject>> lists;  // of each text
  lists.reserve(encodings.size());
  for (const std::string& text : encodings) lists.push_back(subjects_of("plot", text));
  const std::vector<Subject> said = joined(lists);
  std::vector<Subject> shown;
  try {
    return subjects_figure(kind, said, options);
  } catch (const std::logic_error&) {
    for (std::vector<Subject>& list : lists) list = shown_of(kind, list, options);
    shown = joined(lists);
    if (shown.size() == said.size()) throw;
  }
  return subjects_figure(kind, shown, options);
}

/// What the library refuses is a wrong command line, in its words. What is being worked out stands on a terminal until
/// it is there.
Figure figure_of(const std::string& kind, const std::vector<std::string>& encodings, const FigureOptions& options) {
  Progress progress;
  progress.show(encodings.empty() ? kind : fmt::format("{} of {}", kind, fmt::join(encodings, ", ")));
  try {
    return drawn(kind, encodings, options);
  } catch (const std::logic_error& error) {
    std::string text = error.what();
    for (const char* word : {"[figure] sinks:", "[figure] encodings:"}) {
      const std::string now = word[9] == 's' ? "[figure] sink_tokens:" : "plot:";
      if (text.rfind(word, 0) == 0) text.replace(0, std::string(word).size(), now);
    }
    throw UsageError(text);
  }
}

// What is drawn

std::vector<std::string> documents() {
  std::vector<std::string> names;
  for (const DocumentFigure& one : inspect::document_figures()) {
    if (std::find(names.begin(), names.end(), one.document) == names.end()) names.push_back(one.document);
  }
  return names;
}

std::vector<std::string> words() {
  std::vector<std::string> all;
  for (const FigureKind& kind : inspect::figure_kinds()) all.push_back(kind.name);
  for (const std::string& document : documents()) all.push_back(document);
  all.push_back("all");
  return all;
}

/// The words, and what those are that are no kinds.
std::string words_text() {
  std::vector<std::string> kinds, others = documents();
  for (const FigureKind& kind : inspect::figure_kinds()) kinds.push_back(kind.name);
  others.emplace_back("all");
  return either(kinds) + ", or " + either(others) + " for the figures of a founding document";
}

std::string format_of(const PlotOptions& o) {
  if (o.json && !o.format.empty() && o.format != "json") {
    throw UsageError("--json and --format " + o.format + " exclude each other");
  }
  if (o.json) return "json";
  if (!o.format.empty()) return o.format;
  if (o.out.empty()) return "text";
  const std::size_t dot = o.out.rfind('.');
  std::string ending = dot == o.out.npos ? "" : o.out.substr(dot + 1);
  if (ending == "txt") ending = "text";
  const std::vector<std::string> known = plot_formats();
  if (std::find(known.begin(), known.end(), ending) != known.end()) return ending;
  throw UsageError(
      fmt::format("--out: must end in .png, .svg, .pdf, .txt, .json or .gp, or say --format; got '{}'", o.out));
}

PlotOutput output_of(const PlotOptions& o, const std::string& format) {
  if (o.dark && !o.background.empty() && o.background != "dark") {
    throw UsageError("--dark and --background " + o.background + " exclude each other");
  }
  PlotOutput output;
  output.file = o.out, output.format = format;
  output.background = o.dark ? "dark" : o.background.empty() ? "white" : o.background;
  const bool columns = format == "text";
  if (!o.width.empty()) {
    output.width = static_cast<int>(columns ? parse_index("--width", o.width, 40, 400)
                                            : parse_index("--width", o.width, 300, 4000));
  }
  output.script = o.script;
  if (o.script && (o.out.empty() || columns || format == "json" || format == "gp")) {
    throw UsageError("--script: must stand with a picture of gnuplot's: --out FILE.png, .svg or .pdf");
  }
  return output;
}

/// All figures of a document: into a folder, or one after the other.
void plot_document(const PlotOptions& o) {
  const FigureOptions given = parse_options(o);
  if (!o.encodings.empty()) throw UsageError("plot: the figures of " + o.kind + " have their encodings: name none");
  const std::string option = given_option(o);
  if (!option.empty()) throw UsageError(option + ": the figures of " + o.kind + " have their options");
  std::string format = o.json ? "json" : o.format;
  if (format.empty()) format = o.out.empty() ? "text" : "png";
  PlotOutput output = output_of(o, format);
  if (!o.out.empty()) make_folder(o.out);
  for (const DocumentFigure& one : inspect::document_figures()) {
    if (o.kind != "all" && o.kind != one.document) continue;
    FigureOptions options = one.options;
    options.on = given.on;
    const Figure figure = figure_of(one.kind, one.encodings, options);
    if (!o.out.empty()) {
      output.file = fmt::format("{}/{}-{}.{}", o.out, one.document, one.name, format == "text" ? "txt" : format);
    }
    write_figure(figure, output);
    print(o.out.empty() ? "\n" : fmt::format("{}  {}\n", printable(output.file), printable(one.says)));
  }
}

/// A figure that a file holds: its numbers are there, so that there is nothing to be said about them.
void plot_file(const PlotOptions& o) {
  if (!o.kind.empty()) throw UsageError("--figure: the file says what to draw: name no kind, got " + o.kind);
  const std::string option = given_option(o);
  if (!option.empty()) throw UsageError(option + ": the figure of a file has its numbers");
  const PlotOutput output = output_of(o, format_of(o));
  write_figure(inspect::read_figure(o.figure), output);
}

// --list

std::string encodings_of(const FigureKind& kind) {
  if (kind.most == 0) return "none";
  if (kind.fewest == kind.most) return fmt::format("{}", kind.most);
  return fmt::format("{} to {}", kind.fewest, kind.most);
}

std::string taken(const FigureKind& kind) {
  std::string all;
  for (const std::string& member : kind.takes) all += (all.empty() ? "" : " ") + option_named(member);
  return all;
}

std::string list_text(const Style& style) {
  std::vector<std::vector<std::string>> rows;
  for (const FigureKind& kind : inspect::figure_kinds()) {
    rows.push_back({kind.name, kind.shows, encodings_of(kind), taken(kind)});
  }
  std::string out = text_table({"kind", "shows", "encodings", "takes"}, rows, style);
  std::vector<std::vector<std::string>> figures;
  for (const DocumentFigure& one : inspect::document_figures()) {
    figures.push_back({one.document, one.name, one.kind, one.says});
  }
  return out + '\n' + text_table({"document", "figure", "kind", "says"}, figures, style);
}

std::string list_json() {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.figures/1");
  json.key("kinds");
  json.begin_array();
  for (const FigureKind& kind : inspect::figure_kinds()) {
    json.begin_object();
    json.member("name", kind.name);
    json.member("shows", kind.shows);
    json.member("fewest", kind.fewest);
    json.member("most", kind.most);
    json.key("takes");
    json.begin_array();
    for (const std::string& member : kind.takes) json.value(option_named(member));
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.key("documents");
  json.begin_array();
  for (const DocumentFigure& one : inspect::document_figures()) {
    json.begin_object();
    json.member("document", one.document);
    json.member("name", one.name);
    json.member("says", one.says);
    json.member("kind", one.kind);
    json.list("encodings", one.encodings);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

void plot(const PlotOptions& o) {
  if (o.list) return deliver(o.out, o.json ? list_json() : list_text(output_style(o.out)));
  if (!o.figure.empty()) return plot_file(o);
  if (o.kind.empty()) throw UsageError("plot: a kind is needed: " + words_text() + "; --list says what they show");
  if (inspect::find_figure_kind(o.kind) == nullptr) return plot_document(o);
  const PlotOutput output = output_of(o, format_of(o));
  const FigureOptions options = parse_options(o);
  write_figure(figure_of(o.kind, o.encodings, options), output);
}

void add_figure_options(Command& command, PlotOptions& o) {
  command.text("--heads", o.heads, "N", "Heads (default: the kind's, or the model's)");
  command.text("--dim", o.dim, "N", "Dimensions of a head (default: the kind's, or the\nmodel's)");
  command.text("--length", o.length, "N", "Tokens (default: the kind's)");
  command.text("--seed", o.seed, "N", "Draws what would be learned (default 1)");
  command.text("--what", o.what, "WHAT",
               "Of heatmap: rows, scores, logits or pattern;\nof hands: a word for each position");
  command.input("--positions", o.positions, "N,...|FILE", "Which positions: a list, or an int64 .npy file");
  command.text("--dims", o.dims, "N,...", "Which dimensions, or pairs of them");
  command.text("--head", o.head, "H", "Which head (default: all, or the first)");
  command.text("--offset", o.offset, "K", "Of offset and hands: how many tokens later");
  command.flag("--causal", o.causal, "Hide keys after the query");
  command.flag("--no-causal", o.no_causal, "Show them (default: as the encoding is meant)");
  command.text("--window", o.window, "N", "Of masks: a sliding window, in tokens (default: the\nmodel's, else none)");
  command.text("--sink-tokens", o.sinks, "N", "Of masks: how many first tokens all others see");
  command.text("--packed", o.packed, "N,...", "Of masks: lengths of packed sequences");
  command.input("--words", o.words, "FILE", "Of correlations: words' vectors [time, dim], .npy");
  command.input("--w-q", o.w_q, "FILE", "Of correlations: [dim, head_dim], .npy");
  command.input("--w-k", o.w_k, "FILE", "The same for keys (default of all three: random)");
}

}  // namespace

Command plot_command() {
  const auto o = std::make_shared<PlotOptions>();
  Command command{"plot", "Draw what an encoding does"};
  command.options.push_back(
      {"KIND", "",
       "What to draw; or 000, 001, 002, all: the figures\nof a founding document. --list says what they show",
       Takes::word, &o->kind, words(), false, words_text()});
  command.options.push_back(
      {"ENCODING", "...", "Which ones, as check takes them; drawn side by side", Takes::encoding, &o->encodings});
  command.flag("--list", o->list, "List all kinds: what they show and what they take");
  add_figure_options(command, *o);
  command.input("--figure", o->figure, "FILE",
                "Draws the figure of a JSON file, as --json\nwrites it, in place of a KIND");
  command.output("-o,--out", o->out,
                 ".png, .svg, .pdf, .txt, .json or .gp;\nfor a document's figures a folder; else printed");
  command.word("--format", o->format, "FORMAT", plot_formats(),
               "png, svg, pdf, text, json or gp\n(default: by FILE's ending)");
  command.flag("--json", o->json, "The same as --format json");
  command.text("--width", o->width, "N",
               "Of a picture in pixels (default 900), of text in\ncolumns (default: the terminal's)");
  command.flag("--dark", o->dark, "The same as --background dark");
  command.word("--background", o->background, "COLOUR", {"white", "dark", "none"},
               "white (default), dark or none: transparent, with\nwords in a grey that is read on both");
  command.flag("--script", o->script, "Writes gnuplot's script, with its data, beside FILE");
  command.text("--threads", o->threads, "N", "Threads (default 1, 0: all); results do not change");
  command.footer =
      "Pictures are drawn by gnuplot; text, JSON and scripts need no other program.\n"
      "Text has colours on a terminal only, without NO_COLOR. It is in ASCII\n"
      "where the locale is not UTF-8. Encodings stand side by side on one scale.\n"
      "\n"
      "Examples:\n"
      "  bearing plot curves sinusoidal rope\n"
      "  bearing plot curves @config.json -o curves.svg\n"
      "  bearing plot --list\n"
      "  bearing plot 000 -o figures";
  command.run = [o] { plot(*o); };
  return command;
}

}  // namespace bearing::tool
