#pragma once

#include <bearing/say.hpp>

#include "json_file.hpp"
#include "page_json.hpp"

// What the page asks for, one function each. Requests are JSON objects; what the library refuses, it says by an
// exception.

namespace bearing::explorer {

/// Encodings with their sites, papers and what can be set; kinds of figures with what they take.
void answer_catalog(PageJson& to);
/// {"kind", "encodings": [texts], "config": a model's file, for texts that begin with @, "options": {…}}: a figure.
void answer_figure(const json::Object& request, PageJson& to);
/// {"encoding", "config", "options"}: what a text says: its catalog name, sizes, spec.
void answer_saying(const json::Object& request, PageJson& to);
/// {"config": text}: what a model's file says of positions.
void answer_model(const json::Object& request, PageJson& to);
/// {"encoding", "heads", "dim", "length", "seed", "first"}: the numbers that `bearing table` shows.
void answer_table(const json::Object& request, PageJson& to);

/// What a text says; where it begins with @, a part of the config that the request brings.
Said said_by(const json::Object& request, const std::string& text);
/// The members of a spec and their values; members of records in it too.
void write_members(PageJson& to, const char* name, const Record& spec);

}  // namespace bearing::explorer
