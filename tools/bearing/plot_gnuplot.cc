#include "plot_gnuplot.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "gnuplot.hpp"
#include "gnuplot_script.hpp"
#include "terminal.hpp"

namespace bearing::tool {

using inspect::Figure;

Inks inks_of(const std::string& background) {
  if (background == "dark") return {{13, 17, 23}, {230, 237, 243}, {139, 148, 158}, {40, 46, 54}};
  // Read on white (4.5) and on a dark page (4.2).
  if (background == "none") return {{255, 255, 255}, {118, 118, 118}, {128, 128, 128}, {128, 128, 128}, true};
  return {{255, 255, 255}, {31, 35, 40}, {101, 109, 118}, {228, 231, 235}};
}

namespace {

/// Pixels in what the terminal counts letters in: cairo has points, SVG has pixels.
double letter_scale(const GnuplotStyle& style) { return style.format == "svg" ? 1 : 0.75; }

std::string font_of(Words::Size size, const GnuplotStyle& style) {
  const bool bold = size == Words::Size::bold || size == Words::Size::title;
  return fmt::format("'sans-serif{},{:.4g}'", bold ? ":Bold" : "", height_of(size) * letter_scale(style));
}

std::string terminal_text(const Layout& layout, const GnuplotStyle& style, const Inks& inks) {
  const std::string font = font_of(Words::Size::usual, style);
  const std::string ground = inks.clear ? "" : " background " + quoted(inks.ground);
  if (style.format == "svg") {
    return fmt::format("set terminal svg size {},{} font {} dashlength 1.4 noenhanced{}\n", layout.width, layout.height,
                       font, ground);
  }
  if (style.format == "pdf") {  // its points are 1/72 in, while Pango makes letters for 96 pixels in one
    return fmt::format(
        "set terminal pdfcairo size {:.4f}in,{:.4f}in font {} fontscale 0.75 dashlength 1.6 noenhanced{}\n",
        layout.width / 96, layout.height / 96, font, ground);
  }
  return fmt::format("set terminal pngcairo size {},{} font {} dashlength 1.4 noenhanced{}\n", layout.width,
                     layout.height, font, inks.clear ? " transparent" : ground);
}

/// "x, y" of a place in pixels.
std::string at_screen(double x, double y, const Layout& layout) {
  return fmt::format("screen {:.6f}, screen {:.6f}", x / layout.width, 1 - y / layout.height);
}

std::string words_text(const Words& words, const Layout& layout, const GnuplotStyle& style, const Inks& inks) {
  const char* align = words.align == Words::Align::left    ? "left"
                      : words.align == Words::Align::right ? "right"
                                                           : "center";
  std::string ground;  // gnuplot's own boxes are white in SVG, whatever is asked for
  if (words.on_cells) {
    const Places::Box box = box_of(words);
    ground = fmt::format("set object rectangle from {} to {} front fs solid 1 noborder fc rgb {}\n",
                         at_screen(box.left, box.bottom, layout), at_screen(box.right, box.top, layout),
                         quoted(inks.ground));
  }
  return ground + fmt::format("set label {} at {} {}{} front font {} textcolor rgb {}\n", quoted(words.text),
                              at_screen(words.x, words.y, layout), align, words.upwards ? " rotate by 90" : "",
                              font_of(words.size, style), quoted(inks.words));
}

std::string rectangle(const Mark& mark, const Layout& layout, double part, double high) {
  return fmt::format("set object rectangle from {} to {} front fs solid {} noborder fc rgb {}\n",
                     at_screen(mark.x + mark.width * (1 - part) / 2, mark.y + high / 2, layout),
                     at_screen(mark.x + mark.width * (1 + part) / 2, mark.y - high / 2, layout),
                     mark.entry.mark == Entry::Mark::band ? 0.35 : 1.0, quoted(mark.entry.colour));
}

std::string mark_text(const Mark& mark, const Layout& layout) {
  if (mark.entry.mark != Entry::Mark::series) return rectangle(mark, layout, 0.5, 11);
  const inspect::Series& series = *mark.entry.series;
  const std::string ink = quoted(colour_of(series), series.faint ? 0x60 : 0);
  std::string dot = fmt::format("set label '' at {} front point pt 7 ps 0.9 lc rgb {}\n",
                                at_screen(mark.x + mark.width * 0.8, mark.y, layout), ink);
  if (series.stroke == inspect::Stroke::dots) return dot;
  if (series.stroke == inspect::Stroke::bars) return rectangle(mark, layout, 0.5, 11);
  const std::vector<int> dashes = dashes_of(series);
  const bool hands = series.stroke == inspect::Stroke::hands;
  return fmt::format("set arrow from {} to {} nohead front lw {} lc rgb {} dt {}\n", at_screen(mark.x, mark.y, layout),
                     at_screen(mark.x + mark.width * (hands ? 0.8 : 1), mark.y, layout), series.faint ? 1.4 : 2.0, ink,
                     dashes.empty() || hands ? "solid" : fmt::format("({})", fmt::join(dashes, ","))) +
         (hands ? dot : "");
}

/// Words and legends, over everything.
std::string overlay_text(const Layout& layout, const GnuplotStyle& style, const Inks& inks) {
  std::string out =
      "unset arrow; unset border; unset xtics; unset ytics; unset logscale; unset colorbox\n"
      "set lmargin at screen 0; set rmargin at screen 1; set tmargin at screen 1; set bmargin at screen 0\n";
  for (const Words& words : layout.words) out += words_text(words, layout, style, inks);
  for (const Mark& mark : layout.marks) out += mark_text(mark, layout);
  return out + "plot [0:1][0:1] NaN notitle\n";
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string xml(const std::string& text) {
  std::string out = printable(text);
  replace_all(out, "&", "&amp;"), replace_all(out, "<", "&lt;"), replace_all(out, ">", "&gt;");
  return out;
}

/// What lies between two marks, with them, becomes something else.
void replace_between(std::string& text, const std::string& first, const std::string& last, const std::string& by) {
  const std::size_t begin = text.find(first), end = text.find(last, begin);
  if (begin != text.npos && end != text.npos) text.replace(begin, end + last.size() - begin, by);
}

/// The picture's own title and description in place of gnuplot's; letters and pixels as browsers know them.
std::string finished_svg(std::string svg, const Figure& figure) {
  replace_between(
      svg, "<title>", "</desc>",
      fmt::format("<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>", xml(figure.title), xml(figure.text)));
  replace_between(svg, "<svg ", ">", [&] {
    const std::size_t begin = svg.find("<svg ");
    std::string head = svg.substr(begin, svg.find('>', begin) - begin);
    return head + " role=\"img\" aria-labelledby=\"title desc\">";
  }());
  for (std::size_t at = svg.find("<title>gnuplot_plot_"); at != svg.npos; at = svg.find("<title>gnuplot_plot_", at)) {
    svg.erase(at, svg.find("</title>", at) + 8 - at);
  }
  replace_all(svg, "font-family=\"sans-serif:Bold\"", "font-family=\"sans-serif\" font-weight=\"bold\"");
  replace_all(svg, "<image ", "<image style=\"image-rendering:pixelated\" ");
  return svg;
}

}  // namespace

std::string gnuplot_script(const Figure& figure, const GnuplotStyle& style, const ScriptOptions& options) {
  const Layout layout = lay_out(figure, style.width);
  const Inks inks = inks_of(style.background);
  const double small = height_of(Words::Size::small) * letter_scale(style);
  std::string out = fmt::format("# {}\n", quoted(figure.title)) + terminal_text(layout, style, inks);
  if (!options.output.empty()) out += "set output " + quoted(options.output) + '\n';
  out += "set encoding utf8\nset datafile separator whitespace\n";
  for (std::size_t i = 0; i < figure.panels.size(); ++i) out += panel_data(figure.panels[i], i, options.bytes);
  out += "set multiplot\nunset key\n";
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    out += panel_commands(figure.panels[i], layout.panels[i], i, layout, inks, small,
                          !options.bytes          ? Matrices::text
                          : style.format == "png" ? Matrices::bytes
                                                  : Matrices::fine);
  }
  return out + overlay_text(layout, style, inks) + "unset multiplot\n";
}

std::string draw_with_gnuplot(const Figure& figure, const GnuplotStyle& style) {
  std::string picture = run_gnuplot(gnuplot_script(figure, style, {.bytes = true}));
  return style.format == "svg" ? finished_svg(std::move(picture), figure) : picture;
}

std::vector<std::string> draw_svgs(const std::vector<SvgOrder>& orders) {
  std::string script;
  for (const SvgOrder& order : orders) {
    script += gnuplot_script(*order.figure, {.format = "svg", .width = order.width}, {.bytes = true}) + "reset\n";
  }
  std::vector<std::string> pictures;
  if (orders.empty()) return pictures;
  const std::string all = run_gnuplot(script), end = "</svg>";
  for (std::size_t from = 0, to = 0; (to = all.find(end, from)) != all.npos && pictures.size() < orders.size();) {
    from = all.find('<', from);  // newlines stand between them
    to += end.size();
    pictures.push_back(finished_svg(all.substr(from, to - from), *orders[pictures.size()].figure));
    from = to;
  }
  if (pictures.size() == orders.size()) return pictures;
  throw std::runtime_error(fmt::format("gnuplot failed: {} of {} pictures were drawn", pictures.size(), orders.size()));
}

}  // namespace bearing::tool
