#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "describe/example.hpp"
#include "text.hpp"

// Examples with the caller's numbers. Those that belong to tokens are picked anew for each call, by the positions of
// its queries and keys, as an example asks for a part of the scores at a time.

namespace bearing::inspect {
namespace {

using text::concat;

/// Whose numbers stand along an axis.
enum class Along { other, queries, keys, rows };

Along along(const Extent& extent) {
  if (extent.name == "q_len") return Along::queries;
  if (extent.name == "k_len") return Along::keys;
  return extent.name == "time" ? Along::rows : Along::other;
}

/// f(extent, size) for each axis that is there and tells a size: 1 may serve all where it is allowed.
template <class F>
void each_axis(const EncodingInfo& info, std::span<const ParameterMemory> parameters, const F& f) {
  for (std::size_t p = 0; p < info.parameters.size(); ++p) {
    const std::vector<Extent>& extents = info.parameters[p].extents;
    const std::vector<Index>& shape = parameters[p].shape;
    if (parameters[p].value == nullptr) continue;
    const std::size_t missing = extents.size() - std::min(extents.size(), shape.size());
    for (std::size_t axis = missing; axis < extents.size(); ++axis) {
      const Index size = shape[axis - missing];
      if (!extents[axis].or_one || size != 1) f(extents[axis], size);
    }
  }
}

/// Which elements of an axis are taken; null: all.
using Picked = std::vector<const std::vector<Index>*>;

/// The picked numbers, row-major, and their shape.
template <class T>
std::vector<T> taken(const ParameterMemory& from, const Picked& picked, std::vector<Index>& shape) {
  const std::size_t rank = from.shape.size();
  Index count = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    shape.push_back(picked[axis] == nullptr ? from.shape[axis] : std::ssize(*picked[axis]));
    count *= shape.back();
  }
  std::vector<T> all;
  all.reserve(static_cast<std::size_t>(count));
  std::vector<Index> at(rank);
  for (Index n = 0; n < count; ++n) {
    Index offset = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const auto i = static_cast<std::size_t>(at[axis]);
      offset += from.stride[axis] * (picked[axis] == nullptr ? at[axis] : (*picked[axis])[i]);
    }
    all.push_back(static_cast<const T*>(from.value)[offset]);
    for (std::size_t axis = rank; axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
  }
  return all;
}

/// Numbers that live as long as this, and the encoding that is made of them.
struct Held {
  std::deque<std::vector<double>> numbers;
  std::deque<std::vector<Index>> indices;
  std::vector<ParameterMemory> parameters;
  Made<double> made;

  /// A parameter with what is picked of it.
  void add(const ParameterInfo& info, const ParameterMemory& from, const Picked& picked) {
    ParameterMemory& to = parameters.emplace_back();
    if (from.value == nullptr) return;
    if (info.indices) {
      to.value = indices.emplace_back(taken<Index>(from, picked, to.shape)).data();
    } else {
      to.value = numbers.emplace_back(taken<double>(from, picked, to.shape)).data();
    }
    Index step = 1;
    to.stride.resize(to.shape.size());
    for (std::size_t axis = to.shape.size(); axis-- > 0; step *= to.shape[axis]) to.stride[axis] = step;
  }
};

/// Positions of a call's tokens.
struct At {
  const Positions& positions;
  Index count;
};

/// An encoding with the caller's numbers, as long as examples need it.
class Own {
 public:
  explicit Own(const OwnNumbers& from) : info_(*from.encoding), spec_(from.spec), settings_(from.settings) {
    if (!settings_ && info_.settings != nullptr) settings_ = info_.settings->make();
    std::vector<ParameterMemory> given = from.parameters;
    given.resize(info_.parameters.size());
    for (std::size_t p = 0; p < given.size(); ++p) {
      held_.add(info_.parameters[p], given[p], Picked(given[p].shape.size()));
    }
    count_tokens();
    held_.made = info_.make<double>()(spec_, settings_, held_.parameters);
    for (std::size_t p = 0; p < given.size(); ++p) count_numbers(info_.parameters[p], held_.parameters[p]);
  }

  const Made<double>& made() const { return held_.made; }
  const std::vector<ParameterMemory>& parameters() const { return held_.parameters; }
  /// How many tokens have numbers of their own; 0: none has.
  Index tokens() const { return tokens_; }

  Specimen example(const SpecimenOptions& options, const std::shared_ptr<const Own>& self) const {
    Specimen specimen = blank(info_, spec_, options);
    specimen.parameters = learned_;
    specimen.held = all_ + (info_.tables && spec_ ? info_.tables(spec_) : 0);
    specimen.own_numbers = all_ > 0;
    specimen.own_tokens = tokens_;
    specimen.by_index = specimen.by_index || by_pairs_;
    act(specimen, info_, spec_, held_.made, self);
    if (tokens_ > 0) act_by_token(specimen, self);
    return specimen;
  }

