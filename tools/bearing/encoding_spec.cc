#include "encoding_spec.hpp"

#include <fmt/format.h>

#include "arguments.hpp"
#include "errors.hpp"

namespace bearing::tool {

template <class A>
void add_term(CallEncodings<A>& into, const Term<A>& term) {
  if (into.terms.size == TermList<A>::most) {
    throw UsageError(fmt::format("--encoding: a call has at most {} encodings", TermList<A>::most));
  }
  into.terms.add(term);
}

namespace {

template <class A>
void read(Said& said, const CallShape& call, CallEncodings<A>& into) {
  const Description& description = said.description();
  const EncodingInfo* info = description.encoding;
  if (info == nullptr && description.computed == nullptr) return said.finish();  // it does nothing
  if (info != nullptr && info->by_hand) return read_rope(said, call, into);
  read_described(said, call, into);
}

}  // namespace

template <class A>
void read_encoding(const std::string& text, const CallShape& call, CallEncodings<A>& into) {
  std::string name;
  try {
    Said said = say_encoding(text);
    name = said.description().name;
    read(said, call, into);
  } catch (const std::logic_error& error) {  // ShapeError, RangeError: what the text says or its numbers ask for
    const std::string what = error.what(), said = "[encoding] ";
    throw UsageError("--encoding " + (what.starts_with(said) ? "" : name + ": ") + without_function(what));
  }
}

template void add_term(CallEncodings<double>&, const Term<double>&);
template void add_term(CallEncodings<float>&, const Term<float>&);
template void read_encoding(const std::string&, const CallShape&, CallEncodings<double>&);
template void read_encoding(const std::string&, const CallShape&, CallEncodings<float>&);

}  // namespace bearing::tool
