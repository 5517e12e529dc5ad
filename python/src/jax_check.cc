// What shapes tell of a call's encodings: told while the call is traced, before there are numbers.

#include <nanobind/stl/vector.h>

#include <bearing/error.hpp>

#include "jax_call.hpp"

namespace bearing::python {

namespace {

/// What a call asks of its encodings, all but numbers. Axes 0: positions that are counted.
struct Asked {
  std::string function;
  Index batch, heads, kv_heads, q_len, k_len, dim, value_dim, q_axes, k_axes;
  bool masked;

  const char* name() const { return function.c_str(); }
  bool of_inputs() const { return function == "inputs" || function == "add"; }
  bool of_rows() const { return function == "turn"; }
  bool is_linear() const { return function == "linear_attention"; }
  bool of_attention() const { return function == "attention" || is_linear(); }
};

/// Positions in these numbers, which are all 0.
Positions positions_of(Index axes, Index batch, Index time) {
  static const Index zero = 0;
  if (axes == 0) return {};
  return Positions(View<const Index, 3>{&zero, {axes, batch, time}, {0, 0, 0}});
}

/// Encodings whose parameters have shapes, and some numbers. An encoding that refuses these is left empty.
template <class A>
struct Likenesses {
  std::vector<std::vector<A>> memory;
  std::vector<Made<A>> made;

  Likenesses(const Plan& plan, const std::vector<std::vector<Index>>& shapes) {
    std::size_t next = 0;
    for (const PlannedEncoding& one : plan.encodings) {
      std::vector<ParameterMemory> parameters(one.given.size());
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        if (!one.given[p]) continue;
        const std::vector<Index>& shape = parameters[p].shape = shapes.at(next++);
        // All rows are one, as a parameter may be as large as the scores; one more number, so that there is memory.
        const Index last = shape.empty() ? 1 : shape.back();
        parameters[p].stride.assign(shape.size(), 0);
        if (!shape.empty()) parameters[p].stride.back() = 1;
        parameters[p].value = memory.emplace_back(static_cast<std::size_t>(last) + 1, A{0.5}).data();
      }
      Made<A>& likeness = made.emplace_back();
      whatever_numbers([&] { likeness = one.encoding->make<A>(parameters); });
    }
  }

