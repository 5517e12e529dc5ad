#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/inspect.hpp>
#include <cmath>

#include "inspect/dots.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

/// x w: [1, rows, w's columns]; x itself where there is no w.
Array projected(const char* function, const char* argument, View<const double, 2> x, View<const double, 2> w) {
  const Index dim = x.shape[1];
  if (w.data != nullptr && w.shape[0] != dim) {
    throw ShapeError(
        concat("[", function, "] ", argument, ": must be [dim, head_dim] with dim = ", dim, ", got shape ", w.shape));
  }
  check_tensor(function, argument, w);
  Array y(1, x.shape[0], w.data == nullptr ? dim : w.shape[1]);
  for (Index i = 0; i < y.shape[1]; ++i) {
    if (w.data != nullptr) {
      const View<const double, 2> columns{w.data, {w.shape[1], dim}, {w.stride[1], w.stride[0]}, w.device};
      dots(row(x, i), columns, [&](Index d, double sum) { y(0, i, d) = sum; });
    } else {
      for (Index d = 0; d < dim; ++d) y(0, i, d) = x(i, d);
    }
  }
  return y;
}

}  // namespace

Similarity similarity(View<const double, 1> x, View<const double, 1> y) {
  if (x.shape != y.shape) {
    throw ShapeError(concat("[similarity] y: must have the length of x, ", x.shape[0], ", got ", y.shape[0]));
  }
  check_tensor("similarity", "x", x);
  check_tensor("similarity", "y", y);
  Similarity s;
  double xx = 0, yy = 0, apart = 0;
  for (Index d = 0; d < x.shape[0]; ++d) {
    s.dot += x(d) * y(d);
    xx += x(d) * x(d), yy += y(d) * y(d);
    apart += (x(d) - y(d)) * (x(d) - y(d));
  }
  if (xx > 0 && yy > 0) s.cosine = s.dot / std::sqrt(xx) / std::sqrt(yy);
  s.distance = std::sqrt(apart);
  return s;
}

Array products(View<const double, 2> x, View<const double, 2> y) {
  if (x.shape[1] != y.shape[1]) {
    throw ShapeError(
        concat("[products] y: rows must have the length of those of x, ", x.shape[1], ", got shape ", y.shape));
  }
  check_tensor("products", "x", x);
  check_tensor("products", "y", y);
  Array all(1, x.shape[0], y.shape[0]);
  for (Index i = 0; i < x.shape[0]; ++i) {
    dots(row(x, i), y, [&](Index j, double product) { all(0, i, j) = product; });
  }
  return all;
}

std::vector<double> rotation_similarity(const RopeFrequencies& frequencies, Index length) {
  if (length < 0 || length > max_position) {
    throw RangeError(concat("[rotation_similarity] length: must be from 0 to 2^31, got ", length));
  }
  const double factor = frequencies.attention_factor * frequencies.attention_factor;
  std::vector<double> curve(static_cast<std::size_t>(length));
  for (std::size_t k = 0; k < curve.size(); ++k) {
    double sum = 0;
    for (double theta : frequencies.inv_freq) sum += std::cos(static_cast<double>(k) * theta);
    curve[k] = factor * sum;
  }
  return curve;
}

Decay decay(std::vector<double> curve) {
  Decay d;
  for (double value : curve) {
    if (std::isnan(value)) throw RangeError("[decay] curve: must be numbers, got nan");
  }
  d.envelope = curve;
  for (std::size_t k = curve.size(); k-- > 1;) d.envelope[k - 1] = std::max(d.envelope[k - 1], d.envelope[k]);
  for (std::size_t k = 1; k < curve.size(); ++k) {
    d.rises += curve[k] > curve[k - 1] ? 1 : 0;
    d.negative += curve[k] < 0 ? 1 : 0;
    if ((k & (k - 1)) == 0) d.octaves.push_back(curve[k]);
    d.octaves.back() = std::max(d.octaves.back(), curve[k]);
  }
  d.decays = !d.octaves.empty() && std::is_sorted(d.octaves.rbegin(), d.octaves.rend()) &&
             d.octaves.back() < curve.front() && (d.octaves.size() == 1 || d.octaves.back() < d.octaves.front());
  d.curve = std::move(curve);
  return d;
}

std::vector<Run> runs(View<const double, 1> values, Index first) {
  check_tensor("runs", "values", values);
  std::vector<Run> all;
  for (Index i = 0; i < values.shape[0]; ++i) {
    if (all.empty() || all.back().value != values(i)) all.push_back({first + i, first + i, values(i)});
    all.back().last = first + i;
  }
  return all;
}

Correlations correlations(View<const double, 2> words, View<const double, 2> positions, View<const double, 2> w_q,
                          View<const double, 2> w_k) {
  if (words.shape != positions.shape) {
    throw ShapeError(concat("[correlations] positions: must have the shape of words, ", words.shape, ", got shape ",
                            positions.shape));
  }
  check_tensor("correlations", "words", words);
  check_tensor("correlations", "positions", positions);
  const Index q_dim = w_q.data == nullptr ? words.shape[1] : w_q.shape[1];
  const Index k_dim = w_k.data == nullptr ? words.shape[1] : w_k.shape[1];
  if (q_dim != k_dim) {
    throw ShapeError(concat("[correlations] w_q, w_k: must have the same head_dim, got ", q_dim, " and ", k_dim));
  }
  const Array word_q = projected("correlations", "w_q", words, w_q);
  const Array word_k = projected("correlations", "w_k", words, w_k);
  const Array position_q = projected("correlations", "w_q", positions, w_q);
  const Array position_k = projected("correlations", "w_k", positions, w_k);
  return {products(word_q.head(0), word_k.head(0)), products(word_q.head(0), position_k.head(0)),
          products(position_q.head(0), word_k.head(0)), products(position_q.head(0), position_k.head(0))};
}

double Normal::operator()() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

Array Normal::array(Index heads, Index rows, Index cols) {
  Array all(heads, rows, cols);
  for (double& value : all.values) value = (*this)();
  return all;
}

}  // namespace bearing::inspect
