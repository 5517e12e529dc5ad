#include <algorithm>
#include <bearing/encodings/fire.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "describe/describer.hpp"
#include "encodings/distance/fire_kernel.hpp"
#include "encodings/limits.hpp"
#include "terms/checks.hpp"

namespace bearing {

using text::concat;

namespace {

template <class A>
void check_params(const char* function, const Fire& fire, const FireParams<A>& params, Index heads) {
  check_param(function, "Fire.c", params.c, {1}, "[1]");
  check_param(function, "Fire.multiplier", params.multiplier, {1}, "[1]");
  check_param(function, "Fire.hidden_weight", params.hidden_weight, {fire.mlp_width}, "[mlp_width]");
  check_param(function, "Fire.hidden_bias", params.hidden_bias, {fire.mlp_width}, "[mlp_width]");
  check_param(function, "Fire.out_weight", params.out_weight, {heads, fire.mlp_width}, "[heads, mlp_width]");
  check_param(function, "Fire.out_bias", params.out_bias, {heads}, "[heads]");
  check_finite(function, "Fire.c", params.c.value, largest_rate);
  check_finite(function, "Fire.multiplier", params.multiplier.value);
  check_finite(function, "Fire.hidden_weight", params.hidden_weight.value);
  check_finite(function, "Fire.hidden_bias", params.hidden_bias.value);
  check_finite(function, "Fire.out_weight", params.out_weight.value);
  check_finite(function, "Fire.out_bias", params.out_bias.value);
}

/// Where a hidden unit goes on or off: it is on for x > corner where its weight is not negative, else for x ≤ corner.
template <class A>
A corner(A weight, A bias) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  if (weight == 0) return bias > 0 ? -infinity : infinity;
  const A x = -bias / weight;
  if (std::isnan(x)) return infinity;
  return weight > 0 ? x : std::nextafter(x, -infinity);  // off at the corner itself
}

/// 1 / (ψ(max(m, L)) + eps) of a query at m, and its slopes.
struct Normaliser {
  template <class A>
  Normaliser(const Fire& fire, const FireParams<A>& params, double m) {
    const auto c = static_cast<double>(params.c.value(0)), multiplier = static_cast<double>(params.multiplier.value(0));
    const double l = std::abs(multiplier * fire.threshold), longest = std::max(m, l);
    const double grown = std::abs(c) * longest;
    value = 1 / (std::log1p(grown) + fire.eps);
    const double sign_c = c > 0 ? 1 : c < 0 ? -1 : 0;
    d_c = -value * value * sign_c * longest / (grown + 1);
    const double sign_l = multiplier > 0 ? 1 : multiplier < 0 ? -1 : 0;
    d_multiplier = m < l ? -value * value * std::abs(c) / (grown + 1) * sign_l * fire.threshold : 0;
  }
  double value, d_c, d_multiplier;
};

/// ψ(|n − m|) of a tile's scores, one row at a time. A consecutive tile has them by diagonals, computed once.
template <class A>
class Squeezed {
 public:
  /// `slopes`: those of ψ by c, too.
  Squeezed(const Tile<A>& tile, A c, bool slopes) : tile_(tile), c_(static_cast<double>(c)), slopes_(slopes) {
    if (!tile.consecutive) return;
    const double first = tile.k_positions[0][0] - tile.q_positions[0][0] - static_cast<double>(tile.rows - 1);
    for (Index i = 0; i < size(); ++i) put(i, first + static_cast<double>(i));
    turn_ = static_cast<Index>(std::clamp(std::ceil(-first), 0.0, static_cast<double>(size())));
  }

  void begin_row(Index i) {
    if (tile_.consecutive) {
      first_ = tile_.rows - 1 - i;
      return;
    }
    for (Index j = 0; j < tile_.cols; ++j) put(j, tile_.k_positions[0][j] - tile_.q_positions[0][i]);
  }
  /// Of the row's keys.
  const A* psi() const { return all() + first_; }
  const A* d_psi_d_c() const { return psi() + tile_.rows + tile_.cols; }

  /// Of a consecutive tile's diagonals: falling up to `turn`, where the key is no longer before the query, then rising.
  const A* all() const { return tile_.scratch; }
  Index size() const { return tile_.rows + tile_.cols - 1; }
  Index turn() const { return turn_; }
  Index first() const { return first_; }

 private:
  void put(Index at, double distance) {
    const double x = std::abs(distance), grown = std::abs(c_) * x;
    tile_.scratch[at] = static_cast<A>(std::log1p(grown));
    if (!slopes_) return;
    const double sign = c_ > 0 ? 1 : c_ < 0 ? -1 : 0;
    tile_.scratch[tile_.rows + tile_.cols + at] = static_cast<A>(sign * x / (grown + 1));
  }

