#include <algorithm>
#include <bearing/encodings/elementwise_rope.hpp>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <memory>
#include <numeric>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"
#include "encodings/rotary/rope_tile.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

ElementwiseRope ElementwiseRope::hunyuan(const Rope& rope, const std::vector<Index>& mrope_section) {
  ElementwiseRope spec{.rope = rope, .joined = rope.pairing, .sections = mrope_section};
  for (Index& elements : spec.sections) elements *= 2;
  return spec;
}

ElementwiseRope ElementwiseRope::vjepa2(Index head_dim) {
  const Index pairs = head_dim / 3 / 2;
  if (pairs < 1 || head_dim > largest_dim) {
    throw ShapeError(concat("[ElementwiseRope] head_dim: must be from 6 to ", largest_dim, ", got ", head_dim));
  }
  return {.rope = {.head_dim = head_dim,
                   .rotary_dim = 6 * pairs,
                   .pairing = Pairing::half,
                   .axes = RopeAxes::blocks({pairs, pairs, pairs})},
          .joined = Pairing::interleaved};
}

namespace {

void check_sections(const ElementwiseRope& spec, Index rotary_dim) {
  const std::vector<Index>& sections = spec.sections;
  const auto refuse = [](const auto&... pieces) { throw ShapeError(concat("[ElementwiseRope] ", pieces...)); };
  if (!spec.rope.axes.pairs.empty()) refuse("sections: must be left out beside rope.axes, got ", sections);
  if (std::ssize(sections) > max_axes) refuse("sections: must be of at most four axes, got ", sections);
  Index left = rotary_dim;
  for (const Index elements : sections) left = elements < 1 || elements > left ? -1 : left - elements;
  if (left != 0) refuse("sections: must be above 0 and add up to ", rotary_dim, ", got ", sections);
}

/// What each turned element has: its pair in the rope, and its axis.
struct Elements {
  std::vector<std::size_t> pair;
  std::vector<Index> axis;
};
Elements elements_of(const ElementwiseRope& spec, const RopeFrequencies& rope) {
  const auto count = static_cast<std::size_t>(rope.rotary_dim);
  Elements all{std::vector<std::size_t>(count), std::vector<Index>(count)};
  const std::vector<PairPlace> places = pair_places(rope);
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const Index at : {places[i].u, places[i].v}) {
      const auto e = static_cast<std::size_t>(at - rope.begin);
      all.pair[e] = i, all.axis[e] = rope.axis[i];
    }
  }
  auto next = all.axis.begin();
  for (std::size_t axis = 0; axis < spec.sections.size(); ++axis) {
    next = std::fill_n(next, spec.sections[axis], static_cast<Index>(axis));
  }
  return all;
}

/// Pair i gets what element element(i) has.
template <class F>
RopeFrequencies with_numbers_of(const RopeFrequencies& rope, const Elements& elements, F element) {
  RopeFrequencies to = rope;
  const std::size_t pairs = rope.inv_freq.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto e = static_cast<std::size_t>(element(static_cast<Index>(i)));
    const std::size_t from = elements.pair[e];
    to.axis[i] = elements.axis[e];
    to.inv_freq[i] = rope.inv_freq[from], to.inv_freq_rest[i] = rope.inv_freq_rest[from];
    to.change[i] = rope.change[from];
    for (std::size_t part = 0; part < 3; ++part) {
      to.quarter_turns[part * pairs + i] = rope.quarter_turns[part * pairs + from];
    }
  }
  return to;
}

}  // namespace

MemberFrequencies member_frequencies(const ElementwiseRope& spec) {
  RopeFrequencies rope = resolve(spec.rope);
  if (spec.joined != Pairing::interleaved && spec.joined != Pairing::half) {
    throw ShapeError(concat("[ElementwiseRope] joined: must be interleaved or half, got ",
                            static_cast<Index>(static_cast<Pairing>(spec.joined))));
  }
  if (!spec.sections.empty()) check_sections(spec, rope.rotary_dim);
  const Elements elements = elements_of(spec, rope);
  rope.pairing = spec.joined;
  rope.blocks.clear();
  if (!spec.sections.empty()) rope.axes = std::ssize(spec.sections);
  const auto place = [&](Index i) { return pair_place(spec.joined, rope.pairs(), i); };
  return {with_numbers_of(rope, elements, [&](Index i) { return place(i).u; }),
          with_numbers_of(rope, elements, [&](Index i) { return place(i).v; })};
}

namespace {

/// What the tables keep; other positions are computed.
constexpr Index kept_positions = 4096;
/// Rows that go through both rotations at once.
constexpr Index rows_at_once = 16;

/// Doubles with room for n numbers of A.
template <class A>
constexpr Index room_for(Index n) {
  return (n * static_cast<Index>(sizeof(A)) + 7) / 8;
}

/// part(tile, first row) of every few rows of a tile.
template <class Body>
void few_by_few(const RowTile& tile, const Body& body) {
  for (Index row = 0; row < tile.rows; row += rows_at_once) {
    RowTile few = row_of(tile, row);
    few.rows = std::min(rows_at_once, tile.rows - row);
    body(few, row);
  }
}

}  // namespace

