#include "inspect/claims.hpp"

#include <algorithm>
#include <bearing/properties.hpp>

#include "inspect/tasks.hpp"
#include "lasting.hpp"

// What introductions to positional encodings often say, each measured.

namespace bearing::inspect {

Rope rope_of(Index head_dim, double base) { return {.head_dim = head_dim, .base = base, .pairing = Pairing::half}; }

namespace {

/// In the catalog's order of sites.
const std::vector<Said>& said() {
  static const auto& all = lasting([] {
    std::vector<Said> said;
    for (const auto& part : {said_of_inputs, said_of_scores, said_of_rotations}) {
      for (Said& one : part()) said.push_back(std::move(one));
    }
    return said;
  }());
  return all;
}

Claim measured(const Said& one) {
  Claim claim = one.measure();
  claim.picture = one.picture;
  return claim;
}

/// Those about `name`; about any, where that is null.
std::vector<Claim> measured(const std::string* name, const Executor& on) {
  std::vector<const Said*> wanted;
  for (const Said& one : said()) {
    if (name == nullptr || *name == one.encoding) wanted.push_back(&one);
  }
  const std::vector<const char*> rows = table_names(name);
  std::vector<Claim> all(wanted.size());
  std::vector<std::vector<Claim>> table(rows.size());
  each(on, static_cast<Index>(wanted.size() + rows.size()), [&](Index task) {
    const auto i = static_cast<std::size_t>(task);
    if (i < rows.size()) {
      table[i] = table_claims(rows[i]);
    } else {
      all[i - rows.size()] = measured(*wanted[i - rows.size()]);
    }
  });
  for (const std::vector<Claim>& row : table) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

std::vector<Claim> claims(const Executor& on) { return measured(nullptr, on); }

std::vector<Claim> claims(const std::string& name, const Executor& on) { return measured(&name, on); }

}  // namespace bearing::inspect
