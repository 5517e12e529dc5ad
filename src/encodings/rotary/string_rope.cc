#include <algorithm>
#include <bearing/encodings/string_rope.hpp>
#include <cmath>
#include <numbers>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"
#include "encodings/rotary/rope_mixed_start.hpp"
#include "numeric/matrix_exp.hpp"

namespace bearing {

using text::concat;

template <class A>
CayleyStringRows<A>::CayleyStringRows(const CayleyString& string, Param<A, 3> frequencies, Param<A, 2> skew,
                                      Index group)
    : dim_(string.rope.head_dim),
      sets_(frequencies.value.shape[1]),
      group_(group),
      rotation_(string.rope, frequencies, group),
      skew_(skew) {
  check_set("CayleyStringRows", "skew", skew, {sets_, dim_ * (dim_ - 1) / 2}, "[sets, head_dim*(head_dim-1)/2]");
  check_finite("CayleyStringRows", "skew", skew.value);
  const Index size = dim_ * dim_;
  inverse_.resize(static_cast<std::size_t>(sets_ * size));
  basis_.resize(inverse_.size());
  std::vector<double> plus(static_cast<std::size_t>(size));
  for (Index set = 0; set < sets_; ++set) {
    Index t = 0;
    for (Index i = 0; i < dim_; ++i) {
      plus[static_cast<std::size_t>(i * dim_ + i)] = 1;
      for (Index j = i + 1; j < dim_; ++j, ++t) {
        const auto s = static_cast<double>(skew.value(set, t));
        plus[static_cast<std::size_t>(i * dim_ + j)] = s;
        plus[static_cast<std::size_t>(j * dim_ + i)] = -s;
      }
    }
    // I + S is never singular: xᵀ(I + S)x = |x|². P = (2I − (I + S))(I + S)⁻¹ = 2(I + S)⁻¹ − I.
    double *inverse = inverse_.data() + set * size, *basis = basis_.data() + set * size;
    invert(dim_, plus.data(), inverse);
    for (Index i = 0; i < size; ++i) basis[i] = 2 * inverse[i];
    for (Index i = 0; i < dim_; ++i) basis[i * dim_ + i] -= 1;
  }
}

template <class A>
void CayleyStringRows<A>::to_basis(Index set, const A* x, A* y, double* room) const {
  const double* basis = basis_.data() + set * dim_ * dim_;
  std::copy_n(x, dim_, room);  // y may be x
  for (Index i = 0; i < dim_; ++i) {
    double sum = 0;
    for (Index j = 0; j < dim_; ++j) sum += basis[i * dim_ + j] * room[j];
    y[i] = static_cast<A>(sum);
  }
}

template <class A>
void CayleyStringRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  for (Index r = 0; r < tile.rows; ++r) {
    to_basis(tile.head / group_, x + r * tile.x_stride, y + r * tile.y_stride, tile.scratch);
  }
  RowTile turned = tile;
  turned.x_stride = tile.y_stride;
  rotation_.turn(turned, y, y);
}

template <class A>
void CayleyStringRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const Index set = tile.head / group_;
  double *room = tile.scratch, *d_z = room + dim_;
  RowTile inner = tile;
  inner.scratch = d_z + dim_;
  // z = P x waits where d_x will be; the rotation puts its gradient there in its place.
  for (Index r = 0; r < tile.rows; ++r) to_basis(set, x + r * tile.x_stride, d_x + r * tile.x_stride, room);
  rotation_.turn_grads(inner, d_x, d_y, d_x, d_params);
  const double* basis = basis_.data() + set * dim_ * dim_;
  A* d_basis = d_params == nullptr || skew_.grad.data == nullptr ? nullptr : d_params + bearing::param_size(rotation_);
  for (Index r = 0; r < tile.rows; ++r) {
    const A* in = x + r * tile.x_stride;
    A* d_in = d_x + r * tile.x_stride;
    std::copy_n(d_in, dim_, d_z);
    std::fill(room, room + dim_, 0.0);
    for (Index i = 0; i < dim_; ++i) {
      for (Index j = 0; j < dim_; ++j) room[j] += basis[i * dim_ + j] * d_z[i];
    }
    for (Index j = 0; j < dim_; ++j) d_in[j] = static_cast<A>(room[j]);
    for (Index i = 0; d_basis != nullptr && i < dim_; ++i) {
      const auto times = static_cast<A>(d_z[i]);
      for (Index j = 0; j < dim_; ++j) d_basis[i * dim_ + j] += times * in[j];
    }
  }
}

