#include "picture_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "inspect_options.hpp"
#include "plot_subjects.hpp"

namespace bearing::tool {
namespace {

using inspect::FigureOptions;
using inspect::Picture;

/// visit(name, value) for what is given, by the names of FigureOptions' members. Words and weights, which are numbers
/// of a model's, no text says.
template <class Visit>
void visit_given(const FigureOptions& options, const Visit& visit) {
  if (options.heads != 0) visit("heads", options.heads);
  if (options.dim != 0) visit("dim", options.dim);
  if (options.length != 0) visit("length", options.length);
  if (options.seed != FigureOptions{}.seed) visit("seed", static_cast<Index>(options.seed));
  if (!options.what.empty()) visit("what", options.what);
  if (!options.positions.empty()) visit("positions", options.positions);
  if (!options.dims.empty()) visit("dims", options.dims);
  if (options.head) visit("head", *options.head);
  if (options.offset) visit("offset", *options.offset);
  if (options.causal) visit("causal", *options.causal);
  if (options.window != 0) visit("window", options.window);
  if (options.sinks != 0) visit("sinks", options.sinks);
  if (!options.packed.empty()) visit("packed", options.packed);
}

/// Flags of the command line, one piece each.
struct Flags {
  std::vector<std::string>& pieces;

  void operator()(const std::string& name, bool truth) const { pieces.push_back((truth ? "--" : "--no-") + name); }
  void operator()(const std::string& name, Index number) const {
    pieces.push_back(fmt::format("--{} {}", name == "sinks" ? "sink-tokens" : name, number));
  }
  void operator()(const std::string& name, const std::string& text) const {
    pieces.push_back(fmt::format("--{} {}", name, shell_word(text)));
  }
  void operator()(const std::string& name, const std::vector<Index>& list) const {
    pieces.push_back(fmt::format("--{} {}", name, fmt::join(list, ",")));
  }
};

struct Members {
  JsonWriter& json;

  void operator()(const std::string& name, const std::vector<Index>& list) const { json.list(name, list); }
  template <class T>
  void operator()(const std::string& name, const T& value) const {
    json.member(name, value);
  }
};

}  // namespace

std::string shell_word(const std::string& text) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_#-";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos && text[0] != '#') return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string plot_line(const Picture& picture, std::size_t width, std::size_t indent) {
  std::vector<std::string> pieces{"bearing plot " + picture.kind};
  for (const std::string& encoding : picture.encodings) pieces.push_back(shell_word(encoding));
  visit_given(picture.options, Flags{pieces});
  std::string out = pieces.front();
  std::size_t column = indent + out.size();
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const std::size_t room = i + 1 < pieces.size() ? 2 : 0;  // for a backslash
    if (width > 0 && column + 1 + pieces[i].size() + room > width) {
      out += " \\\n" + std::string(indent, ' ') + "  " + pieces[i];
      column = indent + 2 + pieces[i].size();
    } else {
      out += ' ' + pieces[i];
      column += 1 + pieces[i].size();
    }
  }
  return out;
}

void write_picture(JsonWriter& json, const Picture& picture) {
  json.key("picture");
  if (picture.kind.empty()) return json.null();
  json.begin_object();
  json.member("kind", picture.kind);
  json.list("encodings", picture.encodings);
  json.key("options");
  json.begin_object();
  visit_given(picture.options, Members{json});
  json.end_object();
  json.end_object();
}

inspect::Figure figure_of(const Picture& picture, const Executor& on) {
  std::vector<Subject> said;
  for (const std::string& encoding : picture.encodings) said.push_back(subject_of("plot", encoding));
  FigureOptions options = picture.options;
  options.on = on;
  return subjects_figure(picture.kind, said, options);
}

}  // namespace bearing::tool
