#include <algorithm>
#include <array>
#include <bearing/figure_file.hpp>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "json_file.hpp"

namespace bearing::inspect {
namespace {

using json::Notes;
using json::Object;
using rapidjson::Value;

constexpr std::size_t most_parts = 10'000;     // panels, series, ticks …: far more than can be seen
constexpr Index most_colour = 1'000'000;       // taken modulo the palette's size
constexpr json::Limits limits{64, 2'000'000};  // a matrix of 1,024 × 1,024 and more; 32 bytes a value while it is read

/// An object that has no members but these.
Object object_of(const Value& value, const std::string& pointer, Notes& notes,
                 std::initializer_list<std::string_view> members) {
  Object object(value, pointer, notes);
  for (const std::string_view key : object.keys()) {
    if (std::find(members.begin(), members.end(), key) != members.end()) continue;
    std::string known;
    for (const std::string_view one : members) known += (known.empty() ? "" : ", ") + std::string(one);
    notes.fail(object.pointer(key), "must be one of: " + known);
  }
  return object;
}

const Value& needed(const Object& of, std::string_view key, const std::string& wanted) {
  const Value* value = of.find(key);
  if (value == nullptr) of.missing(key, wanted);
  return *value;
}

const Value& needed_array(const Object& of, std::string_view key) {
  const Value& value = needed(of, key, "an array");
  if (!value.IsArray()) of.wrong(key, "an array");
  return value;
}

/// What an array of objects holds; nothing where it is not there.
template <class T, class Read>
std::vector<T> parts(const Object& of, std::string_view key, const Read& read) {
  const Value* value = of.find(key);
  if (value == nullptr) return {};
  if (!value->IsArray() || value->Size() > most_parts) of.wrong(key, "an array of at most 10000 objects");
  std::vector<T> all;
  for (const Value& one : value->GetArray()) {
    all.push_back(read(one, of.pointer(key) + "/" + std::to_string(all.size()), of.notes()));
  }
  return all;
}

std::string text(const Object& of, std::string_view key) { return of.text(key).value_or(""); }

double number(const Object& of, std::string_view key) {
  const std::optional<double> value = of.number(key, json::finite);
  if (!value) of.missing(key, json::in_range(json::finite));
  return *value;
}

double number_or(const Object& of, std::string_view key, double otherwise) {
  return of.number(key, json::finite).value_or(otherwise);
}

int colour(const Object& of) { return static_cast<int>(of.integer("colour", 0, most_colour).value_or(0)); }

template <class Word, std::size_t n>
Word word(const Object& of, std::string_view key, const std::array<std::pair<const char*, Word>, n>& words) {
  const std::optional<std::string> said = of.text(key);
  if (!said) return words.front().second;
  std::string known;
  for (const auto& [name, value] : words) {
    if (*said == name) return value;
    known += (known.empty() ? "" : " or ") + json::quoted(name);
  }
  of.wrong(key, known);
}

enum class Gaps { allowed, refused };

/// Numbers of an array; null is a gap, which is NaN.
std::vector<double> numbers(const Value& array, const std::string& pointer, Notes& notes, Gaps gaps) {
  std::vector<double> all;
  all.reserve(array.Size());
  for (const Value& one : array.GetArray()) {
    const std::optional<double> value = json::as_number(one, json::finite);
    if (!value && !(one.IsNull() && gaps == Gaps::allowed)) {
      notes.fail(pointer + "/" + std::to_string(all.size()), "must be " + json::in_range(json::finite) +
                                                                 (gaps == Gaps::allowed ? " or null" : "") + ", got " +
                                                                 json::found(one));
    }
    all.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  return all;
}

std::vector<double> numbers(const Object& of, std::string_view key, Gaps gaps = Gaps::refused) {
  return numbers(needed_array(of, key), of.pointer(key), of.notes(), gaps);
}

/// Numbers that go with the places `x`.
std::vector<double> beside(const Object& of, std::string_view key, const std::vector<double>& x) {
  std::vector<double> all = numbers(of, key, Gaps::allowed);
  if (all.size() != x.size()) {
    of.notes().fail(of.pointer(key), "must have as many numbers as x, " + std::to_string(x.size()) + ", got " +
                                         std::to_string(all.size()));
  }
  return all;
}

Tick read_tick(const Value& value, const std::string& pointer, Notes& notes) {
  const Object of = object_of(value, pointer, notes, {"at", "text"});
  return {number(of, "at"), text(of, "text")};
}

Axis read_axis(const Value& value, const std::string& pointer, Notes& notes) {
  constexpr std::array<std::pair<const char*, Scale>, 3> scales = {
      {{"linear", Scale::linear}, {"log2", Scale::log2}, {"log10", Scale::log10}}};
  const Object of = object_of(value, pointer, notes, {"title", "first", "last", "scale", "ticks"});
  Axis axis{text(of, "title"), number(of, "first"), number(of, "last"), word(of, "scale", scales),
            parts<Tick>(of, "ticks", read_tick)};
  if (axis.first == axis.last) of.wrong("last", "another number than first");
  if (axis.scale != Scale::linear) {
    for (const char* end : {"first", "last"}) {
      if (!(number(of, end) > 0)) of.wrong(end, "above 0 on a logarithmic scale");
    }
  }
  return axis;
}

/// A matrix' rows, all of one length.
void read_values(const Object& of, Cells& cells) {
  const Value& rows = needed_array(of, "values");
  cells.rows = static_cast<Index>(rows.Size());
  if (cells.rows == 0) of.wrong("values", "an array of at least one row");
  Index row = 0;
  for (const Value& one : rows.GetArray()) {
    const std::string pointer = of.pointer("values") + "/" + std::to_string(row);
    if (row == 0 && one.IsArray()) cells.cols = static_cast<Index>(one.Size());
    if (!one.IsArray() || one.Empty() || static_cast<Index>(one.Size()) != cells.cols) {
      of.notes().fail(pointer,
                      "must be an array of numbers, at least one and as many as in row 0, got " + json::found(one));
    }
    const std::vector<double> read = numbers(one, pointer, of.notes(), Gaps::allowed);
    cells.values.insert(cells.values.end(), read.begin(), read.end());
    ++row;
  }
}

std::optional<Cells> read_cells(const Object& panel) {
  constexpr std::array<std::pair<const char*, ColourMap>, 3> maps = {{{"sequential", ColourMap::sequential},
                                                                      {"diverging", ColourMap::diverging},
                                                                      {"categories", ColourMap::categories}}};
  const Value* value = panel.find("cells");
  if (value == nullptr) return {};
  const Object of =
      object_of(*value, panel.pointer("cells"), panel.notes(),
                {"title", "map", "low", "high", "categories", "x_first", "x_step", "y_first", "y_step", "values"});
  Cells cells;
  read_values(of, cells);
  cells.title = text(of, "title"), cells.map = word(of, "map", maps);
  cells.low = number_or(of, "low", 0), cells.high = number_or(of, "high", 1);
  cells.x_first = number_or(of, "x_first", 0), cells.x_step = number_or(of, "x_step", 1);
  cells.y_first = number_or(of, "y_first", 0), cells.y_step = number_or(of, "y_step", 1);
  cells.categories = of.texts("categories", most_parts).value_or(std::vector<std::string>{});
  for (const std::string& category : cells.categories) {
    if (category.size() <= json::longest_text) continue;
    of.wrong("categories", "texts of at most " + std::to_string(json::longest_text) + " bytes");
  }
  for (const char* step : {"x_step", "y_step"}) {
    if (number_or(of, step, 1) == 0) of.wrong(step, "another number than 0");
  }
  if (cells.map == ColourMap::categories) {
    if (cells.categories.empty()) of.missing("categories", "the name of at least one category");
    return cells;
  }
  if (!(cells.low < cells.high)) of.wrong("high", "above low");
  if (cells.map == ColourMap::diverging && cells.low != -cells.high)
    of.wrong("low", "minus high, so that 0 is in the middle");
  return cells;
}

Series read_series(const Value& value, const std::string& pointer, Notes& notes) {
  constexpr std::array<std::pair<const char*, Stroke>, 5> strokes = {{{"line", Stroke::line},
                                                                      {"dots", Stroke::dots},
                                                                      {"steps", Stroke::steps},
                                                                      {"bars", Stroke::bars},
                                                                      {"hands", Stroke::hands}}};
  const Object of = object_of(value, pointer, notes, {"label", "stroke", "colour", "shade", "faint", "x", "y"});
  Series series{.label = text(of, "label"), .x = numbers(of, "x")};
  series.y = beside(of, "y", series.x);
  series.stroke = word(of, "stroke", strokes), series.colour = colour(of);
  series.shade = of.number("shade", {0, 1}), series.faint = of.flag("faint").value_or(false);
  return series;
}

Band read_band(const Value& value, const std::string& pointer, Notes& notes) {
  const Object of = object_of(value, pointer, notes, {"label", "colour", "x", "low", "high"});
  Band band{.label = text(of, "label"), .x = numbers(of, "x"), .colour = colour(of)};
  band.low = beside(of, "low", band.x), band.high = beside(of, "high", band.x);
  return band;
}

Guide read_guide(const Value& value, const std::string& pointer, Notes& notes) {
  const Object of = object_of(value, pointer, notes, {"upright", "at", "text"});
  return {of.flag("upright").value_or(false), number(of, "at"), text(of, "text")};
}

Note read_note(const Value& value, const std::string& pointer, Notes& notes) {
  const Object of = object_of(value, pointer, notes, {"x", "y", "text"});
  return {number(of, "x"), number(of, "y"), text(of, "text")};
}

Panel read_panel(const Value& value, const std::string& pointer, Notes& notes) {
  const Object of =
      object_of(value, pointer, notes, {"title", "round", "x", "y", "cells", "bands", "guides", "series", "notes"});
  Panel panel{.title = text(of, "title"),
              .x = read_axis(needed(of, "x", "an axis"), of.pointer("x"), notes),
              .y = read_axis(needed(of, "y", "an axis"), of.pointer("y"), notes),
              .round = of.flag("round").value_or(false),
              .cells = read_cells(of)};
  panel.bands = parts<Band>(of, "bands", read_band), panel.guides = parts<Guide>(of, "guides", read_guide);
  panel.series = parts<Series>(of, "series", read_series), panel.notes = parts<Note>(of, "notes", read_note);
  return panel;
}

Figure figure_of(const std::string& all, Notes& notes) {
  const json::Document document(all, notes, limits);
  const Object of = object_of(document.root(), "", notes, {"schema", "kind", "title", "text", "columns", "panels"});
  if (text(of, "schema") != "bearing.figure/1") {
    if (!of.has("schema")) of.missing("schema", "\"bearing.figure/1\"");
    of.wrong("schema", "\"bearing.figure/1\"");
  }
  Figure figure{text(of, "kind"), text(of, "title"), text(of, "text"), parts<Panel>(of, "panels", read_panel)};
  if (figure.panels.empty()) notes.fail(of.pointer("panels"), "must have at least one panel");
  figure.columns = of.integer("columns", 1, static_cast<Index>(most_parts)).value_or(1);
  // There is nowhere to put a warning, and a figure is made by a program.
  if (const auto warnings = notes.take(); !warnings.empty()) notes.fail(warnings[0].pointer, warnings[0].text);
  return figure;
}

}  // namespace

Figure read_figure(const std::string& path) {
  Notes notes(path);
  return figure_of(json::read_text(path, limits), notes);
}

Figure parse_figure(std::string_view text, const std::string& name) {
  Notes notes(name);
  return figure_of(std::string(text), notes);
}

}  // namespace bearing::inspect
