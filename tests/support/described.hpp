#pragma once

#include <bearing/catalog.hpp>
#include <bearing/description.hpp>
#include <bearing/error.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/random.hpp"
#include "support/terms.hpp"

// Every described encoding in every form: each word of its spec, few tokens' numbers, with and without what may be left
// out, with axes that are 1 for all. A new encoding is among them by its description.

namespace bearing::test {

inline constexpr Index described_heads = 4, described_dim = 8;
inline constexpr Index described_length = 480;  ///< positions that tables have rows for: 0 … 479
inline constexpr Index described_grid = 25;     ///< tokens of a grid

/// Sizes of axes that a description leaves to the caller, and of those that are 0, which it takes for unknown.
inline Index size_of_any(const std::string& axis, const Sizes& sizes) {
  if (axis == "q_len") return sizes.q_len;
  if (axis == "k_len" || axis == "time") return sizes.k_len;
  if (axis == "offsets") return 2 * sizes.length;
  return 6;
}

/// Members' numbers, whatever the spec.
using Numbers = std::map<std::string, Index>;
/// Tables that begin at an offset have rows for keys on both sides.
inline const Numbers both_sides = {{"first_offset", -described_length}};
/// Few tokens reach these numbers' ends.
inline const Numbers small_numbers = {{"axes", 1},
                                      {"block", 4},
                                      {"buckets", 8},
                                      {"clamp_len", 30},
                                      {"clip", 4},
                                      {"height", 7},
                                      {"kept", 2},
                                      {"left", 7},
                                      {"length", 16},
                                      {"max_distance", 20},
                                      {"max_pos", 12},
                                      {"mlp_width", 6},
                                      {"right", 3},
                                      {"rotary_dim", 4},
                                      {"max_relative_positions", 32},
                                      {"threshold", 16},
                                      {"position_buckets", 8}};

inline Record with_numbers(Record record, const Numbers& numbers) {
  for (const MemberInfo& member : record.type().members) {
    const Value value = record.get(member.name);
    const auto found = numbers.find(member.name);
    if (const auto* nested = std::get_if<Record>(&value))
      record.set(member.name, Value{with_numbers(*nested, numbers)});
    if (found == numbers.end() || member.type.optional) continue;
    if (member.type.kind == Kind::whole) record.set(member.name, found->second);
    if (member.type.kind == Kind::number) record.set(member.name, static_cast<double>(found->second));
  }
  return record;
}

/// Records that differ from one in a word or a truth value, each with what was changed.
inline std::vector<std::pair<std::string, Record>> changed_words(const Record& record) {
  std::vector<std::pair<std::string, Record>> all;
  if (!record) return all;
  for (const MemberInfo& member : record.type().members) {
    const Value value = record.get(member.name);
    const auto add = [&](const std::string& what, Value to) {
      Record changed = record;
      changed.set(member.name, to);
      all.emplace_back(member.name + " " + what, changed);
    };
    if (const auto* truth = std::get_if<bool>(&value)) add(*truth ? "false" : "true", Value{!*truth});
    if (const auto* nested = std::get_if<Record>(&value)) {
      for (const auto& [what, changed] : changed_words(*nested)) add(what, Value{changed});
    }
    if (member.type.kind != Kind::word) continue;
    for (const std::string& word : member.type.words) {
      if (std::get<std::string>(value) != word) add(word, Value{word});
    }
  }
  return all;
}

/// How long axes are that may be 1: as the call has it, or 1, except the last axis.
enum class Axes { whole, shared };

/// An encoding with a spec, settings and a choice of its parameters, for calls of any sizes.
struct DescribedEncoding {
  std::string name;
  const EncodingInfo* info = nullptr;
  Record spec = {}, settings = {};
  std::vector<bool> given = {};  ///< of each parameter
  Axes axes = Axes::whole;
  bool variant = false;  ///< differs from another one in what few kernels see