  const Tile<A>& tile_;
  double c_;
  bool slopes_;
  Index first_ = 0, turn_ = 0;
};

/// Which line of the network each key of a row lies on. In a consecutive tile a corner is passed at one distance before
/// the query and at one after it. These change little from row to row, so they are followed, not searched.
template <class A>
class LineRuns {
 public:
  /// A consecutive tile's rows have scales from `most` down to `least`. `ends`: of the lines.
  LineRuns(const Tile<A>& tile, const Squeezed<A>& squeezed, const std::vector<A>& ends, A most, A least)
      : tile_(tile), squeezed_(squeezed), ends_(ends.data()) {
    const Index lines = static_cast<Index>(ends.size()) - 1;
    before_ = tile.scratch + 2 * (tile.rows + tile.cols);
    after_ = before_ + lines;
    run_end_ = after_ + lines;
    run_line_ = run_end_ + std::max(2 * lines, tile.cols);
    if (tile.consecutive) find_passed(lines - 1, most, least);
  }

  /// The runs of the row that `squeezed` has begun.
  fire::Runs<A> row(A scale) {
    count_ = 0;
    if (tile_.consecutive) {
      follow(scale);
      const Index keys = squeezed_.first();  // the first key's diagonal
      for (Index line = last_; line > first_; --line) add_run(static_cast<Index>(before_[line]) - keys, line);
      for (Index line = first_; line < last_; ++line) add_run(static_cast<Index>(after_[line + 1]) - keys, line);
      add_run(tile_.cols, last_);
    } else {
      for (Index j = 0; j < tile_.cols;) {
        j = run_from(j, scale);
        add_run(j, first_);
      }
    }
    return {run_end_, run_line_};
  }

 private:
  void find_passed(Index corners, A most, A least) {
    const A* psi = squeezed_.all();
    const Index diagonals = squeezed_.size(), turn = squeezed_.turn();
    // Corners that all of the tile has passed, or none of it, are left out.
    const Index turned = std::min(turn, diagonals - 1);
    const A nearest = std::min(psi[std::max<Index>(turned - 1, 0)], psi[turned]);
    const A farthest = std::max(psi[0], psi[diagonals - 1]);
    const auto below = [&](A x) -> Index { return std::lower_bound(ends_ + 1, ends_ + 1 + corners, x) - (ends_ + 1); };
    const bool finite = std::isfinite(farthest * most);
    last_ = finite ? below(farthest * most) : corners;
    first_ = finite ? std::min(below(nearest * least), last_) : 0;
    for (Index line = first_ + 1; line <= last_; ++line) {
      const auto passed = [&](A p) { return p * most > ends_[line]; };
      before_[line] = static_cast<A>(std::partition_point(psi, psi + turn, passed) - psi);
      after_[line] = static_cast<A>(std::partition_point(psi + turn, psi + diagonals, std::not_fn(passed)) - psi);
    }
  }
  void follow(A scale) {
    const A* psi = squeezed_.all();
    const Index turn = squeezed_.turn(), size = squeezed_.size();
    for (Index line = first_ + 1; line <= last_; ++line) {
      const auto passed = [&](Index at) { return psi[at] * scale > ends_[line]; };
      auto before = static_cast<Index>(before_[line]), after = static_cast<Index>(after_[line]);
      while (before > 0 && !passed(before - 1)) --before;
      while (before < turn && passed(before)) ++before;
      while (after < size && !passed(after)) ++after;
      while (after > turn && passed(after - 1)) --after;
      before_[line] = static_cast<A>(before);
      after_[line] = static_cast<A>(after);
    }
  }
  /// The end of the keys from j on that lie on one line, which is first_ then.
  Index run_from(Index j, A scale) {
    const A* psi = squeezed_.psi();
    while (psi[j] * scale > ends_[first_ + 1]) ++first_;
    while (psi[j] * scale <= ends_[first_]) --first_;
    while (++j < tile_.cols && psi[j] * scale > ends_[first_] && psi[j] * scale <= ends_[first_ + 1]) {
    }
    return j;
  }
  /// Keys before `end` that no run has yet.
  void add_run(Index end, Index line) {
    const Index key = std::min(end, tile_.cols);
    if (key <= (count_ == 0 ? 0 : static_cast<Index>(run_end_[count_ - 1]))) return;
    run_end_[count_] = static_cast<A>(key);
    run_line_[count_++] = static_cast<A>(line);
  }

