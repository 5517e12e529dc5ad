#include <algorithm>
#include <bearing/encodings/angle_rows.hpp>
#include <bearing/rows.hpp>
#include <cmath>
#include <numbers>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"
#include "encodings/rotary/rotary_window.hpp"
#include "terms/counted_tokens.hpp"

namespace bearing {

using text::concat;

namespace {

/// Where index i of an axis is kept.
Index at(Index extent, Index i) { return extent == 1 ? 0 : i; }

/// cos and sin of an angle as it is given.
template <class A>
struct Turn {
  explicit Turn(A angle)
      : cos(static_cast<A>(std::cos(static_cast<double>(angle)))),
        sin(static_cast<A>(std::sin(static_cast<double>(angle)))) {}
  A cos, sin;
};

}  // namespace

template <class A>
AngleRows<A>::AngleRows(const GivenAngles& spec, Param<A, 4> angles, const AngleUse& use)
    : spec_(spec), angles_(angles), use_(use) {
  const RotaryWindow window = rotary_window("AngleRows", spec.head_dim, spec.rotary_dim, spec.pairing, spec.part);
  spec_.rotary_dim = window.dim;
  begin_ = window.begin;
  const std::array<Index, 4>& shape = angles.value.shape;
  check_extents("AngleRows", "angles", angles.value);
  check_set("AngleRows", "angles", angles, {shape[0], shape[1], shape[2], window.dim / 2},
            "[batch or 1, heads or 1, time, rotary_dim/2]");
  if (use.group < 1) throw ShapeError(concat("[AngleRows] group: must be at least 1, got ", use.group));
  if (use.past && (*use.past < 0 || *use.past > shape[2])) {
    throw ShapeError(concat("[AngleRows] past: must be from 0 to the angles' time of ", shape[2], ", got ", *use.past));
  }
}

template <class A>
void AngleRows<A>::check(const char* function, const Problem& problem) const {
  if (problem.dim != spec_.head_dim) {
    throw ShapeError(concat("[", function, "] GivenAngles.head_dim: must be the last extent of the rows, ", problem.dim,
                            ", got ", spec_.head_dim));
  }
  const std::array<Index, 4>& shape = angles_.value.shape;
  const auto fits = [&](const AngleUse& use) {
    const bool batch = shape[0] == 1 || shape[0] == problem.batch;
    const bool time = !use.past || shape[2] == *use.past + problem.q_len;
    return batch && time && (shape[1] == 1 || shape[1] * use.group == problem.heads);
  };
  const AngleUse of_keys{.past = use_.past ? std::optional<Index>(0) : std::nullopt};
  const bool queries = problem.side != Side::key && fits(use_), keys = problem.side != Side::query && fits(of_keys);
  if (queries || keys) return check_positions(function, problem);
  const AngleUse& use = problem.side == Side::key ? of_keys : use_;
  const Index tokens = use.past.value_or(0) + problem.q_len;
  throw ShapeError(concat("[", function, "] GivenAngles.angles: must be [batch or 1, heads or 1, time, pairs] for ",
                          problem.batch, " sequences, ", problem.heads, " heads in groups of ", use.group,
                          use.past ? concat(" and ", *use.past, " + ", problem.q_len, " tokens") : "", ", got shape ",
                          shape, use.past && tokens < shape[2] ? longer_cache : ""));
}

/// Throws RangeError unless each row's position names a token, where that says which angles it turns by.
template <class A>
void AngleRows<A>::check_positions(const char* function, const Problem& problem) const {
  if (use_.past || problem.q_positions == nullptr) return;
  const Index time = angles_.value.shape[2];
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index t = 0; t < problem.q_len; ++t) {
      const double p = problem.q_positions->real(0, b, t);
      if (p == std::floor(p) && p >= 0 && p < static_cast<double>(time)) continue;
      throw RangeError(concat("[", function, "] positions: must be from 0 to ", time - 1, ", tokens that there are ",
                              "angles of, where past is None, got ", p, " for token ", t, " of sequence ", b));
    }
  }
}