  Index length() const {
    return info->grid && info->grid(spec, described_grid).width > 0 ? described_grid : described_length;
  }
  /// Of the grid that tokens stand in; 0: they stand in a row.
  Index width() const { return grid().width; }
  Index height() const { return grid().height; }
  GridSize grid() const { return info->grid ? info->grid(spec, length()) : GridSize{}; }
  bool counts_tokens() const { return settings && settings.type().member("past") != nullptr; }
  bool whole_positions() const { return info->whole_positions && info->whole_positions(spec); }
  /// Whether heads of keys must be as many as heads of queries: both use one set of parameters by their number.
  bool one_head_a_key() const {
    for (const ParameterInfo& parameter : info->parameters) {
      for (const Extent& extent : parameter.extents) {
        if (extent.name == "sets" && !extent.or_one) return true;
      }
    }
    return false;
  }

  std::vector<Index> shape(const ParameterInfo& parameter, const Sizes& sizes) const {
    std::vector<Index> shape;
    for (const Extent& extent : parameter.extents) {
      const bool last = shape.size() + 1 == parameter.extents.size();
      Index size = extent.size(spec, sizes);
      if (size == Extent::any && extent.usual) size = extent.usual(spec, sizes);
      if (size == Extent::any) size = extent.name == "sets" ? sizes.kv_heads : size_of_any(extent.name, sizes);
      const bool one = axes == Axes::shared && !last && (extent.or_one || extent.name == "sets");
      shape.push_back(one ? 1 : size);
    }
    return shape;
  }

  /// Numbers that are drawn as the description says; those of indices come with make().
  Params params(Sizes sizes, std::uint64_t seed = 7) const {
    sizes.length = length();
    Params::Shapes shapes;
    std::vector<std::vector<double>> values;
    for (std::size_t p = 0; p < info->parameters.size(); ++p) {
      const ParameterInfo& parameter = info->parameters[p];
      if (!given[p] || parameter.indices) continue;
      shapes.push_back(shape(parameter, sizes));
      std::vector<double>& numbers = values.emplace_back(count(shapes.back()));
      const Rule& rule = parameter.drawn.fill ? parameter.drawn : parameter.start;
      rule.fill({numbers, shapes.back(), spec, seed + p});
    }
    return Params(std::move(shapes), std::move(values));
  }

  /// The memory of all parameters in order; those that training moves are params' from `next` on. Indices are drawn
  /// from −1 on.
  template <class A>
  std::vector<ParameterMemory> memory(Params& params, Sizes sizes, std::vector<std::vector<Index>>& indices,
                                      std::size_t next = 0) const {
    sizes.length = length();
    indices.resize(info->parameters.size());
    std::vector<ParameterMemory> all(info->parameters.size());
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (!given[p]) continue;
      if (!info->parameters[p].indices) {
        all[p] = params.memory<A>(next++);
        continue;
      }
      const std::vector<Index> extents = shape(info->parameters[p], sizes);
      Random random(43 + p);
      for (std::size_t n = 0; n < count(extents); ++n)
        indices[p].push_back(random.integer(-1, size_of_any("rows", sizes) - 1));
      indices[p].reserve(1);  // given, even if of no numbers
      all[p] = {indices[p].data(), nullptr, extents, std::vector<Index>(extents.size(), 1)};
      for (std::size_t axis = extents.size(); axis-- > 1;)
        all[p].stride[axis - 1] = all[p].stride[axis] * extents[axis];
    }
    return all;
  }

  Record settings_for(const Sizes& sizes) const {
    Record made = settings;
    if (!made) return made;
    const Index sets = axes == Axes::shared ? 1 : sizes.kv_heads;
    if (made.type().member("group") != nullptr) made.set("group", sizes.heads / sets);
    if (made.type().member("past") != nullptr) made.set("past", sizes.k_len - sizes.q_len);
    return made;
  }

  /// The encoding, with the indices that it refers to.
  template <class A>
  bearing::Made<A> make(Params& params, const Sizes& sizes, std::size_t next = 0) const {
    struct Kept {
      std::vector<std::vector<Index>> indices;
      std::shared_ptr<const void> encoding;
    };
    const auto kept = std::make_shared<Kept>();
    bearing::Made<A> made = info->make<A>()(spec, settings_for(sizes), memory<A>(params, sizes, kept->indices, next));
    kept->encoding = made.encoding;
    made.encoding = std::shared_ptr<const void>(kept, made.encoding.get());
    return made;
  }

