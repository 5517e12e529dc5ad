#include "subjects.hpp"

#include <bearing/catalog.hpp>
#include <bearing/error.hpp>
#include <bearing/io.hpp>
#include <bearing/say.hpp>
#include <string>
#include <utility>

#include "encodings.hpp"
#include "rope_tables.hpp"
#include "specs.hpp"

namespace bearing::python {
namespace {

/// The spec of an encoding; none where it has none. A table of sequences is RoPE with its frequencies.
Record described_spec(const Encoding& encoding) {
  if (encoding.record()) return encoding.record();
  for (const auto& [name, value, by_caller] : encoding.given()) {
    if (nb::isinstance<XposTables>(value)) return Record::of(nb::cast<const XposTables&>(value).xpos);
    if (!nb::isinstance<Table>(value)) continue;
    const RopeFrequencies& of = nb::cast<const Table&>(value).frequencies();
    if (of.axes != 1) return {};
    return Record::of(Rope{.head_dim = of.head_dim,
                           .rotary_dim = of.rotary_dim,
                           .pairing = of.pairing,
                           .scaling = ExplicitFrequencies{of.inv_freq},
                           .part = RotaryPart::window(of.begin),
                           .attention_factor = of.attention_factor});
  }
  return {};
}

const Description& description_of_kind(const EncodingInfo& info, const Argument& argument) {
  for (const Description& one : inspect::catalog()) {
    if (one.encoding == &info) return one;
  }
  argument.fail("an encoding with a name in the catalog", info.name);
}

/// A table's numbers, and where they end; 0: nowhere, as others are worked out.
struct TableNumbers {
  Index held = 0, end = 0;
};

TableNumbers table_numbers(const Encoding& encoding) {
  TableNumbers all;
  for (const auto& [name, value, by_caller] : encoding.given()) {
    if (!nb::isinstance<Table>(value)) continue;
    const Table& table = nb::cast<const Table&>(value);
    all.held = table.visit([]<class A>(const RopeTable<A>& of) { return static_cast<Index>(of.bytes() / sizeof(A)); });
    if (table.given) all.end = table.visit([](const auto& of) { return of.length(); });
  }
  return all;
}

/// A table in all examples of a description. Given cosines and sines serve no other positions; other tables are as
/// large as an example of their spec.
void take_table(inspect::Subject& subject, const Encoding& encoding, const EncodingInfo& info, const Record& record) {
  const TableNumbers numbers = table_numbers(encoding);
  if (numbers.end > 0) subject.sizes.length = numbers.end;
  subject.description.specimen = [&info, record, numbers, of = subject.description, made = encoding.make<double>({})](
                                     const inspect::SpecimenOptions& size, const Record&) {
    inspect::Specimen specimen = inspect::make_with(info, record, made, size);
    specimen.own_tokens = numbers.end, specimen.own_numbers = numbers.end > 0;
    specimen.held = numbers.end > 0 || !record ? numbers.held : inspect::make(of, size, record).held;
    return specimen;
  };
}

/// An encoding with its own numbers, which are float64. `spec`: the one that it came from, else what it says itself.
inspect::Subject numbered(const Encoding& encoding, nb::handle spec, const Argument& argument) {
  const EncodingInfo* info = encoding.of().info != nullptr ? encoding.of().info : registry().encoding(encoding.name());
  if (info == nullptr) argument.fail("an encoding that is described", encoding.name());
  const Record record = record_of(spec) != nullptr ? *record_of(spec) : described_spec(encoding);
  inspect::Subject subject = record ? subject_of(say_encoding(record)) : inspect::Subject{};
  if (!record) subject.description = description_of_kind(*info, argument), subject.name = subject.description.name;
  if (encoding.of().info == nullptr) {
    take_table(subject, encoding, *info, record);
    return subject;
  }
  std::vector<Gradient> none;
  auto [description, sizes] =
      inspect::with_numbers(subject.description, {.encoding = info,
                                                  .spec = encoding.record(),
                                                  .settings = encoding.settings(),
                                                  .parameters = encoding.with_whole_numbers(encoding.memory(
                                                      argument.function, DataType::f64, Wanted::values, none)),
                                                  .said = subject.sizes});
  subject.description = std::move(description), subject.sizes = sizes;
  return subject;
}

std::vector<inspect::Subject> all_subjects(const std::vector<Said>& said) {
  std::vector<inspect::Subject> all;
  for (const Said& one : said) all.push_back(subject_of(one));
  return all;
}

/// What bearing._subjects makes of something that is neither text nor a spec.
nb::object from_python(nb::handle from, const Argument& argument) {
  return nb::module_::import_("bearing._subjects")
      .attr("subject")(from, std::string("[") + argument.function + "] " + argument.name);
}

}  // namespace

std::vector<inspect::Subject> subjects_of(nb::handle from, const Argument& argument) {
  std::string text;
  if (nb::try_cast(from, text)) return all_subjects(say_encodings(text));
  if (record_of(from) != nullptr) return {subject_of(say_encoding(*record_of(from)))};
  const nb::object one = from_python(from, argument);
  if (nb::isinstance<nb::tuple>(one)) {  // an encoding with its numbers, and the spec that it came from
    return {numbered(nb::cast<const Encoding&>(one[0]), one[1], argument)};
  }
  if (nb::isinstance<Model>(one)) return all_subjects(say_encodings(nb::cast<const Model&>(one)));
  return {subject_of(said_by(one, argument))};
}

inspect::Subject subject_of(nb::handle from, const Argument& argument) {
  std::string text;
  if (nb::try_cast(from, text)) return subject_of(say_encoding(text));  // which says how to name one of several
  std::vector<inspect::Subject> all = subjects_of(from, argument);
  if (all.size() == 1) return std::move(all.front());
  std::string names;
  for (const inspect::Subject& one : all) names += (names.empty() ? "" : ", ") + one.name;
  throw ConfigError(std::string("[") + argument.function + "] " + argument.name +
                    ": must be one encoding, such as a layer's, got a model with " +
                    (all.empty() ? "none" : std::to_string(all.size()) + ": " + names));
}

}  // namespace bearing::python
