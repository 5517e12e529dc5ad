#include <algorithm>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/encodings/fire.hpp>
#include <bearing/encodings/forgetting.hpp>
#include <bearing/encodings/kerple.hpp>
#include <bearing/encodings/sandwich.hpp>
#include <bearing/encodings/swin.hpp>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/encodings/t5.hpp>

#include "encoding_spec.hpp"

// Specs of biases: scores that depend on positions, not on queries and keys.

namespace bearing::tool {
namespace {

template <class A>
void alibi(SpecReader<A>& read) {
  SpecText& spec = read.spec;
  const Index heads = read.call.heads;
  const std::string form = spec.word("form", {"symmetric", "causal", "shifted"});
  const AlibiForm alibi_form = form == "causal" ? AlibiForm::causal : AlibiForm::symmetric;
  Param<A, 1> slopes;
  if (spec.name() == "alibi_learned") {
    slopes = read.template param<1>("slopes", {{"heads", heads}});
  } else {
    slopes = read.template optional_param<1>("slopes", {{"heads", heads}});
  }
  if (slopes.value.data != nullptr) {
    if (form == "shifted") return read.act(AlibiShiftedBias<A>(slopes));
    return read.act(AlibiBias<A>(slopes, alibi_form));
  }
  const double bias_max = spec.number("bias_max", 8), times = spec.number("times", 1);
  Alibi published = Alibi::published(std::max<Index>(heads, 1), bias_max, times);
  published.form = alibi_form;
  if (form == "shifted") return read.act(AlibiShiftedBias<A>(published));
  read.act(AlibiBias<A>(published));
}

template <class A>
void t5(SpecReader<A>& read) {
  const T5 made{.buckets = read.spec.whole("buckets", 32, 1),
                .max_distance = read.spec.whole("max_distance", 128, 1),
                .direction = read.spec.name() == "t5_causal" ? T5Direction::causal : T5Direction::bidirectional};
  read.own_scale(1);
  read.act(T5Bias<A>(made, read.template param<2>("table", {{"buckets", made.buckets}, {"heads", read.call.heads}})));
}

template <class A>
void kerple(SpecReader<A>& read) {
  const Extents heads = {{"heads", read.call.heads}};
  const Kerple made{.form = read.spec.name() == "kerple_log" ? KerpleForm::logarithmic : KerpleForm::power};
  const Param<A, 1> r1 = read.template param<1>("r1", heads);
  read.act(KerpleBias<A>(made, r1, read.template param<1>("r2", heads)));
}

template <class A>
void fire(SpecReader<A>& read) {
  const Fire made{.mlp_width = read.spec.whole("mlp_width", 32, 1),
                  .threshold = read.spec.number("threshold", 512),
                  .eps = read.spec.number("eps", 1e-6)};
  const Extents one = {{"one", 1}}, width = {{"mlp_width", made.mlp_width}}, heads = {{"heads", read.call.heads}};
  FireParams<A> params;
  params.c = read.template param<1>("c", one);
  params.multiplier = read.template param<1>("multiplier", one);
  params.hidden_weight = read.template param<1>("hidden_weight", width);
  params.hidden_bias = read.template param<1>("hidden_bias", width);
  params.out_weight = read.template param<2>("out_weight", {heads[0], width[0]});
  params.out_bias = read.template param<1>("out_bias", heads);
  read.act(FireBias<A>(made, params));
}

template <class A>
void sandwich(SpecReader<A>& read) {
  const Sandwich made{
      .heads = read.call.heads, .dim = read.spec.whole("dim", 128, 1), .base = read.spec.number("base", 10'000)};
  read.act(SandwichBias<A>(made));
}

template <class A>
void forgetting(SpecReader<A>& read) {
  const CallShape& call = read.call;
  const Index past = read.spec.whole("past", std::max<Index>(0, call.k_len - call.q_len), 0);
  read.act(ForgettingBias<A>(
      read.template param<3>("log_forget", {{"batch", call.batch}, {"heads", call.heads}, {"k_len", call.k_len}}),
      past));
}

template <class A>
void dense_bias(SpecReader<A>& read) {
  const CallShape& call = read.call;
  read.act(DenseBias<A>(read.template param<4>("bias", {{"batch", call.batch, true},
                                                        {"heads", call.heads, true},
                                                        {"q_len", call.q_len, true},
                                                        {"k_len", call.k_len, true}})));
}

Index side(SpecText& spec, const char* key) {
  if (!spec.given(key)) spec.fail(std::string(key) + "=N is missing, in tokens");
  return spec.whole(key, 0, 1, Index{1} << 15);
}

template <class A>
void swin(SpecReader<A>& read) {
  const bool beit = read.spec.name() == "beit";
  const Swin made{.height = side(read.spec, "height"),
                  .width = side(read.spec, "width"),
                  .class_token = beit ? Swin::ClassToken::three_rows : Swin::ClassToken::none};
  read.act(SwinBias<A>(made, read.template param<2>("table", {{"rows", made.rows()}, {"heads", read.call.heads}})));
}

template <class A>
void swin_v2(SpecReader<A>& read) {
  const SwinV2 made{.window = {.height = side(read.spec, "height"), .width = side(read.spec, "width")},
                    .trained_height = read.spec.whole("trained_height", 0, 0),
                    .trained_width = read.spec.whole("trained_width", 0, 0)};
  SwinV2Network<A> network;
  network.w1 = read.template param<2>("w1", {{"hidden", Extent::any}, {"axes", 2}});
  const Index hidden = network.w1.value.shape[0];
  network.b1 = read.template param<1>("b1", {{"hidden", hidden}});
  network.w2 = read.template param<2>("w2", {{"heads", read.call.heads}, {"hidden", hidden}});
  const std::vector<Index> shape = {made.window.rows(), read.call.heads};
  const View<A, 2> table = read.template zeros<2>(shape);
  swin_v2_table(made, network, table);
  Param<A, 2> param{table};
  if (network.w1.grad.data != nullptr || network.b1.grad.data != nullptr || network.w2.grad.data != nullptr) {
    param.grad = read.template zeros<2>(shape);
    read.after_backward([made, network, d = param.grad] { swin_v2_table_backward(made, network, d); });
  }
  read.act(SwinBias<A>(made.window, param));
}

}  // namespace

void list_biases(std::vector<Readable>& all) {
  all.insert(all.end(), {{"alibi", alibi<double>, alibi<float>},
                         {"alibi_learned", alibi<double>, alibi<float>},
                         {"t5", t5<double>, t5<float>},
                         {"t5_causal", t5<double>, t5<float>},
                         {"kerple_log", kerple<double>, kerple<float>},
                         {"kerple_power", kerple<double>, kerple<float>},
                         {"fire", fire<double>, fire<float>},
                         {"sandwich", sandwich<double>, sandwich<float>},
                         {"forgetting", forgetting<double>, forgetting<float>},
                         {"dense_bias", dense_bias<double>, dense_bias<float>},
                         {"swin", swin<double>, swin<float>},
                         {"beit", swin<double>, swin<float>},
                         {"swin_v2", swin_v2<double>, swin_v2<float>}});
}

}  // namespace bearing::tool
