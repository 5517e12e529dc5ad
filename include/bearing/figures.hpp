#pragma once

#include <bearing/catalog.hpp>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/rope_report.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Pictures of encodings as data: axes, lines, matrices and words. All numbers are worked out here, for any encoding of
// the catalog; a renderer (the terminal, gnuplot, matplotlib, a page) only draws what a Figure says, and knows no kind.

namespace bearing::inspect {

enum class Scale { linear, log2, log10 };

/// A place on an axis with a text of its own.
struct Tick {
  double at = 0;
  std::string text = {};
  bool operator==(const Tick&) const = default;
};

struct Axis {
  std::string title = {};        ///< with the unit: "distance, query - key (tokens)"
  double first = 0, last = 1;    ///< what stands at the left or at the bottom, and at the other end
  Scale scale = Scale::linear;   ///< of a logarithm both ends are positive
  std::vector<Tick> ticks = {};  ///< empty: where the renderer has them
};

/// How a series is drawn.
enum class Stroke {
  line,   ///< from point to point
  dots,   ///< points alone
  steps,  ///< a level that holds until the next point
  bars,   ///< from 0 to the point
  hands,  ///< from (0, 0) to the point, with a dot at its end
};

/// Points in order. A y that is NaN leaves a gap.
struct Series {
  std::string label = {};  ///< in the legend; empty: it has no line there
  std::vector<double> x = {}, y = {};
  Stroke stroke = Stroke::line;
  int colour = 0;                    ///< of palette(), modulo its size; the dash goes with it
  std::optional<double> shade = {};  ///< in place of a colour: 0 … 1, where series are an ordered family (heads, pairs)
  bool faint = false;                ///< stands behind the others
};

/// What lies between two curves over the same x.
struct Band {
  std::string label = {};
  std::vector<double> x = {}, low = {}, high = {};
  int colour = 0;
};

/// How a matrix's numbers become colours.
enum class ColourMap {
  sequential,  ///< from `low` to `high`
  diverging,   ///< low = −high, so that 0 has the colour in the middle
  categories,  ///< whole numbers 0, 1, …, one colour of palette() each
};

/// A matrix. Cell (row, column) has its middle at x = x_first + column·x_step, y = y_first + row·y_step.
struct Cells {
  Index rows = 0, cols = 0;
  std::vector<double> values = {};  ///< row-major; NaN: nothing is drawn
  double x_first = 0, x_step = 1, y_first = 0, y_step = 1;
  ColourMap map = ColourMap::sequential;
  double low = 0, high = 1;
  std::string title = {};                    ///< of the colours' scale, with the unit
  std::vector<std::string> categories = {};  ///< what each whole number is called