template <class A>
ElementwiseRows<A>::ElementwiseRows(const ElementwiseRope& spec) : ElementwiseRows(member_frequencies(spec)) {
  stands_as_text_ = spec.rope.axes.frequencies == RopeAxes::Frequencies::shared;
}

template <class A>
ElementwiseRows<A>::ElementwiseRows(const MemberFrequencies& of)
    : first_(of.first, kept_positions, TableMemory::compact),
      second_(of.second, kept_positions, TableMemory::compact) {}

template <class A>
void ElementwiseRows<A>::check(const char* function, const Problem& problem) const {
  const Index head_dim = first_.frequencies().head_dim;
  if (problem.dim != head_dim) {
    throw ShapeError(concat("[", function, "] ElementwiseRope.head_dim: must be the last extent of the rows, ",
                            problem.dim, ", got ", head_dim));
  }
  if (!stands_as_text_) {
    check_every_axis(function, "ElementwiseRope", *problem.q_positions, first_.frequencies().axes);
  }
  RotaryRows<A>(first_).check(function, problem);
  RotaryRows<A>(second_).check(function, problem);
}

template <class A>
Index ElementwiseRows<A>::turn_scratch(Index dim) const {
  return 2 * room_for<A>(rows_at_once * dim) + RotaryRows<A>(first_).turn_scratch(dim);
}

template <class A>
void ElementwiseRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  const RopeFrequencies& f = first_.frequencies();
  A* room = reinterpret_cast<A*>(tile.scratch);
  few_by_few(tile, [&](RowTile few, Index row) {
    const A* in = x + row * tile.x_stride;
    A* out = y + row * tile.y_stride;
    few.scratch = tile.scratch + 2 * room_for<A>(rows_at_once * f.head_dim);
    RowTile apart = few;
    apart.y_stride = f.head_dim;
    RotaryRows<A>(second_).turn(apart, in, room);
    RotaryRows<A>(first_).turn(few, in, out);
    for (Index r = 0; r < few.rows; ++r) {
      for (Index i = 0; i < f.pairs(); ++i) {
        const Index v = f.begin + pair_place(f.pairing, f.pairs(), i).v;
        out[r * tile.y_stride + v] = room[r * f.head_dim + v];
      }
    }
  });
}

template <class A>
void ElementwiseRows<A>::turn_grads(const RowTile& tile, const A*, const A* d_y, A* d_x, A*) const {
  const RopeFrequencies& f = first_.frequencies();
  const Index dim = f.head_dim;
  A *of_first = reinterpret_cast<A*>(tile.scratch),
    *of_second = reinterpret_cast<A*>(tile.scratch + room_for<A>(rows_at_once * dim));
  few_by_few(tile, [&](RowTile few, Index row) {
    const A* in = d_y + row * tile.y_stride;
    A* out = d_x + row * tile.x_stride;
    few.scratch = tile.scratch + 2 * room_for<A>(rows_at_once * dim);
    few.x_stride = few.y_stride = dim;
    // Each rotation made one member of a pair: the other's gradient is none of it.
    for (Index r = 0; r < few.rows; ++r) {
      std::copy_n(in + r * tile.y_stride, dim, of_first + r * dim);
      std::copy_n(in + r * tile.y_stride, dim, of_second + r * dim);
      for (Index i = 0; i < f.pairs(); ++i) {
        const auto [u, v] = pair_place(f.pairing, f.pairs(), i);
        of_first[r * dim + f.begin + v] = of_second[r * dim + f.begin + u] = 0;
      }
    }
    RotaryRows<A>(first_).turn_grads(few, nullptr, of_first, of_first, nullptr);
    RotaryRows<A>(second_).turn_grads(few, nullptr, of_second, of_second, nullptr);
    for (Index r = 0; r < few.rows; ++r) {
      A* to = std::copy_n(of_first + r * dim, dim, out + r * tile.x_stride) - dim;
      for (Index d = f.begin; d < f.begin + f.rotary_dim; ++d) to[d] += of_second[r * dim + d];
    }
  });
}

template class ElementwiseRows<float>;
template class ElementwiseRows<double>;

