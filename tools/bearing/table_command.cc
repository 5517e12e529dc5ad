#include <fmt/format.h>

#include <algorithm>
#include <bearing/npy.hpp>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <system_error>

#include "arguments.hpp"
#include "commands.hpp"
#include "inspect_options.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

using inspect::Array;

struct Options {
  std::string encoding, kind, format, out, first, head;
  SizeOptions size;
  bool all = false;
};

/// What is shown: numbers [heads, rows, columns] and what a row and a column are.
struct Table {
  Array numbers;
  std::string row, column;
  Index first = 0;  ///< the first row's label
  bool rows_have_heads = true;
};

/// 2^27 numbers, 1 GiB: more is likely a typing error.
constexpr Index most_numbers = Index{1} << 27;

std::string kind_of(const Options& options, const inspect::Specimen& specimen) {
  const bool rows = specimen.input_rows || specimen.turn_rows, scores = specimen.score_terms != nullptr;
  std::string kind = !options.kind.empty() ? options.kind
                     : specimen.input_rows ? "rows"
                     : scores              ? "scores"
                     : rows                ? "rows"
                                           : "logits";
  if (kind != "rows" && kind != "scores" && kind != "logits") {
    throw UsageError(fmt::format("--kind: must be rows, scores or logits, got '{}'", kind));
  }
  if ((kind == "rows" && !rows) || (kind == "scores" && !scores)) {
    throw UsageError(
        fmt::format("table: {} has no {}: it acts on {}", options.encoding, kind, inspect::sites(specimen)));
  }
  return kind;
}

Table make_table(const Options& options) {
  const inspect::Entry& entry = entry_of("table", options.encoding);
  Table table;
  if (!options.first.empty()) table.first = parse_index("--first", options.first, -max_position, max_position);
  with_library_errors("table", [&] {
    const inspect::SpecimenOptions asked = options.size.parse();
    const auto check_size = [&asked](Index columns) {
      if (asked.heads * asked.length * columns <= most_numbers) return;
      throw UsageError("table: heads, length and dim ask for more than 2^27 numbers");
    };
    check_size(asked.dim);  // queries, keys and rows have as many
    const inspect::Specimen specimen = inspect::make(entry, asked);
    const inspect::SpecimenOptions& size = specimen.options;
    const std::string kind = kind_of(options, specimen);
    if (kind != "rows") check_size(asked.length);
    const inspect::Tokens tokens = specimen.tokens(size.length, table.first);
    table.row = kind == "rows" ? "position" : "query", table.column = kind == "rows" ? "dimension" : "key";
    inspect::Normal normal(size.seed);
    const Array q = normal.array(size.heads, size.length, size.dim),
                k = normal.array(size.heads, size.length, size.dim);
    if (kind == "rows") {
      table.rows_have_heads = !specimen.input_rows;
      table.numbers = specimen.input_rows ? specimen.inputs(tokens) : specimen.turn(Side::key, tokens, k);
    } else {
      table.numbers = kind == "scores" ? specimen.scores(tokens, tokens, q, k) : specimen.logits(tokens, tokens, q, k);
    }
  });
  return table;
}

/// Four significant digits in at most ten columns.
std::string cell(double number) { return fmt::format("{:.4g}", number); }

/// One head, as many rows and columns as are readable; what is left out is counted.
std::string to_text(const Table& table, Index head, const Style& style, bool all) {
  constexpr std::size_t cell_width = 11;
  constexpr Index most_rows = 24;
  const Array& x = table.numbers;
  const std::string heading = x.shape[0] > 1 ? fmt::format("head {} of {}; ", head, x.shape[0]) : "";
  std::string out =
      wrapped(fmt::format("{}{} down, {} across: [{}, {}]", heading, table.row, table.column, x.shape[1], x.shape[2]),
              style.width, 0);
  const auto fit = static_cast<Index>((style.width - 10) / cell_width);
  const Index cols = std::min(x.shape[2], fit), rows = all ? x.shape[1] : std::min(x.shape[1], most_rows);
  std::string line = fmt::format("{:>10}", "");
  for (Index j = 0; j < cols; ++j)
    line += fmt::format("{:>{}}", j + (table.column == "key" ? table.first : 0), cell_width);
  out += bold(style, line) + '\n';
  for (Index i = 0; i < rows; ++i) {
    out += fmt::format("{:>10}", i + table.first);
    for (Index j = 0; j < cols; ++j) out += fmt::format("{:>{}}", cell(x(head, i, j)), cell_width);
    out += '\n';
  }
  if (rows < x.shape[1] || cols < x.shape[2]) {
    out += wrapped(fmt::format("{} more rows, {} more columns: --format csv or npy has them all", x.shape[1] - rows,
                               x.shape[2] - cols),
                   style.width, 0);
  }
  return out;
}

