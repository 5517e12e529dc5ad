#include "myths_pictures.hpp"

#include <fmt/format.h>

#include <bearing/version.hpp>
#include <cctype>
#include <stdexcept>
#include <utility>

#include "gnuplot.hpp"
#include "outputs.hpp"
#include "picture_words.hpp"
#include "plot_files.hpp"
#include "plot_gnuplot.hpp"
#include "progress.hpp"
#include "properties_text.hpp"
#include "report_figures.hpp"

namespace bearing::tool {

using inspect::Claim;

namespace {

/// A claim's picture; none has a figure without panels.
struct Drawn {
  const Claim* claim;
  PagePicture picture = {};

  bool has_picture() const { return !claim->picture.kind.empty(); }
};

std::vector<Drawn> figures_of(const std::vector<Claim>& claims, const Executor& on) {
  Progress progress;
  std::vector<Drawn> all;
  for (const Claim& claim : claims) {
    Drawn& one = all.emplace_back(Drawn{&claim});
    progress.show(fmt::format("{}: {} ({} of {})", claim.encoding, claim.says, all.size(), claims.size()));
    if (one.has_picture()) one.picture.figure = figure_of(claim.picture, on);
  }
  return all;
}

/// The pictures' files, in the claims' order.
std::vector<std::string> drawn_files(const std::vector<Drawn>& all, const std::string& format) {
  Progress progress;
  progress.show("drawing pictures");
  std::vector<SvgOrder> orders;
  for (const Drawn& one : all) {
    if (one.has_picture()) orders.push_back({&one.picture.figure});
  }
  try {
    if (format == "svg") return draw_svgs(orders);
    std::vector<std::string> files;
    files.reserve(orders.size());
    for (const SvgOrder& order : orders) files.push_back(draw_with_gnuplot(*order.figure, {.format = format}));
    return files;
  } catch (const GnuplotMissing&) {
    throw std::runtime_error("gnuplot is missing: apt-get install gnuplot-nox, or use --picture, which needs none");
  }
}

void write_section(HtmlPage& page, const std::string& id, const std::string& title, const std::vector<Drawn>& all) {
  bool begun = false;
  for (const Drawn& one : all) {
    if (claim_verdict(*one.claim) != id) continue;
    if (!begun) page.section(id, title);
    begun = true;
    page.heading(fmt::format("{}: \u201c{}\u201d", one.claim->encoding, one.claim->says));
    std::vector<std::pair<std::string, std::string>> facts = {{"Verdict", claim_verdict(*one.claim)},
                                                              {"Measured", one.claim->measured}};
    if (!one.claim->trained.empty()) facts.emplace_back("Trained", one.claim->trained);
    page.facts(facts);
    if (!one.has_picture()) continue;
    page.picture(one.picture);
    page.command(plot_line(one.claim->picture));
  }
}

std::string index_page(const std::vector<Drawn>& all, const std::string& summary) {
  HtmlPage page("What is often said of positional encodings", summary);
  write_section(page, "fails", "What fails", all);
  write_section(page, "open", "What no measurement decides", all);
  write_section(page, "holds", "What holds", all);
  return page.text(fmt::format("Made by bearing {}. The line below each picture draws it.", version()));
}

}  // namespace

std::string picture_name(const Claim& claim) {
  constexpr std::size_t longest = 60;
  std::string name = claim.encoding;
  std::string word;
  for (const char c : claim.says + ' ') {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      if (name.size() + 1 + word.size() > longest) break;
      name += '-' + word;
      word.clear();
    }
  }
  return name;
}

void write_pictures(const std::vector<Claim>& claims, const std::string& summary, const std::string& folder,
                    const std::string& format, const Executor& on) {
  std::vector<Drawn> all = figures_of(claims, on);
  std::vector<std::string> pictures = drawn_files(all, format);
  std::vector<PagePicture*> shown;
  Outputs files;
  std::string names;
  const auto add = [&](const std::string& name, std::string text) {
    names += fmt::format("{}/{}\n", folder, name);
    files.add(folder + '/' + name, std::move(text));
  };
  for (Drawn& one : all) {
    if (!one.has_picture()) continue;
    add(picture_name(*one.claim) + '.' + format, std::move(pictures[shown.size()]));
    shown.push_back(&one.picture);
  }
  draw_pictures(shown);
  add("index.html", index_page(all, summary));
  make_folder(folder);
  files.save(names);
}

}  // namespace bearing::tool