  /// What shapes do not tell passes.
  template <class Body>
  static void whatever_numbers(const Body& body) {
    try {
      body();
    } catch (const RangeError&) {  // of numbers that are not those of the call
    }
  }
};

/// The check of a term, or of an encoding of rows or inputs.
template <class A, class E>
void check_one(const Asked& asked, const E& encoding, const Problem& problem) {
  if (encoding.check == nullptr) return;
  Likenesses<A>::whatever_numbers([&] { encoding.check(encoding.self, asked.name(), problem); });
}

/// A side's rows as a problem of their own, as turn() has it.
Problem side_of(const Asked& asked, bool queries, Index dim, const Positions& at) {
  Problem side{.batch = asked.batch, .dim = dim};
  side.heads = side.kv_heads = queries ? asked.heads : asked.kv_heads;
  side.q_len = side.k_len = queries ? asked.q_len : asked.k_len;
  side.q_positions = side.k_positions = &at;
  side.side = queries ? Side::query : Side::key;
  return side;
}

/// The decays of linear attention, each of which has a rate for every head that has a state: those of the keys.
/// problem: with rows as they are turned.
template <class A>
void check_decays(const Asked& asked, const std::vector<Made<A>>& made, Problem problem) {
  problem.heads = problem.kv_heads;
  for (const Made<A>& one : made) {
    if (!one.term || one.term->log_decay == nullptr) continue;
    if (!asked.masked) {
      throw RangeError("[linear_attention] mask: must be a causal one if the state decays from key to key, got none");
    }
    check_one<A>(asked, *one.term, problem);
  }
}

/// Encodings of rows, then all others with rows as they are turned.
template <class A>
void check_terms(const Asked& asked, const std::vector<Made<A>>& made, const Positions& q_positions,
                 const Positions& k_positions) {
  Problem problem{.batch = asked.batch, .heads = asked.heads, .kv_heads = asked.kv_heads};
  problem.q_len = asked.q_len, problem.k_len = asked.k_len, problem.value_dim = asked.value_dim;
  problem.q_positions = &q_positions, problem.k_positions = &k_positions, problem.dim = asked.dim;
  for (const Made<A>& one : made) {
    if (!one.term || one.term->turn == nullptr || !asked.of_attention()) continue;
    check_one<A>(asked, *one.term, side_of(asked, true, problem.dim, q_positions));
    check_one<A>(asked, *one.term, side_of(asked, false, problem.dim, k_positions));
    if (one.term->out_dim != nullptr) problem.dim = one.term->out_dim(one.term->self, problem.dim);
  }
  if (asked.is_linear()) return check_decays<A>(asked, made, problem);
  for (const Made<A>& one : made) {
    if (!one.term) continue;
    const bool value = one.term->add_values != nullptr;
    const bool score = one.term->bias != nullptr || one.term->add_scores != nullptr;
    const bool acts = asked.function == "add_values" ? value : value || score || !asked.of_attention();
    if (acts) check_one<A>(asked, *one.term, problem);
  }
}

/// Refuses encodings that act elsewhere than a function wants.
template <class A>
void check_kinds(const Asked& asked, const Plan& plan, const std::vector<Made<A>>& made) {
  const auto refuse = [&](const char* argument, const char* wanted, std::size_t e) {
    Argument{asked.name(), argument}.fail(wanted, plan.encodings[e].encoding->name());
  };
  for (std::size_t e = 0; e < made.size(); ++e) {
    if (made[e].encoding == nullptr) continue;
    if (asked.of_inputs()) {
      if (!made[e].input) refuse("encoding", "an encoding of the input", e);
    } else if (asked.of_rows()) {
      if (!made[e].rows) refuse("encoding", "an encoding of query and key rows", e);
    } else if (!made[e].term) {
      refuse("encodings", "encodings of rows, scores or values", e);
    }
  }
}

template <class A>
bool is_of_linear_attention(const Term<A>& term) {
  const bool values = term.add_values != nullptr || term.turn_values != nullptr;
  const bool turns = term.turn != nullptr && term.bias == nullptr && term.add_scores == nullptr;
  return !values && (turns || term.log_decay != nullptr);
}

/// Refuses terms that a function has nothing for, as it refuses them when it runs.
template <class A>
void check_sites(const Asked& asked, const std::vector<Made<A>>& made) {
  const auto refuse = [&](std::size_t e, const char* wanted, const char* got) {
    throw ShapeError("[" + asked.function + "] encodings: must " + wanted + ", got one that " + got + " as number " +
                     std::to_string(e + 1) + " of " + std::to_string(made.size()));
  };
  for (std::size_t e = 0; e < made.size(); ++e) {
    if (!made[e].term) continue;
    if (asked.is_linear() && !is_of_linear_attention(*made[e].term)) {
      refuse(e, "all be encodings of rows or decays of the state, as there are no scores to add to", "acts elsewhere");
    }
    if ((asked.function == "add_scores" || asked.function == "bias_matrix") && made[e].term->turn != nullptr) {
      refuse(e, "add to scores, as q and k are turned (rotate, turn) before they are multiplied", "turns them");
    }
    if (asked.function == "add_values" && made[e].term->turn_values != nullptr) {
      refuse(e, "not turn values, as only probabilities are given here", "does");
    }
  }
}

template <class A>
void check(const Asked& asked, const Plan& plan, const std::vector<std::vector<Index>>& shapes) {
  const Likenesses<A> like(plan, shapes);
  const Positions q_positions = positions_of(asked.q_axes, asked.batch, asked.q_len),
                  k_positions = positions_of(asked.k_axes, asked.batch, asked.k_len);
  check_kinds(asked, plan, like.made);
  check_sites(asked, like.made);
  if (!asked.of_inputs() && !asked.of_rows()) return check_terms<A>(asked, like.made, q_positions, k_positions);
  const Made<A>& one = like.made.at(0);
  Problem side = side_of(asked, true, asked.dim, q_positions);
  side.side.reset();  // the call itself knows
  if (one.input && asked.of_inputs()) check_one<A>(asked, *one.input, side);
  if (one.rows && asked.of_rows()) check_one<A>(asked, *one.rows, side);
}

}  // namespace

void bind_jax_check(nb::module_& m) {
  m.def(
      "_jax_check",
      [](const std::string& function, const std::string& text, bool wide, const std::vector<std::vector<Index>>& shapes,
         const std::vector<Index>& extents) {
        const Asked asked{function,      extents.at(0), extents.at(1), extents.at(2), extents.at(3),     extents.at(4),
                          extents.at(5), extents.at(6), extents.at(7), extents.at(8), extents.at(9) != 0};
        wide ? check<double>(asked, plans().find(text), shapes) : check<float>(asked, plans().find(text), shapes);
      },
      nb::arg("function"), nb::arg("text"), nb::arg("wide"), nb::arg("shapes"), nb::arg("extents"),
      "Raises what a call of these shapes would raise for its encodings, whatever their numbers are. extents: batch, "
      "heads, kv_heads, q_len, k_len, dim, value_dim, the axes of positions (0 where they are counted), and 0 where no "
      "key is hidden.");
}

}  // namespace bearing::python
