#pragma once

#include <array>
#include <string>
#include <vector>

#include "plot_parts.hpp"
#include "text_canvas.hpp"
#include "text_legend.hpp"

namespace bearing::tool {

/// A panel of a picture in characters: title, axes, what is drawn between them, and what is said under it.
class TextPanel {
 public:
  struct Under {
    bool legend = true, scale = true;
  };
  TextPanel(const inspect::Panel& panel, int width, const TextStyle& style, Under under);

  int title_rows() const { return static_cast<int>(above_.size()); }
  /// With so many rows over the axes, so that those of neighbours stand at one height.
  TextCanvas draw(int title_rows);

 private:
  struct Dot {
    double x, y;
  };

  void measure();
  void fit_cells();
  void axes(TextCanvas& canvas) const;
  void x_ticks(TextCanvas& canvas, int row) const;
  void cells(TextCanvas& canvas) const;
  void bands(TextCanvas& canvas) const;
  void series(TextCanvas& canvas) const;
  void one_series(TextCanvas& canvas, const inspect::Series& series, int number) const;
  void point(TextCanvas& canvas, Dot at, const inspect::Series& series, int number) const;
  void letters(TextCanvas& canvas, const inspect::Series& series, int number) const;
  void guides(TextCanvas& canvas) const;
  /// Texts of guides and notes; those that found no room are left.
  std::vector<std::string> words(TextCanvas& canvas) const;

  std::vector<std::array<int, 2>> beside(const inspect::Guide& guide, int wide) const;
  std::vector<std::array<int, 2>> beside(const inspect::Note& note, int wide) const;

  Dot place(const TextCanvas& canvas, double x, double y) const;
  void stroke(TextCanvas& canvas, Dot from, Dot to, const inspect::Series& series, int number, double& gone) const;

  const inspect::Panel* panel_;
  int width_;
  TextStyle style_;
  Under under_;
  std::vector<std::string> above_ = {};  ///< title and the y axis' title
  std::size_t bold_ = 0;                 ///< how many of these are the title
  std::vector<inspect::Tick> y_ticks_ = {};
  int left_ = 0, top_ = 0, wide_ = 0, high_ = 0;  ///< where the axes' inside lies
};

}  // namespace bearing::tool
