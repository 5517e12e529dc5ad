#include "attention/linear/decay_reference.hpp"

#include <algorithm>
#include <cmath>

namespace bearing::reference {

/// body(term, tile of all steps of a side, where its parameters' gradients go)
template <class Body>
void Decays::each_side(Side side, Index b, Index h, const Body& body) {
  const Index rows = side == Side::key ? in_.k.shape[2] : in_.q.shape[2];
  const Index kv = side == Side::key ? h : h / group();
  std::vector<double> from, to;
  for (Index t = 0; t < rows; ++t) {
    from.push_back(key_at(b, (side == Side::key ? t : seen(b, t)) - 1));
    to.push_back(side == Side::key ? key_at(b, t) : std::max(from.back(), in_.q_positions.real(0, b, t)));
  }
  for (Index x = 0; x < terms_.size; ++x) {
    const Term<double>& term = terms_.terms[size(x)];
    if (side == Side::query && term.counts_tokens) continue;
    StepTile tile{.batch = b, .head = kv, .rows = rows, .from = from.data(), .to = to.data(), .side = side};
    tile.channels = term.by_channel && side == Side::key ? dim_ : 1;
    body(term, tile, params_.block(b, kv, x));
  }
}
/// body(term, tile of one step, t, channels)
template <class Body>
void Decays::each_step(Side side, Index b, Index h, const Body& body) {
  each_side(side, b, h, [&](const Term<double>& term, const StepTile& all, const double*) {
    for (Index t = 0; t < all.rows; ++t) {
      StepTile one = all;
      one.row = t, one.rows = 1, one.from += t, one.to += t;
      body(term, one, t, all.channels);
    }
  });
}

Decays::Decays(const TermList<double>& terms, const LinearAttentionInputs<double>& in, Mask mask, Index dim)
    : in_(in), terms_(some_of(terms, false)), dim_(dim), params_(terms_, in.k.shape[0], in.k.shape[1]) {
  const auto [batch, heads, k_len, in_dim] = in.k.shape;
  keys_.resize(place(batch, 0, 0, 0)), d_keys_ = keys_;
  own_.resize(static_cast<std::size_t>(batch * in.q.shape[1] * in.q.shape[2])), d_own_ = own_;
  seen_.resize(static_cast<std::size_t>(batch * in.q.shape[2]));
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < in.q.shape[2]; ++i) {
      while (seen(b, i) < k_len && sees(in, mask, b, i, seen(b, i))) ++seen(b, i);
    }
    for (Index h = 0; h < in.q.shape[1]; ++h) {
      each_step(Side::query, b, h, [&](const Term<double>& term, const StepTile& tile, Index i, Index) {
        term.log_decay(term.self, tile, &own_[own(b, h, i)]);
      });
    }
    for (Index h = 0; h < heads; ++h) {
      each_step(Side::key, b, h, [&](const Term<double>& term, const StepTile& tile, Index t, Index) {
        std::vector<double> log(static_cast<std::size_t>(tile.channels));
        term.log_decay(term.self, tile, log.data());
        for (Index c = 0; c < dim_; ++c) keys_[place(b, h, t, c)] += log[tile.channels > 1 ? size(c) : 0];
      });
    }
  }
}

std::vector<double> Decays::for_query(Index b, Index h, Index i) const {
  std::vector<double> left(size((in_.k.shape[2] + 1) * dim_), 1);
  for (Index c = 0; c < dim_ && terms_.size > 0; ++c) {
    double log = own_[own(b, h, i)];
    for (Index j = seen_[row(b, i)]; j >= 0; --j) {
      left[size(j * dim_ + c)] = std::exp(log);
      if (j > 0) log += keys_[place(b, h / group(), j - 1, c)];
    }
  }
  return left;
}
double Decays::at_end(Index b, Index kv, Index j, Index c) const {
  return terms_.size == 0 ? 1 : std::exp(sum(b, kv, j + 1, in_.k.shape[2], c));
}
void Decays::add_query(Index b, Index h, Index i, Index j, Index c, double d) {
  if (terms_.size == 0) return;
  d_own_[own(b, h, i)] += d;
  for (Index t = j + 1; t < seen(b, i); ++t) d_keys_[place(b, h / group(), t, c)] += d;
}
void Decays::add_end(Index b, Index kv, Index j, Index c, double d) {
  for (Index t = j + 1; t < in_.k.shape[2] && terms_.size > 0; ++t) d_keys_[place(b, kv, t, c)] += d;
}

void Decays::collect() {
  for (Index b = 0; b < in_.k.shape[0]; ++b) {
    for (Index h = 0; h < in_.k.shape[1]; ++h) {
      each_side(Side::key, b, h, [&](const Term<double>& term, const StepTile& tile, double* params) {
        std::vector<double> d(size(tile.rows * tile.channels));
        for (Index t = 0; t < tile.rows; ++t) {
          for (Index c = 0; c < dim_; ++c) {
            d[size(tile.channels > 1 ? t * dim_ + c : t)] += d_keys_[place(b, h, t, c)];
          }
        }
        term.log_decay_grads(term.self, tile, d.data(), params);
      });
    }
    for (Index h = 0; h < in_.q.shape[1]; ++h) {
      each_side(Side::query, b, h, [&](const Term<double>& term, const StepTile& tile, double* params) {
        term.log_decay_grads(term.self, tile, &d_own_[own(b, h, 0)], params);
      });
    }
  }
  params_.collect();
}

double Decays::sum(Index b, Index kv, Index from, Index to, Index c) const {
  double all = 0;
  for (Index t = from; t < to; ++t) all += keys_[place(b, kv, t, c)];
  return all;
}
double Decays::key_at(Index b, Index t) const {
  if (t >= 0) return in_.k_positions.real(0, b, t);
  return (in_.k.shape[2] > 0 ? in_.k_positions.real(0, b, 0) : in_.q_positions.real(0, b, 0)) - 1;
}

}  // namespace bearing::reference
