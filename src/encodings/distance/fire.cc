#include <algorithm>
#include <bearing/encodings/fire.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "describe/describer.hpp"
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

/// ψ(|n − m|) of a tile's scores, one row at a time. A consecutive tile has them by diagonals, computed once.
template <class A>
class Squeezed {
 public:
  Squeezed(const Tile<A>& tile, A c) : tile_(tile), c_(static_cast<double>(c)) {
    if (!tile.consecutive) return;
    const double first = tile.k_positions[0][0] - tile.q_positions[0][0] - static_cast<double>(tile.rows - 1);
    for (Index i = 0; i < tile.rows + tile.cols - 1; ++i) put(i, first + static_cast<double>(i));
  }

  void begin_row(Index i) {
    if (tile_.consecutive) {
      first_ = tile_.rows - 1 - i;
      const double before = std::ceil(tile_.q_positions[0][i] - tile_.k_positions[0][0]);
      turn_ = static_cast<Index>(std::clamp(before, 0.0, static_cast<double>(tile_.cols)));
      return;
    }
    for (Index j = 0; j < tile_.cols; ++j) put(j, tile_.k_positions[0][j] - tile_.q_positions[0][i]);
  }
  /// The end of the keys from j on that all satisfy `in`, which x in one interval does. A consecutive row's distances
  /// fall up to its query and rise from there, so that they need not all be asked.
  template <class In>
  Index run_end(Index j, const In& in) const {
    if (!tile_.consecutive) {
      while (++j < tile_.cols && in(psi()[j])) {
      }
      return j;
    }
    return std::partition_point(psi() + j + 1, psi() + (j < turn_ ? turn_ : tile_.cols), in) - psi();
  }
  const A* psi() const { return tile_.scratch + first_; }
  const A* d_psi_d_c() const { return psi() + tile_.rows + tile_.cols; }

 private:
  void put(Index at, double distance) {
    const double x = std::abs(distance), grown = std::abs(c_) * x;
    tile_.scratch[at] = static_cast<A>(std::log1p(grown));
    const double sign = c_ > 0 ? 1 : c_ < 0 ? -1 : 0;
    tile_.scratch[tile_.rows + tile_.cols + at] = static_cast<A>(sign * x / (grown + 1));
  }

  const Tile<A>& tile_;
  double c_;
  Index first_ = 0, turn_ = 0;
};

/// 1 / (ψ(max(m, L)) + eps) of a query at m, and its slopes.
struct Normaliser {
  Normaliser(const Fire& fire, double c, double multiplier, double m) {
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

}  // namespace

template <class A>
FireBias<A>::FireBias(const Fire& fire, const FireParams<A>& params) : spec_(fire), params_(params) {
  if (fire.mlp_width < 1) throw RangeError(concat("[FireBias] mlp_width: must be at least 1, got ", fire.mlp_width));
  for (const auto& [name, number] : {std::pair{"threshold", fire.threshold}, std::pair{"eps", fire.eps}}) {
    if (number > 0 && std::isfinite(number)) continue;
    throw RangeError(concat("[FireBias] ", name, ": must be positive and finite, got ", number));
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
        // A product with 0, not nothing: what is not a number stays seen.
        const double out = static_cast<double>(params_.out_weight.value(h, u)) * (on(u, line) ? 1.0 : 0.0);
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
  const auto same = [](A was, A is) { return was == is || (std::isnan(was) && std::isnan(is)); };
  const std::vector<A> is = network();
  if (std::equal(is.begin(), is.end(), made_of_.begin(), same)) return;
  throw ShapeError(concat("[", function, "] Fire: must be made anew after its network changed, got another network"));
}

template <class A>
void FireBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const A *slope = slope_.data() + tile.head * lines_, *height = height_.data() + tile.head * lines_;
  Squeezed<A> squeezed(tile, params_.c.value(0));
  Index line = 0;
  for (Index i = 0; i < tile.rows; ++i) {
    squeezed.begin_row(i);
    const Normaliser norm(spec_, static_cast<double>(params_.c.value(0)),
                          static_cast<double>(params_.multiplier.value(0)), tile.q_positions[0][i]);
    const A scale = static_cast<A>(norm.value);
    const A *psi = squeezed.psi(), *ends = ends_.data();
    for (Index j = 0; j < tile.cols;) {
      const A x = psi[j] * scale;
      while (x > ends[line + 1]) ++line;
      while (x <= ends[line]) --line;
      const A low = ends[line], high = ends[line + 1];
      const Index end = squeezed.run_end(j, [=](A p) { return p * scale > low && p * scale <= high; });
      const A at_zero = height[line], per_x = slope[line];
      A* to = s + i * tile.stride;
      for (; j < end; ++j) to[j] += at_zero + per_x * (psi[j] * scale);
    }
  }
}

template <class A>
void FireBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const A* slope = slope_.data() + tile.head * lines_;
  A* d_lines = grads.params + 2;
  Squeezed<A> squeezed(tile, params_.c.value(0));
  double d_c = 0, d_multiplier = 0;
  Index line = 0;
  for (Index i = 0; i < tile.rows; ++i) {
    squeezed.begin_row(i);
    const Normaliser norm(spec_, static_cast<double>(params_.c.value(0)),
                          static_cast<double>(params_.multiplier.value(0)), tile.q_positions[0][i]);
    const A scale = static_cast<A>(norm.value);
    const A *psi = squeezed.psi(), *d_psi = squeezed.d_psi_d_c(), *ends = ends_.data();
    double d_psi_sum = 0, d_scale = 0;
    for (Index j = 0; j < tile.cols;) {
      const A x = psi[j] * scale;
      while (x > ends[line + 1]) ++line;
      while (x <= ends[line]) --line;
      const A low = ends[line], high = ends[line + 1];
      const Index end = squeezed.run_end(j, [=](A p) { return p * scale > low && p * scale <= high; });
      // Along one line, b = height + slope·x: whoever made the line gets its shares of these sums in collect().
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
  }
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
      .member("mlp_width", &Fire::mlp_width, "Units of the network.")
      .member("threshold", &Fire::threshold, "Where L starts, in tokens.")
      .member("eps", &Fire::eps, "What keeps the divisor above 0.")
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
        "FIRE's bias. It depends on where the query stands, not on the distance alone; real positions too.\n\n"
        "    s_ij <- s_ij + f_h(psi(|m - n|) / (psi(max(m, L)) + eps)),   psi(d) = ln(|c d| + 1)\n\n"
        "c [1], multiplier [1], hidden_weight [mlp_width], hidden_bias [mlp_width], out_weight [heads, mlp_width],\n"
        "out_bias [heads].\n\nLi, You, Guruganesh et al. 2023, arXiv 2310.04418.",
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
