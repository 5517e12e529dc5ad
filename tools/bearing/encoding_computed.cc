#include <algorithm>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/xlnet.hpp>

#include "encoding_parameters.hpp"
#include "errors.hpp"

// Encodings whose parameters are computed from others, for the call: Swin V2's table from its network, the rows of
// Transformer-XL and XLNet from their projection, with XLNet's second term.

namespace bearing::tool {
namespace {

Extent fixed(const char* name, Index size) {
  return {name, [size](const Record&, const Sizes&) { return size; }};
}
Extent any_size(const char* name) { return fixed(name, Extent::any); }

ParameterInfo parameter(const char* name, std::vector<Extent> extents) {
  ParameterInfo info;
  info.name = name, info.extents = std::move(extents);
  return info;
}

template <class A, int Rank>
Param<A, Rank> param(const ParameterMemory& memory) {
  Param<A, Rank> out;
  out.value.data = static_cast<const A*>(memory.value);
  std::copy(memory.shape.begin(), memory.shape.end(), out.value.shape.begin());
  std::copy(memory.stride.begin(), memory.stride.end(), out.value.stride.begin());
  if (memory.grad != nullptr) out.grad = {static_cast<A*>(memory.grad), out.value.shape, out.value.stride};
  return out;
}

/// Zeros that live as long as the call: a table that is computed.
template <class A, class... Sizes>
auto zeros(Said& said, CallEncodings<A>& into, Sizes... sizes) {
  Index count = 1;
  for (const Index size : {sizes...}) {
    if (size > 0 && count > (Index{1} << 31) / size) said.fail("needs a table of more than 2^31 numbers");
    count *= size;
  }
  return dense(into.numbers.emplace_back(static_cast<std::size_t>(count)).data(), sizes...);
}

template <class A, class Encoding>
void act(Encoding encoding, CallEncodings<A>& into) {
  const auto kept = std::make_shared<const Encoding>(std::move(encoding));
  into.objects.push_back(kept);
  add_term(into, erase<A>(*kept));
}

/// The first and the last position of all tokens, on the first axis.
std::pair<Index, Index> range(Said& said, const Positions& at, Index batch, Index time) {
  if (!at.integral()) said.fail("needs whole positions");
  Index low = max_position, high = -max_position;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      low = std::min(low, at.integer(0, b, t)), high = std::max(high, at.integer(0, b, t));
    }
  }
  return {low, high};
}

/// r for the offsets that the call meets; the spec then begins with their first.
template <class A>
Param<A, 3> relative_rows(Said& said, TransformerXL& xl, const Param<A, 2>& w_r, const CallShape& call,
                          CallEncodings<A>& into) {
  call.q_positions->check("attend", "q_positions", 1, call.batch, call.q_len);
  call.k_positions->check("attend", "k_positions", 1, call.batch, call.k_len);
  const auto [q_low, q_high] = range(said, *call.q_positions, call.batch, call.q_len);
  const auto [k_low, k_high] = range(said, *call.k_positions, call.batch, call.k_len);
  xl.first_offset = xl.causal ? std::max<Index>(0, q_low - k_high) : q_low - k_high;
  const Index offsets = std::max<Index>(1, q_high - k_low - xl.first_offset + 1);
  const View<A, 3> r = zeros(said, into, call.heads, offsets, call.dim);
  transformer_xl_relative<A>(xl, w_r.value, r);
  if (w_r.grad.data == nullptr) return {r};
  const View<A, 3> d_r = zeros(said, into, call.heads, offsets, call.dim);
  into.after_backward.push_back([xl, d_r, d_w_r = w_r.grad] { transformer_xl_relative_backward<A>(xl, d_r, d_w_r); });
  return {r, d_r};
}

}  // namespace

template <class A>
void read_swin_v2(Said& said, const CallShape& call, CallEncodings<A>& into) {
  ParameterReader<A> read(said, call, into);
  const ParameterInfo w1 = parameter("w1", {any_size("hidden"), fixed("axes", 2)}),
                      b1 = parameter("b1", {any_size("hidden")}),
                      w2 = parameter("w2", {fixed("heads", call.heads), any_size("hidden")});
  for (const ParameterInfo* one : {&w1, &b1, &w2}) read.ask_for(*one);
  Record record = said.complete(read.sizes());
  said.finish();
  const SwinV2& spec = *record.as<SwinV2>();
  if (spec.window.height == 0) said.fail("height must be given, there is no default: of the window, in tokens");
  if (spec.window.width == 0) said.fail("width must be given, there is no default: of the window, in tokens");
  const SwinV2Network<A> network{param<A, 2>(read.memory(w1, record)), param<A, 1>(read.memory(b1, record)),
                                 param<A, 2>(read.memory(w2, record))};
  const View<A, 2> table = zeros(said, into, spec.window.rows(), call.heads);
  swin_v2_table(spec, network, table);
  Param<A, 2> used{table};
  if (network.w1.grad.data != nullptr || network.b1.grad.data != nullptr || network.w2.grad.data != nullptr) {
    used.grad = zeros(said, into, spec.window.rows(), call.heads);
    into.after_backward.push_back([spec, network, d = used.grad] { swin_v2_table_backward(spec, network, d); });
  }
  act(SwinBias<A>(spec.window, used), into);
}

template <class A>
void read_transformer_xl(Said& said, const CallShape& call, CallEncodings<A>& into) {
  ParameterReader<A> read(said, call, into);
  const EncodingInfo& segments = *registry().encoding("XlnetSegmentTerm");
  const bool segmented = said.gives(segments.parameters[0].name);
  const std::vector<Extent> heads = {fixed("heads", call.heads), fixed("dim", call.dim)};
  const ParameterInfo w_r = parameter("w_r", {fixed("heads dim", call.heads * call.dim), any_size("d_model")}),
                      u = parameter("u", heads), v = parameter("v", heads);
  for (const ParameterInfo* one : {&w_r, &u, &v}) read.ask_for(*one);
  for (const ParameterInfo& one : segments.parameters) {
    if (segmented) read.ask_for(one);
  }
  Record spec = said.complete(read.sizes());
  said.finish();
  TransformerXL xl = *spec.as<TransformerXL>();
  const Param<A, 3> r = relative_rows(said, xl, param<A, 2>(read.memory(w_r, spec)), call, into);
  const Param<A, 2> u_value = param<A, 2>(read.memory(u, spec));
  act(TransformerXLTerm<A>(xl, r, u_value, param<A, 2>(read.memory(v, spec))), into);
  if (!segmented) return;
  std::vector<ParameterMemory> parameters;
  for (const ParameterInfo& one : segments.parameters) parameters.push_back(read.memory(one, spec));
  const Made<A> made = segments.make<A>()({}, {}, parameters);
  into.objects.push_back(made.encoding);
  add_term(into, made.term.value());
}

template void read_swin_v2(Said&, const CallShape&, CallEncodings<double>&);
template void read_swin_v2(Said&, const CallShape&, CallEncodings<float>&);
template void read_transformer_xl(Said&, const CallShape&, CallEncodings<double>&);
template void read_transformer_xl(Said&, const CallShape&, CallEncodings<float>&);

}  // namespace bearing::tool
