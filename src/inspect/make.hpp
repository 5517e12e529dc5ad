#pragma once

#include <bearing/catalog.hpp>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>
#include <cmath>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "inspect/example.hpp"
#include "text.hpp"

// How the catalog's examples are made: parameters drawn from a seed, and an encoding of any sites behind the functions
// of a Specimen.

namespace bearing::inspect {

/// Owns the numbers of an example.
class Parameters {
 public:
  explicit Parameters(std::uint64_t seed) : normal_(seed) {}

  /// Learned numbers around `mean`, which count as parameters.
  template <int Rank>
  Param<double, Rank> normal(std::array<Index, static_cast<std::size_t>(Rank)> shape, double deviation,
                             double mean = 0) {
    const Param<double, Rank> param{draw<Rank>(shape, deviation, mean)};
    count_ += param.value.size();
    return param;
  }
  /// A learned table that the caller fills.
  template <int Rank>
  View<double, Rank> learned(std::array<Index, static_cast<std::size_t>(Rank)> shape) {
    const View<double, Rank> view = table<Rank>(shape);
    count_ += view.size();
    return view;
  }
  /// Room for a table that is computed.
  template <int Rank>
  View<double, Rank> table(std::array<Index, static_cast<std::size_t>(Rank)> shape) {
    View<double, Rank> view{nullptr, shape, {}};
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      view.stride[axis] = step;
      if (shape[axis] > 0 && step > most_numbers / shape[axis]) {
        throw RangeError(
            text::concat("[make] heads, dim, length: must ask for at most 2^27 numbers in a table, got ", shape));
      }
      step *= shape[axis];
    }
    memory_.emplace_back(static_cast<std::size_t>(step));
    view.data = memory_.back().data();
    return view;
  }

  /// All numbers of `param` become f(number).
  template <int Rank, class F>
  void map(const Param<double, Rank>& param, F&& f) {
    for (std::vector<double>& numbers : memory_) {
      if (numbers.data() != param.value.data) continue;
      for (double& number : numbers) number = f(number);
    }
  }

  Index count() const { return count_; }

 private:
  /// 2^27, 1 GiB: more is likely a typing error.
  static constexpr Index most_numbers = Index{1} << 27;

  template <int Rank>
  View<double, Rank> draw(const std::array<Index, static_cast<std::size_t>(Rank)>& shape, double deviation,
                          double mean) {
    const View<double, Rank> view = table<Rank>(shape);
    for (double& number : memory_.back()) number = mean + deviation * normal_();
    return view;
  }

  Normal normal_;
  Index count_ = 0;
  std::deque<std::vector<double>> memory_;
};

inline double softmax_scale(Index dim) { return 1 / std::sqrt(static_cast<double>(dim)); }

/// Gives the specimen the sites that E has. The encoding and its parameters live as long as the specimen.
template <class E>
void act(Specimen& specimen, std::shared_ptr<Parameters> numbers, E made) {
  struct Kept {
    std::shared_ptr<Parameters> numbers;
    E encoding;
  };
  const auto kept = std::make_shared<const Kept>(Kept{std::move(numbers), std::move(made)});
  const double scale = softmax_scale(specimen.options.dim);
  if constexpr (InputTerm<E, double>) {
    specimen.input_rows = [kept](const Positions& at, View<double, 3> rows, const Executor& on) {
      fill<double>(kept->encoding, at, rows, on);
    };
  }
  if constexpr (RowTerm<E, double>) {
    specimen.turn_rows = [kept](Side side, const Positions& at, View<const double, 4> x, View<double, 4> y,
                                const Executor& on) { turn<double>(kept->encoding, side, at, x, y, on); };
    if constexpr (requires { made.out_dim(Index{}); }) {
      specimen.out_dim = [kept](Index dim) { return kept->encoding.out_dim(dim); };
    }
  }
  if constexpr (ScoreTerm<E, double>) {
    specimen.score_terms = [kept, scale](const Positions& q_positions, const Positions& k_positions,
                                         View<const double, 4> q, View<const double, 4> k, View<double, 4> scores,
                                         const Executor& on) {
      add_scores(with(kept->encoding),
                 {.q_positions = q_positions, .k_positions = k_positions, .q = q, .k = k, .scale = scale}, scores, on);
    };
  }
  if constexpr (ValueTerm<E, double>) {
    specimen.value_terms = [kept](const Positions& q_positions, const Positions& k_positions, View<const double, 4> p,
                                  View<double, 4> out, const Executor& on) {
      add_values(with(kept->encoding), q_positions, k_positions, p, out, on);
    };
  }
  specimen.parameters += kept->numbers->count();
  specimen.held += kept->numbers->count();
}

using Numbers = std::shared_ptr<Parameters>;
inline Numbers numbers_of(const SpecimenOptions& options) { return std::make_shared<Parameters>(options.seed); }

/// An example that acts through one encoding alone.
template <class E>
Specimen specimen_of(const SpecimenOptions& options, const Numbers& numbers, E encoding) {
  Specimen specimen{.options = options};
  act(specimen, numbers, std::move(encoding));
  return specimen;
}

inline Description entry(const char* stem, const char* title, const char* authors, int year, const char* source,
                         const char* does, Specimen (*make)(const SpecimenOptions&)) {
  Description one{stem, {}, title, does, {authors, year, source}, stem};
  one.specimen = [make](const SpecimenOptions& options, const Record&) { return make(options); };
  return one;
}

// The rows of the catalog, by site; each appends its own.
void list_rows(std::vector<Description>& all);
void list_terms(std::vector<Description>& all);

}  // namespace bearing::inspect
