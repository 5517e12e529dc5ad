#include <bearing/figures.hpp>
#include <bearing/say.hpp>

#include "answers.hpp"
#include "figure_json.hpp"

namespace bearing::explorer {
namespace {

constexpr std::size_t most_listed = 4096;
constexpr Index most_position = Index{1} << 31;

inspect::FigureOptions options_of(const json::Object& from) {
  inspect::FigureOptions options;
  options.heads = from.integer("heads", 1, largest_example.heads).value_or(0);
  options.dim = from.integer("dim", 1, largest_example.dim).value_or(0);
  options.length = from.integer("length", 1, largest_example.length).value_or(0);
  options.seed = static_cast<std::uint64_t>(from.integer("seed", 0, most_position).value_or(1));
  options.what = from.text("what").value_or("");
  options.positions = from.integers("positions", most_listed, 0, most_position).value_or(std::vector<Index>());
  options.dims = from.integers("dims", most_listed, 0, largest_example.dim).value_or(std::vector<Index>());
  options.head = from.integer("head", 0, largest_example.heads);
  options.offset = from.integer("offset", -most_position, most_position);
  options.causal = from.flag("causal");
  return options;
}

/// The last figure, whose numbers the page reads where they are.
inspect::Figure& kept(inspect::Figure figure) {
  static inspect::Figure* last = nullptr;
  delete last;
  last = new inspect::Figure(std::move(figure));
  return *last;
}

inspect::Array& kept(inspect::Array numbers) {
  static inspect::Array* last = nullptr;
  delete last;
  last = new inspect::Array(std::move(numbers));
  return *last;
}

}  // namespace

Said said_by(const json::Object& request, const std::string& text) {
  const std::optional<std::string> config = request.text("config");
  if (!config || !text.starts_with('@')) return say_encoding(text);
  std::string names;
  for (const Said& one : say_encodings(parse_hf_config(*config))) {
    if (one.text() == text) return one;
    names += (names.empty() ? "" : ", ") + one.text();
  }
  throw ShapeError("[encoding] " + text + ": must be one of " + names);
}

void answer_figure(const json::Object& request, PageJson& to) {
  std::vector<inspect::Subject> subjects;
  for (const std::string& text : request.texts("encodings", 8).value_or(std::vector<std::string>())) {
    subjects.push_back(subject_of(said_by(request, text)));
  }
  const std::optional<json::Object> options = request.object("options");
  tool::write_figure_json(to, kept(inspect::figure(request.text("kind").value_or(""), subjects,
                                                   options ? options_of(*options) : inspect::FigureOptions{})));
}

void answer_saying(const json::Object& request, PageJson& to) {
  const std::string text = request.text("encoding").value_or("");
  const inspect::Subject subject = subject_of(said_by(request, text));
  to.begin_object();
  to.member("shown", subject.name);
  to.member("name", subject.description.name);
  to.member("title", subject.description.title);
  to.member("heads", subject.sizes.heads);
  to.member("dim", subject.sizes.dim);
  to.member("trained", subject.lengths.trained);
  to.member("longest", subject.lengths.longest);
  write_members(to, "members", subject.description.spec ? subject.description.spec({}) : Record{});
  to.end_object();
}

void answer_table(const json::Object& request, PageJson& to) {
  const inspect::Subject subject = subject_of(said_by(request, request.text("encoding").value_or("")));
  const auto size = [&](const char* key, Index otherwise) {
    return request.integer(key, 1, largest_example.length).value_or(otherwise);
  };
  const inspect::SpecimenOptions options{
      .heads = size("heads", 8), .dim = size("dim", 64), .length = size("length", 512)};
  const inspect::Specimen specimen = inspect::make(subject.description, options);
  const Index count = specimen.options.length;
  const inspect::Tokens tokens = specimen.tokens(count, request.integer("first", 0, most_position).value_or(0));
  inspect::Normal normal(options.seed);
  const inspect::Array q = normal.array(options.heads, count, options.dim),
                       k = normal.array(options.heads, count, options.dim);
  const inspect::Array& numbers = kept(specimen.input_rows    ? specimen.inputs(tokens)
                                       : specimen.score_terms ? specimen.scores(tokens, tokens, q, k)
                                       : specimen.turn_rows   ? specimen.turn(Side::key, tokens, k)
                                                              : specimen.logits(tokens, tokens, q, k));
  to.begin_object();
  to.list("shape", std::vector<Index>(numbers.shape.begin(), numbers.shape.end()));
  to.matrix("values", numbers.values, numbers.shape[2]);
  to.end_object();
}

}  // namespace bearing::explorer