  const Tile<A>& tile_;
  const Squeezed<A>& squeezed_;
  const A* ends_;
  Index first_ = 0, last_ = 0, count_ = 0;
  A *before_, *after_;  ///< [line] diagonals: x is above ends[line] before the one and from the other on
  A *run_end_, *run_line_;
};

/// What all rows of a tile's scores are made of: row(i, normaliser, scale, ψ, runs).
template <class A, class Row>
void over_rows(const Tile<A>& tile, const Fire& fire, const FireParams<A>& params, const std::vector<A>& ends,
               Squeezed<A>& squeezed, const Row& row) {
  if (tile.rows < 1 || tile.cols < 1) return;
  const auto normaliser = [&](Index i) { return Normaliser(fire, params, tile.q_positions[0][i]); };
  const auto scale = [](const Normaliser& norm) { return static_cast<A>(norm.value); };
  LineRuns<A> runs(tile, squeezed, ends, scale(normaliser(0)), scale(normaliser(tile.rows - 1)));
  for (Index i = 0; i < tile.rows; ++i) {
    squeezed.begin_row(i);
    const Normaliser norm = normaliser(i);
    row(i, norm, scale(norm), runs.row(scale(norm)));
  }
}

}  // namespace

template <class A>
FireBias<A>::FireBias(const Fire& fire, const FireParams<A>& params) : spec_(fire), params_(params) {
  if (fire.mlp_width < 1) throw RangeError(concat("[FireBias] mlp_width: must be at least 1, got ", fire.mlp_width));
  for (const auto& [name, number] : {std::pair{"threshold", fire.threshold}, std::pair{"eps", fire.eps}}) {
    if (number > 0 && std::isfinite(number)) continue;
    throw RangeError(concat("[FireBias] ", name, ": must be finite and above 0, got ", number));
  }
  check_params("FireBias", fire, params, heads());
  wants_grad_ = params.c.grad.data != nullptr || params.multiplier.grad.data != nullptr ||
                params.hidden_weight.grad.data != nullptr || params.hidden_bias.grad.data != nullptr ||
                params.out_weight.grad.data != nullptr || params.out_bias.grad.data != nullptr;
  made_of_ = network();
  find_lines();
}

template <class A>
std::vector<A> FireBias<A>::network() const {
  std::vector<A> all;
  for (Index u = 0; u < spec_.mlp_width; ++u) {
    all.push_back(params_.hidden_weight.value(u));
    all.push_back(params_.hidden_bias.value(u));
    for (Index h = 0; h < heads(); ++h) all.push_back(params_.out_weight.value(h, u));
  }
  for (Index h = 0; h < heads(); ++h) all.push_back(params_.out_bias.value(h));
  return all;
}

template <class A>
bool FireBias<A>::on(Index unit, Index line) const {
  const bool after = line > corner_[static_cast<std::size_t>(unit)];
  return params_.hidden_weight.value(unit) >= 0 ? after : !after;
}

template <class A>
void FireBias<A>::find_lines() {
  const auto width = static_cast<std::size_t>(spec_.mlp_width);
  lines_ = spec_.mlp_width + 1;
  std::vector<A> corners(width);
  for (std::size_t u = 0; u < width; ++u) {
    const auto unit = static_cast<Index>(u);
    corners[u] = corner(params_.hidden_weight.value(unit), params_.hidden_bias.value(unit));
  }
  std::vector<std::size_t> order(width);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t u, std::size_t v) { return corners[u] < corners[v]; });

  corner_.resize(width);
  ends_.push_back(-std::numeric_limits<A>::infinity());
  for (std::size_t line = 0; line < width; ++line) {
    corner_[order[line]] = static_cast<Index>(line);
    ends_.push_back(corners[order[line]]);
  }
  ends_.push_back(std::numeric_limits<A>::infinity());

  for (Index h = 0; h < heads(); ++h) {
    for (Index line = 0; line < lines_; ++line) {
      double slope = 0, height = static_cast<double>(params_.out_bias.value(h));
      for (Index u = 0; u < spec_.mlp_width; ++u) {
        if (!on(u, line)) continue;
        const auto out = static_cast<double>(params_.out_weight.value(h, u));
        slope += out * static_cast<double>(params_.hidden_weight.value(u));
        height += out * static_cast<double>(params_.hidden_bias.value(u));
      }
      slope_.push_back(static_cast<A>(slope));
      height_.push_back(static_cast<A>(height));
    }
  }
}