 private:
  void count_tokens() {
    Index queries = 0, keys = 0, rows = 0;
    each_axis(info_, held_.parameters, [&](const Extent& extent, Index size) {
      const Along whose = along(extent);
      if (whose != Along::other) (whose == Along::queries ? queries : whose == Along::keys ? keys : rows) = size;
      if (extent.name != "batch" || size == 1) return;
      throw ShapeError(concat("[", info_.name, "] numbers: must be those of one sequence, got ", size));
    });
    by_pairs_ = queries > 0 && keys > 0;
    if (by_pairs_ && queries != keys) {
      throw ShapeError(
          concat("[", info_.name, "] numbers: must be for as many queries as keys, got ", queries, " and ", keys));
    }
    tokens_ = std::max({queries, keys, rows});
  }

  void count_numbers(const ParameterInfo& parameter, const ParameterMemory& of) {
    if (of.value == nullptr || parameter.indices) return;
    Index count = 1;
    for (const Index size : of.shape) count *= size;
    all_ += count;
    if (parameter.learned) learned_ += count;
  }

  std::vector<Index> tokens_at(const At& at) const {
    std::vector<Index> all;
    for (Index t = 0; t < at.count; ++t) {
      const double token = at.positions.real(0, 0, t);
      if (!(token >= 0 && token < static_cast<double>(tokens_) && token == std::floor(token))) {
        throw RangeError(concat("[", info_.name, "] positions: must be whole numbers from 0 to ", tokens_ - 1,
                                ", as there are numbers for ", tokens_, tokens_ == 1 ? " token" : " tokens", ", got ",
                                token));
      }
      all.push_back(static_cast<Index>(token));
    }
    return all;
  }

  /// How many keys come before the first query, where queries must be the last of keys that follow each other.
  Index past(const At& queries, const At& keys) const {
    const Index before = keys.count - queries.count;
    bool last = before >= 0;
    for (Index k = 1; last && k < keys.count; ++k) {
      last = keys.positions.real(0, 0, k) == keys.positions.real(0, 0, k - 1) + 1;
    }
    for (Index q = 0; last && q < queries.count; ++q) {
      last = queries.positions.real(0, 0, q) == keys.positions.real(0, 0, before + q);
    }
    if (last) return before;
    throw RangeError(concat("[", info_.name,
                            "] positions: queries must be the last of the keys, and keys must follow each other, got ",
                            ends(queries), " and ", ends(keys)));
  }
  static std::string ends(const At& at) {
    if (at.count == 0) return "none";
    return concat(at.count, " from ", at.positions.real(0, 0, 0), " to ", at.positions.real(0, 0, at.count - 1));
  }

  /// An example with the numbers of these queries and keys alone, in their order.
  Specimen for_call(const SpecimenOptions& options, const At& queries, const At& keys, Index past) const {
    std::optional<std::vector<Index>> q, k;  // where a side has numbers
    const auto tokens_of = [&](Along whose) {
      std::optional<std::vector<Index>>& side = whose == Along::queries ? q : k;
      if (!side) side = tokens_at(whose == Along::queries ? queries : keys);
      return &*side;
    };
    const auto part = std::make_shared<Held>();
    for (std::size_t p = 0; p < held_.parameters.size(); ++p) {
      const ParameterMemory& whole = held_.parameters[p];
      const std::vector<Extent>& extents = info_.parameters[p].extents;
      const std::size_t missing = extents.size() - std::min(extents.size(), whole.shape.size());
      Picked picked(whole.shape.size());
      for (std::size_t axis = 0; axis < picked.size(); ++axis) {
        const Extent& extent = extents[missing + axis];
        const Along whose = along(extent);
        if (whose == Along::other || (extent.or_one && whole.shape[axis] == 1)) continue;
        picked[axis] = tokens_of(whose);
      }
      part->add(info_.parameters[p], whole, picked);
    }
    Record settings = settings_;
    if (counts_past()) settings.set("past", past);
    part->made = info_.make<double>()(spec_, settings, part->parameters);
    Specimen specimen{.options = options};
    act(specimen, info_, spec_, part->made, part);
    return specimen;
  }

  bool counts_past() const { return settings_ && settings_.type().member("past") != nullptr; }
  Specimen for_rows(const SpecimenOptions& options, const At& tokens) const {
    return for_call(options, tokens, tokens, 0);
  }
  Specimen for_pairs(const SpecimenOptions& options, const At& queries, const At& keys) const {
    return for_call(options, queries, keys, counts_past() ? past(queries, keys) : 0);
  }

