#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/tupe.hpp>
#include <deque>
#include <numeric>

#include "support/golden.hpp"

// Whole attentions computed by others in float64, with autograd's gradients: forward, logarithms of sums, and the
// gradients of q, k, v and of every parameter.

namespace bearing {
namespace {

/// What is promised against autograd.
constexpr double tolerance = 1e-10;

/// A file of golden data and the memory of its tensors.
class GoldenAttention {
 public:
  explicit GoldenAttention(const std::string& name) : name_(name), json_(test::golden("attention/" + name + ".json")) {}

  const rapidjson::Value& operator[](const char* key) const { return json_[key]; }
  double number(const char* key) const { return json_[key].GetDouble(); }
  Index whole(const char* key) const { return json_[key].GetInt64(); }
  bool has(const char* key) const { return json_.HasMember(key); }

  /// Numbers that live as long as this.
  std::vector<double>& keep(std::vector<double> numbers) { return kept_.emplace_back(std::move(numbers)); }
  std::vector<double>& keep_zeros(std::size_t n) { return keep(std::vector<double>(n)); }

  /// A parameter, and room for its gradient, which compare_parameters() looks at.
  Param<double, 2> parameter(const char* name) {
    const auto [shape, data] = test::tensor(json_["params"][name]);
    std::vector<double>&values = keep(data), &grads = keep_zeros(data.size());
    parameters_.push_back({name, &grads});
    return {dense<const double>(values.data(), shape[0], shape[1]), dense(grads.data(), shape[0], shape[1])};
  }
  /// A parameter whose gradient the caller works out.
  const std::vector<double>& parameter_values(const char* name) {
    return keep(test::tensor(json_["params"][name]).data);
  }
  void compare_parameter(const std::string& name, const std::vector<double>& got) {
    const std::vector<double> wanted = test::tensor(json_["grad_params"][name.c_str()]).data;
    compare(got, wanted, "d_" + name);
  }
  void compare_parameters() {
    ASSERT_FALSE(parameters_.empty());
    for (const auto& [name, grads] : parameters_) compare_parameter(name, *grads);
  }

  /// Runs attention and its backward, and compares. Activations are [batch, heads, time, dim], or
  /// [batch, time, heads · dim].
  void expect_attention(const TermList<double>& terms) {
    SCOPED_TRACE(name_);
    const Index batch = whole("batch"), heads = whole("heads"), kv_heads = whole("kv_heads");
    const Index q_len = whole("q_len"), k_len = whole("k_len"), dim = whole("head_dim");
    const bool merged = test::tensor(json_["q"]).shape.size() == 3;
    const auto view = [&](std::vector<double>& x, Index of_heads, Index time) {
      return merged ? bthd(x.data(), batch, time, of_heads, dim) : bhtd(x.data(), batch, of_heads, time, dim);
    };
    const auto given = [&](const char* key, Index of_heads, Index time) -> View<const double, 4> {
      return view(keep(test::tensor(json_[key]).data), of_heads, time);
    };
    const auto room = [&](Index of_heads, Index time) -> std::vector<double>& {
      return keep_zeros(static_cast<std::size_t>(batch * of_heads * time * dim));
    };
    const AttentionInputs<double> in{given("q", heads, q_len),
                                     given("k", kv_heads, k_len),
                                     given("v", kv_heads, k_len),
                                     Positions(k_len - q_len),
                                     {}};
    const AttentionOptions<double> options{.mask = json_["causal"].GetBool() ? Mask::causal : Mask::none,
                                           .scale = number("scale")};
    std::vector<double>&out = room(heads, q_len), &d_q = room(heads, q_len), &d_k = room(kv_heads, k_len),
    &d_v = room(kv_heads, k_len), &lse = keep_zeros(static_cast<std::size_t>(batch * heads * q_len));
    attention(in, view(out, heads, q_len), dense(lse.data(), batch, heads, q_len), terms, options);
    compare(out, test::tensor(json_["out"]).data, "out");
    compare(lse, test::tensor(json_["logsumexp"]).data, "lse");
    attention_backward(in,
                       {view(out, heads, q_len), dense<const double>(lse.data(), batch, heads, q_len),
                        given("grad_out", heads, q_len)},
                       {view(d_q, heads, q_len), view(d_k, kv_heads, k_len), view(d_v, kv_heads, k_len)}, terms,
                       options);
    compare(d_q, test::tensor(json_["grad_q"]).data, "d_q");
    compare(d_k, test::tensor(json_["grad_k"]).data, "d_k");
    compare(d_v, test::tensor(json_["grad_v"]).data, "d_v");
  }

