#include <algorithm>
#include <bearing/encodings/index_encoding.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

template <class A>
IndexInputs<A>::IndexInputs(const IndexEncoding& spec) : spec_(spec) {
  if (spec.dim < 1) throw ShapeError(concat("[IndexEncoding] dim: must be at least 1, got ", spec.dim));
  const IndexForm form = spec.form;
  if (form < IndexForm::index || form > IndexForm::binary) {
    throw ShapeError(
        concat("[IndexEncoding] form: must be index, normalised or binary, got ", static_cast<Index>(form)));
  }
  if (form == IndexForm::normalised && spec.length < 2) {
    throw RangeError(concat("[IndexEncoding] length: must be at least 2 for normalised, got ", spec.length));
  }
  if (form != IndexForm::normalised && spec.length != 0) {
    throw RangeError(concat("[IndexEncoding] length: must be 0 unless normalised, got ", spec.length));
  }
}

template <class A>
void IndexInputs<A>::check(const char* function, const Problem& problem) const {
  const Positions& at = *problem.q_positions;
  if (at.axes() != 1) {
    throw ShapeError(concat("[", function, "] positions: must have one axis for IndexEncoding, got ", at.axes()));
  }
  if (spec_.form != IndexForm::binary) return;
  // Positions end at 2^31: more columns than that stay 0.
  const double end = std::ldexp(1.0, static_cast<int>(std::min<Index>(spec_.dim, 62)));
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index t = 0; t < problem.q_len; ++t) {
      const double p = at.real(0, b, t);
      if (p >= 0 && p < end && p == std::floor(p)) continue;
      throw RangeError(concat("[", function, "] positions: must be whole and in [0, 2^", spec_.dim,
                              ") for binary with as many columns, got ", p, " at [batch ", b, ", time ", t, "]"));
    }
  }
}

template <class A>
void IndexInputs<A>::inputs(const RowTile& tile, A* p) const {
  for (Index r = 0; r < tile.rows; ++r) {
    const double at = tile.at[0][r];
    A* row = p + r * tile.y_stride;
    if (spec_.form == IndexForm::binary) {
      const auto bits = static_cast<std::uint64_t>(at);
      for (Index d = 0; d < spec_.dim; ++d) row[d] = static_cast<A>(d < 64 ? (bits >> d) & 1u : 0u);
    } else {
      const double whole = spec_.form == IndexForm::index ? 1 : static_cast<double>(spec_.length - 1);
      std::fill(row, row + spec_.dim, static_cast<A>(at / whole));
    }
  }
}

template class IndexInputs<float>;
template class IndexInputs<double>;

template <>
struct describe::Words<IndexForm> {
  static constexpr const char* all[] = {"index", "normalised", "binary"};
};

void describe_index_encoding(Describer& to) {
  to.home("index_encoding", {"-", 0, "-"});
  to.record("IndexEncoding", IndexEncoding{.form = IndexForm::index},
            "The simplest encodings. Others are compared with them.\n\n"
            "    index        x_p <- x_p + p                  grows without bound\n"
            "    normalised   x_p <- x_p + p/(length - 1)     the same number means another place at another length\n"
            "    binary       x_p <- x_p + bits of p          neighbours may differ in every bit")
      .member("dim", &IndexEncoding::dim, "How many columns a row has.")
      .member("form", &IndexEncoding::form, "Which of the three encodings.")
      .member("length", &IndexEncoding::length, "For normalised only: positions 0 ... length - 1 become 0 ... 1.");
  const auto of_form = [](IndexForm form) {
    return [form](const ExampleSize& size) {
      const Index length = form == IndexForm::normalised ? std::max<Index>(2, size.length) : 0;
      return IndexEncoding{.dim = size.dim, .form = form, .length = length};
    };
  };
  to.encoding<IndexEncoding>(
        "IndexInputs", "index and normalised have the same number in every column; binary has bit d of p in column d.",
        {}, make_with_spec<IndexInputs>)
      .whole_positions([](const IndexEncoding& spec) { return spec.form == IndexForm::binary; })
      .called("index", "index", "the position itself, in every column", of_form(IndexForm::index))
      .called("index_normalised", "normalised index", "the position over the length", of_form(IndexForm::normalised))
      .called("index_binary", "binary index", "the position's bits", of_form(IndexForm::binary));
}

}  // namespace bearing
