#include "attention_models.hpp"

#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/tupe.hpp>

#include "score_models.hpp"

namespace bearing::bench {
namespace {

struct AlibiMade {
  AlibiBias<float> term;
  explicit AlibiMade(const AttentionShape& s) : term(Alibi::published(s.heads)) {}
  static double products(const AttentionShape&) { return 0; }
};

struct T5Made {
  Numbers table;
  T5Bias<float> term;
  explicit T5Made(const AttentionShape& s)
      : table(t5_spec.buckets * s.heads), term(t5_spec, table.param(t5_spec.buckets, s.heads)) {}
  static double products(const AttentionShape&) { return 0; }
};

struct RopeMade {
  RopeTable<float> table;
  RotaryRows<float> term{table};
  explicit RopeMade(const AttentionShape& s)
      : table({.head_dim = s.dim, .base = base, .pairing = Pairing::half}, s.k_len) {}
  static double products(const AttentionShape&) { return 0; }
};

/// How many rows of a table that rises or falls with the distance the tokens 0 … n − 1 meet, added up.
template <class Row>
double rows_met(Index n, const Row& row) {
  double met = 0;
  for (Index i = 0; i < n; ++i) met += static_cast<double>(std::abs(row(n - 1 - i) - row(-i)) + 1);
  return met;
}

/// Keys and values.
struct ShawMade {
  static constexpr Shaw spec{.clip = 16};
  Numbers key, value;
  ShawTerm<float> term;
  explicit ShawMade(const AttentionShape& s)
      : key(spec.rows() * s.dim),
        value(spec.rows() * s.dim),
        term(spec, key.param(spec.rows(), s.dim), value.param(spec.rows(), s.dim)) {}
  static double products(const AttentionShape& s) {
    return 2 * rows_met(s.q_len, [](Index distance) { return std::clamp(distance, -spec.clip, spec.clip); });
  }
};

/// Causal, as it is defined.
struct TransformerXLMade {
  Numbers r, u, v;
  TransformerXLTerm<float> term;
  explicit TransformerXLMade(const AttentionShape& s)
      : r(s.heads * s.k_len * s.dim),
        u(s.heads * s.dim),
        v(s.heads * s.dim),
        term({}, r.param(s.heads, s.k_len, s.dim), u.param(s.heads, s.dim), v.param(s.heads, s.dim)) {}
  static double products(const AttentionShape& s) { return pairs_left("causal", s) + static_cast<double>(s.k_len); }
};

/// Version 3's numbers.
struct DebertaMade {
  static constexpr Deberta spec{.max_relative_positions = 512, .position_buckets = 256};
  static constexpr Index rows = 2 * 256;
  Numbers key, query;
  DebertaTerm<float> term;
  explicit DebertaMade(const AttentionShape& s)
      : key(s.heads * rows * s.dim),
        query(s.heads * rows * s.dim),
        term(spec, key.param(s.heads, rows, s.dim), query.param(s.heads, rows, s.dim)) {}
  static double products(const AttentionShape& s) {
    return 2 * rows_met(s.q_len, [](Index distance) {
             return std::clamp<Index>(deberta_bucket(spec, distance) + spec.span(), 0, rows - 1);
           });
  }
};

struct TupeMade {
  Numbers query, key;
  TupeBias<float> term;
  explicit TupeMade(const AttentionShape& s)
      : query(s.heads * (s.k_len + 1) * s.dim),
        key(s.heads * (s.k_len + 1) * s.dim),
        term({}, query.param(s.heads, s.k_len + 1, s.dim), key.param(s.heads, s.k_len + 1, s.dim)) {}
  static double products(const AttentionShape& s) { return pairs_left("full", s); }
};

/// use.operator()<Made>() for the encoding of that name.
template <class Use>
auto by_name(const std::string& name, const Use& use) {
  if (name == "alibi") return use.template operator()<AlibiMade>();
  if (name == "t5") return use.template operator()<T5Made>();
  if (name == "rope") return use.template operator()<RopeMade>();
  if (name == "shaw") return use.template operator()<ShawMade>();
  if (name == "transformer_xl") return use.template operator()<TransformerXLMade>();
  if (name == "deberta") return use.template operator()<DebertaMade>();
  if (name == "tupe") return use.template operator()<TupeMade>();
  throw std::invalid_argument("no encoding is called " + name);
}

}  // namespace

Encoded encode(const std::string& name, const AttentionShape& shape) {
  if (name == "none") return {};
  return by_name(name, [&]<class Made>() {
    const auto made = std::make_shared<const Made>(shape);
    return Encoded{made, with(made->term)};
  });
}

double own_products(const std::string& name, const AttentionShape& shape) {
  return name == "none" ? 0 : by_name(name, [&]<class Made>() { return Made::products(shape); });
}

double pairs_left(const std::string& name, const AttentionShape& shape) {
  const auto q = static_cast<double>(shape.q_len), k = static_cast<double>(shape.k_len);
  if (name == "full") return q * k;
  const double all = q * (q + 1) / 2;
  if (name == "causal" || q <= 512) return all;
  return all - (q - 512) * (q - 511) / 2;
}

}  // namespace bearing::bench
