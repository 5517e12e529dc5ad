#include <algorithm>
#include <array>

#include "inspect/claims.hpp"
#include "inspect/probes.hpp"
#include "inspect/trained.hpp"
#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

/// A row of the comparison as it is often printed.
struct Printed {
  const char* name;
  bool learnable;
  const char* extrapolation;
  bool relative;
  const char* memory;
};

constexpr std::array<Printed, 5> printed = {{{"sinusoidal", false, "moderate", false, "O(L*d)"},
                                             {"learned", true, "poor", false, "O(L*d)"},
                                             {"t5", true, "moderate", true, "O(L^2)"},
                                             {"alibi", false, "excellent", true, "O(1)"},
                                             {"rope", false, "good", true, "O(L*d)"}}};

Picture past_picture(const std::string& name) {
  if (name == "sinusoidal") return {"curves", {name}, {.dim = 64, .length = 1024, .dims = {20, 40, 60}}};
  if (name == "learned") return {"offset", {name}, {.dim = 16}};
  if (name == "t5") return {"buckets", {name}, {.length = 1024}};
  if (name == "alibi") return {"decay", {name}, {.length = 1024}};
  return {"wavelengths", {name}, {.dim = 64, .length = 512}};
}

Picture relative_picture(const std::string& name) {
  if (name == "sinusoidal" || name == "learned") return {"correlations", {name}, {}};
  if (name == "rope") return {"offset", {name}, {.dim = 64}};
  return {"heatmap", {name}, {.heads = 1, .length = 64, .what = "scores"}};
}

Verdict agrees(bool same) { return same ? Verdict::yes : Verdict::no; }

/// Growth of what is held with the length and with the dimension: "O(L*d)".
std::string held_growth(const Description& entry) {
  const auto held = [&](Index length, Index dim) { return make(entry, {.dim = dim, .length = length}).held; };
  std::string by_length = growth(held(64, 64), held(256, 64), held(1024, 64));
  if (by_length == "O(L)") return held(256, 128) == 2 * held(256, 64) ? "O(L*d)" : "O(L)";
  return by_length;
}

Claim memory_claim(const Printed& row, const Description& entry) {
  const std::string measured = held_growth(entry);
  const Index held = make(entry).held;
  std::string text =
      held == 0 ? std::string("nothing: rows are computed when they are needed; a table of all of them has O(L*d)")
                : concat(measured, ": ", held, " numbers at 8 heads of 64 and length 512");
  if (row.name == std::string("rope")) text += ", cos and sin; a compact table stays under 1 MiB at any length";
  // Whether rows are kept is the program's choice, not the encoding's.
  const Verdict verdict = held == 0 ? Verdict::not_applicable : agrees(measured == row.memory);
  return {row.name, concat("memory ", row.memory), verdict, std::move(text), static_cast<double>(held),
          // The bias of all pairs of tokens is read from one row of the table for each bucket.
          row.name == std::string("t5") ? Picture{"buckets", {row.name}, {}} : Picture{}};
}

/// A quality of trained models is not a number of the encoding; what there is past the length is.
Claim extrapolation_claim(const Printed& row, const Probe& probe) {
  const PastLength past = past_length(probe);
  const bool fails = past.what == "error", poor = row.extrapolation == std::string("poor");
  const Verdict verdict = fails ? agrees(poor) : Verdict::not_applicable;
  Claim claim{row.name,    concat("extrapolation ", row.extrapolation),
              verdict,     past.what + ": " + past.evidence,
              past.unseen, past_picture(row.name)};
  for (const Trained& one : trained) {
    if (claim.encoding == one.encoding && claim.says == one.claim) claim.trained = concat(one.found, "; ", one.page);
  }
  return claim;
}

}  // namespace

std::vector<const char*> table_names(const std::string* name) {
  std::vector<const char*> all;
  for (const Printed& row : printed) {
    if (name == nullptr || *name == row.name) all.push_back(row.name);
  }
  return all;
}

std::vector<Claim> table_claims(const std::string& name) {
  const Printed& row =
      *std::find_if(printed.begin(), printed.end(), [&](const Printed& one) { return one.name == name; });
  const Description& entry = *find(row.name);
  const Probe probe(entry, {});
  const Property relative = check_relative(probe);
  const Index parameters = probe.specimen.parameters;
  return {
      {row.name,
       row.learnable ? "learnable" : "not learnable",
       agrees(row.learnable == (parameters > 0)),
       concat(parameters, " learned numbers"),
       static_cast<double>(parameters),
       {}},
      extrapolation_claim(row, probe),
      {row.name, row.relative ? "relative" : "not relative", agrees(row.relative == (relative.verdict == Verdict::yes)),
       relative.evidence, relative.number, relative_picture(row.name)},
      memory_claim(row, entry)};
}

}  // namespace bearing::inspect
