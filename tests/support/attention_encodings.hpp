#pragma once

#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/angle_rows.hpp>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/encodings/bucket_bias.hpp>
#include <bearing/encodings/cope.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/encodings/fire.hpp>
#include <bearing/encodings/fope.hpp>
#include <bearing/encodings/forgetting.hpp>
#include <bearing/encodings/gated_t5.hpp>
#include <bearing/encodings/kerple.hpp>
#include <bearing/encodings/lie_rope.hpp>
#include <bearing/encodings/pope.hpp>
#include <bearing/encodings/position_temperature.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/sam.hpp>
#include <bearing/encodings/sandwich.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/string_rope.hpp>
#include <bearing/encodings/swin.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/encodings/t5_axis.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/tupe.hpp>
#include <bearing/encodings/xlnet.hpp>
#include <bearing/encodings/xpos.hpp>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "support/attention.hpp"

// Every encoding of rows, scores and values, made for any call of `encoding_heads` heads of `encoding_dim` features.

namespace bearing::test {

inline constexpr Index encoding_heads = 4, encoding_dim = 8;
inline constexpr Index encoding_positions = 480;  ///< whole positions that tables have rows for: 0 … 479
inline constexpr Index grid_height = 5, grid_width = 7;

/// What positions an encoding serves.
enum class Serves {
  any,
  tokens,  ///< any: it counts tokens, and queries are the last of those that the keys are
  whole,
  rising,
  grid,
  three_axes
};

struct NamedEncoding {
  std::string name;
  Serves serves;
  Index kv_heads;  ///< that it serves
  std::function<Params(const AttentionCase&)> params;
  std::function<Made<double>(Params&, const AttentionCase&)> f64;
  std::function<Made<float>(Params&, const AttentionCase&)> f32;

  template <class A>
  Made<A> make(Params& p, const AttentionCase& c) const {
    if constexpr (std::is_same_v<A, double>) return f64(p, c);
    if constexpr (std::is_same_v<A, float>) return f32(p, c);
  }
};

class NamedEncodings {
 public:
  NamedEncodings() {
    add_biases();
    add_content();
    add_rows();
    add_combinations();
  }
  const std::vector<NamedEncoding>& all() const { return all_; }
  const NamedEncoding& find(const std::string& name) const {
    for (const NamedEncoding& encoding : all_) {
      if (encoding.name == name) return encoding;
    }
    throw std::out_of_range(name);
  }

 private:
  static constexpr Index H = encoding_heads, D = encoding_dim;

  /// `make`: []<class A>(Params&, const AttentionCase&) → an encoding
  template <class Make>
  void add(std::string name, Serves serves, Params::Shapes shapes, const Make& make, double low = -1, double high = 1) {
    add_for_case(
        std::move(name), serves, [shapes](const AttentionCase&) { return shapes; }, make, low, high);
  }
  template <class Shapes, class Make>
  void add_for_case(std::string name, Serves serves, const Shapes& shapes, const Make& make, double low = -1,
                    double high = 1) {
    all_.push_back(
        {std::move(name), serves, kv_heads_, [=](const AttentionCase& c) { return Params(shapes(c), low, high); },
         [=](Params& p, const AttentionCase& c) { return Made<double>{}.add(make.template operator()<double>(p, c)); },
         [=](Params& p, const AttentionCase& c) { return Made<float>{}.add(make.template operator()<float>(p, c)); }});
  }
  /// Rows that look things up in a table, which lives as long as they do.
  template <class A, template <class> class Rows, class Table>
  static Made<A> with_table(Table table) {
    const auto kept = std::make_shared<const Table>(std::move(table));
    Made<A> made;
    made.add(Rows<A>(*kept)).owned.push_back(kept);
    return made;
  }