namespace {

/// Four axes of the pairs as alike as they can be: fewer where there are fewer pairs.
ElementwiseRope hunyuan_of(const ExampleSize& size) {
  const Index pairs = std::max<Index>(1, size.dim / 2), axes = std::min(pairs, max_axes);
  std::vector<Index> sections(static_cast<std::size_t>(axes), pairs / axes);
  for (Index a = 0; a < pairs % axes; ++a) ++sections[static_cast<std::size_t>(a)];
  return ElementwiseRope::hunyuan({.head_dim = size.dim, .pairing = Pairing::half}, sections);
}

/// A head too small for three blocks has one for each pair.
ElementwiseRope vjepa2_of(const ExampleSize& size) {
  if (size.dim >= 6) return ElementwiseRope::vjepa2(size.dim);
  const Index axes = std::max<Index>(1, size.dim / 2);
  return {.rope = {.head_dim = size.dim,
                   .rotary_dim = 2 * axes,
                   .pairing = Pairing::half,
                   .axes = RopeAxes::blocks(std::vector<Index>(static_cast<std::size_t>(axes), 1))},
          .joined = Pairing::interleaved};
}

/// What a patch of an image has on each axis, from its row and column. Sections are HunyuanVL's, whose last axes are
/// column, row and image, after the place in the sequence; a rope's axes are V-JEPA 2's frame, row and column. Two are
/// row and column.
std::vector<double> patch_on_axes(const ElementwiseRope& spec, Index axes, Index width, double row, double column) {
  if (axes == 2) return {row, column};
  std::vector<double> on(static_cast<std::size_t>(axes));
  if (spec.sections.empty()) return on.end()[-2] = row, on.end()[-1] = column, on;
  if (axes == 4) on[0] = row * static_cast<double>(width) + column;
  return on.end()[-3] = column, on.end()[-2] = row, on;
}

/// With more than one axis its tokens are patches of an image: at one position on all axes some of it is RoPE.
inspect::Specimen elementwise_example(const ExampleSize& size, const ElementwiseRope& spec) {
  const Index axes = member_frequencies(spec).first.axes;
  inspect::Specimen specimen{.options = size};
  if (axes > 1) specimen.grid = inspect::square_grid(size.length);
  specimen.turn_rows = [rows = std::make_shared<const ElementwiseRows<double>>(spec), spec, axes,
                        width = specimen.grid.width](Side side, const Positions& at, View<const double, 4> x,
                                                     View<double, 4> y, const Executor& on) {
    const Index time = x.shape[2];
    std::vector<double> places(static_cast<std::size_t>(axes * time));
    for (Index t = 0; t < time; ++t) {
      const std::vector<double> patch = at.axes() == 1
                                            ? std::vector<double>(static_cast<std::size_t>(axes), at.real(0, 0, t))
                                            : patch_on_axes(spec, axes, width, at.real(0, 0, t), at.real(1, 0, t));
      for (std::size_t a = 0; a < patch.size(); ++a)
        places[a * static_cast<std::size_t>(time) + static_cast<std::size_t>(t)] = patch[a];
    }
    bearing::turn<double>(*rows, side, Positions(dense<const double>(places.data(), axes, 1, time)), x, y, on);
  };
  return specimen;
}

}  // namespace

void describe_elementwise_rope(Describer& to) {
  to.home("elementwise_rope", {"Assran et al.", 2025, "arXiv 2506.09985"});
  constexpr const char* formula =
      "    u <- a (u cos phi_u - v sin phi_u)      phi_u = p_axis(u) theta(u)\n"
      "    v <- a (v cos phi_v + u sin phi_v)\n\n";
  static const std::string spec_text =
      concat("RoPE whose two members of a pair have an angle each: ElementwiseRows.\n\n", formula,
             "What ships in HunyuanVL and V-JEPA 2. It is no rotation: lengths change.\n\n"
             "V-JEPA 2: Assran et al. 2025, arXiv 2506.09985.");
  to.record("ElementwiseRope", ElementwiseRope{.rope = {.pairing = Pairing::half}, .joined = Pairing::half},
            spec_text.c_str())
      .member("rope", &ElementwiseRope::rope,
              "The frequencies of its pairs; its pairing says which two elements have that of a pair.")
      .member("joined", &ElementwiseRope::joined, "Which two elements turn into each other.")
      .member("sections", &ElementwiseRope::sections,
              "How many elements each axis has, in place of the rope's axes; none: the pair's axis.")
      .maker("hunyuan", ElementwiseRope::hunyuan, {"rope", "mrope_section"},
             "HunyuanVL's, from its rope without axes and its file's mrope_section.")
      .maker("vjepa2", ElementwiseRope::vjepa2, {"head_dim"}, "V-JEPA 2's: frame, row and column.");
  static const std::string rows_text =
      concat("The encoding of rows with two angles for a pair; positions have an axis for each of the spec's.\n\n",
             formula, "V-JEPA 2: Assran et al. 2025, arXiv 2506.09985; HunyuanVL as in transformers.");
  to.encoding<ElementwiseRope>("ElementwiseRows", rows_text.c_str(), {}, make_with_spec<ElementwiseRows>)
      .called("elementwise_rope", "RoPE with two angles for a pair",
              "turns each element of a pair by an angle of its own", hunyuan_of)
      .also({"hunyuan_vl"})
      .example(elementwise_example)
      .called("vjepa2", "V-JEPA 2's RoPE", "turns the two members of a pair at two speeds", vjepa2_of)
      .example(elementwise_example);
}

}  // namespace bearing
