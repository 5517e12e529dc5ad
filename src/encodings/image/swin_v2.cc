#include <algorithm>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <vector>

#include "describe/describer.hpp"
#include "describe/tensors.hpp"
#include "encodings/limits.hpp"
#include "tensor_checks.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// The largest displacement of training: what 8 on the logarithmic scale stands for.
struct Reach {
  double y, x;
};

Reach reach_of(const SwinV2& spec) {
  const auto one = [](Index trained, Index window) {
    return static_cast<double>((trained > 0 ? trained : window) - 1);
  };
  return {one(spec.trained_height, spec.window.height), one(spec.trained_width, spec.window.width)};
}

double coordinate(Index displacement, double reach) {
  const double scaled = 8 * static_cast<double>(displacement) / reach;
  return std::copysign(std::log2(1 + std::fabs(scaled)) / 3, scaled);  // log2 8 = 3
}

void check_spec(const char* function, const SwinV2& spec) {
  const Swin& window = spec.window;
  const auto within = [](Index extent, Index least) { return extent >= least && extent <= largest_window; };
  if (!within(window.height, 1) || !within(window.width, 1)) {
    throw ShapeError(concat("[", function, "] window.height, window.width: must be from 1 to ", largest_window,
                            ", got ", window.height, ", ", window.width));
  }
  if (!within(spec.trained_height, 0) || !within(spec.trained_width, 0)) {
    throw ShapeError(concat("[", function, "] trained_height, trained_width: must be from 0 (the window's) to ",
                            largest_window, ", got ", spec.trained_height, ", ", spec.trained_width));
  }
  if (window.class_token != Swin::ClassToken::none) {
    throw ShapeError(concat("[", function, "] window.class_token: must be none: Swin V2 has no class token"));
  }
  const Reach reach = reach_of(spec);
  if (reach.y < 1 || reach.x < 1) {
    throw ShapeError(concat("[", function, "] trained_height, trained_width: must be at least 2 for a window of ",
                            window.height, " x ", window.width, ", got ", spec.trained_height, ", ",
                            spec.trained_width));
  }
}

template <class A, class T>
void check(const char* function, const char* argument, const SwinV2& spec, const SwinV2Network<A>& network,
           View<T, 2> table) {
  check_spec(function, spec);
  const Swin& window = spec.window;
  const Index hidden = network.b1.value.shape[0], heads = network.w2.value.shape[0];
  check_param<A, 1>(function, "b1", network.b1, {hidden}, "[hidden]");
  check_param<A, 2>(function, "w1", network.w1, {hidden, 2}, "[hidden, 2]");
  check_param<A, 2>(function, "w2", network.w2, {heads, hidden}, "[heads, hidden]");
  if (table.shape != std::array<Index, 2>{window.rows(), heads}) {
    throw ShapeError(concat("[", function, "] ", argument, ": must be ", std::array<Index, 2>{window.rows(), heads},
                            ", got shape ", table.shape));
  }
  check_tensor(function, argument, table);
  CallMemory memory(function);
  if constexpr (Writable<T>) {
    check_distinct(function, argument, table);
    memory.reads("w1", network.w1.value).reads("b1", network.b1.value).reads("w2", network.w2.value);
    memory.writes(argument, table);
  } else {
    memory.param("w1", network.w1).param("b1", network.b1).param("w2", network.w2).reads(argument, table);
  }
  memory.check();
}

/// body(row, c_y, c_x) for every displacement.
template <class Body>
void over_displacements(const SwinV2& spec, const Body& body) {
  const Reach reach = reach_of(spec);
  Index row = 0;
  for (Index y = 1 - spec.window.height; y < spec.window.height; ++y) {
    for (Index x = 1 - spec.window.width; x < spec.window.width; ++x) {
      body(row++, coordinate(y, reach.y), coordinate(x, reach.x));
    }
  }
}