  void add_biases() {
    add(
        "alibi", Serves::any, {{H}}, []<class A>(Params& p, auto&) { return AlibiBias<A>(p.param<A, 1>(0)); }, 0.1, 1);
    add("alibi, causal form", Serves::any, {}, []<class A>(Params&, auto&) {
      Alibi alibi = Alibi::published(H);
      alibi.form = AlibiForm::causal;
      return AlibiBias<A>(alibi);
    });
    add(
        "alibi, shifted", Serves::any, {{H}},
        []<class A>(Params& p, auto&) { return AlibiShiftedBias<A>(p.param<A, 1>(0)); }, 0.001, 0.1);
    add("t5", Serves::whole, {{32, H}}, []<class A>(Params& p, auto&) {
      return T5Bias<A>({.direction = T5Direction::bidirectional}, p.param<A, 2>(0));
    });
    add("t5, causal", Serves::whole, {{8, H}}, []<class A>(Params& p, auto&) {
      return T5Bias<A>({.buckets = 8, .max_distance = 20, .direction = T5Direction::causal}, p.param<A, 2>(0));
    });
    add("t5, on a grid's columns", Serves::grid, {{8, H}}, []<class A>(Params& p, auto&) {
      return T5AxisBias<A>(
          {.buckets = 8, .max_distance = 6, .direction = T5Direction::bidirectional, .axis = 1, .scale = 0.5},
          p.param<A, 2>(0));
    });
    add_for_case(
        "t5, gated", Serves::whole,
        [](const AttentionCase& c) {
          return Params::Shapes{{32, H}, {c.batch, H, c.q_len}};
        },
        []<class A>(Params& p, auto&) {
          return GatedT5Bias<A>({.buckets = 32, .max_distance = 128, .direction = T5Direction::bidirectional},
                                p.param<A, 2>(0), p.param<A, 3>(1));
        });
    for (const KerpleForm form : {KerpleForm::logarithmic, KerpleForm::power}) {
      add(
          form == KerpleForm::power ? "kerple, power" : "kerple, logarithmic", Serves::any, {{H}, {H}},
          [form]<class A>(Params& p, auto&) { return KerpleBias<A>({form}, p.param<A, 1>(0), p.param<A, 1>(1)); }, 0.25,
          1);
    }
    add("fire", Serves::any, {{1}, {1}, {6}, {6}, {H, 6}, {H}}, []<class A>(Params& p, auto&) {
      const FireParams<A> params{p.param<A, 1>(0), p.param<A, 1>(1), p.param<A, 1>(2),
                                 p.param<A, 1>(3), p.param<A, 2>(4), p.param<A, 1>(5)};
      return FireBias<A>({.mlp_width = 6, .threshold = 16}, params);
    });
    add("sandwich", Serves::any, {}, []<class A>(Params&, auto&) { return SandwichBias<A>({.heads = H, .dim = 16}); });
    add("swin", Serves::grid, {{Swin{grid_height, grid_width}.rows(), H}}, []<class A>(Params& p, auto&) {
      return SwinBias<A>({grid_height, grid_width}, p.param<A, 2>(0));
    });
    add_for_case(
        "dense", Serves::any,
        [](const AttentionCase& c) {
          return Params::Shapes{{1, H, c.q_len, c.k_len}};
        },
        []<class A>(Params& p, auto&) { return DenseBias<A>(p.param<A, 4>(0)); });
    add_for_case(
        "dense, one row", Serves::any,
        [](const AttentionCase& c) {
          return Params::Shapes{{1, 1, 1, c.k_len}};
        },
        []<class A>(Params& p, auto&) { return DenseBias<A>(p.param<A, 4>(0)); });
    add("bucket bias", Serves::any, {{6, H}}, []<class A>(Params& p, const AttentionCase& c) {
      static const std::vector<std::int32_t> index = [] {
        std::vector<std::int32_t> some;
        Random random(43);
        for (Index n = 0; n < encoding_positions * encoding_positions; ++n) {
          some.push_back(static_cast<std::int32_t>(random.integer(-1, 5)));
        }
        return some;
      }();
      return BucketBias<A>(dense(index.data(), 1, 1, c.q_len, c.k_len), p.param<A, 2>(0));
    });
    add("bucket bias, differences", Serves::any, {{6, H}}, []<class A>(Params& p, const AttentionCase& c) {
      static const std::vector<Index> numbers = [] {
        std::vector<Index> some;
        Random random(44);
        for (Index n = 0; n < 4 * encoding_positions; ++n) some.push_back(random.integer(0, 7));
        return some;
      }();
      const auto tokens = [&](Index time, Index from) {
        return BucketTokens{dense(numbers.data() + from, c.batch, time),
                            dense(numbers.data() + 2 * from, c.batch, time)};
      };
      return BucketBias<A>({.clip = 2, .pairs = BucketPairs::same_group}, p.param<A, 2>(0), tokens(c.q_len, 3),
                           tokens(c.k_len, 5));
    });
    add_for_case(
        "forgetting", Serves::tokens,
        [](const AttentionCase& c) {
          return Params::Shapes{{c.batch, H, c.k_len}};
        },
        []<class A>(Params& p, const AttentionCase& c) {
          return ForgettingBias<A>(p.param<A, 3>(0), c.k_len - c.q_len);
        },
        -0.5, 0);
    const Index P = encoding_positions;
    add("tupe", Serves::whole, {{H, P + 1, 3}, {H, P + 1, 3}},
        []<class A>(Params& p, auto&) { return TupeBias<A>({}, p.param<A, 3>(0), p.param<A, 3>(1)); });
    add("tupe with buckets, tied", Serves::whole, {{H, P, 3}, {H, P, 3}, {32, H}}, []<class A>(Params& p, auto&) {
      return TupeBias<A>({.rel_pos_bins = 32, .cls = TupeCls::tied}, p.param<A, 3>(0), p.param<A, 3>(1),
                         p.param<A, 2>(2));
    });
  }