template <class A>
void FireBias<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Fire", !made_of_.empty());
  check_params(function, spec_, params_, problem.heads);
  if (network() == made_of_) return;
  throw ShapeError(
      concat("[", function, "] Fire: must be made again after its network has changed, got another network"));
}

template <class A>
void FireBias<A>::write_scores(const Tile<A>& tile, fire::Write how, A* s) const {
  const A *slope = slope_.data() + tile.head * lines_, *height = height_.data() + tile.head * lines_;
  Squeezed<A> squeezed(tile, params_.c.value(0), false);
  over_rows(tile, spec_, params_, ends_, squeezed, [&](Index i, const Normaliser&, A scale, const fire::Runs<A>& runs) {
    fire::write_row(tile.cols, squeezed.psi(), scale, runs, slope, height, how, s + i * tile.stride);
  });
}

template <class A>
void FireBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  write_scores(tile, fire::Write::add, s);
}

template <class A>
void FireBias<A>::put_scores(const Tile<A>& tile, A* s) const {
  write_scores(tile, tile.past_caches ? fire::Write::put_past_caches : fire::Write::put, s);
  if (tile.past_caches) fire::finish_writes();
}

template <class A>
void FireBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const A* slope = slope_.data() + tile.head * lines_;
  A* d_lines = grads.params + 2;
  Squeezed<A> squeezed(tile, params_.c.value(0), true);
  double d_c = 0, d_multiplier = 0;
  over_rows(tile, spec_, params_, ends_, squeezed,
            [&](Index i, const Normaliser& norm, A scale, const fire::Runs<A>& runs) {
              const A *psi = squeezed.psi(), *d_psi = squeezed.d_psi_d_c();
              double d_psi_sum = 0, d_scale = 0;
              for (Index j = 0, r = 0; j < tile.cols; ++r) {
                // Along one line, b = height + slope·x: whoever made the line gets its shares of these sums in
                // collect().
                const auto line = static_cast<Index>(runs.line[r]), end = static_cast<Index>(runs.end[r]);
                double d_height = 0, d_slope = 0, d_c_run = 0;
                for (; j < end; ++j) {
                  const auto d = static_cast<double>(d_s[i * tile.stride + j]);
                  d_height += d;
                  d_slope += d * static_cast<double>(psi[j] * scale);
                  d_c_run += d * static_cast<double>(d_psi[j]);
                }
                d_lines[2 * line] += static_cast<A>(d_height);
                d_lines[2 * line + 1] += static_cast<A>(d_slope);
                d_psi_sum += static_cast<double>(slope[line]) * d_c_run;
                d_scale += static_cast<double>(slope[line]) * d_slope / norm.value;
              }
              // x = ψ(|n − m|)·scale
              d_c += d_psi_sum * norm.value + d_scale * norm.d_c;
              d_multiplier += d_scale * norm.d_multiplier;
            });
  grads.params[0] += static_cast<A>(d_c);
  grads.params[1] += static_cast<A>(d_multiplier);
}

template <class A>
void FireBias<A>::collect(Index, Index head, const A* d_params) const {
  if (params_.c.grad.data != nullptr) params_.c.grad(0) += d_params[0];
  if (params_.multiplier.grad.data != nullptr) params_.multiplier.grad(0) += d_params[1];
  const A* d_lines = d_params + 2;
  const auto sums = [&](auto&& counts) {
    std::pair<double, double> sum{0, 0};
    for (Index line = 0; line < lines_; ++line) {
      if (!counts(line)) continue;
      sum.first += static_cast<double>(d_lines[2 * line]);
      sum.second += static_cast<double>(d_lines[2 * line + 1]);
    }
    return sum;
  };
  if (params_.out_bias.grad.data != nullptr) {
    params_.out_bias.grad(head) += static_cast<A>(sums([](Index) { return true; }).first);
  }
  for (Index u = 0; u < spec_.mlp_width; ++u) {
    // A unit that is on gives out_weight·(hidden_weight·x + hidden_bias).
    const auto [d_height, d_slope] = sums([&](Index line) { return on(u, line); });
    const auto weight = static_cast<double>(params_.hidden_weight.value(u));
    const auto bias = static_cast<double>(params_.hidden_bias.value(u));
    const auto out = static_cast<double>(params_.out_weight.value(head, u));
    if (params_.out_weight.grad.data != nullptr) {
      params_.out_weight.grad(head, u) += static_cast<A>(weight * d_slope + bias * d_height);
    }
    if (params_.hidden_weight.grad.data != nullptr) {
      params_.hidden_weight.grad(u) += static_cast<A>(out * d_slope);
    }
    if (params_.hidden_bias.grad.data != nullptr) params_.hidden_bias.grad(u) += static_cast<A>(out * d_height);
  }
}

