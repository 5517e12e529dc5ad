// The mask of a call, which is a word.
#pragma once

#include "arrays.hpp"
#include "members.hpp"
#include "words.hpp"

namespace bearing::python {

/// The mask of a call, which has no default. arrays: where an array of what is seen goes, for errors.
inline Mask mask_of(const char* function, nb::handle given, const char* arrays = "") {
  if (given.is_none()) {
    Argument{function, "mask"}.fail("given, 'none', 'causal' or another mask, as a wrong guess would go unnoticed",
                                    "None");
  }
  // A word has no shape, and to ask it for one takes half a microsecond.
  if (nb::isinstance<nb::str>(given) || !nb::hasattr(given, "shape")) return enum_of<Mask>(given, {function, "mask"});
  const std::string text = std::string("[") + function + "] mask: must be one of " + words_text<Mask>() + arrays +
                           ", got " + class_of(given) + " of shape " +
                           text_of(nb::list(nb::object(given.attr("shape"))));
  throw nb::value_error(text.c_str());
}

}  // namespace bearing::python
