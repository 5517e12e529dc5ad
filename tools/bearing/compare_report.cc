#include "compare_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "progress.hpp"
#include "terminal.hpp"

namespace bearing::tool {

std::vector<std::string> size_headings(const CompareReport& report) {
  const auto any = [&](auto differs) { return std::any_of(report.sizes.begin(), report.sizes.end(), differs); };
  const inspect::SpecimenOptions& size = report.size;
  if (any([&](const auto& own) { return own.heads != size.heads || own.dim != size.dim; })) {
    return {"heads", "dim", "length"};
  }
  if (any([&](const auto& own) { return own.length != size.length; })) return {"length"};
  return {};
}

std::vector<std::string> size_cells(const CompareReport& report, std::size_t row) {
  const inspect::SpecimenOptions& own = report.sizes[row];
  std::vector<std::string> cells{grouped(own.heads), grouped(own.dim), grouped(own.length)};
  cells.erase(cells.begin(), cells.end() - std::ssize(size_headings(report)));
  return cells;
}

std::string sizes_text(const CompareReport& report) {
  const std::vector<std::string> own = size_headings(report);
  const inspect::SpecimenOptions& size = report.size;
  if (!own.empty() && own[0] != "length") return fmt::format("each at its own size, seed {}", size.seed);
  const std::string length = own.empty() ? fmt::format("length {}", size.length) : "each at its own length";
  return fmt::format("{} of {}, {}, seed {}", tool::counted(size.heads, "head"), size.dim, length, size.seed);
}

std::vector<std::string> compare_headings(const CompareReport& report) {
  std::vector<std::string> headings{"encoding", "learned", "past length", "relative", "decay", "memory"};
  const std::vector<std::string> own = size_headings(report);
  headings.insert(headings.begin() + 1, own.begin(), own.end());
  return headings;
}

std::vector<std::vector<std::string>> compare_rows(const CompareReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const inspect::Comparison& row = report.rows[i];
    rows.push_back({printable(row.name), row.learnable ? grouped(row.parameters) : "-", row.past_length,
                    inspect::name(row.relative), inspect::name(row.decay), row.memory});
    const std::vector<std::string> own = size_cells(report, i);
    rows.back().insert(rows.back().begin() + 1, own.begin(), own.end());
  }
  return rows;
}

namespace {

/// A row, or why there is none.
struct Measured {
  inspect::Comparison row = {};
  std::exception_ptr error = {};
};

/// The encodings run side by side; one alone cuts its own work.
std::vector<Measured> measure(const std::vector<Subject>& subjects, const std::vector<inspect::SpecimenOptions>& sizes,
                              const Executor& on) {
  std::vector<Measured> all(subjects.size());
  Progress progress;
  std::atomic<std::size_t> done = 0;
  parallel(on, static_cast<Index>(subjects.size()), [&](Index task) noexcept {
    const auto i = static_cast<std::size_t>(task);
    try {
      with_library_errors("compare", [&] { all[i].row = inspect::compare(subjects[i].description, sizes[i], on); });
      all[i].row.name = subjects[i].text;
      progress.show(fmt::format("{} ({} of {})", subjects[i].text, ++done, subjects.size()));
    } catch (...) {
      all[i].error = std::current_exception();
    }
  });
  return all;
}

}  // namespace

CompareReport compare_subjects(const std::vector<Subject>& subjects, const SizeOptions& options, const Executor& on) {
  // What no model's file says has the size of the first one that a file says.
  const auto model =
      std::find_if(subjects.begin(), subjects.end(), [](const Subject& one) { return one.model.dim > 0; });
  std::vector<inspect::SpecimenOptions> sizes;
  CompareReport report{.size = model == subjects.end() ? options.parse() : measured_size(*model, options)};
  for (const Subject& one : subjects) {
    const bool own = one.model.dim > 0 && &one != &*model;
    sizes.push_back(own ? measured_size(one, options) : report.size);
  }
  std::vector<Measured> measured = measure(subjects, sizes, on);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    try {
      if (measured[i].error) std::rethrow_exception(measured[i].error);
      report.rows.push_back(std::move(measured[i].row));
      report.sizes.push_back(sizes[i]);
      report.sizes.back().length = report.rows.back().length;
      note_length(subjects[i], options, report.rows.back().length);
    } catch (const UsageError& error) {
      report.left_out.push_back({subjects[i].text, error.what()});
    }
  }
  const auto apart = [&](const inspect::SpecimenOptions& own) { return own.length != report.sizes[0].length; };
  if (!report.sizes.empty() && std::none_of(report.sizes.begin(), report.sizes.end(), apart)) {
    report.size.length = report.sizes[0].length;
  }
  for (inspect::Claim& claim : inspect::claims(on)) {
    const auto shown = [&](const Subject& subject) { return subject.description.name == claim.encoding; };
    if (std::any_of(subjects.begin(), subjects.end(), shown)) report.claims.push_back(std::move(claim));
  }
  return report;
}

}  // namespace bearing::tool
