#include "check_report.hpp"

#include <fmt/format.h>

#include "progress.hpp"

namespace bearing::tool {

std::vector<std::string> property_names() {
  // As inspect::check() names them; the tests hold the two together.
  return {"unique", "relative",  "decay",     "extensible", "deterministic", "bounded",
          "norm",   "symmetric", "shift-map", "parameters", "memory"};
}

namespace {

std::vector<inspect::Property> measure(const Subject& subject, const inspect::SpecimenOptions& size,
                                       const Executor& on) {
  Progress progress;
  const std::size_t steps = property_names().size() + 1;  // the examples come first
  std::size_t step = 0;
  return inspect::check(subject.description, size, on, [&](const char* begins) {
    progress.show(fmt::format("{}: {} ({} of {})", subject.text, begins, ++step, steps));
  });
}

}  // namespace

CheckReport check_subject(Subject subject, const SizeOptions& sizes, const Executor& on) {
  CheckReport report{.subject = std::move(subject)};
  const inspect::SpecimenOptions asked = measured_size(report.subject, sizes);
  with_library_errors("check", [&] {
    report.properties = measure(report.subject, asked, on);  // refuses sizes that would fill the memory
    report.specimen = inspect::make(report.subject.description, asked);
    report.size = report.specimen.options;  // an image's length is whole rows
  });
  note_length(report.subject, sizes, report.size.length);
  report.claims = inspect::claims(report.subject.description.name, on);
  return report;
}

}  // namespace bearing::tool