  /// Of the parameters that are given, for a small call.
  std::vector<std::vector<Index>> shapes() const;

 private:
  static std::size_t count(const std::vector<Index>& shape) {
    std::size_t size = 1;
    for (const Index extent : shape) size *= static_cast<std::size_t>(extent);
    return size;
  }
};

/// The sizes of a small call of any encoding.
inline Sizes small_sizes(const DescribedEncoding& encoding) {
  const Index heads = described_heads;
  return {.batch = 2,
          .heads = heads,
          .kv_heads = encoding.one_head_a_key() ? heads : heads / 2,
          .q_len = 4,
          .k_len = 5,
          .dim = described_dim,
          .value_dim = described_dim,
          .length = encoding.length()};
}

inline std::vector<std::vector<Index>> DescribedEncoding::shapes() const {
  std::vector<std::vector<Index>> all;
  for (std::size_t p = 0; p < given.size(); ++p) {
    if (given[p]) all.push_back(shape(info->parameters[p], small_sizes(*this)));
  }
  return all;
}

/// Throws what the encoding throws for a call of these sizes.
inline void check_call(const bearing::Made<double>& made, const DescribedEncoding& encoding, const Sizes& sizes) {
  if (!made.term || made.term->check == nullptr) return;
  const std::vector<double> zeros(static_cast<std::size_t>(2 * sizes.batch * sizes.k_len));
  const Index axes = encoding.width() > 0 ? 2 : 1;
  const Positions q = dense<const double>(zeros.data(), axes, sizes.batch, sizes.q_len),
                  k = dense<const double>(zeros.data(), axes, sizes.batch, sizes.k_len);
  made.term->check(
      made.term->self, "check",
      {sizes.batch, sizes.heads, sizes.kv_heads, sizes.q_len, sizes.k_len, sizes.dim, sizes.value_dim, &q, &k, {}});
}

/// Builds the list of all of them, see above.
class DescribedEncodings {
 public:
  explicit DescribedEncodings(bool (*wanted)(const EncodingInfo&)) {
    for (const EncodingInfo& info : registry().encodings()) {
      if (!wanted(info)) continue;
      const std::size_t before = all_.size();
      add_specs(info);
      if (all_.size() == before) throw std::logic_error(info.name + ": no form of it can be made");
    }
  }
  std::vector<DescribedEncoding> take() { return std::move(all_); }

 private:
  void add_specs(const EncodingInfo& info) {
    bool without = false, with = false;
    for (const Description& one : registry().descriptions()) {
      if (one.encoding != &info) continue;
      DescribedEncoding encoding{one.name, &info};
      if (one.spec) {
        encoding.spec = one.spec({.heads = described_heads, .dim = described_dim, .length = described_length});
        encoding.spec = one.spec({.heads = described_heads, .dim = described_dim, .length = encoding.length()});
      }
      (encoding.spec ? with : without) = true;
      add_words(encoding);
    }
    if (!with) {
      for (const RecordType* type : info.specs) add_words({info.name + " of " + type->name, &info, type->make()});
    }
    if (!without && (info.specs.empty() || info.spec_optional)) add_words({info.name, &info});
  }

  /// The spec as it is, with small numbers, and those with each other word.
  void add_words(DescribedEncoding encoding) {
    if (encoding.info->settings != nullptr) encoding.settings = encoding.info->settings->make();
    if (encoding.spec) encoding.spec = with_numbers(encoding.spec, both_sides);
    const bool first = all_.empty() || all_.back().info != encoding.info;
    add_choices(encoding, first);
    for (const auto& [what, changed] : changed_words(encoding.settings)) {
      DescribedEncoding other = encoding;
      other.settings = changed, other.name += ", " + what, other.variant = true;
      add_choices(other, false);
    }
    if (!encoding.spec) return;
    const Record small = with_numbers(encoding.spec, small_numbers);
    if (!(small == encoding.spec)) encoding.name += ", small";
    encoding.spec = small, encoding.variant = true;
    add_choices(encoding, false);
    for (const auto& [what, changed] : changed_words(encoding.spec)) {
      DescribedEncoding other = encoding;
      other.spec = changed, other.name += ", " + what;
      add_choices(other, false);
    }
  }