  double operator()(Index row, Index col) const { return values[static_cast<std::size_t>(row * cols + col)]; }
};

/// A straight line across the panel.
struct Guide {
  bool upright = false;  ///< at an x, else at a y
  double at = 0;
  std::string text = {};
};

/// A short text at a point.
struct Note {
  double x = 0, y = 0;
  std::string text = {};
};

/// One pair of axes with what is drawn there: cells at the bottom, then bands, guides, series, notes.
struct Panel {
  std::string title = {};
  Axis x = {}, y = {};
  bool round = false;  ///< a unit is as long on both axes: dials, walks, square matrices
  std::optional<Cells> cells = {};
  std::vector<Band> bands = {};
  std::vector<Guide> guides = {};
  std::vector<Series> series = {};
  std::vector<Note> notes = {};
};

struct Figure {
  std::string kind = {};           ///< of figure_kinds()
  std::string title = {};          ///< one line
  std::string text = {};           ///< what is to be seen, in a sentence or two with numbers: for who cannot see it
  std::vector<Panel> panels = {};  ///< in reading order
  Index columns = 1;               ///< panels in a row
};

/// An encoding to draw.
struct Subject {
  std::string name;  ///< as it was said: "rope:base=500000"
  Description description;
  RopeLengths lengths = {};  ///< where a model's file says them
  Sizes sizes = {};          ///< heads, dim and length as they were said; a kind draws no more tokens than it would
  std::string task = {};     ///< what a model's file says that it is for, in a word of choose(); empty: nothing
};

/// The options of a picture. A kind takes those that it lists in FigureKind::takes. All others must keep their
/// defaults: none is ignored.
struct FigureOptions {
  Index heads = 0, dim = 0, length = 0;  ///< 0: as the kind has it
  std::uint64_t seed = 1;
  /// Of heatmap: "rows", "scores", "logits" or "pattern"; empty: by the sites. Of hands: a word for each position.
  std::string what = {};
  std::vector<Index> positions = {};  ///< empty: as the kind has them
  std::vector<Index> dims = {};       ///< dimensions, or pairs of them
  std::optional<Index> head = {};     ///< empty: all, or the first
  std::optional<Index> offset = {};   ///< k of M_k
  std::optional<bool> causal = {};    ///< empty: as the encoding is meant
  Index window = 0;                   ///< of masks: keys nearer than this are seen; 0: the model's window, else all
  Index sinks = 0;                    ///< of masks: so many first keys are seen outside of the window too
  std::vector<Index> packed = {};     ///< of masks: lengths of sequences that share the row; what is left is padding
  std::optional<Array> words = {};    ///< of correlations: [1, time, dim]; empty: drawn from the seed
  std::optional<Array> w_q = {}, w_k = {};  ///< of correlations: [1, dim, head_dim], both or none
  Executor on = {};
};

struct FigureKind {
  std::string name;                ///< "heatmap"
  std::string shows;               ///< in a few words, for a list
  Index fewest = 1, most = 8;      ///< encodings that it draws side by side
  std::vector<std::string> takes;  ///< names of FigureOptions' members
  std::function<Figure(std::span<const Subject>, const FigureOptions&)> make;
};

/// All kinds, in the order in which they are listed.
BEARING_EXPORT const std::vector<FigureKind>& figure_kinds();
/// Null if no kind has that name.
BEARING_EXPORT const FigureKind* find_figure_kind(std::string_view name);

/// A picture of these encodings, side by side on one scale. Throws RangeError or ShapeError "[figure] ARGUMENT: …" for
/// an option that the kind does not take or that is out of range, for too few or too many encodings and for one that
/// has nothing of that kind to show, and what make() throws.
BEARING_EXPORT Figure figure(std::string_view kind, std::span<const Subject> encodings,
                             const FigureOptions& options = {});

/// What figure() is asked for, in words: a picture that goes with a page or a claim.
struct Picture {
  std::string kind;
  std::vector<std::string> encodings;  ///< as say_encoding() takes them
  FigureOptions options = {};
};

/// A picture that a founding document shows or describes.
struct DocumentFigure {
  std::string document, name;  ///< "002", "walk-sinusoidal-rope": the file's name
  std::string says;            ///< what the document says of it, or where
  std::string kind;
  std::vector<std::string> encodings;  ///< as say_encoding() takes them
  FigureOptions options = {};
};
/// Of all documents, in their order.
BEARING_EXPORT const std::vector<DocumentFigure>& document_figures();

/// Red, green and blue, 0 … 255.
struct Colour {
  int red = 0, green = 0, blue = 0;
  bool operator==(const Colour&) const = default;
};

/// Colours that stay apart for colour-blind eyes and are seen on white and on black (contrast at least 3 on both).
BEARING_EXPORT const std::vector<Colour>& palette();
/// The colour of x in 0 … 1: the lightness rises evenly, so that order is seen in grey too.
BEARING_EXPORT Colour sequential_colour(double x);
/// The same from blue through grey, at 1/2, to yellow.
BEARING_EXPORT Colour diverging_colour(double x);
/// The colour of a member of an ordered family, 0 … 1: a part of the sequential ones that is seen on white and on
/// black.
BEARING_EXPORT Colour family_colour(double x);
/// The colour of a number in a matrix: of its map, held within `low` … `high`.
BEARING_EXPORT Colour colour_of(const Cells& cells, double value);

}  // namespace bearing::inspect