  /// Calls pick their numbers first.
  void act_by_token(Specimen& specimen, const std::shared_ptr<const Own>& self) const {
    const SpecimenOptions size = specimen.options;
    if (specimen.input_rows) {
      specimen.input_rows = [self, size](const Positions& at, View<double, 3> rows, const Executor& on) {
        self->for_rows(size, {at, rows.shape[1]}).input_rows(at, rows, on);
      };
    }
    if (specimen.turn_rows) {
      specimen.turn_rows = [self, size](Side side, const Positions& at, View<const double, 4> x, View<double, 4> y,
                                        const Executor& on) {
        self->for_rows(size, {at, x.shape[2]}).turn_rows(side, at, x, y, on);
      };
    }
    if (specimen.score_terms) {
      specimen.score_terms = [self, size](const Positions& q_at, const Positions& k_at, View<const double, 4> q,
                                          View<const double, 4> k, View<double, 4> scores, const Executor& on) {
        self->for_pairs(size, {q_at, q.shape[2]}, {k_at, k.shape[2]}).score_terms(q_at, k_at, q, k, scores, on);
      };
    }
    if (specimen.value_terms) {
      specimen.value_terms = [self, size](const Positions& q_at, const Positions& k_at, View<const double, 4> p,
                                          View<double, 4> out, const Executor& on) {
        self->for_pairs(size, {q_at, p.shape[2]}, {k_at, p.shape[3]}).value_terms(q_at, k_at, p, out, on);
      };
    }
  }

  const EncodingInfo& info_;
  Record spec_, settings_;
  Held held_;
  Index tokens_ = 0, learned_ = 0, all_ = 0;
  bool by_pairs_ = false;
};

/// What was said, and heads, sets of heads and dim where an array's shape tells them.
Sizes sizes_of(const OwnNumbers& numbers, std::span<const ParameterMemory> parameters) {
  Sizes sizes = numbers.said;
  const EncodingInfo& info = *numbers.encoding;
  Index group = 1;
  if (info.grouped && numbers.settings) group = std::get<Index>(numbers.settings.get("group"));
  each_axis(info, parameters, [&](const Extent& extent, Index size) {
    if (extent.name == "heads") sizes.heads = size;
    if (extent.name == "sets") sizes.heads = size * group;
    if (extent.name == "dim" || extent.name == "head_dim") sizes.dim = size;
  });
  if (sizes.dim > 0 || !numbers.spec) return sizes;
  for (const FunctionInfo& method : numbers.spec.type().methods) {
    if (method.name != "dim" || method.arguments.size() != 1) continue;
    sizes.dim = std::get<Index>(method.call({Value(numbers.spec)}));
  }
  return sizes;
}

/// Whether the example serves tokens 0 … n − 1: its ends are tried.
bool serves(const Specimen& specimen, Index n) {
  const Array x(specimen.options.heads, 1, specimen.options.dim);
  const Tokens first = specimen.tokens(1), last = specimen.tokens(1, n - 1);
  try {
    if (specimen.input_rows) (void)specimen.inputs(last);
    for (const Side side : {Side::query, Side::key}) {
      if (specimen.turn_rows) (void)specimen.turn(side, last, x);
    }
    if (specimen.score_terms) (void)specimen.scores(last, first, x, x);
    if (specimen.score_terms && !specimen.causal) (void)specimen.scores(first, last, x, x);
    return true;
  } catch (const std::logic_error&) {
    return false;
  }
}

/// How many tokens the example's numbers serve; 0: no end was found, or it serves none at this size.
Index tokens_served(const Specimen& specimen) {
  if (specimen.own_tokens > 0) return specimen.own_tokens;
  constexpr Index most = Index{1} << 20;  // as make() takes
  if (!specimen.own_numbers || specimen.by_index || specimen.is_image()) return 0;
  if (!serves(specimen, 1) || serves(specimen, most)) return 0;
  Index served = 1, too_many = most;
  while (too_many - served > 1) {
    const Index middle = served + (too_many - served) / 2;
    (serves(specimen, middle) ? served : too_many) = middle;
  }
  return served;
}

}  // namespace

Numbered with_numbers(const Description& entry, const OwnNumbers& numbers) {
  const auto own = std::make_shared<const Own>(numbers);
  Numbered numbered{entry, sizes_of(numbers, own->parameters())};
  Sizes& sizes = numbered.sizes;
  const SpecimenOptions usual;
  const Specimen tried = own->example(
      {.heads = std::max<Index>(sizes.heads, 1), .dim = sizes.dim > 0 ? sizes.dim : usual.dim, .length = 1}, own);
  const Index served = tokens_served(tried);
  if (served > 0) sizes.length = served;
  numbered.description.specimen = [own, served](const SpecimenOptions& size, const Record&) {
    if (served > 0 && size.length > served) {
      throw RangeError(concat("[make] length: must be at most ", served,
                              ", the tokens that there are numbers for, got ", size.length));
    }
    Specimen specimen = own->example(size, own);
    specimen.own_tokens = served;
    return specimen;
  };
  return numbered;
}

}  // namespace bearing::inspect
