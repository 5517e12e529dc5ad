#include "myths_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "outputs.hpp"
#include "picture_words.hpp"
#include "plot_files.hpp"
#include "plot_gnuplot.hpp"
#include "progress.hpp"

namespace bearing::tool {

using inspect::Claim;

namespace {

struct Drawn {
  const Claim* claim;
  inspect::Figure figure = {};
};

std::vector<Drawn> draw(const std::vector<Claim>& claims, const Executor& on) {
  Progress progress;
  std::vector<Drawn> all;
  for (const Claim& claim : claims) {
    Drawn& one = all.emplace_back(Drawn{&claim});
    if (claim.picture.kind.empty()) continue;
    progress.show(fmt::format("{}: {} ({} of {})", claim.encoding, claim.says, all.size(), claims.size()));
    one.figure = figure_of(claim.picture, on);
  }
  return all;
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

void write_pictures(const std::vector<Claim>& claims, const std::string& /*summary*/, const std::string& folder,
                    const std::string& format, const Executor& on) {
  const std::vector<Drawn> all = draw(claims, on);
  Outputs files;
  std::string names;
  for (const Drawn& one : all) {
    if (one.claim->picture.kind.empty()) continue;
    const std::string file = fmt::format("{}/{}.{}", folder, picture_name(*one.claim), format);
    files.add(file, draw_with_gnuplot(one.figure, {.format = format}));
    names += file + '\n';
  }
  make_folder(folder);
  files.save(names);
}

}  // namespace bearing::tool