template <class A>
double hidden_unit(const SwinV2Network<A>& n, Index u, double y, double x) {
  return static_cast<double>(n.w1.value(u, Index{0})) * y + static_cast<double>(n.w1.value(u, Index{1})) * x +
         static_cast<double>(n.b1.value(u));
}

/// w2 · relu(hidden)
template <class A>
double output(const SwinV2Network<A>& n, Index h, const std::vector<double>& hidden) {
  double sum = 0;
  for (std::size_t u = 0; u < hidden.size(); ++u) {
    sum += static_cast<double>(n.w2.value(h, static_cast<Index>(u))) * std::fmax(hidden[u], 0);
  }
  return sum;
}

}  // namespace

std::vector<double> swin_v2_coordinates(const SwinV2& spec) {
  check_spec("swin_v2_coordinates", spec);
  std::vector<double> coordinates;
  over_displacements(spec, [&](Index, double y, double x) {
    coordinates.push_back(y);
    coordinates.push_back(x);
  });
  return coordinates;
}

template <class A>
void swin_v2_table(const SwinV2& spec, const SwinV2Network<A>& network, std::type_identity_t<View<A, 2>> table) {
  check("swin_v2_table", "table", spec, network, table);
  std::vector<double> hidden(static_cast<std::size_t>(network.b1.value.shape[0]));
  over_displacements(spec, [&](Index row, double y, double x) {
    for (std::size_t u = 0; u < hidden.size(); ++u) hidden[u] = hidden_unit(network, static_cast<Index>(u), y, x);
    for (Index h = 0; h < table.shape[1]; ++h) {
      table(row, h) = static_cast<A>(16 / (1 + std::exp(-output(network, h, hidden))));
    }
  });
}

template <class A>
void swin_v2_table_backward(const SwinV2& spec, const SwinV2Network<A>& network,
                            std::type_identity_t<View<const A, 2>> d_table) {
  check("swin_v2_table_backward", "d_table", spec, network, d_table);
  const std::size_t units = static_cast<std::size_t>(network.b1.value.shape[0]);
  const std::size_t heads = static_cast<std::size_t>(network.w2.value.shape[0]);
  // Summed in double over all displacements, added to the gradients once.
  std::vector<double> hidden(units), d_hidden(units), d_y(units), d_x(units), d_b(units), d_w2(heads * units);
  over_displacements(spec, [&](Index row, double y, double x) {
    for (std::size_t u = 0; u < units; ++u) hidden[u] = hidden_unit(network, static_cast<Index>(u), y, x);
    std::fill(d_hidden.begin(), d_hidden.end(), 0.0);
    for (std::size_t h = 0; h < heads; ++h) {
      // B = 16σ(z): dB/dz = B(16 − B)/16
      const double b = 16 / (1 + std::exp(-output(network, static_cast<Index>(h), hidden)));
      const double d_z = static_cast<double>(d_table(row, static_cast<Index>(h))) * b * (16 - b) / 16;
      for (std::size_t u = 0; u < units; ++u) {
        if (hidden[u] <= 0) continue;
        d_w2[h * units + u] += d_z * hidden[u];
        d_hidden[u] += d_z * static_cast<double>(network.w2.value(static_cast<Index>(h), static_cast<Index>(u)));
      }
    }
    for (std::size_t u = 0; u < units; ++u) {
      d_y[u] += d_hidden[u] * y;
      d_x[u] += d_hidden[u] * x;
      d_b[u] += d_hidden[u];
    }
  });
  for (std::size_t u = 0; u < units; ++u) {
    const auto unit = static_cast<Index>(u);
    if (network.w1.grad.data != nullptr) {
      network.w1.grad(unit, Index{0}) += static_cast<A>(d_y[u]);
      network.w1.grad(unit, Index{1}) += static_cast<A>(d_x[u]);
    }
    if (network.b1.grad.data != nullptr) network.b1.grad(unit) += static_cast<A>(d_b[u]);
    if (network.w2.grad.data == nullptr) continue;
    for (std::size_t h = 0; h < heads; ++h) {
      network.w2.grad(static_cast<Index>(h), unit) += static_cast<A>(d_w2[h * units + u]);
    }
  }
}

