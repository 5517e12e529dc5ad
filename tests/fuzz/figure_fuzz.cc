#include <bearing/error.hpp>
#include <bearing/figure_file.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Any bytes either are refused with a ConfigError or are a figure whose parts fit together, as renderers rely on it.
// Seeds: tests/corpus/figure.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bearing;
  try {
    const inspect::Figure figure = inspect::parse_figure({reinterpret_cast<const char*>(data), size});
    if (figure.panels.empty() || figure.columns < 1) std::abort();
    for (const inspect::Panel& panel : figure.panels) {
      if (panel.x.first == panel.x.last || panel.y.first == panel.y.last) std::abort();
      for (const inspect::Series& one : panel.series) {
        if (one.x.size() != one.y.size()) std::abort();
      }
      for (const inspect::Band& one : panel.bands) {
        if (one.x.size() != one.low.size() || one.x.size() != one.high.size()) std::abort();
      }
      if (!panel.cells) continue;
      const inspect::Cells& cells = *panel.cells;
      if (cells.rows < 1 || cells.cols < 1) std::abort();
      if (static_cast<Index>(cells.values.size()) != cells.rows * cells.cols) std::abort();
    }
  } catch (const ConfigError&) {
  }
  return 0;
}
