#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arguments.hpp"
#include "array_files.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

using inspect::Array;

struct TableOptions {
  std::string encoding, kind, format, out, positions, head;
  SizeOptions size;
  bool all = false, json = false;
};

/// What is shown: numbers [heads, rows, columns] and what a row and a column are.
struct Table {
  Array numbers;
  std::string encoding, kind;
  std::string contents;  ///< in words: where the numbers come from
  std::string row, column;
  std::vector<Index> positions;  ///< the tokens': labels of rows, and of columns that are keys
  bool rows_have_heads = true;
};

/// 2^27 numbers, 1 GiB: more is likely a typing error.
constexpr Index most_numbers = Index{1} << 27;

std::string kind_of(const TableOptions& options, const inspect::Specimen& specimen) {
  const bool rows = specimen.input_rows || specimen.turn_rows, scores = specimen.score_terms != nullptr;
  std::string kind = !options.kind.empty() ? options.kind
                     : specimen.input_rows ? "rows"
                     : scores              ? "scores"
                     : rows                ? "rows"
                                           : "logits";
  if ((kind == "rows" && !rows) || (kind == "scores" && !scores)) {
    throw UsageError(
        fmt::format("table: {} has no {}: it acts on {}", options.encoding, kind, inspect::sites(specimen)));
  }
  return kind;
}

/// Whether scores are other ones for queries and keys of nothing but zeros; the first query tells.
bool look_at_content(const Array& scores, const inspect::Specimen& specimen, const inspect::Tokens& first,
                     const inspect::Tokens& tokens) {
  const Index heads = specimen.options.heads, dim = specimen.options.dim;
  const Array blank = specimen.scores(first, tokens, Array(heads, 1, dim), Array(heads, tokens.count(), dim));
  for (Index h = 0; h < scores.shape[0]; ++h) {
    for (Index j = 0; j < scores.shape[2]; ++j) {
      if (scores(h, 0, j) != blank(h, 0, j)) return true;
    }
  }
  return false;
}

/// "keys drawn from seed 1, turned": nobody is to take drawn numbers for the encoding's own.
std::string contents_of(const std::string& kind, const inspect::Specimen& specimen, bool of_content) {
  const auto seed = specimen.options.seed;
  std::string out;
  if (kind == "rows") {
    out = specimen.input_rows ? "what is added to the input" : fmt::format("keys drawn from seed {}, turned", seed);
  } else if (kind == "scores") {
    out = "what is added to the scores";
    if (of_content) out += fmt::format(", of queries and keys drawn from seed {}", seed);
  } else {
    out = fmt::format("scores of queries and keys drawn from seed {}", seed);
  }
  if (specimen.parameters > 0 && !specimen.own_numbers)
    out += fmt::format("; what is learned is drawn from seed {}", seed);
  return out;
}

/// Where the tokens of a table stand: counted from a number, or as a file says.
class Place {
 public:
  Place(const std::string& text, Index length) : listed_(!text.empty() && !is_index(text)) {
    if (listed_) {
      if (!text.ends_with(".npy") && text.find_first_not_of("0123456789+-.,eE ") == std::string::npos) {
        throw UsageError(
            "--positions: must be a whole number, the first, or an int64 .npy file of whole numbers, got " + text);
      }
      positions_ = read_index_file(text);
      if (positions_.empty()) bad_file(text, "must have a position at least, got none");
    } else {
      const Index first = text.empty() ? 0 : parse_index("--positions", text, -max_position, max_position);
      for (Index t = 0; t < length; ++t) positions_.push_back(first + t);
    }
  }

  const std::vector<Index>& positions() const { return positions_; }
  Index count() const { return static_cast<Index>(positions_.size()); }

  /// The first tokens.
  inspect::Tokens tokens(const inspect::Specimen& specimen, Index count) const {
    if (!listed_) return specimen.tokens(count, positions_.front());
    if (specimen.is_image() || specimen.by_index) {
      throw UsageError("--positions: must be a number for an encoding that goes by a grid or by indices, got a file");
    }
    return inspect::Tokens({positions_.begin(), positions_.begin() + count});
  }

 private:
  bool listed_;
  std::vector<Index> positions_;
};