#define BEARING_INSTANTIATE(A)                                                                              \
  template void swin_v2_table<A>(const SwinV2&, const SwinV2Network<A>&, std::type_identity_t<View<A, 2>>); \
  template void swin_v2_table_backward<A>(const SwinV2&, const SwinV2Network<A>&,                           \
                                          std::type_identity_t<View<const A, 2>>);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

namespace {

template <class A>
SwinV2Network<A> network_of(const std::string& function, const Tensor& w1, const Tensor& b1, const Tensor& w2) {
  return {{describe::view_of<A, 2>((function + " w1").c_str(), w1)},
          {describe::view_of<A, 1>((function + " b1").c_str(), b1)},
          {describe::view_of<A, 2>((function + " w2").c_str(), w2)}};
}

/// 0 for a window that has no table: swin_v2_table() says so.
Index rows_of(const Swin& window) {
  try {
    return window.rows();
  } catch (const ShapeError&) {
    return 0;
  }
}

Tensor table_of(const SwinV2& spec, const Tensor& w1, const Tensor& b1, const Tensor& w2) {
  return describe::in_arithmetic_of("[swin_v2_table] w1", w1, [&]<class A>() {
    const SwinV2Network<A> network = network_of<A>("[swin_v2_table]", w1, b1, w2);
    describe::NewTensor<A, 2> table({rows_of(spec.window), network.w2.value.shape[0]});
    swin_v2_table<A>(spec, network, table.view);
    return table.tensor;
  });
}

Value table_gradients(const SwinV2& spec, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& d_table) {
  return describe::in_arithmetic_of("[swin_v2_table_backward] w1", w1, [&]<class A>() -> Value {
    SwinV2Network<A> network = network_of<A>("[swin_v2_table_backward]", w1, b1, w2);
    describe::NewTensor<A, 2> d_w1(network.w1.value.shape), d_w2(network.w2.value.shape);
    describe::NewTensor<A, 1> d_b1(network.b1.value.shape);
    network.w1.grad = d_w1.view, network.b1.grad = d_b1.view, network.w2.grad = d_w2.view;
    swin_v2_table_backward<A>(spec, network, describe::view_of<A, 2>("[swin_v2_table_backward] d_table", d_table));
    return Values{d_w1.tensor, d_b1.tensor, d_w2.tensor};
  });
}

/// Learned numbers of the network, drawn; the table that it makes is what the example holds.
inspect::Specimen swin_v2_example(const ExampleSize& size, const SwinV2& spec) {
  const Index hidden = 512;
  const auto drawn = [seed = size.seed](std::vector<Index> shape, double deviation) {
    Index count = 1;
    for (const Index extent : shape) count *= extent;
    const std::uint64_t own = seed + static_cast<std::uint64_t>(shape.size());
    return Tensor{std::move(shape), describe::normals(count, deviation, own)};
  };
  const Tensor w1 = drawn({hidden, 2}, 1), b1 = drawn({hidden}, 1), w2 = drawn({size.heads, hidden}, 0.05);
  const auto table = std::make_shared<const Tensor>(table_of(spec, w1, b1, w2));
  const Param<double, 2> parameter{describe::view_of<double, 2>("[swin_v2_table] table", *table)};
  struct Kept {
    std::shared_ptr<const Tensor> table;
    Made<double> made;
  };
  const auto kept = std::make_shared<const Kept>(
      Kept{table, describe::made_of<double>(new SwinBias<double>(spec.window, parameter))});
  inspect::Specimen specimen{.options = size, .grid = {spec.window.height, spec.window.width}};
  inspect::act(specimen, *registry().encoding("SwinBias"), {}, kept->made, kept);
  specimen.parameters = hidden * (2 + 1 + size.heads);
  specimen.held = specimen.parameters + table->shape[0] * table->shape[1];
  return specimen;
}

/// The bias's table from the network.
const ComputedInfo& describe_network(Describer& to) {
  const NamedExtent axes("axes", [](const Record&, const Sizes&) { return Index{2}; });
  NamedExtent hidden = any("hidden");
  hidden.usual = [](const Record&, const Sizes&) { return Index{512}; };
  return to.computed<2, 2, 1, 2>(
      "SwinBias",
      {.gives = "table",
       .from = {Parameter("w1", {hidden, axes}, "The first layer, of (y, x).").starts(truncated_normal(0.02)),
                Parameter("b1", {hidden}, "What is added to its units.").starts(constant(0)),
                Parameter("w2", {"heads", hidden}, "The second layer.").starts(truncated_normal(0.02))},
       .encoding_spec = [](const ComputedCall& call) { return Record::of(call.spec.as<SwinV2>()->window); }},
      []<class A>(const ComputedCall& call, const View<A, 2>& table, const Param<A, 2>& w1, const Param<A, 1>& b1,
                  const Param<A, 2>& w2) {
        swin_v2_table<A>(*call.spec.as<SwinV2>(), {w1, b1, w2}, table);
      },
      []<class A>(const ComputedCall& call, const View<const A, 2>& d_table, const Param<A, 2>& w1,
                  const Param<A, 1>& b1, const Param<A, 2>& w2) {
        swin_v2_table_backward<A>(*call.spec.as<SwinV2>(), {w1, b1, w2}, d_table);
      });
}

}  // namespace

