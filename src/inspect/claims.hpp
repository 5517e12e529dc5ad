#pragma once

#include <bearing/properties.hpp>
#include <string>
#include <vector>

namespace bearing::inspect {

/// Whom a claim is about, how it is measured, and what shows it.
struct Said {
  const char* encoding;
  Claim (*measure)();
  Picture picture;
};

std::vector<Said> said_of_inputs();
std::vector<Said> said_of_rotations();
std::vector<Said> said_of_scores();

inline Claim claim(const char* name, const char* says, bool holds, std::string measured, double number) {
  return {name, says, holds ? Verdict::yes : Verdict::no, std::move(measured), number, {}};
}

/// A rotary encoding in half pairing.
Rope rope_of(Index head_dim, double base = 10'000);

/// The encodings in a comparison that many introductions print; `name` alone, if it is one of them and not null.
std::vector<const char*> table_names(const std::string* name);

/// The cells of one of them (learnable, extrapolation, relative, memory), measured.
std::vector<Claim> table_claims(const std::string& name);

}  // namespace bearing::inspect
