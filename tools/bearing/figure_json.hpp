#pragma once

#include <bearing/figures.hpp>
#include <optional>
#include <string>
#include <vector>

// A figure as JSON, for any writer that has JsonWriter's members: the command's, and the explorer's, which leaves
// numbers in memory.

namespace bearing::tool {

namespace figure_json {

using namespace inspect;

inline const char* name_of(Scale scale) {
  switch (scale) {
    case Scale::linear:
      return "linear";
    case Scale::log2:
      return "log2";
    case Scale::log10:
      return "log10";
  }
  return "";
}

inline const char* name_of(Stroke stroke) {
  switch (stroke) {
    case Stroke::line:
      return "line";
    case Stroke::dots:
      return "dots";
    case Stroke::steps:
      return "steps";
    case Stroke::bars:
      return "bars";
    case Stroke::hands:
      return "hands";
  }
  return "";
}

inline const char* name_of(ColourMap map) {
  switch (map) {
    case ColourMap::sequential:
      return "sequential";
    case ColourMap::diverging:
      return "diverging";
    case ColourMap::categories:
      return "categories";
  }
  return "";
}

template <class Json, class T, class Write>
void array(Json& json, const char* name, const std::vector<T>& all, const Write& write) {
  json.key(name);
  json.begin_array();
  for (const T& one : all) {
    json.begin_object();
    write(one);
    json.end_object();
  }
  json.end_array();
}

template <class Json>
void write_axis(Json& json, const char* name, const Axis& axis) {
  json.key(name);
  json.begin_object();
  json.member("title", axis.title);
  json.member("first", axis.first);
  json.member("last", axis.last);
  json.member("scale", name_of(axis.scale));
  array(json, "ticks", axis.ticks, [&](const Tick& tick) {
    json.member("at", tick.at);
    json.member("text", tick.text);
  });
  json.end_object();
}

template <class Json>
void write_cells(Json& json, const std::optional<Cells>& cells) {
  json.key("cells");
  if (!cells) return json.null();
  json.begin_object();
  json.member("title", cells->title);
  json.member("map", name_of(cells->map));
  json.member("low", cells->low);
  json.member("high", cells->high);
  json.list("categories", cells->categories);
  json.member("x_first", cells->x_first);
  json.member("x_step", cells->x_step);
  json.member("y_first", cells->y_first);
  json.member("y_step", cells->y_step);
  json.matrix("values", cells->values, cells->cols);
  json.end_object();
}

template <class Json>
void write_series(Json& json, const Series& series) {
  json.member("label", series.label);
  json.member("stroke", name_of(series.stroke));
  json.member("colour", static_cast<Index>(series.colour));
  json.key("shade");
  if (series.shade) {
    json.value(*series.shade);
  } else {
    json.null();
  }
  json.member("faint", series.faint);
  json.list("x", series.x);
  json.list("y", series.y);
}

template <class Json>
void write_panel(Json& json, const Panel& panel) {
  json.member("title", panel.title);
  json.member("round", panel.round);
  write_axis(json, "x", panel.x);
  write_axis(json, "y", panel.y);
  write_cells(json, panel.cells);
  array(json, "bands", panel.bands, [&](const inspect::Band& band) {
    json.member("label", band.label);
    json.member("colour", static_cast<Index>(band.colour));
    json.list("x", band.x);
    json.list("low", band.low);
    json.list("high", band.high);
  });
  array(json, "guides", panel.guides, [&](const Guide& guide) {
    json.member("upright", guide.upright);
    json.member("at", guide.at);
    json.member("text", guide.text);
  });
  array(json, "series", panel.series, [&](const Series& series) { write_series(json, series); });
  array(json, "notes", panel.notes, [&](const Note& note) {
    json.member("x", note.x);
    json.member("y", note.y);
    json.member("text", note.text);
  });
}

}  // namespace figure_json

/// Schema bearing.figure/1: docs/guide/check-json-schema.md.
template <class Json>
void write_figure_json(Json& json, const inspect::Figure& figure) {
  json.begin_object();
  json.member("schema", "bearing.figure/1");
  json.member("kind", figure.kind);
  json.member("title", figure.title);
  json.member("text", figure.text);
  json.member("columns", figure.columns);
  figure_json::array(json, "panels", figure.panels,
                     [&](const inspect::Panel& panel) { figure_json::write_panel(json, panel); });
  json.end_object();
}

}  // namespace bearing::tool