/// Whose angles a row of a tile turns by.
template <class A>
Index AngleRows<A>::token(const RowTile& tile, Index row) const {
  if (!use_.past) return static_cast<Index>(tile.at[0][row]);
  return tile.row + row + (tile.side == Side::query ? *use_.past : 0);
}

template <class A>
void AngleRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  const Index b = at(angles_.value.shape[0], tile.batch);
  const bool queries = tile.side == Side::query;
  const Index h = at(angles_.value.shape[1], tile.head / (queries ? use_.group : 1));
  const Index end = begin_ + spec_.rotary_dim;
  for (Index r = 0; r < tile.rows; ++r) {
    const A* in = x + r * tile.x_stride;
    A* out = y + r * tile.y_stride;
    if (in != out) {
      std::copy(in, in + begin_, out);
      std::copy(in + end, in + spec_.head_dim, out + end);
    }
    const Index t = token(tile, r);
    for (Index i = 0; i < pairs(); ++i) {
      const Turn<A> by(angles_.value(b, h, t, i));
      const auto [u, v] = pair_place(spec_.pairing, pairs(), i);
      const A x_u = in[begin_ + u], x_v = in[begin_ + v];
      out[begin_ + u] = x_u * by.cos - x_v * by.sin;
      out[begin_ + v] = x_u * by.sin + x_v * by.cos;
    }
  }
}

template <class A>
void AngleRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const Index b = at(angles_.value.shape[0], tile.batch);
  const bool queries = tile.side == Side::query;
  const Index h = at(angles_.value.shape[1], tile.head / (queries ? use_.group : 1));
  const Index end = begin_ + spec_.rotary_dim;
  const bool learn = d_params != nullptr && angles_.grad.data != nullptr;
  A* d_angles = !learn ? nullptr : queries || use_.group == 1 ? d_params : d_params + block();
  for (Index r = 0; r < tile.rows; ++r) {
    const A *in = x + r * tile.x_stride, *d_out = d_y + r * tile.y_stride;
    A* d_in = d_x + r * tile.x_stride;
    std::copy(d_out, d_out + begin_, d_in);
    std::copy(d_out + end, d_out + spec_.head_dim, d_in + end);
    const Index t = token(tile, r);
    for (Index i = 0; i < pairs(); ++i) {
      const Turn<A> by(angles_.value(b, h, t, i));
      const auto [pair_u, pair_v] = pair_place(spec_.pairing, pairs(), i);
      const Index u = begin_ + pair_u, v = begin_ + pair_v;
      const A d_u = d_out[u] * by.cos + d_out[v] * by.sin, d_v = d_out[v] * by.cos - d_out[u] * by.sin;
      // A turn by dφ moves (u, v) by dφ·(−v, u), before as after the rotation.
      if (learn) d_angles[t * pairs() + i] += d_v * in[u] - d_u * in[v];
      d_in[u] = d_u;
      d_in[v] = d_v;
    }
  }
}

template <class A>
void AngleRows<A>::add(Index batch, Index head, const A* d_params) const {
  const View<A, 4>& grad = angles_.grad;
  const Index b = at(grad.shape[0], batch), h = at(grad.shape[1], head);
  for (Index t = 0; t < grad.shape[2]; ++t) {
    for (Index i = 0; i < pairs(); ++i) grad(b, h, t, i) += d_params[t * pairs() + i];
  }
}

template <class A>
void AngleRows<A>::collect(Index batch, Index head, const A* d_params) const {
  add(batch, head / use_.group, d_params);
  // The second block is of keys, of which there are fewer heads than queries can have: the others have none.
  const Index sets = angles_.grad.shape[1];
  if (use_.group > 1 && (sets == 1 || head < sets)) add(batch, head, d_params + block());
}

template class AngleRows<float>;
template class AngleRows<double>;

