#pragma once

#include <algorithm>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/xpos.hpp>
#include <functional>
#include <string>
#include <vector>

#include "support/attention.hpp"
#include "support/described.hpp"

// Every encoding of rows, scores and values, made for any call of `encoding_heads` heads of `encoding_dim` features:
// the described ones, rotations by tables, and some of them together.

namespace bearing::test {

inline constexpr Index encoding_heads = described_heads, encoding_dim = described_dim;

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
  Serves serves = Serves::any;
  Index kv_heads = encoding_heads / 2;  ///< that it serves
  Index height = 0, width = 0;          ///< of the grid that tokens stand in
  bool variant = false;                 ///< of another one: few calls will do
  std::function<Params(const AttentionCase&)> params = {};
  std::function<Made<double>(Params&, const AttentionCase&)> f64 = {};
  std::function<Made<float>(Params&, const AttentionCase&)> f32 = {};

  template <class A>
  Made<A> make(Params& p, const AttentionCase& c) const {
    if constexpr (std::is_same_v<A, double>) return f64(p, c);
    if constexpr (std::is_same_v<A, float>) return f32(p, c);
  }

  /// A case whose tokens stand where the encoding serves them.
  AttentionCase placed(AttentionCase c) const {
    c.kv_heads = kv_heads;
    if (serves == Serves::grid) c.height = height, c.width = width, c.axes = 2;
    if (serves == Serves::three_axes) c.axes = 3;
    return c;
  }
};

inline Sizes sizes_of(const AttentionCase& c) {
  return {.batch = c.batch,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .q_len = c.q_len,
          .k_len = c.k_len,
          .dim = c.dim,
          .value_dim = c.value_dim};
}