void fill(Table& table, const inspect::Specimen& specimen, const Place& place) {
  const inspect::SpecimenOptions& size = specimen.options;
  const inspect::Tokens tokens = place.tokens(specimen, place.count());
  inspect::Normal normal(size.seed);
  const Array q = normal.array(size.heads, place.count(), size.dim),
              k = normal.array(size.heads, place.count(), size.dim);
  bool of_content = false;
  if (table.kind == "rows") {
    table.rows_have_heads = !specimen.input_rows;
    table.numbers = specimen.input_rows ? specimen.inputs(tokens) : specimen.turn(Side::key, tokens, k);
  } else if (table.kind == "scores") {
    table.numbers = specimen.scores(tokens, tokens, q, k);
    of_content = look_at_content(table.numbers, specimen, place.tokens(specimen, 1), tokens);
  } else {
    table.numbers = specimen.logits(tokens, tokens, q, k);
  }
  table.contents = contents_of(table.kind, specimen, of_content);
}

Table make_table(const TableOptions& options) {
  const Subject subject = subject_of("table", options.encoding);
  Table table;
  table.encoding = subject.text;
  with_library_errors("table", [&] {
    const inspect::SpecimenOptions asked = options.size.parse(subject.model);
    const auto check_size = [&asked](Index rows, Index columns) {
      if (rows <= most_numbers && columns <= most_numbers && asked.heads * rows <= most_numbers / columns) return;
      throw UsageError("table: heads, length and dim make more than 2^27 numbers");
    };
    check_size(asked.length, asked.dim);  // queries, keys and rows have as many
    const inspect::Specimen specimen = inspect::make(subject.description, asked);
    const Place place(options.positions, specimen.options.length);
    table.kind = kind_of(options, specimen);
    table.positions = place.positions();
    check_size(place.count(), table.kind == "rows" ? asked.dim : place.count());
    table.row = table.kind == "rows" ? "position" : "query", table.column = table.kind == "rows" ? "dimension" : "key";
    fill(table, specimen, place);
    note_length(subject, options.size, specimen.options.length);
  });
  return table;
}

/// Four significant digits in at most ten columns.
std::string cell(double number) { return fmt::format("{:.4g}", number); }

Index column_label(const Table& table, Index j) {
  return table.column == "key" ? table.positions[static_cast<std::size_t>(j)] : j;
}

std::string counted(Index count, const char* what) {
  return fmt::format("{} more {}{}", grouped(count), what, count == 1 ? "" : "s");
}

/// One head. On a terminal as many rows and columns as are readable, unless all are asked for; what is left out is
/// counted.
std::string to_text(const Table& table, Index head, const Style& style, bool all) {
  constexpr std::size_t cell_width = 11;
  constexpr Index most_rows = 24;
  const Array& x = table.numbers;
  const bool whole = all || !style.terminal;
  const std::string heading = x.shape[0] > 1 ? fmt::format("head {} of {}; ", head, x.shape[0]) : "";
  std::string out = wrapped(fmt::format("{}: {}", printable(table.encoding), table.contents), style.width, 0);
  out +=
      wrapped(fmt::format("{}{} down, {} across: [{}, {}]", heading, table.row, table.column, x.shape[1], x.shape[2]),
              style.width, 0);
  const auto fit = static_cast<Index>((style.width - 10) / cell_width);
  const Index cols = whole ? x.shape[2] : std::min(x.shape[2], fit);
  const Index rows = whole ? x.shape[1] : std::min(x.shape[1], most_rows);
  std::string line = fmt::format("{:>10}", "");
  for (Index j = 0; j < cols; ++j) line += fmt::format("{:>{}}", column_label(table, j), cell_width);
  out += bold(style, line) + '\n';
  for (Index i = 0; i < rows; ++i) {
    out += fmt::format("{:>10}", table.positions[static_cast<std::size_t>(i)]);
    for (Index j = 0; j < cols; ++j) out += fmt::format("{:>{}}", cell(x(head, i, j)), cell_width);
    out += '\n';
  }
  std::string left;
  if (rows < x.shape[1]) left = counted(x.shape[1] - rows, "row");
  if (cols < x.shape[2]) left += (left.empty() ? "" : ", ") + counted(x.shape[2] - cols, "column");
  if (!left.empty()) out += wrapped(left + ": --all, a pipe or a file gets them all", style.width, 0);
  return out;
}

