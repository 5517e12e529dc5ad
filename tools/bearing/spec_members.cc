#include "spec_members.hpp"

namespace bearing::tool {
namespace {

using Members = std::vector<SpecMember>;

Members of(const NoPosition&) { return {}; }
Members of(const Rope&) { return {}; }
Members of(const OtherEncoding&) { return {}; }

Members of(const Alibi& alibi) {
  return {{"form", std::string(alibi.form == AlibiForm::causal ? "causal" : "symmetric")}, {"slopes", alibi.slopes}};
}

Members of(const T5& t5) {
  return {{"buckets", t5.buckets},
          {"max_distance", t5.max_distance},
          {"direction", std::string(t5.direction == T5Direction::causal ? "causal" : "bidirectional")}};
}

Members of(const BertRelative& bert) {
  return {{"max_position_embeddings", bert.max_position_embeddings},
          {"terms", std::string(bert.type == BertRelativeType::relative_key ? "key" : "key and query")}};
}

Members of(const Wav2Vec2BertRelative& relative) { return {{"left", relative.left}, {"right", relative.right}}; }

Members of(const Deberta& deberta) {
  return {{"max_relative_positions", deberta.max_relative_positions},
          {"position_buckets", deberta.position_buckets},
          {"span", deberta.span()},
          {"c2p", deberta.c2p},
          {"p2c", deberta.p2c},
          {"index", std::string(deberta.index == DebertaIndex::code ? "code" : "paper")}};
}

Members of(const TransformerXL& xl) { return {{"clamp_len", xl.clamp_len}, {"causal", xl.causal}}; }

Members of(const Xlnet& xlnet) { return {{"clamp_len", xlnet.clamp_len}, {"bidirectional", xlnet.bidirectional}}; }

Members of(const Swin& swin) {
  return {{"height", swin.height},
          {"width", swin.width},
          {"class_token", swin.class_token == Swin::ClassToken::three_rows},
          {"rows", swin.rows()}};
}

Members of(const SwinV2& swin) {
  return {{"height", swin.window.height},
          {"width", swin.window.width},
          {"trained_height", swin.trained_height},
          {"trained_width", swin.trained_width}};
}

Members of(const Learned& learned) {
  Members members = {{"length", learned.length}, {"dim", learned.dim}, {"offset", learned.offset}};
  if (learned.padding_row) members.push_back({"padding_row", *learned.padding_row});
  return members;
}

std::string layout_name(SinusoidalLayout layout) {
  switch (layout) {
    case SinusoidalLayout::interleaved:
      return "interleaved";
    case SinusoidalLayout::concatenated:
      return "concatenated";
    case SinusoidalLayout::tensor2tensor:
      return "tensor2tensor";
    case SinusoidalLayout::cos_first:
      return "cos_first";
    case SinusoidalLayout::cos_first_shifted:
      return "cos_first_shifted";
  }
  return {};
}

Members of(const Sinusoidal& sinusoidal) {
  Members members = {{"dim", sinusoidal.dim}, {"base", sinusoidal.base}, {"layout", layout_name(sinusoidal.layout)}};
  if (sinusoidal.padding_position) members.push_back({"padding_position", *sinusoidal.padding_position});
  return members;
}

}  // namespace

Members members_of(const LayerEncoding& encoding) {
  return std::visit([](const auto& spec) { return of(spec); }, encoding);
}
Members members_of(const InputSpec& encoding) {
  return std::visit([](const auto& spec) { return of(spec); }, encoding);
}

}  // namespace bearing::tool