template <class A>
void FireBias<A>::borrows(MemoryList& to) const {
  to.param("Fire.c", params_.c);
  to.param("Fire.multiplier", params_.multiplier);
  to.param("Fire.hidden_weight", params_.hidden_weight);
  to.param("Fire.hidden_bias", params_.hidden_bias);
  to.param("Fire.out_weight", params_.out_weight);
  to.param("Fire.out_bias", params_.out_bias);
}

template class FireBias<float>;
template class FireBias<double>;

void describe_fire(Describer& to) {
  to.home("fire", {"Li et al.", 2023, "arXiv 2310.04418"});
  to.record("Fire", Fire{},
            "FIRE, functional interpolation: a small network of the distance, divided by the length so far.\n\n"
            "    s_ij <- s_ij + f_h(psi(|m - n|) / (psi(max(m, L)) + eps)),   psi(d) = ln(|c d| + 1)\n"
            "    f_h(x) = out_bias_h + sum_u out_weight_hu max(hidden_weight_u x + hidden_bias_u, 0)\n"
            "    L = |multiplier threshold|\n\n"
            "Li, You, Guruganesh et al. 2023, arXiv 2310.04418.")
      .member("mlp_width", &Fire::mlp_width, "How many hidden units the network has.")
      .member("threshold", &Fire::threshold, "Where L starts, in tokens.")
      .member("eps", &Fire::eps, "A small number that keeps the divisor above 0.")
      .constant("initial_c", Fire::initial_c, "Where c starts in the authors' code: 0.1.")
      .constant("initial_multiplier", Fire::initial_multiplier, "Where the threshold's multiplier starts: 1.");
  // The layers start as PyTorch's linear ones: uniform within 1/sqrt(inputs).
  const auto layer = [](auto inputs) {
    return Rule{"uniform within 1/sqrt(inputs), as PyTorch's linear layers", [inputs](const Filling& all) {
                  const double most = 1 / std::sqrt(static_cast<double>(inputs(*all.spec.as<Fire>())));
                  uniform(-most, most).fill(all);
                }};
  };
  const auto one = [](const Fire&) { return Index{1}; };
  const auto width = [](const Fire& fire) { return fire.mlp_width; };
  const NamedExtent single("1", [](const Record&, const Sizes&) { return Index{1}; });
  to.encoding<Fire, 1, 1, 1, 1, 2, 1>(
        "FireBias",
        "FIRE's bias. It depends on where the query stands, not on the distance alone. Positions may be real.\n\n"
        "    s_ij <- s_ij + f_h(psi(|m - n|) / (psi(max(m, L)) + eps)),   psi(d) = ln(|c d| + 1)\n\n"
        "c [1], multiplier [1], hidden_weight [mlp_width], hidden_bias [mlp_width], out_weight [heads, mlp_width],\n"
        "out_bias [heads].\n\n"
        "Li, You, Guruganesh et al. 2023, arXiv 2310.04418.",
        {Parameter("c", {single}, "What a distance is multiplied by.")
             .starts(constant(Fire::initial_c))
             .draws(constant(Fire::initial_c)),
         Parameter("multiplier", {single}, "What the threshold is multiplied by.")
             .starts(constant(Fire::initial_multiplier))
             .draws(constant(Fire::initial_multiplier)),
         Parameter("hidden_weight", {"mlp_width"}, "The hidden layer's weights.").starts(layer(one)).draws(normal(1)),
         Parameter("hidden_bias", {"mlp_width"}, "The hidden layer's biases.").starts(layer(one)).draws(normal(0.5)),
         Parameter("out_weight", {"heads", "mlp_width"}, "The output's weights.")
             .starts(layer(width))
             .draws(normal(0.25)),
         Parameter("out_bias", {"heads"}, "The output's biases.").starts(layer(width)).draws(normal(0.25))},
        []<class A>(const Fire& fire, const Param<A, 1>& c, const Param<A, 1>& multiplier,
                    const Param<A, 1>& hidden_weight, const Param<A, 1>& hidden_bias, const Param<A, 2>& out_weight,
                    const Param<A, 1>& out_bias) {
          return FireBias<A>(fire, {c, multiplier, hidden_weight, hidden_bias, out_weight, out_bias});
        })
      .form(Form::per_query)
      .causal()
      .called("fire", "FIRE", "a network of the distance within the length", [](const ExampleSize&) { return Fire{}; });
}

}  // namespace bearing