template <class A>
void CayleyStringRows<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "CayleyString", !basis_.empty());
  rotation_.check(function, problem);
}

template <class A>
Index CayleyStringRows<A>::param_size() const {
  return bearing::param_size(rotation_) + (skew_.grad.data == nullptr ? 0 : dim_ * dim_);
}

template <class A>
void CayleyStringRows<A>::collect(Index batch, Index head, const A* d_params) const {
  const auto rotation = rotation_.grad_block(batch, head);
  rotation.collect(d_params);
  if (skew_.grad.data == nullptr) return;
  // dP = −2 (I + S)⁻¹ dS (I + S)⁻¹, so with Q = (I + S)⁻¹ the gradient of S is −2 QᵀGQᵀ, of which the skew part counts.
  const Index set = head / group_, size = dim_ * dim_;
  const double* q = inverse_.data() + set * size;
  const A* g = d_params + rotation.size();
  std::vector<double> half(static_cast<std::size_t>(size)), d_s(half.size());
  const auto at = [this](Index i, Index j) { return static_cast<std::size_t>(i * dim_ + j); };
  for (Index k = 0; k < dim_; ++k) {
    for (Index i = 0; i < dim_; ++i) {
      for (Index j = 0; j < dim_; ++j) half[at(i, j)] += q[k * dim_ + i] * static_cast<double>(g[k * dim_ + j]);
    }
  }
  for (Index i = 0; i < dim_; ++i) {
    for (Index j = 0; j < dim_; ++j) {
      for (Index k = 0; k < dim_; ++k) d_s[at(i, j)] -= 2 * half[at(i, k)] * q[j * dim_ + k];
    }
  }
  Index t = 0;
  for (Index i = 0; i < dim_; ++i) {
    for (Index j = i + 1; j < dim_; ++j, ++t) skew_.grad(set, t) += static_cast<A>(d_s[at(i, j)] - d_s[at(j, i)]);
  }
}

namespace {

constexpr Index most_circulant = 1024;

}  // namespace

template <class A>
CirculantStringRows<A>::CirculantStringRows(const CirculantString& string, Param<A, 3> c, Index group)
    : string_(string), c_(c), group_(group) {
  const Index n = string.head_dim;
  if (n < 2 || n > most_circulant) {
    throw ShapeError(concat("[CirculantStringRows] head_dim: must be from 2 to ", most_circulant, ", got ", n));
  }
  check_axes("CirculantStringRows", string.axes);
  check_set("CirculantStringRows", "c", c, {string.axes, c.value.shape[1], n}, "[axes, sets, head_dim]");
  check_group("CirculantStringRows", c.value.shape[1], group);
  for (Index k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    cos_.push_back(std::cos(angle));
    sin_.push_back(std::sin(angle));
  }
}

template <class A>
void CirculantStringRows<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "CirculantString", !cos_.empty());
  check_rows(function, "CirculantString", problem, string_.head_dim, string_.axes, c_.value.shape[1], group_);
  check_finite(function, "CirculantString.c", c_.value, largest_rate);
}

template <class A>
void CirculantStringRows<A>::find_frequencies(Index head, double* omega) const {
  const Index n = string_.head_dim;
  for (Index axis = 0; axis < string_.axes; ++axis) {
    for (Index f = 1; f <= pairs(); ++f) {
      double sum = 0;
      for (Index k = 1; k < n; ++k) sum += static_cast<double>(c_.value(axis, head / group_, k)) * wave(sin_, f * k);
      omega[axis * pairs() + f - 1] = -2 * sum;
    }
  }
}

// The Fourier basis, orthonormal: pair f has cos and −sin of 2πfj/n times √(2/n) at 2f − 2 and 2f − 1; then come the
// constant and, for even n, the alternating one.