  void add_content() {
    const Index P = encoding_positions;
    add("shaw", Serves::whole, {{9, D}, {9, D}},
        []<class A>(Params& p, auto&) { return ShawTerm<A>({4}, p.param<A, 2>(0), p.param<A, 2>(1)); });
    add("shaw, a table for each head", Serves::whole, {{H, 129, D}, {H, 129, D}},
        []<class A>(Params& p, auto&) { return ShawTerm<A>({64}, p.param<A, 3>(0), p.param<A, 3>(1)); });
    add("shaw, zero outside its window", Serves::whole, {{9, D}, {9, D}}, []<class A>(Params& p, auto&) {
      return ShawTerm<A>({4, ShawOutside::zero}, p.param<A, 2>(0), p.param<A, 2>(1));
    });
    add("transformer-xl", Serves::whole, {{H, 2 * P, D}, {H, D}, {H, D}}, []<class A>(Params& p, auto&) {
      return TransformerXLTerm<A>(
          {.first_offset = -encoding_positions, .direction = TransformerXLDirection::bidirectional}, p.param<A, 3>(0),
          p.param<A, 2>(1), p.param<A, 2>(2));
    });
    add("transformer-xl, causal and clamped", Serves::whole, {{H, 31, D}, {H, D}, {H, D}},
        []<class A>(Params& p, auto&) {
          return TransformerXLTerm<A>({.clamp_len = 30}, p.param<A, 3>(0), p.param<A, 2>(1), p.param<A, 2>(2));
        });
    add("xlnet segments", Serves::any, {{2, H, D}, {H, D}}, []<class A>(Params& p, const AttentionCase& c) {
      static const std::vector<Index> segments = [] {
        std::vector<Index> some;
        Random random(41);
        for (int n = 0; n < 4 * encoding_positions; ++n) some.push_back(random.integer(0, 2));
        return some;
      }();
      return XlnetSegmentTerm<A>(p.param<A, 3>(0), p.param<A, 2>(1), dense(segments.data(), c.batch, c.q_len),
                                 dense(segments.data() + 7, c.batch, c.k_len));
    });
    add("deberta", Serves::whole, {{H, 16, D}, {H, 16, D}}, []<class A>(Params& p, auto&) {
      return DebertaTerm<A>({.max_relative_positions = 32, .position_buckets = 8}, p.param<A, 3>(0), p.param<A, 3>(1));
    });
    add("bert, relative_key_query", Serves::whole, {{2 * P - 1, D}}, []<class A>(Params& p, auto&) {
      return BertRelativeTerm<A>(BertRelative{.max_position_embeddings = encoding_positions,
                                              .position_embedding_type = BertRelativeType::relative_key_query},
                                 p.param<A, 2>(0));
    });
    add("wav2vec2-bert", Serves::whole, {{73, D}},
        []<class A>(Params& p, auto&) { return BertRelativeTerm<A>(Wav2Vec2BertRelative{}, p.param<A, 2>(0)); });
    add("cope", Serves::rising, {{H, 12, D}},
        []<class A>(Params& p, auto&) { return CopeTerm<A>({.max_pos = 12}, p.param<A, 3>(0)); });
    add("sam", Serves::grid, {{2 * grid_height - 1, D}, {2 * grid_width - 1, D}}, []<class A>(Params& p, auto&) {
      return SamTerm<A>({grid_height, grid_width}, p.param<A, 2>(0), p.param<A, 2>(1));
    });
  }

