// The handlers as XLA's interface takes them, and what Python tells them of: encodings, tables, frequencies.

#include <atomic>
#include <utility>

#include "jax_call.hpp"
#include "jax_handlers.hpp"

namespace bearing::python {

namespace {

namespace ffi = xla::ffi;

/// An error's text in the words of bearing.jax, whose functions have the names of those that work in place.
std::string in_words_of_jax(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"[rotate_to]", "[rotate]"}, {"[rotate_backward_to]", "[rotate_backward]"}, {"[fill]", "[inputs]"}};
  for (const auto& [ours, theirs] : words) {
    if (text.starts_with(ours)) return std::string(theirs).append(text.substr(ours.size()));
  }
  return std::string(text);
}

/// A handler of XLA's interface. The attribute `rank`: how many axes the first result has in one instance.
template <void (*body)(Frame&)>
ffi::Error guarded(ffi::RemainingArgs args, ffi::RemainingRets results, ffi::Dictionary attrs) {
  try {
    const auto rank = attrs.get<Index>("rank");
    if (rank.has_error()) return rank.error();
    Frame frame(args, results, attrs, static_cast<std::size_t>(*rank));
    body(frame);
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::InvalidArgument(in_words_of_jax(error.what()));
  }
}

/// The minor version of the interface that the process has, as Python says before handlers are registered.
std::atomic<int> minor_version_here = XLA_FFI_API_MINOR;

/// Whether the call asks for the handler's version in a process whose interface is older than the one that this was
/// built with. What handlers use here has been in it since 0.1, so that they serve as the version that is there.
bool answer_older(const XLA_FFI_CallFrame& call) {
  const auto* asked = call.extension_start;  // its type has been renamed: in 0.5 of the interface, if not before
  const int minor = minor_version_here;
  if (minor >= XLA_FFI_API_MINOR || asked == nullptr || asked->type != XLA_FFI_Extension_Metadata) return false;
  XLA_FFI_Metadata& metadata = *reinterpret_cast<const XLA_FFI_Metadata_Extension*>(asked)->metadata;
  metadata.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, minor};
  metadata.traits = 0;
  return true;
}

template <void (*body)(Frame&)>
XLA_FFI_Error* handler(XLA_FFI_CallFrame* call) {
  if (answer_older(*call)) return nullptr;
  static auto* bound = ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs().To(guarded<body>).release();
  return bound->Call(call);
}

template <void (*body)(Frame&)>
nb::capsule capsule() {
  return nb::capsule(reinterpret_cast<void*>(handler<body>));
}

void add_encodings(const std::string& text, const nb::list& encodings) {
  Plan plan;
  for (nb::handle one : encodings) {
    const auto* encoding = nb::cast<const Encoding*>(one);
    std::vector<bool> given;
    for (std::size_t p = 0; p < encoding->infos().size(); ++p) given.push_back(encoding->reads(p));
    plan.encodings.push_back({encoding, std::move(given)});
  }
  plans().add(text, std::move(plan));
}

}  // namespace

void bind_jax(nb::module_& m) {
  m.def(
      "_jax_handlers",
      [](int minor_version) {
        minor_version_here = minor_version;
        nb::dict all;
        all["attention"] = capsule<jax::attention>();
        all["attention_backward"] = capsule<jax::attention_backward>();
        all["merge"] = capsule<jax::merge>();
        all["linear_attention"] = capsule<jax::linear_attention>();
        all["linear_attention_backward"] = capsule<jax::linear_attention_backward>();
        all["rotate"] = capsule<jax::rotate>();
        all["rebase"] = capsule<jax::rebase>();
        all["shift"] = capsule<jax::shift>();
        all["turn"] = capsule<jax::turn>();
        all["turn_backward"] = capsule<jax::turn_backward>();
        all["inputs"] = capsule<jax::inputs>();
        all["inputs_backward"] = capsule<jax::inputs_backward>();
        all["bias_matrix"] = capsule<jax::bias_matrix>();
        all["add_scores"] = capsule<jax::add_scores>();
        all["add_scores_backward"] = capsule<jax::add_scores_backward>();
        all["add_values"] = capsule<jax::add_values>();
        all["add_values_backward"] = capsule<jax::add_values_backward>();
        return all;
      },
      nb::arg("minor_version"),
      "bearing.jax's handlers of XLA's foreign functions, by name, for a minor version of that interface.");
  m.def(
      "_jax_api_version", [] { return nb::make_tuple(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR); },
      "The version of XLA's interface that this module was built with.");
  m.def("_jax_add_encodings", add_encodings, nb::arg("text"), nb::arg("encodings"),
        "Registers encodings under a text. Their objects must be kept for ever.");
  m.def(
      "_jax_add_table",
      [](const std::string& text, const Table& table) {
        Plan plan;
        plan.table = table;
        plans().add(text, std::move(plan));
      },
      nb::arg("text"), nb::arg("table"), "Registers a rotary table under a text.");
  m.def(
      "_jax_add_frequencies",
      [](const std::string& text, nb::handle from, nb::handle to) {
        Plan plan;
        plan.from = frequencies_of(from, {"rebase", "from_"});
        plan.to = frequencies_of(to, {"rebase", "to"});
        plans().add(text, std::move(plan));
      },
      nb::arg("text"), nb::arg("from_"), nb::arg("to"), "Registers what keys are moved from and to under a text.");
  m.def(
      "_jax_parameters",
      [](const Encoding& encoding) {
        nb::list all;
        for (const ArrayInfo& info : encoding.infos()) {
          all.append(nb::make_tuple(info.name, info.fewest == 0 ? info.rank : info.fewest, info.rank));
        }
        return all;
      },
      nb::arg("encoding"), "(name, fewest axes, most axes) of every parameter.");
  bind_jax_check(m);
}

}  // namespace bearing::python