/// "head,position,0,1,2": full precision.
std::string to_csv(const Table& table) {
  const Array& x = table.numbers;
  std::string out = fmt::format("head,{}", table.row);
  const Index from = table.column == "key" ? table.first : 0;
  for (Index j = 0; j < x.shape[2]; ++j) out += fmt::format(",{}", j + from);
  out += '\n';
  for (Index h = 0; h < x.shape[0]; ++h) {
    for (Index i = 0; i < x.shape[1]; ++i) {
      out += fmt::format("{},{}", h, i + table.first);
      for (Index j = 0; j < x.shape[2]; ++j) out += fmt::format(",{}", x(h, i, j));
      out += '\n';
    }
  }
  return out;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written: " + std::generic_category().message(errno));
}

std::string format_of(const Options& options) {
  if (!options.format.empty()) {
    if (options.format != "npy" && options.format != "csv" && options.format != "text") {
      throw UsageError(fmt::format("--format: must be npy, csv or text, got '{}'", options.format));
    }
    if (options.format == "npy" && options.out.empty()) throw UsageError("--format npy needs -o FILE");
    return options.format;
  }
  const std::size_t dot = options.out.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : options.out.substr(dot + 1);
  return ending == "npy" || ending == "csv" ? ending : "text";
}

void show_table(const Options& options) {
  const std::string format = format_of(options);
  const Table table = make_table(options);
  const Array& x = table.numbers;
  const Index head = options.head.empty() ? 0 : parse_index("--head", options.head, 0, x.shape[0] - 1);
  if (format == "npy") {
    const std::vector<Index> shape = table.rows_have_heads ? std::vector<Index>{x.shape[0], x.shape[1], x.shape[2]}
                                                           : std::vector<Index>{x.shape[1], x.shape[2]};
    write_npy(options.out, "f8", shape, x.values.data());
    return;
  }
  const std::string text = format == "csv" ? to_csv(table) : to_text(table, head, output_style(), options.all);
  if (options.out.empty()) {
    print(text);
  } else {
    write_text(options.out, text);
  }
}

}  // namespace

Action add_table_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("table", "Print or write an encoding's table or bias matrix");
  const auto o = std::make_shared<Options>();
  command->add_option("ENCODING", o->encoding, "One of those that 'bearing list' shows")->required()->type_name("");
  o->size.add_to(*command);
  command->add_option("--first", o->first, "Position of the first token (default 0)")->type_name("N");
  command->add_option("--kind", o->kind, "rows, scores or logits; see below")->type_name("KIND");
  command->add_option("--head", o->head, "Which head the text shows (default 0)")->type_name("H");
  command->add_option("--format", o->format, "npy, csv or text (default: by FILE's ending)")->type_name("FORMAT");
  command->add_option("-o,--out", o->out, "Where to write; else standard output")->type_name("FILE");
  command->add_flag("--all", o->all, "Text: every row");
  command->footer(
      "rows: what is added to the input [length, dim], or seeded keys after turning\n"
      "[heads, length, dim]. scores: what the score site adds [heads, length, length];\n"
      "terms that look at queries and keys get seeded ones. logits: the whole score of\n"
      "seeded queries and keys. The default is rows for the input and for rotations,\n"
      "else scores. What is learned is drawn from the seed.\n"
      "\n"
      "Examples:\n"
      "  bearing table sinusoidal --dim 64 --length 512 -o sinusoidal.npy\n"
      "  bearing table alibi --heads 8 --length 16\n"
      "  bearing table t5 --format csv > t5.csv");
  return [o] { show_table(*o); };
}

}  // namespace bearing::tool
