#include "describe/describer.hpp"
#include "lasting.hpp"

// One line for each page of docs/encodings/, in the order of the sites: input, query/key, score, value, none.
#define BEARING_ENCODINGS(DESCRIBE) \
  DESCRIBE(learned)                 \
  DESCRIBE(sinusoidal)              \
  DESCRIBE(sinusoidal_2d)           \
  DESCRIBE(cape)                    \
  DESCRIBE(index_encoding)          \
  DESCRIBE(fourier)                 \
  DESCRIBE(rope)                    \
  DESCRIBE(rope_mixed)              \
  DESCRIBE(lie_rope)                \
  DESCRIBE(string_rope)             \
  DESCRIBE(fope)                    \
  DESCRIBE(pope)                    \
  DESCRIBE(position_temperature)    \
  DESCRIBE(angle_rows)              \
  DESCRIBE(elementwise_rope)        \
  DESCRIBE(alibi)                   \
  DESCRIBE(t5)                      \
  DESCRIBE(t5_axis)                 \
  DESCRIBE(gated_t5)                \
  DESCRIBE(retention)               \
  DESCRIBE(kerple)                  \
  DESCRIBE(fire)                    \
  DESCRIBE(sandwich)                \
  DESCRIBE(forgetting)              \
  DESCRIBE(gated_decay)             \
  DESCRIBE(dense_bias)              \
  DESCRIBE(swin)                    \
  DESCRIBE(bucket_bias)             \
  DESCRIBE(swin_v2)                 \
  DESCRIBE(shaw)                    \
  DESCRIBE(bert_relative)           \
  DESCRIBE(transformer_xl)          \
  DESCRIBE(xlnet)                   \
  DESCRIBE(deberta)                 \
  DESCRIBE(relative_logits)         \
  DESCRIBE(tupe)                    \
  DESCRIBE(cope)                    \
  DESCRIBE(sam)                     \
  DESCRIBE(rotary_values)

namespace bearing {

#define BEARING_DECLARE(NAME) void describe_##NAME(Describer& to);
BEARING_ENCODINGS(BEARING_DECLARE)
BEARING_DECLARE(region_specs)

const Registry& registry() {
  static const auto& all = lasting([] {
    Registry made;
    Describer to(made);
    to.settings("Grouped", Grouped{})
        .member("group", &Grouped::group, "How many heads share a set of parameters: head h uses set h / group.");
#define BEARING_DESCRIBE(NAME) describe_##NAME(to);
    BEARING_ENCODINGS(BEARING_DESCRIBE)
    BEARING_DESCRIBE(region_specs)
    to.home("nope", {"Haviv et al.", 2022, "arXiv 2203.16634"});
    to.name({"nope", {"none"}, "NoPE: no encoding", "nothing: the causal mask alone tells order", {}, {}}).specimen =
        [](const ExampleSize& size, const Record&) { return inspect::Specimen{.options = size}; };
    return made;
  }());
  return all;
}

}  // namespace bearing