template <class A>
void CirculantStringRows<A>::to_fourier(const A* x, double* z) const {
  const Index n = string_.head_dim;
  const double pair = std::sqrt(2 / static_cast<double>(n)), one = std::sqrt(1 / static_cast<double>(n));
  for (Index f = 1; f <= pairs(); ++f) {
    double u = 0, v = 0;
    for (Index j = 0, at = 0; j < n; ++j, at = after(at, f)) {
      u += cos_[static_cast<std::size_t>(at)] * static_cast<double>(x[j]);
      v -= sin_[static_cast<std::size_t>(at)] * static_cast<double>(x[j]);
    }
    z[2 * f - 2] = pair * u;
    z[2 * f - 1] = pair * v;
  }
  for (Index rest = 2 * pairs(); rest < n; ++rest) {
    const bool alternates = rest > 2 * pairs();
    double sum = 0;
    for (Index j = 0; j < n; ++j) sum += (alternates && j % 2 == 1 ? -1 : 1) * static_cast<double>(x[j]);
    z[rest] = one * sum;
  }
}

template <class A>
void CirculantStringRows<A>::from_fourier(const double* z, A* x) const {
  const Index n = string_.head_dim;
  const double pair = std::sqrt(2 / static_cast<double>(n)), one = std::sqrt(1 / static_cast<double>(n));
  for (Index j = 0; j < n; ++j) {
    double sum = 0;
    for (Index f = 1, at = j; f <= pairs(); ++f, at = after(at, j)) {
      sum += cos_[static_cast<std::size_t>(at)] * z[2 * f - 2] - sin_[static_cast<std::size_t>(at)] * z[2 * f - 1];
    }
    sum *= pair;
    sum += one * z[2 * pairs()];
    if (n % 2 == 0) sum += (j % 2 == 1 ? -one : one) * z[n - 1];
    x[j] = static_cast<A>(sum);
  }
}

template <class A>
void CirculantStringRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  double *omega = tile.scratch, *z = omega + string_.axes * pairs();
  find_frequencies(tile.head, omega);
  for (Index r = 0; r < tile.rows; ++r) {
    to_fourier(x + r * tile.x_stride, z);
    for (Index f = 0; f < pairs(); ++f) {
      const double angle = phase(tile, r, omega + f), cos = std::cos(angle), sin = std::sin(angle);
      const double u = z[2 * f], v = z[2 * f + 1];
      z[2 * f] = u * cos - v * sin;
      z[2 * f + 1] = u * sin + v * cos;
    }
    from_fourier(z, y + r * tile.y_stride);
  }
}

template <class A>
void CirculantStringRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const Index n = string_.head_dim, frequencies = string_.axes * pairs();
  double *omega = tile.scratch, *d_omega = omega + frequencies, *z = d_omega + frequencies, *g = z + n;
  find_frequencies(tile.head, omega);
  std::fill(d_omega, d_omega + frequencies, 0.0);
  for (Index r = 0; r < tile.rows; ++r) {
    to_fourier(x + r * tile.x_stride, z);
    to_fourier(d_y + r * tile.y_stride, g);
    for (Index f = 0; f < pairs(); ++f) {
      const double angle = phase(tile, r, omega + f), cos = std::cos(angle), sin = std::sin(angle);
      const double d_u = g[2 * f] * cos + g[2 * f + 1] * sin, d_v = g[2 * f + 1] * cos - g[2 * f] * sin;
      const double d_angle = d_v * z[2 * f] - d_u * z[2 * f + 1];
      g[2 * f] = d_u;
      g[2 * f + 1] = d_v;
      for (Index axis = 0; axis < string_.axes; ++axis) {
        d_omega[axis * pairs() + f] += tile.at[static_cast<std::size_t>(axis)][r] * d_angle;
      }
    }
    from_fourier(g, d_x + r * tile.x_stride);
  }
  if (d_params == nullptr || c_.grad.data == nullptr) return;
  for (Index axis = 0; axis < string_.axes; ++axis) {
    for (Index k = 0; k < n; ++k) {
      double sum = 0;
      for (Index f = 1; f <= pairs(); ++f) sum += d_omega[axis * pairs() + f - 1] * wave(sin_, f * k);
      d_params[axis * n + k] += static_cast<A>(-2 * sum);
    }
  }
}

template <class A>
double CirculantStringRows<A>::phase(const RowTile& tile, Index row, const double* omega) const {
  double angle = 0;
  for (Index axis = 0; axis < string_.axes; ++axis) {
    angle += tile.at[static_cast<std::size_t>(axis)][row] * omega[axis * pairs()];
  }
  return angle;
}

#define BEARING_INSTANTIATE(A)        \
  template class CayleyStringRows<A>; \
  template class CirculantStringRows<A>;
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