 private:
  static void compare(const std::vector<double>& got, const std::vector<double>& wanted, const std::string& what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    for (std::size_t x = 0; x < wanted.size(); ++x) ASSERT_NEAR(got[x], wanted[x], tolerance) << what << ' ' << x;
  }

  std::string name_;
  rapidjson::Document json_;
  std::deque<std::vector<double>> kept_;
  std::vector<std::pair<std::string, const std::vector<double>*>> parameters_;
};

TEST(AttentionGolden, WithoutAnEncoding) { GoldenAttention("none_b2h4kv2q7k7d16c").expect_attention({}); }

TEST(AttentionGolden, Alibi) {
  GoldenAttention golden("alibi_b1h2kv2q5k5d8c");
  const AlibiBias<double> bias(Alibi{test::numbers(golden["slopes"])});
  golden.expect_attention(with(bias));
}

TEST(AttentionGolden, T5) {
  GoldenAttention golden("t5_b1h3kv3q9k4d8");
  const T5Bias<double> bias({golden.whole("num_buckets"), golden.whole("max_distance"), T5Direction::bidirectional},
                            golden.parameter("bias_table"));
  golden.expect_attention(with(bias));
  golden.compare_parameters();
}

TEST(AttentionGolden, Rope) {
  for (const char* name : {"rope_half_b2h4kv2q7k7d16c", "rope_interleaved_b1h3kv3q9k4d8"}) {
    GoldenAttention golden(name);
    const bool half = golden["layout"].GetString() == std::string("half");
    const RopeTable<double> table(Rope{.head_dim = golden.whole("head_dim"),
                                       .base = golden.number("rope_theta"),
                                       .pairing = half ? Pairing::half : Pairing::interleaved},
                                  16);
    const RotaryRows<double> rows(table);
    golden.expect_attention(with(rows));
  }
}

TEST(AttentionGolden, Shaw) {
  GoldenAttention golden("shaw_b2h4kv2q7k7d16c");
  const Param<double, 2> key = golden.parameter("a_k"), value = golden.parameter("a_v");
  const ShawTerm<double> term({golden.whole("max_relative_position")}, key, value);
  golden.expect_attention(with(term));
  golden.compare_parameters();
}

/// [rows, heads · dim] as [heads, rows, dim]
Param<double, 3> split_heads(const Param<double, 2>& table, Index heads) {
  const auto [rows, width] = table.value.shape;
  const std::array<Index, 3> shape{heads, rows, width / heads}, stride{width / heads, width, 1};
  return {{table.value.data, shape, stride}, {table.grad.data, shape, stride}};
}

TEST(AttentionGolden, Deberta) {
  GoldenAttention golden("deberta_b2h2l9d8_bk8_mr32_c2p_p2c");
  const Param<double, 3> key = split_heads(golden.parameter("pos_key"), 2);
  const DebertaTerm<double> term({.max_relative_positions = golden.whole("max_relative_positions"),
                                  .position_buckets = golden.whole("position_buckets")},
                                 key, split_heads(golden.parameter("pos_query"), 2));
  golden.expect_attention(with(term));
  golden.compare_parameters();
}

TEST(AttentionGolden, TransformerXL) {
  GoldenAttention golden("transformer_xl_b2h2q4k7d8c");
  const Index heads = golden.whole("heads"), dim = golden.whole("head_dim"), offsets = golden.whole("k_len");
  const Param<double, 2> w_r = golden.parameter("w_kr"), u = golden.parameter("u"), v = golden.parameter("v_bias");
  std::vector<double> memory(static_cast<std::size_t>(heads * offsets * dim)), d_memory(memory.size());
  const View<double, 3> r = dense(memory.data(), heads, offsets, dim),
                        d_r = dense(d_memory.data(), heads, offsets, dim);
  transformer_xl_relative<double>({}, w_r.value, r);
  const TransformerXLTerm<double> term({}, {r, d_r}, u, v);
  golden.expect_attention(with(term));
  transformer_xl_relative_backward<double>({}, d_r, w_r.grad);
  golden.compare_parameters();
}

/// y [n, out] = x [n, inner] · wᵀ, w [out, inner]
std::vector<double> project(const std::vector<double>& x, const std::vector<double>& w, std::size_t inner) {
  const std::size_t n = x.size() / inner, out = w.size() / inner;
  std::vector<double> y;
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t o = 0; o < out; ++o) {
      y.push_back(std::inner_product(&x[row * inner], &x[row * inner] + inner, &w[o * inner], 0.0));
    }
  }
  return y;
}

