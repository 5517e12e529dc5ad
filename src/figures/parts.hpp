#pragma once

#include <bearing/figures.hpp>
#include <string>
#include <vector>

#include "text.hpp"

// What kinds of pictures have in common.

namespace bearing::inspect {

/// An encoding with its example, at the sizes that were asked for, else those of the kind.
struct Shown {
  const Subject* subject = nullptr;
  Specimen specimen = {};
  Index asked = 0;  ///< tokens that were asked for; 0: nobody did

  const std::string& name() const { return subject->name; }
};

/// The examples of all encodings. `size` is the kind's, for what is neither asked for nor said of an encoding. Errors
/// of make() name the encoding.
std::vector<Shown> examples(std::span<const Subject> encodings, const FigureOptions& options, SpecimenOptions size);

/// Throws RangeError "[figure] NAME: …": the encoding has nothing of this kind to show.
[[noreturn]] void nothing_to_show(const Shown& shown, const std::string& must);

/// The least and the largest of numbers, whatever is no number left out; {0, 1} if there are none.
struct Range {
  double low = 0, high = 0;
  bool empty = true;

  void reach(double x);
  void reach(const std::vector<double>& numbers);
  /// With `part` of its width more at both ends; a range of one number gets a width.
  Range with_room(double part = 0.04) const;
};

/// An axis over positions or distances first … last.
Axis token_axis(std::string title, double first, double last);
/// An axis that reaches over a range, with some room.
Axis axis_over(std::string title, const Range& range);

/// All panels get the y axis that reaches over all of theirs, and their matrices one scale of colours.
void share_y(std::vector<Panel>& panels);
void share_colours(std::vector<Panel>& panels);

/// Panels in a row: all up to three, else two, three or four.
Index columns_for(std::size_t panels);

/// "rope", "rope and alibi", "rope, alibi and t5".
std::string names_of(const std::vector<Shown>& shown);

/// A number with at most four digits that count: "0.0312", "131072", "1.2e-05".
std::string short_number(double number);

/// Some of 0 … count − 1, evenly, the first and the last among them.
std::vector<Index> some_of(Index count, Index most);

}  // namespace bearing::inspect