  void add_rows() {
    add_for_case(
        "angles of tokens, grouped", Serves::tokens,
        [](const AttentionCase& c) {
          return Params::Shapes{{c.batch, c.kv_heads, c.k_len, D / 2}};
        },
        []<class A>(Params& p, const AttentionCase& c) {
          return AngleRows<A>({.head_dim = D, .pairing = Pairing::half}, p.param<A, 4>(0),
                              {.group = c.heads / c.kv_heads, .past = c.k_len - c.q_len});
        },
        -4, 4);
    kv_heads_ = H;  // parameters of rows are one set for all heads, of queries as of keys
    add_made("rope", Serves::any, {}, []<class A>(Params&, auto&) {
      return with_table<A, RotaryRows>(RopeTable<A>(Rope{.head_dim = D, .pairing = Pairing::half}, 64));
    });
    add_made("rope, the last part, interleaved", Serves::any, {}, []<class A>(Params&, auto&) {
      return with_table<A, RotaryRows>(RopeTable<A>(
          Rope{.head_dim = D, .rotary_dim = 4, .pairing = Pairing::interleaved, .part = RotaryPart::last()}, 600));
    });
    add_made("m-rope", Serves::three_axes, {}, []<class A>(Params&, auto&) {
      return with_table<A, RotaryRows>(
          RopeTable<A>(Rope{.head_dim = D, .pairing = Pairing::half, .axes = RopeAxes::sections({1, 1, 2})}, 600));
    });
    add_made("xpos", Serves::any, {}, []<class A>(Params&, auto&) {
      return with_table<A, XposRows>(
          XposTable<A>({.rope = {.head_dim = D, .pairing = Pairing::interleaved}, .centre = 200}, 600));
    });
    add_for_case(
        "angles of tokens, some pairs for all heads", Serves::tokens,
        [](const AttentionCase& c) {
          return Params::Shapes{{1, 1, c.k_len, 2}};
        },
        []<class A>(Params& p, const AttentionCase& c) {
          return AngleRows<A>(
              {.head_dim = D, .rotary_dim = 4, .pairing = Pairing::interleaved, .part = RotaryPart::window(2)},
              p.param<A, 4>(0), {.past = c.k_len - c.q_len});
        },
        -4, 4);
    add("rope-mixed", Serves::any, {{1, 1, D / 2}}, []<class A>(Params& p, auto&) {
      return RopeMixedRows<A>({.head_dim = D, .axes = 1, .pairing = Pairing::half}, p.param<A, 3>(0), H);
    });
    add(
        "lie-rope", Serves::any, {{1, 1, 2, 6}},
        []<class A>(Params& p, auto&) {
          return LieRopeRows<A>({.head_dim = D, .axes = 1, .block = 4}, p.param<A, 4>(0), H);
        },
        -0.25, 0.25);
    add("cayley-string", Serves::any, {{1, 1, D / 2}, {1, D * (D - 1) / 2}}, []<class A>(Params& p, auto&) {
      return CayleyStringRows<A>({{.head_dim = D, .axes = 1, .pairing = Pairing::half}}, p.param<A, 3>(0),
                                 p.param<A, 2>(1), H);
    });
    add(
        "circulant-string", Serves::any, {{1, 1, D}},
        []<class A>(Params& p, auto&) {
          return CirculantStringRows<A>({.head_dim = D, .axes = 1}, p.param<A, 3>(0), H);
        },
        -0.125, 0.125);
    add("fope", Serves::any, {{1, 2, 3}, {1, 2, 3}}, []<class A>(Params& p, auto&) {
      return FopeRows<A>({.head_dim = D, .kept = 2, .pairing = Pairing::half}, p.param<A, 3>(0), p.param<A, 3>(1), H);
    });
    add(
        "pope", Serves::any, {{1, D}},
        []<class A>(Params& p, auto&) { return PopeRows<A>({.head_dim = D}, p.param<A, 2>(0), H); }, -3, -0.5);
    add("temperature", Serves::any, {},
        []<class A>(Params&, auto&) { return TemperatureRows<A>({.beta = 0.5, .length = 16, .first = 0}); });
  }

  /// `make`: … → Made<A>
  template <class Make>
  void add_made(std::string name, Serves serves, Params::Shapes shapes, const Make& make, double low = -1,
                double high = 1) {
    all_.push_back({std::move(name), serves, kv_heads_, [=](const AttentionCase&) { return Params(shapes, low, high); },
                    [=](Params& p, const AttentionCase& c) { return make.template operator()<double>(p, c); },
                    [=](Params& p, const AttentionCase& c) { return make.template operator()<float>(p, c); }});
  }

