#include "plot_files.hpp"

#include "errors.hpp"
#include "outputs.hpp"
#include "plot_gnuplot.hpp"
#include "plot_json.hpp"
#include "plot_terminal.hpp"

namespace bearing::tool {

namespace {

/// "figures/walk.png" → "figures/walk".
std::string without_ending(const std::string& file) {
  const std::size_t dot = file.rfind('.'), slash = file.rfind('/');
  const bool has = dot != file.npos && dot > 0 && (slash == file.npos || dot > slash + 1);
  return has ? file.substr(0, dot) : file;
}

std::string text_of(const inspect::Figure& figure, const PlotOutput& output) {
  if (output.format == "json") return figure_as_json(figure);
  TextStyle style = text_style(output.file);
  if (output.width > 0) style.width = static_cast<std::size_t>(output.width);
  return figure_as_text(figure, style);
}

/// The script beside a picture, or alone. It draws into a file beside it, wherever it is called.
std::string script_of(const inspect::Figure& figure, const GnuplotStyle& style, const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);  // npos + 1 is 0
  return gnuplot_script(figure, style, {.output = name.empty() ? "" : "./" + name});
}

}  // namespace

std::vector<std::string> plot_formats() { return {"png", "svg", "pdf", "text", "json", "gp"}; }

void write_figure(const inspect::Figure& figure, const PlotOutput& output) {
  if (output.format == "text" || output.format == "json") return deliver(output.file, text_of(figure, output));
  const bool alone = output.format == "gp", to_file = !output.file.empty();
  if (!to_file && (output.format == "png" || output.format == "pdf")) {
    throw UsageError("--format " + output.format + " needs --out FILE");
  }
  const GnuplotStyle style{alone ? "png" : output.format, output.background, output.width > 0 ? output.width : 900};
  const std::string stem = without_ending(output.file);
  if (alone) return deliver(output.file, script_of(figure, style, to_file ? stem + ".png" : ""));
  const std::string picture = draw_with_gnuplot(figure, style);
  if (!to_file) return deliver("", picture);
  Outputs files;
  files.add(output.file, picture);
  if (output.script) files.add(stem + ".gp", script_of(figure, style, output.file));
  files.save();
}

}  // namespace bearing::tool