class NamedEncodings {
 public:
  NamedEncodings() {
    for (const DescribedEncoding& one : described_terms()) add_described(one);
    add_rotations();
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
  static constexpr Index D = encoding_dim;

  static Serves served_by(const DescribedEncoding& one) {
    if (one.width() > 0) return Serves::grid;
    if (one.info->whole_rows) return Serves::rising;
    if (one.counts_tokens()) return Serves::tokens;
    return one.whole_positions() ? Serves::whole : Serves::any;
  }
  void add_described(const DescribedEncoding& one) {
    all_.push_back(
        {one.name, served_by(one), one.one_head_a_key() ? encoding_heads : encoding_heads / 2, one.height(),
         one.width(), one.variant, [one](const AttentionCase& c) { return one.params(sizes_of(c)); },
         [one](Params& p, const AttentionCase& c) { return Made<double>{}.add(one.make<double>(p, sizes_of(c))); },
         [one](Params& p, const AttentionCase& c) { return Made<float>{}.add(one.make<float>(p, sizes_of(c))); }});
  }

  /// `make`: []<class A>() → rows that have their table with them
  template <class Make>
  void add_rotation(std::string name, Serves serves, const Make& make) {
    all_.push_back({std::move(name), serves, encoding_heads / 2, 0, 0, false,
                    [](const AttentionCase&) { return Params({}); },
                    [=](Params&, const AttentionCase&) { return make.template operator()<double>(); },
                    [=](Params&, const AttentionCase&) { return make.template operator()<float>(); }});
  }
  template <class A, template <class> class Rows, class Table>
  static Made<A> with_table(Table table) {
    const auto kept = std::make_shared<const Table>(std::move(table));
    Made<A> made;
    made.add(Rows<A>(*kept)).owned.push_back(kept);
    return made;
  }

  void add_rotations() {
    add_rotation("rope", Serves::any, []<class A>() {
      return with_table<A, RotaryRows>(RopeTable<A>(Rope{.head_dim = D, .pairing = Pairing::half}, 64));
    });
    add_rotation("rope, the last part, interleaved", Serves::any, []<class A>() {
      return with_table<A, RotaryRows>(RopeTable<A>(
          Rope{.head_dim = D, .rotary_dim = 4, .pairing = Pairing::interleaved, .part = RotaryPart::last()}, 600));
    });
    add_rotation("m-rope", Serves::three_axes, []<class A>() {
      return with_table<A, RotaryRows>(
          RopeTable<A>(Rope{.head_dim = D, .pairing = Pairing::half, .axes = RopeAxes::sections({1, 1, 2})}, 600));
    });
    add_rotation("xpos", Serves::any, []<class A>() {
      return with_table<A, XposRows>(
          XposTable<A>({.rope = {.head_dim = D, .pairing = Pairing::interleaved}, .centre = 200}, 600));
    });
  }

  /// The first that has no form of its own and is what `is` asks for.
  template <class Is>
  static const DescribedEncoding& first(const Is& is) {
    for (const DescribedEncoding& one : described_terms()) {
      if (one.width() == 0 && is(one)) return one;
    }
    throw std::out_of_range("no described encoding is like that");
  }

  /// An encoding among others, which gets rows that those before it may have widened.
  struct Part {
    const DescribedEncoding* encoding;
    Index widened = 1;

    Sizes sizes(const AttentionCase& c) const {
      Sizes sizes = sizes_of(c);
      sizes.dim *= widened;
      return sizes;
    }
  };
  /// Encodings together, after a rotation if one is named.
  void add_together(std::string name, Serves serves, const std::string& rotation, const std::vector<Part>& parts) {
    NamedEncoding all{std::move(name), serves};
    for (const Part& part : parts) {
      if (part.encoding->one_head_a_key()) all.kv_heads = encoding_heads;
    }
    all.params = [parts](const AttentionCase& c) {
      Params params({});
      for (const Part& part : parts) params.append(part.encoding->params(part.sizes(c)));
      return params;
    };
    const auto make = [parts, turned = rotation.empty() ? NamedEncoding{} : find(rotation)]<class A>(
                          std::type_identity<A>, Params& p, const AttentionCase& c) {
      Made<A> made;
      if (turned.f64) made.add(turned.make<A>(p, c));
      std::size_t next = 0;
      for (const Part& part : parts) {
        made.add(part.encoding->template make<A>(p, part.sizes(c), next));
        next += part.encoding->params(part.sizes(c)).count();
      }
      return made;
    };
    all.f64 = [make](Params& p, const AttentionCase& c) { return make(std::type_identity<double>{}, p, c); };
    all.f32 = [make](Params& p, const AttentionCase& c) { return make(std::type_identity<float>{}, p, c); };
    all_.push_back(std::move(all));
  }

  void add_combinations() {
    using One = const DescribedEncoding&;
    const auto learns = [](One one) { return !one.info->parameters.empty() && one.given[0]; };
    const auto bias = [&](One one) { return one.info->form == Form::distance && learns(one); };
    One of_whole = first([&](One one) { return bias(one) && one.whole_positions(); });
    One of_real = first([&](One one) { return bias(one) && !one.whole_positions(); });
    One of_two = first([&](One one) { return bias(one) && one.info->parameters.size() == 2; });
    One values = first([](One one) { return one.info->scores && one.info->values; });
    One counts = first([](One one) { return one.info->whole_rows; });
    One turns = first([&](One one) { return one.info->rows && learns(one) && !one.info->by_index; });
    One turns_twice = first([&](One one) { return one.info->rows && learns(one) && one.info->parameters.size() == 2; });
    const auto learns_nothing = [](One one) { return std::ranges::none_of(one.given, std::identity{}); };
    One grows = first([&](One one) { return one.info->rows && one.info->out_dim == nullptr && learns_nothing(one); });
    One widens = first([](One one) { return one.info->out_dim != nullptr; });
    add_together("nothing", Serves::any, "", {});
    add_together("rotation, bias and values", Serves::whole, "rope", {{&of_whole}, {&values}});
    add_together("two biases and rows", Serves::any, "", {{&of_real}, {&of_two}, {&turns}});
    add_together("rows of three kinds and values", Serves::whole, "",
                 {{&turns_twice}, {&grows}, {&widens}, {&values, widens.info->out_dim(widens.spec, D) / D}});
    add_together("rotation and counts", Serves::rising, "rope", {{&counts}});
  }

  std::vector<NamedEncoding> all_;
};

/// Calls of every kind that an encoding serves: few tokens of two sequences after a cache, many that cross blocks,
/// tokens in any order; full, causal, in a window, with keys that do not exist. Variants skip the longest.
inline std::vector<AttentionCase> encoding_cases(const NamedEncoding& encoding) {
  const Serves serves = encoding.serves;
  static const std::vector<Index> lengths = {17, 23};
  const Index H = encoding_heads, D = encoding_dim;
  std::vector<AttentionCase> cases;
  AttentionCase few{.batch = 2, .heads = H, .q_len = 9, .k_len = 23, .dim = D, .value_dim = D};
  few.q_first = 14;
  AttentionCase many{.batch = 1, .heads = H, .q_len = 100, .k_len = 270, .dim = D, .value_dim = D};
  many.q_first = 170;
  for (AttentionCase c : {encoding.placed(few), encoding.placed(many)}) {
    if (serves == Serves::grid) c.q_first = 0;
    const bool long_one = encoding.variant && c.batch == 1;
    if (!long_one) cases.push_back(c);
    c.options.mask = Mask::causal, c.seed = 6;
    if (!long_one) cases.push_back(c);
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

/// Everything that a backward computes, parameters' gradients too.
template <class T>
struct Everything {
  AttentionGot<T, T> got;
  std::vector<std::vector<Compute<T>>> params;

  bool same_bits_as(const Everything& other) const {
    bool same = got.same_bits_as(other.got) && params.size() == other.params.size();
    for (std::size_t p = 0; same && p < params.size(); ++p) same = same_bits(params[p], other.params[p]);
    return same;
  }
};

template <class T>
Everything<T> everything(const NamedEncoding& encoding, const AttentionCase& c, const Executor& on) {
  using A = Compute<T>;
  Params params = encoding.params(c);
  const auto made = encoding.make<A>(params, c);
  Everything<T> all{AttentionData<T>(c).backward(made.list, on), {}};
  for (std::size_t p = 0; p < params.count(); ++p) {
    if constexpr (std::is_same_v<A, double>) all.params.push_back(params.grads(p));
    if constexpr (std::is_same_v<A, float>) all.params.push_back(params.float_grads(p));
  }
  return all;
}

}  // namespace bearing::test