namespace {

void describe_cayley(Describer& to) {
  to.record("CayleyString", CayleyString{{.pairing = Pairing::interleaved}},
            "Cayley-STRING: RoPE-Mixed in a learned orthogonal basis.\n\n"
            "    R(p) = RoPE(p) P,   P = (I - S)(I + S)^-1,   S skew-symmetric\n\n"
            "Schenck et al. 2025, arXiv 2502.02562.")
      .member("rope", &CayleyString::rope, "The rotation in that basis.");
  const Rule start{"as RoPE-Mixed's",
                   [](const Filling& all) { fill_rope_mixed(all.spec.as<CayleyString>()->rope, all); }, "base", 10};
  const auto dim = [](const Record& spec) { return spec.as<CayleyString>()->rope.head_dim; };
  to.encoding_with<CayleyString, Grouped, 3, 2>(
        "CayleyStringRows",
        "Cayley-STRING with frequencies [axes, sets, head_dim/2] and skew [sets, head_dim (head_dim - 1)/2].\n\n"
        "    R(p) = RoPE(p) P,   P = (I - S)(I + S)^-1\n\n"
        "skew is S's strict upper triangle, row by row. Head h uses set h / group, as in RopeMixedRows.\n\n"
        "Schenck et al. 2025, arXiv 2502.02562.",
        {Parameter("frequencies",
                   {{"axes", [](const Record& spec, const Sizes&) { return spec.as<CayleyString>()->rope.axes; }},
                    "sets",
                    {"head_dim/2", [dim](const Record& spec, const Sizes&) { return dim(spec) / 2; }}},
                   "Radians per unit of position.")
             .starts(start)
             .draws(start),
         Parameter("skew",
                   {"sets",
                    {"head_dim(head_dim - 1)/2",
                     [dim](const Record& spec, const Sizes&) { return dim(spec) * (dim(spec) - 1) / 2; }}},
                   "The strict upper triangle of S, row by row.")
             .starts(constant(0))
             .draws(normal(0.1))},
        make_grouped<CayleyStringRows>)
      .grid([](const CayleyString& spec, Index length) {
        return spec.rope.axes == 2 ? inspect::square_grid(length) : GridSize{};
      })
      .called(
          "cayley_string", "Cayley-STRING", "RoPE-Mixed in a learned basis",
          [](const ExampleSize& size) { return CayleyString{{.head_dim = size.dim, .pairing = Pairing::interleaved}}; })
      .also({"string_cayley"});
}

void describe_circulant(Describer& to) {
  to.record("CirculantString", CirculantString{},
            "Circulant-STRING: commuting generators that are circulant.\n\n"
            "    R(p) = exp(sum_axis p_axis L_axis),   L = C - C^T,   C[i][j] = c[(i - j) mod head_dim]\n\n"
            "Schenck et al. 2025, arXiv 2502.02562.")
      .member("head_dim", &CirculantString::head_dim, "How many dimensions a head has; at most 1024.")
      .member("axes", &CirculantString::axes, "How many coordinates a position has.");
  const Rule start{"normal, of standard deviation std",
                   [](const Filling& all) { normal(all.number.value_or(0.02)).fill(all); }, "std", 0.02};
  to.encoding_with<CirculantString, Grouped, 3>(
        "CirculantStringRows",
        "Circulant-STRING with c [axes, sets, head_dim]; only its odd part c[k] - c[head_dim - k] matters.\n\n"
        "    R(p) = exp(sum_axis p_axis L_axis),   L = C - C^T,   C[i][j] = c[(i - j) mod head_dim]\n\n"
        "Head h uses set h / group, as in RopeMixedRows.\n\nSchenck et al. 2025, arXiv 2502.02562.",
        {Parameter("c", {"axes", "sets", "head_dim"},
                   "First rows of the circulant matrices. Only their odd part matters.")
             .starts(start)
             .draws(normal(0.02))},
        make_grouped<CirculantStringRows>)
      .grid([](const CirculantString& spec, Index length) {
        return spec.axes == 2 ? inspect::square_grid(length) : GridSize{};
      })
      .called("circulant_string", "Circulant-STRING", "turns by commuting, circulant generators",
              [](const ExampleSize& size) { return CirculantString{.head_dim = size.dim}; })
      .also({"string_circulant"});
}

}  // namespace

void describe_string_rope(Describer& to) {
  to.home("string_rope", {"Schenck et al.", 2025, "arXiv 2502.02562"});
  describe_cayley(to);
  describe_circulant(to);
}

}  // namespace bearing