  /// An encoding with the first choice of parameters that it takes; with `all`, every one, and axes that it shares.
  void add_choices(DescribedEncoding encoding, bool all) {
    if (known(encoding)) return;
    std::vector<DescribedEncoding> taken;
    encoding.given.assign(encoding.info->parameters.size(), true);
    add_without(encoding, 0, taken);
    const std::vector<DescribedEncoding> choices = taken;
    std::erase_if(taken, [&](const DescribedEncoding& one) { return spares(one, choices); });
    for (std::size_t n = 0; n < (all ? taken.size() : std::min<std::size_t>(1, taken.size())); ++n) {
      DescribedEncoding one = taken[n];
      if (n == 0) one.name = encoding.name;
      if (n > 0) one.variant = true;
      all_.push_back(one);
      one.variant = true;
      one.axes = Axes::shared, one.name += ", shared";
      if (all && n == 0 && one.shapes() != all_.back().shapes()) all_.push_back(one);
    }
  }
  /// Those that can be made with and without each optional parameter from the p-th on.
  static void add_without(const DescribedEncoding& encoding, std::size_t p, std::vector<DescribedEncoding>& to) {
    if (p == encoding.given.size()) {
      if (can_be_made(encoding)) to.push_back(encoding);
      return;
    }
    const ParameterInfo& parameter = encoding.info->parameters[p];
    const bool wanted = !parameter.wanted || parameter.wanted(encoding.spec);
    if (wanted) add_without(encoding, p + 1, to);
    if (!parameter.optional || (parameter.wanted && wanted)) return;
    DescribedEncoding other = encoding;
    other.given[p] = false;
    if (wanted) other.name += ", without " + parameter.name;
    add_without(other, p + 1, to);
  }
  /// Whether another choice does with fewer indices: what is left over says nothing.
  static bool spares(const DescribedEncoding& one, const std::vector<DescribedEncoding>& all) {
    return std::any_of(all.begin(), all.end(), [&](const DescribedEncoding& other) {
      for (std::size_t p = 0; p < one.given.size(); ++p) {
        if (other.given[p] != one.given[p] && (other.given[p] || !one.info->parameters[p].indices)) return false;
      }
      return other.given != one.given;
    });
  }

  bool known(const DescribedEncoding& encoding) const {
    return std::any_of(all_.begin(), all_.end(), [&](const DescribedEncoding& one) {
      return one.info == encoding.info && one.spec == encoding.spec && one.settings == encoding.settings;
    });
  }
  static bool can_be_made(const DescribedEncoding& encoding) {
    const Sizes sizes = small_sizes(encoding);
    Params params = encoding.params(sizes);
    try {
      check_call(encoding.make<double>(params, sizes), encoding, sizes);
      return true;
    } catch (const ShapeError&) {
      return false;
    } catch (const RangeError&) {
      return false;
    } catch (const ConfigError&) {
      return false;
    }
  }

  std::vector<DescribedEncoding> all_;
};

/// All of them that serve attention, except those by hand: rotations by tables, which have sweeps of their own.
inline const std::vector<DescribedEncoding>& described_terms() {
  static const std::vector<DescribedEncoding> all = DescribedEncodings([](const EncodingInfo& info) {
                                                      return !info.by_hand && (info.rows || info.scores || info.values);
                                                    }).take();
  return all;
}

/// All that act on the input.
inline const std::vector<DescribedEncoding>& described_inputs() {
  static const std::vector<DescribedEncoding> all =
      DescribedEncodings([](const EncodingInfo& info) { return info.inputs; }).take();
  return all;
}

}  // namespace bearing::test
