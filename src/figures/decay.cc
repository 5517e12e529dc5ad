#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>

#include "figures/kinds.hpp"
#include "figures/matrices.hpp"

// Scores over distance. A line for each head that differs: contents of query and key alike, the mean over draws. Where
// contents count, a band too: scores of queries and keys that have nothing to do with each other. Of what is added to
// the input, the products of positions, and of positions that are added to equal tokens.

namespace bearing::inspect {
namespace {

constexpr Index alike_draws = 16;
/// Draws of each head, at least; all heads together make the band.
constexpr Index random_draws = 32, random_scores = 256;
constexpr double low_share = 0.05, high_share = 0.95;

/// The scores of unlike contents, [draws · heads] at each distance.
std::vector<std::vector<double>> unlike(const Specimen& specimen, const Executor& on) {
  const Index draws = std::max(random_draws, random_scores / specimen.options.heads);
  std::vector<std::vector<double>> at;
  Specimen drawn = specimen;  // the same encoding; only contents are drawn from its seed from here on
  for (Index draw = 0; draw < draws; ++draw) {
    drawn.options.seed = specimen.options.seed + 1 + static_cast<std::uint64_t>(draw);
    const Array scores = mean_scores(drawn, 1, Contents::independent, Keys::before, on);
    at.resize(static_cast<std::size_t>(scores.shape[2]));
    for (Index h = 0; h < scores.shape[1]; ++h) {
      for (std::size_t k = 0; k < at.size(); ++k) at[k].push_back(scores(0, h, static_cast<Index>(k)));
    }
  }
  return at;
}

/// The number that a share of them lies below.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

/// Whether a draw's scores differ from another's: contents count.
bool contents_count(const Specimen& specimen, const Executor& on) {
  if (specimen.turn_rows) return true;
  Specimen drawn = specimen;
  std::vector<double> first;
  for (std::uint64_t draw = 0; draw < 2; ++draw) {
    drawn.options.seed = specimen.options.seed + draw;
    const Array scores = mean_scores(drawn, 1, Contents::independent, Keys::before, on);
    if (draw == 1) return scores.values != first;
    first = scores.values;
  }
  return false;
}

/// Those heads of [1, heads, n] whose curves are not the same as that of one before.
std::vector<Index> different_heads(const Array& curves) {
  std::vector<Index> heads;
  double most = 0;
  for (const double value : curves.values) most = std::max(most, std::abs(value));
  for (Index h = 0; h < curves.shape[1]; ++h) {
    const bool again = std::any_of(heads.begin(), heads.end(), [&](Index other) {
      for (Index k = 0; k < curves.shape[2]; ++k) {
        if (std::abs(curves(0, h, k) - curves(0, other, k)) > 1e-9 * most) return false;
      }
      return true;
    });
    if (!again) heads.push_back(h);
  }
  return heads;
}

void add_heads(Panel& panel, const Array& alike, const Shown& shown, const FigureOptions& options,
               const std::vector<double>& distances) {
  std::vector<Index> heads = different_heads(alike);
  const bool same = heads.size() == 1 && !options.head;
  if (options.head) heads = heads_to_draw(shown, options, 1);
  std::vector<Index> some;
  for (const Index n : some_of(std::ssize(heads), 8)) some.push_back(heads[static_cast<std::size_t>(n)]);
  for (std::size_t n = 0; n < some.size(); ++n) {
    Series line{.x = distances};
    const bool at_an_end = n == 0 || n + 1 == some.size();  // the legend says where the family begins and ends
    if (at_an_end) line.label = same ? std::string("every head") : text::concat("head ", some[n]);
    for (Index k = 0; k < alike.shape[2]; ++k) line.y.push_back(alike(0, some[n], k));
    if (some.size() > 1) line.shade = static_cast<double>(n) / static_cast<double>(some.size() - 1);
    panel.series.push_back(std::move(line));
  }
  if (some.size() < 2) return;
  Series mean{.label = "mean of all heads", .x = distances, .colour = 1};
  for (Index k = 0; k < alike.shape[2]; ++k) {
    double sum = 0;
    for (Index h = 0; h < alike.shape[1]; ++h) sum += alike(0, h, k);
    mean.y.push_back(sum / static_cast<double>(alike.shape[1]));
  }
  panel.series.push_back(std::move(mean));
}

void add_unlike(Panel& panel, const Specimen& specimen, const Executor& on, const std::vector<double>& distances) {
  Band band{.label = "random contents, 5 % to 95 %", .x = distances, .colour = 3};
  Series mean{.label = "random contents, mean", .x = distances, .colour = 3};
  for (std::vector<double>& scores : unlike(specimen, on)) {
    std::sort(scores.begin(), scores.end());
    band.low.push_back(quantile(scores, low_share));
    band.high.push_back(quantile(scores, high_share));
    double sum = 0;
    for (const double s : scores) sum += s;
    mean.y.push_back(sum / static_cast<double>(scores.size()));
  }
  panel.bands.push_back(std::move(band));
  panel.series.push_back(std::move(mean));
}

/// Positions that are added to tokens meet the tokens too: equal ones, of variance 1, give √d more at every distance.
void add_tokens(Panel& panel, const Specimen& specimen) {
  Series line = panel.series.front();
  line.label = "added to equal tokens", line.colour = 1;
  for (double& score : line.y) score += std::sqrt(static_cast<double>(specimen.options.dim));
  panel.series.push_back(std::move(line));
}

Panel decay_panel(const Shown& shown, const FigureOptions& options) {
  const Specimen& s = shown.specimen;
  if (!s.input_rows && !s.turn_rows && !s.score_terms) {
    nothing_to_show(shown, "must act on the input, on query and key or on scores");
  }
  const Array alike = mean_scores(s, alike_draws, Contents::alike, Keys::before, options.on);
  std::vector<double> distances;
  for (Index k = 0; k < alike.shape[2]; ++k) distances.push_back(static_cast<double>(k));
  Panel panel{.title = shown.name(),
              .x = token_axis(s.is_image() ? "distance along a row (patches)" : "distance, query - key (tokens)", 0,
                              distances.back())};
  add_heads(panel, alike, shown, options, distances);
  const bool positions_only = s.input_rows && !s.turn_rows && !s.score_terms;
  if (positions_only) {
    add_tokens(panel, s);
  } else if (contents_count(s, options.on)) {
    for (Series& line : panel.series)
      if (!line.label.empty()) line.label += ", alike contents";
    add_unlike(panel, s, options.on, distances);
  }
  Range range;
  for (const Series& line : panel.series) range.reach(line.y);
  for (const Band& band : panel.bands) range.reach(band.low), range.reach(band.high);
  panel.y = axis_over("score", range);
  return panel;
}

/// Of the heads' lines that the legend names, and of the band.
std::string decay_text(const Panel& panel) {
  const double last = panel.series.front().x.back();
  std::string text = panel.title + ":";
  int named = 0;
  for (const Series& line : panel.series) {
    if (line.label.empty() || named == 2) continue;
    text += text::concat(named++ == 0 ? " " : ", ", line.label, " from ", short_number(line.y.front()), " to ",
                         short_number(line.y.back()));
  }
  text += text::concat(" at distances 0 to ", short_number(last));
  if (!panel.bands.empty()) {
    const Band& band = panel.bands.front();
    text += text::concat("; ", band.label, ": ", short_number(band.low.back()), " to ", short_number(band.high.back()),
                         " at ", short_number(last));
  }
  return text + ". ";
}

Figure decay_figure(std::span<const Subject> encodings, const FigureOptions& options) {
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 8, .dim = 64, .length = 256});
  Figure figure{.title = "Scores over distance: " + names_of(shown)};
  for (const Shown& one : shown) {
    figure.panels.push_back(decay_panel(one, options));
    figure.text += decay_text(figure.panels.back());
  }
  figure.text.pop_back();
  share_y(figure.panels);
  figure.columns = columns_for(figure.panels.size());
  return figure;
}

}  // namespace

FigureKind decay_kind() {
  return {"decay",
          "scores over distance, per head, and of random contents",
          1,
          8,
          {"heads", "dim", "length", "seed", "head"},
          decay_figure};
}

}  // namespace bearing::inspect
