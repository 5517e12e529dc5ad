// Biases by distance and what computes them.

#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/t5.hpp>

#include "bind.hpp"
#include "encodings.hpp"
#include "specs.hpp"

namespace bearing::python {

template <>
struct Words<T5Direction> {
  static constexpr std::array<Word<T5Direction>, 2> words{
      {{T5Direction::bidirectional, "bidirectional"}, {T5Direction::causal, "causal"}}};
};
template <>
struct Words<AlibiForm> {
  static constexpr std::array<Word<AlibiForm>, 2> words{
      {{AlibiForm::symmetric, "symmetric"}, {AlibiForm::causal, "causal"}}};
};

void bind_biases(nb::module_& m) {
  spec(m, "Alibi", "ALiBi (Press, Smith, Lewis 2022, arXiv 2108.12409): a penalty of slope·|distance| for each head.",
       Alibi{}, Field{"slopes", &Alibi::slopes}, Field{"form", &Alibi::form})
      .def_static(
          "published",
          [](Index heads, double bias_max, double times) { return Alibi::published(heads, bias_max, times); },
          nb::arg("heads"), nb::arg("bias_max") = 8.0, nb::arg("times") = 1.0,
          "The published slopes for a number of heads, a power of two or not.");
  encoding<Alibi>(m, "AlibiBias", "ALiBi with the slopes of its spec.", {},
                  []<class A>(const Alibi& alibi) { return AlibiBias<A>(alibi); });

  spec(m, "T5", "T5's relative bias (Raffel et al. 2020, arXiv 1910.10683): distances in buckets.",
       T5{.direction = T5Direction::bidirectional}, Field{"buckets", &T5::buckets},
       Field{"max_distance", &T5::max_distance}, Field{"direction", &T5::direction});
  encoding<T5, 2>(m, "T5Bias", "T5's bias: table [buckets, heads]. T5's softmax scale is 1.", {{"table", 2}},
                  []<class A>(const T5& t5, const Param<A, 2>& table) { return T5Bias<A>(t5, table); });
}

}  // namespace bearing::python
