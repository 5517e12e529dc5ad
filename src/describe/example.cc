#include "describe/example.hpp"

#include <algorithm>
#include <array>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>
#include <cmath>
#include <type_traits>

#include "text.hpp"

namespace bearing::inspect {
namespace {

/// 2^27, 1 GiB: more is likely a typing error.
constexpr Index largest_example = Index{1} << 27;
/// What may be of any size, and has no usual one: as many as Inkling's rows have numbers for each query.
constexpr Index usual_extent = 16;

std::vector<Index> shape_of(const EncodingInfo& info, const ParameterInfo& parameter, const Record& spec,
                            const Sizes& sizes) {
  std::vector<Index> shape;
  Index count = 1;
  for (const Extent& extent : parameter.extents) {
    Index size = extent.or_one ? 1 : extent.size(spec, sizes);
    if (size == Extent::any && extent.name == "sets") size = sizes.heads;
    if (size == Extent::any && extent.name == "time") size = sizes.length;
    if (size == Extent::any) size = extent.usual ? extent.usual(spec, sizes) : usual_extent;
    if (size < 0) {
      throw ShapeError(text::concat("[", info.name, "] ", parameter.name, ": must have extents of at least 0, got ",
                                    extent.name, " = ", size));
    }
    shape.push_back(size);
    if (size > 0 && count > largest_example / size) {
      throw RangeError(
          text::concat("[make] heads, dim, length: must make tables of at most 2^27 numbers, got ", shape));
    }
    count *= size;
  }
  return shape;
}

/// A parameter's numbers, drawn.
template <class A>
ParameterMemory draw(const ParameterInfo& parameter, const Record& spec, std::vector<Index> shape, std::uint64_t seed,
                     std::deque<std::vector<A>>& numbers) {
  ParameterMemory memory{nullptr, nullptr, std::move(shape), {}};
  Index count = 1;
  memory.stride.resize(memory.shape.size());
  for (std::size_t axis = memory.shape.size(); axis-- > 0; count *= memory.shape[axis]) memory.stride[axis] = count;
  std::vector<double> all(static_cast<std::size_t>(count));
  parameter.drawn.fill({all, memory.shape, spec, seed});
  if constexpr (std::is_same_v<A, double>)
    numbers.push_back(std::move(all));
  else
    numbers.emplace_back(all.begin(), all.end());
  memory.value = numbers.back().data();
  return memory;
}

/// y ← x as an encoding turns values, or what they add up to, row by row.
void turn_values(const Term<double>& term, Side side, const Positions& at, View<const double, 4> x, View<double, 4> y) {
  const auto [batch, heads, time, dim] = x.shape;
  const Index scratch = term.turn_scratch == nullptr ? 0 : term.turn_scratch(term.self, dim);
  std::vector<double> row(static_cast<std::size_t>(dim)), room(static_cast<std::size_t>(scratch));
  for (Index n = 0; n < batch * heads * time; ++n) {
    RowTile tile{n / (heads * time), n / time % heads, n % time, 1};
    std::array<double, max_axes> place{};
    for (Index axis = 0; axis < max_axes; ++axis) {
      const auto to = static_cast<std::size_t>(axis);
      place[to] = at.real(std::min(axis, at.axes() - 1), tile.batch, tile.row);
      tile.at[to] = &place[to];
    }
    tile.dim = tile.x_stride = tile.y_stride = dim;
    tile.side = side, tile.scratch = room.data();
    for (Index d = 0; d < dim; ++d) row[static_cast<std::size_t>(d)] = x(tile.batch, tile.head, tile.row, d);
    term.turn_values(term.self, tile, row.data());
    for (Index d = 0; d < dim; ++d) y(tile.batch, tile.head, tile.row, d) = row[static_cast<std::size_t>(d)];
  }
}

}  // namespace

Specimen blank(const EncodingInfo& info, const Record& spec, const SpecimenOptions& options) {
  Specimen specimen{.options = options, .by_index = info.by_index};
  if (info.causal) specimen.causal = info.causal(spec);
  if (info.grid) specimen.grid = info.grid(spec, options.length);
  return specimen;
}

void act(Specimen& specimen, const EncodingInfo& info, const Record& spec, const Made<double>& made,
         const std::shared_ptr<const void>& kept) {
  const double scale = 1 / std::sqrt(static_cast<double>(specimen.options.dim));
  if (info.inputs) {
    specimen.input_rows = [kept, encoding = *made.input](const Positions& at, View<double, 3> rows,
                                                         const Executor& on) { fill<double>(encoding, at, rows, on); };
  }
  if (info.rows) {
    specimen.turn_rows = [kept, encoding = *made.rows](Side side, const Positions& at, View<const double, 4> x,
                                                       View<double, 4> y, const Executor& on) {
      turn<double>(encoding, side, at, x, y, on);
    };
    if (info.out_dim) {
      specimen.out_dim = [spec, out_dim = info.out_dim](Index dim) { return out_dim(spec, dim); };
    }
  }
  TermList<double> terms;
  if (made.term) terms.add(*made.term);
  if (info.scores) {
    specimen.score_terms = [kept, terms, scale](const Positions& q_positions, const Positions& k_positions,
                                                View<const double, 4> q, View<const double, 4> k,
                                                View<double, 4> scores, const Executor& on) {
      add_scores(terms, {.q_positions = q_positions, .k_positions = k_positions, .q = q, .k = k, .scale = scale},
                 scores, on);
    };
  }
  if (info.turns_values) {
    specimen.turn_values = [kept, term = *made.term](Side side, const Positions& at, View<const double, 4> x,
                                                     View<double, 4> y,
                                                     const Executor&) { turn_values(term, side, at, x, y); };
  } else if (info.values) {
    specimen.value_terms = [kept, terms](const Positions& q_positions, const Positions& k_positions,
                                         View<const double, 4> p, View<double, 4> out, const Executor& on) {
      add_values(terms, q_positions, k_positions, p, out, on);
    };
  }
}

template <class A>
std::shared_ptr<const Drawn<A>> drawn_encoding(const EncodingInfo& info, const Record& spec,
                                               const SpecimenOptions& options, const ComputedInfo* computed,
                                               const ComputedCall& call) {
  const Sizes sizes{.batch = 1,
                    .heads = options.heads,
                    .kv_heads = options.heads,
                    .q_len = options.length,
                    .k_len = options.length,
                    .dim = options.dim,
                    .value_dim = options.dim,
                    .length = options.length};
  const auto drawn = std::make_shared<Drawn<A>>();
  std::vector<ParameterMemory> parameters;
  for (std::size_t p = 0; p < info.parameters.size(); ++p) {
    const ParameterInfo& parameter = info.parameters[p];
    const bool given =
        parameter.drawn.fill && !(info.spec_optional && spec) && (!parameter.wanted || parameter.wanted(spec));
    parameters.emplace_back();
    if (!given) continue;
    const bool is_computed = computed != nullptr && parameter.name == computed->gives;
    parameters.back() =
        draw(parameter, spec, is_computed ? computed->shape(call) : shape_of(info, parameter, spec, sizes),
             options.seed + p, drawn->parameters);
    const auto count = static_cast<Index>(drawn->parameters.back().size());
    drawn->held += count;
    if (parameter.learned) drawn->learned += count;
  }
  drawn->made = info.make<A>()(spec, info.settings == nullptr ? Record{} : info.settings->make(), parameters);
  return drawn;
}

template std::shared_ptr<const Drawn<float>> drawn_encoding(const EncodingInfo&, const Record&, const SpecimenOptions&,
                                                            const ComputedInfo*, const ComputedCall&);
template std::shared_ptr<const Drawn<double>> drawn_encoding(const EncodingInfo&, const Record&, const SpecimenOptions&,
                                                             const ComputedInfo*, const ComputedCall&);

Specimen example_of(const Description& description, const SpecimenOptions& options, const Record& given) {
  const EncodingInfo& info = *description.encoding;
  const Record spec = given || !description.spec ? given : description.spec(options);
  Specimen specimen = blank(info, spec, options);
  const auto drawn = drawn_encoding<double>(info, spec, options);
  specimen.parameters = drawn->learned;
  specimen.held = drawn->held + (info.tables && spec ? info.tables(spec) : 0);
  act(specimen, info, spec, drawn->made, drawn);
  return specimen;
}

Specimen make_with(const EncodingInfo& info, const Record& spec, const Made<double>& made,
                   const SpecimenOptions& options) {
  Specimen specimen = blank(info, spec, options);
  act(specimen, info, spec, made, std::make_shared<const Made<double>>(made));
  return specimen;
}

}  // namespace bearing::inspect
