#include "report_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "gnuplot.hpp"
#include "gnuplot_script.hpp"
#include "plot_gnuplot.hpp"
#include "plot_subjects.hpp"
#include "progress.hpp"

namespace bearing::tool {

using inspect::Figure;

namespace {

/// What is worth a look of any encoding. A kind refuses the encodings that have nothing of it.
constexpr std::array kinds = {"wavelengths", "decay", "similarity", "heatmap", "buckets"};

/// Encodings of one picture, no more than can be told apart on a page.
constexpr std::size_t most_together = 4;

using Parts = std::vector<const ReportPart*>;

Figure figure_of(const std::string& kind, const Parts& parts, const inspect::FigureOptions& options) {
  std::vector<inspect::Subject> subjects;
  for (const ReportPart* part : parts) {
    subjects.push_back(subject_of_picture(*part->subject));
    subjects.back().name = part->name;
  }
  return inspect::figure(kind, subjects, options);
}

/// Empty if none of them has something of this kind.
std::vector<Figure> figures_of(const std::string& kind, const Parts& parts, const inspect::FigureOptions& options) {
  try {
    return {figure_of(kind, parts, options)};
  } catch (const std::logic_error&) {  // ShapeError, RangeError: one of them at least is refused
    if (parts.size() == 1) return {};
  }
  Parts willing;
  std::vector<Figure> alone;
  for (const ReportPart* part : parts) {
    for (Figure& figure : figures_of(kind, {part}, options))
      willing.push_back(part), alone.push_back(std::move(figure));
  }
  if (willing.size() < 2 || willing.size() == parts.size()) return alone;
  std::vector<Figure> together = figures_of(kind, willing, options);
  return together.empty() ? alone : together;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// gnuplot writes a colour in three ways; the page's style knows one.
void name_colour(std::string& svg, const inspect::Colour& c, const std::string& name) {
  for (const char* form : {"rgb({},{},{})", "rgb({}, {}, {})", "rgb({:3}, {:3}, {:3})"}) {
    replace_all(svg, fmt::format(fmt::runtime(form), c.red, c.green, c.blue), name);
  }
}

/// An element of a page: without a prologue, with ids that no other picture has, as large as there is room for, in the
/// page's colours where they are no data.
std::string page_svg(std::string svg, const std::string& prefix) {
  svg.erase(0, svg.find("<svg"));
  const std::size_t size = svg.find("width="), box = svg.find("viewBox=");
  svg.erase(size, box - size);
  for (const char* place : {" id='", " id=\"", "href='#", "href=\"#", "url(#"}) replace_all(svg, place, place + prefix);
  replace_all(svg, "aria-labelledby=\"title desc\"", fmt::format("aria-labelledby=\"{0}title {0}desc\"", prefix));
  const Inks inks = inks_of("white");
  name_colour(svg, inks.ground, "#ffffff"), name_colour(svg, inks.words, "#1f2328");
  name_colour(svg, inks.axes, "#656d76"), name_colour(svg, inks.grid, "#e4e7eb");
  return svg;
}

}  // namespace

std::vector<PagePicture> report_pictures(const Parts& parts, const SizeOptions& sizes, const Executor& on) {
  const Sizes asked = sizes.asked();
  Progress progress;
  std::vector<PagePicture> pictures;
  for (std::size_t first = 0; first < parts.size(); first += most_together) {
    const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(first);
    const Parts some(begin, begin + static_cast<std::ptrdiff_t>(std::min(most_together, parts.size() - first)));
    for (const char* kind : kinds) {
      progress.show(fmt::format("{} of {}", kind, some.front()->name));
      inspect::FigureOptions options{.on = on};
      const auto& takes = inspect::find_figure_kind(kind)->takes;
      const auto set = [&](const char* member, Index& to, Index size) {
        if (std::find(takes.begin(), takes.end(), member) != takes.end()) to = size;
      };
      set("heads", options.heads, asked.heads), set("dim", options.dim, asked.dim);
      for (Figure& figure : figures_of(kind, some, options)) pictures.push_back({std::move(figure)});
    }
  }
  return pictures;
}

void draw_pictures(const std::vector<PagePicture*>& pictures) {
  Progress progress;
  progress.show(fmt::format("drawing {} pictures", pictures.size()));
  std::vector<SvgOrder> orders;
  for (const PagePicture* picture : pictures) {
    orders.push_back({&picture->figure, wide_picture}), orders.push_back({&picture->figure, narrow_picture});
  }
  std::vector<std::string> svgs;
  try {
    svgs = draw_svgs(orders);
  } catch (const GnuplotMissing&) {
    throw std::runtime_error("gnuplot is missing: apt-get install gnuplot-nox, or use --no-pictures");
  }
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    pictures[i]->wide = page_svg(std::move(svgs[2 * i]), fmt::format("w{}-", i));
    pictures[i]->narrow = page_svg(std::move(svgs[2 * i + 1]), fmt::format("n{}-", i));
  }
}

}  // namespace bearing::tool