  void add_combinations() {
    add_made("nothing", Serves::any, {}, []<class A>(Params&, auto&) { return Made<A>{}; });
    add_made("rope, t5 and shaw", Serves::whole, {{32, H}, {9, D}, {9, D}}, []<class A>(Params& p, auto&) {
      auto made = with_table<A, RotaryRows>(RopeTable<A>(Rope{.head_dim = D, .pairing = Pairing::half}, 64));
      made.add(T5Bias<A>({.direction = T5Direction::bidirectional}, p.param<A, 2>(0)));
      return made.add(ShawTerm<A>({4}, p.param<A, 2>(1), p.param<A, 2>(2)));
    });
    add_made(
        "alibi, kerple and rope-mixed", Serves::any, {{H}, {H}, {H}, {1, 1, D / 2}},
        []<class A>(Params& p, auto&) {
          Made<A> made;
          made.add(AlibiBias<A>(p.param<A, 1>(0)));
          made.add(KerpleBias<A>({KerpleForm::logarithmic}, p.param<A, 1>(1), p.param<A, 1>(2)));
          return made.add(RopeMixedRows<A>({.head_dim = D, .axes = 1, .pairing = Pairing::half}, p.param<A, 3>(3), H));
        },
        0.1, 1);
    add_made("cayley-string, temperature and pope, with shaw on wide rows", Serves::whole,
             {{1, 1, D / 2}, {1, D * (D - 1) / 2}, {1, D}, {9, 2 * D}, {9, D}}, []<class A>(Params& p, auto&) {
               Made<A> made;
               made.add(CayleyStringRows<A>({{.head_dim = D, .axes = 1, .pairing = Pairing::half}}, p.param<A, 3>(0),
                                            p.param<A, 2>(1), H));
               made.add(TemperatureRows<A>({.beta = 0.5, .length = 16, .first = 0}));
               made.add(PopeRows<A>({.head_dim = D}, p.param<A, 2>(2), H));
               return made.add(ShawTerm<A>({4}, p.param<A, 2>(3), p.param<A, 2>(4)));
             });
    add_made("cope and rope", Serves::rising, {{1, 12, D}}, []<class A>(Params& p, auto&) {
      auto made = with_table<A, RotaryRows>(RopeTable<A>(Rope{.head_dim = D, .pairing = Pairing::half}, 64));
      return made.add(CopeTerm<A>({.max_pos = 12}, p.param<A, 3>(0)));
    });
  }

  std::vector<NamedEncoding> all_;
  Index kv_heads_ = 2;
};

/// Calls of every kind that an encoding serves: few tokens of two sequences after a cache, many that cross blocks,
/// tokens in any order; full, causal, in a window, with keys that do not exist.
inline std::vector<AttentionCase> encoding_cases(const NamedEncoding& encoding) {
  const Serves serves = encoding.serves;
  static const std::vector<Index> lengths = {17, 23};
  const Index H = encoding_heads, D = encoding_dim;
  std::vector<AttentionCase> cases;
  AttentionCase few{
      .batch = 2, .heads = H, .kv_heads = encoding.kv_heads, .q_len = 9, .k_len = 23, .dim = D, .value_dim = D};
  few.q_first = 14;
  AttentionCase many{
      .batch = 1, .heads = H, .kv_heads = encoding.kv_heads, .q_len = 100, .k_len = 270, .dim = D, .value_dim = D};
  many.q_first = 170;
  for (AttentionCase c : {few, many}) {
    if (serves == Serves::grid) c.height = grid_height, c.width = grid_width, c.axes = 2, c.q_first = 0;
    if (serves == Serves::three_axes) c.axes = 3;
    cases.push_back(c);
    c.options.mask = Mask::causal, c.seed = 6;
    cases.push_back(c);
    if (serves == Serves::grid) continue;
    if (c.batch == 1) c.q_len = 40, c.k_len = 150, c.q_first = 110;  // enough
    c.options.window = {.before = c.k_len / 3, .after = -1};
    if (c.batch == 2) c.options.k_lengths = dense(lengths.data(), 2);
    cases.push_back(c);
    if (serves == Serves::rising) continue;
    for (const Place place : {Place::shuffled, Place::real}) {
      if (place == Place::real && serves == Serves::whole) continue;
      c = AttentionCase{c};
      c.options = {.mask = Mask::causal}, c.place = place, c.seed = 8;
      cases.push_back(c);
      c.options.mask = Mask::none, c.seed = 9;
      if (c.batch == 2) cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace bearing::test