/// "head,position,0,1,2": full precision.
std::string to_csv(const Table& table) {
  const Array& x = table.numbers;
  std::string out = fmt::format("head,{}", table.row);
  for (Index j = 0; j < x.shape[2]; ++j) out += fmt::format(",{}", column_label(table, j));
  out += '\n';
  for (Index h = 0; h < x.shape[0]; ++h) {
    for (Index i = 0; i < x.shape[1]; ++i) {
      out += fmt::format("{},{}", h, table.positions[static_cast<std::size_t>(i)]);
      for (Index j = 0; j < x.shape[2]; ++j) out += fmt::format(",{}", x(h, i, j));
      out += '\n';
    }
  }
  return out;
}

/// All numbers, [heads][rows][columns], in full precision.
std::string table_json(const Table& table) {
  const Array& x = table.numbers;
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.table/1");
  json.member("encoding", table.encoding);
  json.member("kind", table.kind);
  json.member("contents", table.contents);
  json.member("row", table.row);
  json.member("column", table.column);
  json.list("positions", table.positions);
  json.key("numbers");
  json.begin_array();
  for (Index h = 0; h < x.shape[0]; ++h) {
    json.begin_array();
    for (Index i = 0; i < x.shape[1]; ++i) {
      const double* row = x.values.data() + (h * x.shape[1] + i) * x.shape[2];
      json.list(std::vector<double>(row, row + x.shape[2]));
    }
    json.end_array();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

std::vector<std::string> formats() { return {"npy", "csv", "json", "text"}; }

std::string format_of(const TableOptions& options) {
  if (options.json && !options.format.empty() && options.format != "json") {
    throw UsageError("--json and --format " + options.format + " exclude each other");
  }
  if (options.json) return "json";
  if (options.format == "npy" && options.out.empty()) throw UsageError("--format npy needs --out FILE");
  if (!options.format.empty()) return options.format;
  const std::string ending = options.out.substr(options.out.rfind('.') + 1);  // npos + 1 is 0
  return ending == "npy" || ending == "csv" || ending == "json" ? ending : "text";
}

void show_table(const TableOptions& options) {
  const std::string format = format_of(options);
  const Table table = make_table(options);
  const Array& x = table.numbers;
  const Index head = options.head.empty() ? 0 : parse_index("--head", options.head, 0, x.shape[0] - 1);
  if (format == "npy") {
    const std::vector<Index> shape = table.rows_have_heads ? std::vector<Index>{x.shape[0], x.shape[1], x.shape[2]}
                                                           : std::vector<Index>{x.shape[1], x.shape[2]};
    Outputs outputs;
    outputs.add({options.out, "f8", shape, x.values.data()});
    return outputs.save();
  }
  deliver(options.out, format == "csv"    ? to_csv(table)
                       : format == "json" ? table_json(table)
                                          : to_text(table, head, output_style(options.out), options.all));
}

}  // namespace

Command table_command() {
  const auto o = std::make_shared<TableOptions>();
  Command command{"table", "Print or write an encoding's table or bias matrix"};
  command.options.push_back({"ENCODING", "", encoding_help, Takes::encoding, &o->encoding, {}, true});
  o->size.add_to(command);
  command.input("--positions", o->positions, "N|FILE",
                "N: of the first token (default 0). FILE: of all\ntokens, int64");
  command.word("--kind", o->kind, "KIND", {"rows", "scores", "logits"}, "rows, scores or logits; see below");
  command.text("--head", o->head, "H", "Which head the text shows (default 0)");
  command.word("--format", o->format, "FORMAT", formats(), "npy, csv, json or text (default: by FILE's ending)");
  command.flag("--json", o->json, "The same as --format json");
  command.output("-o,--out", o->out, "Where to write; else standard output");
  command.flag("--all", o->all, "On a terminal too: every row and column");
  command.footer =
      "rows: what is added to the input [length, dim], or seeded keys after turning\n"
      "[heads, length, dim]. scores: what the score site adds [heads, length, length];\n"
      "terms that look at queries and keys get seeded ones. logits: the whole score of\n"
      "seeded queries and keys. The default is rows for the input and for rotations,\n"
      "else scores. What is learned is drawn from the seed.\n"
      "\n"
      "Examples:\n"
      "  bearing table sinusoidal --dim 64 --length 512 -o sinusoidal.npy\n"
      "  bearing table alibi --heads 8 --length 16\n"
      "  bearing table t5 --format csv > t5.csv";
  command.run = [o] { show_table(*o); };
  return command;
}

}  // namespace bearing::tool
