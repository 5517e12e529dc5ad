#include "plot_subjects.hpp"

#include <algorithm>

namespace bearing::tool {

inspect::Figure subjects_figure(const std::string& kind, const std::vector<inspect::Subject>& subjects,
                                const std::vector<Sizes>& models, inspect::FigureOptions options) {
  const inspect::FigureKind* found = inspect::find_figure_kind(kind);
  const auto takes = [&](const char* member) {
    return found != nullptr && std::find(found->takes.begin(), found->takes.end(), member) != found->takes.end();
  };
  for (const Sizes& model : models) {
    if (options.dim == 0 && takes("dim")) options.dim = model.dim;
    if (options.heads == 0 && takes("heads")) options.heads = model.heads;
  }
  return inspect::figure(kind, subjects, options);
}

inspect::Figure subjects_figure(const std::string& kind, const std::vector<Subject>& said,
                                const inspect::FigureOptions& options) {
  std::vector<inspect::Subject> subjects;
  std::vector<Sizes> models;
  for (const Subject& one : said) {
    subjects.push_back({one.text, one.description, {.trained = one.model.length}});
    models.push_back(one.model);
  }
  return subjects_figure(kind, subjects, models, options);
}

}  // namespace bearing::tool
