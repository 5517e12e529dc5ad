#include "plot_subjects.hpp"

namespace bearing::tool {

inspect::Subject subject_of_picture(const Subject& said) {
  return {said.text, said.description, said.lengths, said.model};
}

inspect::Figure subjects_figure(const std::string& kind, const std::vector<Subject>& said,
                                const inspect::FigureOptions& options) {
  std::vector<inspect::Subject> subjects;
  subjects.reserve(said.size());
  for (const Subject& one : said) subjects.push_back(subject_of_picture(one));
  return inspect::figure(kind, subjects, options);
}

}  // namespace bearing::tool