void describe_swin_v2(Describer& to) {
  to.home("swin_v2", {"Liu et al.", 2022, "arXiv 2111.09883"});
  to.record("SwinV2", SwinV2{},
            "Swin V2's continuous position bias: SwinBias's table, computed by a small network of the displacement.\n\n"
            "    c(d) = sign(d) log2(1 + 8|d|/(W - 1)) / log2 8,   B = 16 sigmoid(w2 relu(w1 (c(dy), c(dx)) + b1))\n\n"
            "Liu et al. 2022, arXiv 2111.09883.")
      .member("window", &SwinV2::window, "The window of the table.")
      .member("trained_height", &SwinV2::trained_height,
              "W on the first axis: the height of the window that it was trained with; 0 for this window's.")
      .member("trained_width", &SwinV2::trained_width, "W on the second axis: the width, likewise.");
  to.function(
      "swin_v2_coordinates",
      [](const SwinV2& spec) {
        std::vector<double> coordinates = swin_v2_coordinates(spec);
        const auto rows = static_cast<Index>(coordinates.size() / 2);
        return Tensor{{rows, 2}, std::move(coordinates)};
      },
      {"spec"},
      "Returns what the network sees: (c(dy), c(dx)) of every displacement, query minus key, [window.rows(), 2].");
  to.function("swin_v2_table", table_of, {"spec", "w1", "b1", "w2"},
              "Computes the table of a SwinBias [window.rows(), heads] from the network w1 [hidden, 2] of (y, x), b1 "
              "[hidden] and w2\n"
              "[heads, hidden]. float64 or float32. Make it once per step, and give the table's gradient to\n"
              "swin_v2_table_backward().");
  to.function("swin_v2_table_backward", table_gradients, {"spec", "w1", "b1", "w2", "d_table"},
              "Returns the network's gradients d_w1, d_b1 and d_w2, from that of the table.",
              "tuple[Array, Array, Array]");
  Description& name =
      to.name({"swin_v2", {"swinv2"}, "Swin V2's network", "a network of the logarithm of the offset", {}, {}});
  name.spec = [](const ExampleSize& size) {
    const auto [height, width] = inspect::square_grid(size.length);
    return Record::of(SwinV2{.window = {.height = height, .width = width}, .trained_height = 8, .trained_width = 8});
  };
  name.computed = &describe_network(to);
  name.specimen = [spec = name.spec](const ExampleSize& size, const Record& given) {
    return swin_v2_example(size, *(given ? given : spec(size)).as<SwinV2>());
  };
}

}  // namespace bearing
