#include "outputs.hpp"

#include "signals.hpp"
#include "terminal.hpp"

namespace bearing::tool {

void Outputs::save(std::string_view report) const {
  const HoldSignals hold;
  WholeFiles files(stop_if_interrupted);
  for (const NpyOutput& array : arrays_) add_npy(files, array);
  for (const Text& text : texts_) files.add(text.path, {text.text});
  print(report);
  stop_if_interrupted();
  files.commit();
  stop_if_interrupted();
}

void deliver(const std::string& out, const std::string& text) {
  Outputs outputs;
  if (!out.empty()) outputs.add(out, text);
  outputs.save(out.empty() ? text : "");
}

}  // namespace bearing::tool