TEST(AttentionGolden, Tupe) {
  GoldenAttention golden("tupe_b2h4kv2q7k7d16c");
  const Index heads = 4, model = 64, length = 7;
  const std::vector<double>&pos = golden.parameter_values("pos"), &u_q = golden.parameter_values("u_q"),
        &u_k = golden.parameter_values("u_k");
  const Param<double, 2> bins = golden.parameter("bias_table");
  // Products of positions and projections are the caller's: d_pos = d_pq·u_q + d_pk·u_k, d_u = d_pᵀ·pos.
  const std::vector<double> pq = project(pos, u_q, model), pk = project(pos, u_k, model);
  std::vector<double> d_pq(pq.size()), d_pk(pk.size());
  const auto projected = [&](const std::vector<double>& p, std::vector<double>& d_p) {
    return split_heads({dense(p.data(), length, model), dense(d_p.data(), length, model)}, heads);
  };
  const TupeBias<double> term(
      {.rel_pos_bins = golden.whole("num_buckets"), .max_rel_pos = golden.whole("max_distance"), .cls = TupeCls::tied},
      projected(pq, d_pq), projected(pk, d_pk), bins);
  golden.expect_attention(with(term));
  golden.compare_parameters();

  std::vector<double> d_pos(pos.size()), d_u_q(u_q.size()), d_u_k(u_k.size());
  const std::size_t n = model;
  for (std::size_t x = 0; x < static_cast<std::size_t>(length) * n * n; ++x) {
    const std::size_t row = x / (n * n), o = x / n % n, d = x % n;
    d_pos[row * n + d] += d_pq[row * n + o] * u_q[o * n + d] + d_pk[row * n + o] * u_k[o * n + d];
    d_u_q[o * n + d] += d_pq[row * n + o] * pos[row * n + d];
    d_u_k[o * n + d] += d_pk[row * n + o] * pos[row * n + d];
  }
  golden.compare_parameter("pos", d_pos);
  golden.compare_parameter("u_q", d_u_q);
  golden.compare_parameter("u_k", d_u_k);
}

/// Q, K, V and what ONNX's operator gives.
void expect_onnx(const std::string& name, const bool* mask) {
  const rapidjson::Document json = test::golden("attention/" + name + ".json");
  std::deque<test::GoldenTensor> kept;
  const auto tensor = [&](const char* key) {
    const test::GoldenTensor& t = kept.emplace_back(test::tensor(json[key]));
    return bhtd<const double>(t.data.data(), t.shape[0], t.shape[1], t.shape[2], t.shape[3]);
  };
  const AttentionInputs<double> in{tensor("Q"), tensor("K"), tensor("V")};
  AttentionOptions<double> options{.mask = Mask::none};
  if (mask != nullptr) {
    options.visible = {mask, {in.q.shape[0], in.q.shape[1], in.q.shape[2], in.k.shape[2]}, {0, 0, in.k.shape[2], 1}};
  }
  const std::vector<double> wanted = test::tensor(json["expected"]).data;
  std::vector<double> out(wanted.size());
  attention(in, bhtd(out.data(), in.q.shape[0], in.q.shape[1], in.q.shape[2], in.v.shape[3]), {}, {}, options);
  for (std::size_t x = 0; x < out.size(); ++x) ASSERT_NEAR(out[x], wanted[x], tolerance) << name << ' ' << x;
}

TEST(AttentionGolden, OnnxOperator) {
  expect_onnx("onnx_gqa", nullptr);
  const rapidjson::Document json = test::golden("attention/onnx_fully_masked_row.json");
  bool mask[24];
  for (rapidjson::SizeType x = 0; x < 24; ++x) mask[x] = json["attn_mask"]["bool"][x].GetBool();
  EXPECT_FALSE(std::any_of(mask + 12, mask + 18, [](bool sees) { return sees; }));
  expect_onnx("onnx_fully_masked_row", mask);
}

}  // namespace
}  // namespace bearing
