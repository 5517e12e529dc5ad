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

#include "inspect/make.hpp"

// Biases: scores that depend on positions, not on queries and keys.

namespace bearing::inspect {
namespace {

/// [heads], positive.
Param<double, 1> positive(const SpecimenOptions& options, const Numbers& numbers, double scale) {
  const Param<double, 1> param = numbers->normal<1>({options.heads}, 1);
  numbers->map(param, [scale](double x) { return scale * std::exp2(x / 2); });
  return param;
}

Specimen make_alibi(const SpecimenOptions& options) {
  Specimen specimen = specimen_of(options, numbers_of(options), AlibiBias<double>(Alibi::published(options.heads)));
  specimen.held += options.heads;
  return specimen;
}

Specimen make_alibi_learned(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  return specimen_of(options, numbers, AlibiBias<double>(positive(options, numbers, 0.0625)));
}

Specimen make_fire(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Fire fire;
  const FireParams<double> params{.c = numbers->normal<1>({1}, 0, Fire::initial_c),
                                  .multiplier = numbers->normal<1>({1}, 0, Fire::initial_multiplier),
                                  .hidden_weight = numbers->normal<1>({fire.mlp_width}, 1),
                                  .hidden_bias = numbers->normal<1>({fire.mlp_width}, 0.5),
                                  .out_weight = numbers->normal<2>({options.heads, fire.mlp_width}, 0.25),
                                  .out_bias = numbers->normal<1>({options.heads}, 0.25)};
  Specimen specimen = specimen_of(options, numbers, FireBias<double>(fire, params));
  specimen.causal = true;
  return specimen;
}

Specimen make_sandwich(const SpecimenOptions& options) {
  return specimen_of(options, numbers_of(options), SandwichBias<double>({.heads = options.heads}));
}

/// Gates of as many tokens as there are keys, the same for the same token; about 0.98.
Specimen make_forgetting(const SpecimenOptions& options) {
  Specimen specimen{.options = options, .causal = true, .by_index = true};
  specimen.score_terms = [options](const Positions&, const Positions&, View<const double, 4> q, View<const double, 4> k,
                                   View<double, 4> scores, const Executor& on) {
    const Index time = k.shape[2];
    Array log_forget(1, options.heads, time);
    for (Index h = 0; h < options.heads; ++h) {
      Normal normal(options.seed + 1000 * static_cast<std::uint64_t>(h));
      for (Index t = 0; t < time; ++t) log_forget(0, h, t) = -std::log1p(std::exp(-4 - normal()));
    }
    const View<const double, 3> values = dense<const double>(log_forget.values.data(), 1, options.heads, time);
    const ForgettingBias<double> encoding({values}, time - q.shape[2]);
    add_scores(with(encoding), {}, scores, on);
  };
  return specimen;
}

/// A learned matrix [heads, length, length]; fewer queries are the last, fewer keys the first.
Specimen make_dense_bias(const SpecimenOptions& options) {
  Specimen specimen{.options = options, .by_index = true};
  const Numbers numbers = numbers_of(options);
  const Index length = options.length;
  const Param<double, 4> all = numbers->normal<4>({1, options.heads, length, length}, 1);
  specimen.parameters = specimen.held = numbers->count();
  specimen.score_terms = [numbers, all, length](const Positions&, const Positions&, View<const double, 4> q,
                                                View<const double, 4> k, View<double, 4> scores, const Executor& on) {
    View<const double, 4> part = all.value;
    if (k.shape[2] <= length) {
      part.data += (k.shape[2] - q.shape[2]) * part.stride[2];
      part.shape[2] = q.shape[2], part.shape[3] = k.shape[2];
    }
    const DenseBias<double> encoding(Param<double, 4>{part});
    add_scores(with(encoding), {}, scores, on);
  };
  return specimen;
}

template <Swin::ClassToken class_token>
Specimen make_swin(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Index side = square_side(options.length);
  const Swin swin{.height = side, .width = side, .class_token = class_token};
  Specimen specimen =
      specimen_of(options, numbers, SwinBias<double>(swin, numbers->normal<2>({swin.rows(), options.heads}, 1)));
  specimen.width = side;
  return specimen;
}

Specimen make_swin_v2(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Index side = square_side(options.length), hidden = 512;
  const SwinV2 spec{.window = {.height = side, .width = side}, .trained_height = 8, .trained_width = 8};
  const SwinV2Network<double> network{.w1 = numbers->normal<2>({hidden, 2}, 1),
                                      .b1 = numbers->normal<1>({hidden}, 1),
                                      .w2 = numbers->normal<2>({options.heads, hidden}, 0.05)};
  const View<double, 2> table = numbers->table<2>({spec.window.rows(), options.heads});
  swin_v2_table(spec, network, table);
  Specimen specimen = specimen_of(options, numbers, SwinBias<double>(spec.window, {table}));
  specimen.held += table.size();
  specimen.width = side;
  return specimen;
}

}  // namespace

void list_biases(std::vector<Description>& all) {
  constexpr const char* press = "Press et al.";
  constexpr const char* swin = "Liu et al.";
  all.insert(all.end(), {entry("alibi", "ALiBi", press, 2022, "arXiv 2108.12409",
                               "a score loses in proportion to distance", make_alibi),
                         entry("alibi_learned", "ALiBi with learned slopes", press, 2022, "arXiv 2108.12409",
                               "ALiBi at rates that are learned", make_alibi_learned),
                         entry("fire", "FIRE", "Li et al.", 2023, "arXiv 2310.04418",
                               "a network of the distance within the length", make_fire),
                         entry("sandwich", "Sandwich", "Chi et al.", 2023, "arXiv 2212.10356",
                               "products of sinusoids, as a bias", make_sandwich),
                         entry("forgetting", "forgetting attention", "Lin et al.", 2025, "arXiv 2503.02130",
                               "a score loses what tokens between forget", make_forgetting),
                         entry("dense_bias", "dense bias", "-", 0, "-", "any matrix", make_dense_bias),
                         entry("swin", "Swin's window table", swin, 2021, "arXiv 2103.14030",
                               "a learned bias per offset in a window", make_swin<Swin::ClassToken::none>),
                         entry("beit", "BEiT's table", "Bao et al.", 2022, "arXiv 2106.08254",
                               "Swin's table with rows for the class token", make_swin<Swin::ClassToken::three_rows>),
                         entry("swin_v2", "Swin V2's network", "Liu et al.", 2022, "arXiv 2111.09883",
                               "a network of the logarithm of the offset", make_swin_v2)});
}

}  // namespace bearing::inspect