namespace {

/// Angles of a model that turns some tokens by more than RoPE's step, others by less.
inspect::Specimen angles_example(const ExampleSize& size, const GivenAngles& spec) {
  inspect::Specimen specimen{.options = size, .by_index = true};
  const Index dim = spec.turned(), pairs = dim / 2;
  specimen.turn_rows = [spec, dim, pairs](Side side, const Positions& tokens, View<const double, 4> x,
                                          View<double, 4> y, const Executor& on) {
    const Index heads = x.shape[1], time = x.shape[2];
    inspect::Array angles(heads, time, pairs);
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < time; ++t) {
        const double p = tokens.real(0, 0, t), place = p + std::sin(p + static_cast<double>(h)) / 2;
        for (Index i = 0; i < pairs; ++i) {
          angles(h, t, i) = place * std::pow(10'000.0, -2 * static_cast<double>(i) / static_cast<double>(dim));
        }
      }
    }
    const AngleRows<double> rows(spec, {dense<const double>(angles.values.data(), 1, heads, time, pairs)});
    bearing::turn<double>(rows, side, tokens, x, y, on);
  };
  return specimen;
}

}  // namespace

void describe_angle_rows(Describer& to) {
  to.home("angle_rows", {"Movahedi et al.", 2025, "arXiv 2511.17388"});
  to.record("GivenAngles", GivenAngles{.pairing = Pairing::half},
            "Which dimensions turn if the model gives the angles, as in AngleRows.\n\n"
            "Movahedi et al. 2025, arXiv 2511.17388 (Selective RoPE); Veisi et al. 2025, arXiv 2507.23083 (CARoPE).")
      .member("head_dim", &GivenAngles::head_dim, "How many dimensions a head has.")
      .member("rotary_dim", &GivenAngles::rotary_dim, "How many dimensions turn, an even number; 0 for all.")
      .member("pairing", &GivenAngles::pairing, "Which dimensions form a pair.")
      .member("part", &GivenAngles::part, "Which part of the head turns.");
  to.settings("AngleUse", AngleUse{})
      .member("group", &AngleUse::group,
              "How many query heads share a head of angles: query head h uses head h / group.")
      .member("past", &AngleUse::past, past_text);
  to.encoding_with<GivenAngles, AngleUse, 4>(
        "AngleRows",
        "Query and key rows turn by angles that the model gives for each token, head and pair.\n\n"
        "    (u, v) <- (u cos phi - v sin phi, u sin phi + v cos phi),   phi = angles[b, h, t, pair]\n\n"
        "angles [batch or 1, heads or 1, time, rotary_dim/2], in radians: in most models a running sum over the "
        "tokens.\n"
        "It counts tokens, not positions: key j turns by the angles of token j, query i by those of token past + i.\n"
        "A cache may be longer than what is filled: with past=None a row turns by the angles of the token that its\n"
        "position names.\n\n"
        "Movahedi et al. 2025, arXiv 2511.17388; Veisi et al. 2025, arXiv 2507.23083; Zhang et al. 2025, arXiv "
        "2512.07805.",
        {Parameter(
             "angles",
             {or_one("batch"),
              or_one("sets"),
              any("time"),
              {"rotary_dim/2", [](const Record& spec, const Sizes&) { return spec.as<GivenAngles>()->turned() / 2; }}},
             "Radians, of each token, head and pair.")
             .computed()
             .starts(constant(0))
             .draws(uniform(-std::numbers::pi, std::numbers::pi))},
        []<class A>(const GivenAngles& spec, const AngleUse& use, const Param<A, 4>& angles) {
          return AngleRows<A>(spec, angles, use);
        })
      .by_index()
      .called("angle_rows", "angles of the model", "turns pairs by angles that the data decide",
              [](const ExampleSize& size) { return GivenAngles{.head_dim = size.dim, .pairing = Pairing::half}; })
      .also({"selective_rope", "carope"})
      .example(angles_example);
}

}  // namespace bearing
