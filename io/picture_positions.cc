#include <bearing/picture_positions.hpp>

#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

// Facts: transformer_*.py and the pipelines of diffusers 0.42.1; numbers are held against its own functions in
// python/tests/models/test_diffusers.py.

namespace bearing {
namespace {

constexpr Index most_tokens = Index{1} << 24;
constexpr Index z_image_multiple = 32;

[[noreturn]] void refuse_request(const std::string& member, const std::string& wanted, const std::string& got) {
  throw RangeError("[picture_positions] " + member + ": must be " + wanted + ", got " + got);
}

/// Tokens one after the other; at the end, axis by axis.
class Tokens {
 public:
  explicit Tokens(Index axes) : axes_(axes) {}

  Index count() const { return static_cast<Index>(values_.size()) / axes_; }
  void add(std::initializer_list<double> token) { values_.insert(values_.end(), token); }
  /// Tokens that do not turn.
  void still(Index count) { values_.insert(values_.end(), static_cast<std::size_t>(count * axes_), 0.0); }

  PicturePositions take(Index text_begin) const {
    PicturePositions out{axes_, count(), text_begin, std::vector<double>(values_.size())};
    for (Index token = 0; token < out.tokens; ++token) {
      for (Index axis = 0; axis < axes_; ++axis) {
        out.values[static_cast<std::size_t>(axis * out.tokens + token)] =
            values_[static_cast<std::size_t>(token * axes_ + axis)];
      }
    }
    return out;
  }

 private:
  Index axes_;
  std::vector<double> values_;
};

using Place = std::function<double(Index)>;

/// Frames, in them rows, in them columns.
void add_grid(Tokens& tokens, const VideoGrid& grid, const Place& frame, const Place& row, const Place& column) {
  for (Index f = 0; f < grid.frames; ++f) {
    for (Index r = 0; r < grid.height; ++r) {
      for (Index c = 0; c < grid.width; ++c) tokens.add({frame(f), row(r), column(c)});
    }
  }
}

double index(Index i) { return static_cast<double>(i); }
Place from(double first) {
  return [first](Index i) { return first + static_cast<double>(i); };
}

PicturePositions flux(const PictureRequest& request) {
  if (request.references.size() > 1)
    refuse_request("references", "one at most", std::to_string(request.references.size()));
  Tokens tokens(3);
  tokens.still(request.text);
  add_grid(tokens, request.grid, index, index, index);
  for (const VideoGrid& reference : request.references) add_grid(tokens, reference, from(1), index, index);
  return tokens.take(0);
}

/// Word i stands at row and column i.
void add_words(Tokens& tokens, Index count) {
  for (Index word = 0; word < count; ++word) tokens.add({0, index(word), index(word)});
}

PicturePositions ovis_image(const PictureRequest& request) {
  Tokens tokens(3);
  add_words(tokens, request.text);
  add_grid(tokens, request.grid, index, index, index);
  return tokens.take(0);
}

/// The picture stands after 512 words, however many there are.
PicturePositions longcat_image(const PictureRequest& request) {
  Tokens tokens(3);
  add_words(tokens, request.text);
  add_grid(tokens, request.grid, from(1), from(512), from(512));
  return tokens.take(0);
}

PicturePositions flux2(const PictureRequest& request) {
  Tokens tokens(4);
  for (Index word = 0; word < request.text; ++word) tokens.add({0, 0, 0, index(word)});
  const auto picture = [&](const VideoGrid& grid, double place) {
    for (Index r = 0; r < grid.height; ++r) {
      for (Index c = 0; c < grid.width; ++c) tokens.add({place, index(r), index(c), 0});
    }
  };
  picture(request.grid, 0);
  double place = 0;
  for (const VideoGrid& reference : request.references) picture(reference, place += 10);
  return tokens.take(0);
}

PicturePositions z_image(const PictureRequest& request) {
  const auto filled = [](Index count) { return (count + z_image_multiple - 1) / z_image_multiple * z_image_multiple; };
  const Index text = filled(request.text);
  Tokens tokens(3);
  add_grid(tokens, request.grid, from(static_cast<double>(text + 1)), index, index);
  tokens.still(filled(tokens.count()) - tokens.count());
  const Index begin = tokens.count();
  for (Index word = 0; word < text; ++word) tokens.add({index(word + 1), 0, 0});
  return tokens.take(begin);
}

PicturePositions lumina2(const PictureRequest& request) {
  Tokens tokens(3);
  for (Index word = 0; word < request.text; ++word) tokens.add({index(word), 0, 0});
  add_grid(tokens, request.grid, from(index(request.text)), index, index);
  return tokens.take(0);
}

PicturePositions plain(const PictureRequest& request) {
  Tokens tokens(3);
  add_grid(tokens, request.grid, index, index, index);
  const Index begin = tokens.count();
  tokens.still(request.text);
  return tokens.take(begin);
}

/// Two axes: rows, in them columns.
void add_picture(Tokens& tokens, const VideoGrid& grid, const Place& first, const Place& second) {
  for (Index r = 0; r < grid.height; ++r) {
    for (Index c = 0; c < grid.width; ++c) tokens.add({first(r), second(c)});
  }
}

PicturePositions hunyuan_image(const PictureRequest& request) {
  Tokens tokens(2);
  add_picture(tokens, request.grid, index, index);
  const Index begin = tokens.count();
  tokens.still(request.text);
  return tokens.take(begin);
}

/// Of two frames the second is the last of eight, what the class takes for rope_temporal_skip_len.
PicturePositions chrono_edit(const PictureRequest& request) {
  const Index step = request.grid.frames == 2 ? 7 : 1;
  Tokens tokens(3);
  add_grid(
      tokens, request.grid, [step](Index i) { return index(step * i); }, index, index);
  return tokens.take(tokens.count());
}

/// Whole places among 256 each way.
PicturePositions cogview4(const PictureRequest& request) {
  const auto among = [](Index extent) -> Place { return [extent](Index i) { return index(i * 256 / extent); }; };
  Tokens tokens(2);
  tokens.still(request.text);
  add_picture(tokens, request.grid, among(request.grid.height), among(request.grid.width));
  return tokens.take(0);
}

/// The scales that the class takes.
PicturePositions allegro(const PictureRequest& request) {
  const auto over = [](double scale) -> Place { return [scale](Index i) { return index(i) / scale; }; };
  Tokens tokens(3);
  add_grid(tokens, request.grid, over(2.2), over(2), over(2));
  return tokens.take(tokens.count());
}

/// From a first coordinate to a last one, evenly.
Place evenly(double first, double last, Index count) {
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
  return [first, step](Index i) { return first + static_cast<double>(i) * step; };
}

/// The picture is laid into the one of training, as large as it fits, in its middle; rounding is Python's.
std::pair<Place, Place> laid_into(const VideoGrid& grid, double height, double width) {
  const double rows = index(grid.height), columns = index(grid.width);
  const bool tall = rows / columns > height / width;
  const double resized_height = tall ? height : std::nearbyint(width / columns * rows);
  const double resized_width = tall ? std::nearbyint(height / rows * columns) : width;
  const double top = std::nearbyint((height - resized_height) / 2), left = std::nearbyint((width - resized_width) / 2);
  return {evenly(top, (top + resized_height) * (rows - 1) / rows, grid.height),
          evenly(left, (left + resized_width) * (columns - 1) / columns, grid.width)};
}

PicturePositions cogvideox(const PictureRequest& request) {
  const VideoGrid& grid = request.grid;
  Place row = index, column = index;
  if ((request.trained_height > 0) != (request.trained_width > 0)) {
    refuse_request("trained_height", "given with trained_width or not at all", std::to_string(request.trained_height));
  }
  if (request.trained_height > 0) {
    std::tie(row, column) = laid_into(grid, index(request.trained_height), index(request.trained_width));
  }
  Tokens tokens(3);
  tokens.still(request.text);
  add_grid(tokens, grid, index, row, column);
  return tokens.take(0);
}

/// Column and row, laid into 32 patches each way: 512 pixels over 8 of the VAE and 2 of a patch.
PicturePositions hunyuan_dit(const PictureRequest& request) {
  const auto [row, column] = laid_into(request.grid, 32, 32);
  Tokens tokens(2);
  for (Index r = 0; r < request.grid.height; ++r) {
    for (Index c = 0; c < request.grid.width; ++c) tokens.add({column(c), row(r)});
  }
  return tokens.take(tokens.count());
}

/// Rows and columns count from the middle: of 5, from -3 to 1.
Place from_middle(Index extent) {
  const Index first = extent / 2 - extent;
  return from(static_cast<double>(first));
}

PicturePositions qwen_image_21(const PictureRequest& request) {
  Tokens tokens(3);
  for (Index word = 0; word < request.text; ++word) tokens.add({index(word), index(word), index(word)});
  add_grid(tokens, request.grid, from(index(request.text)), from_middle(request.grid.height),
           from_middle(request.grid.width));
  return tokens.take(0);
}

PicturePositions qwen_image(const PictureRequest& request) {
  std::vector<VideoGrid> grids = {request.grid};
  grids.insert(grids.end(), request.references.begin(), request.references.end());
  Index largest = 0;
  for (const VideoGrid& grid : grids) largest = std::max({largest, grid.height / 2, grid.width / 2});
  Tokens tokens(3);
  for (Index word = 0; word < request.text; ++word) {
    const double at = index(largest + word);
    tokens.add({at, at, at});
  }
  for (std::size_t i = 0; i < grids.size(); ++i) {
    add_grid(tokens, grids[i], from(static_cast<double>(i)), from_middle(grids[i].height), from_middle(grids[i].width));
  }
  return tokens.take(0);
}

/// Training had 20 seconds and 2048 × 2048 pixels.
PicturePositions ltx(const PictureRequest& request) {
  constexpr std::array<double, 3> trained = {20, 2048, 2048};
  std::array<Place, 3> places;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const double step = request.step[axis];
    if (!std::isfinite(step) || !(step > 0))
      refuse_request("step", "three finite numbers above 0", std::to_string(step));
    places[axis] = [unit = step / trained[axis]](Index i) { return 4 * (2 * static_cast<double>(i) * unit - 1); };
  }
  Tokens tokens(3);
  add_grid(tokens, request.grid, places[0], places[1], places[2]);
  return tokens.take(tokens.count());
}

/// Rows and columns are the patches' centres, scaled so that the picture's area is that of 192 × 192 patches.
PicturePositions mochi(const PictureRequest& request) {
  const double rows = index(request.grid.height), columns = index(request.grid.width);
  const double scale = std::sqrt(192.0 * 192 / (rows * columns));
  const auto centres = [scale](double count) -> Place {
    return [=](Index i) { return scale * (static_cast<double>(i) + 0.5 - count / 2); };
  };
  Tokens tokens(3);
  add_grid(tokens, request.grid, index, centres(rows), centres(columns));
  const Index begin = tokens.count();
  tokens.still(request.text);
  return tokens.take(begin);
}

PicturePositions cosmos(const PictureRequest& request) {
  const double fps = request.fps;
  if (!std::isfinite(fps) || fps < 0) refuse_request("fps", "a finite number from 0 on", std::to_string(fps));
  const Place frame = [fps](Index i) { return static_cast<double>(i) * (fps == 0 ? 1 : 24 / fps); };
  Tokens tokens(3);
  add_grid(tokens, request.grid, frame, index, index);
  return tokens.take(tokens.count());
}

/// What a family has a place for.
struct Pictured {
  std::string_view name;
  PicturePositions (*positions)(const PictureRequest&);
  bool prompt = false, references = false, video = false;
};

constexpr Pictured families[] = {
    {"FluxTransformer2DModel", flux, true, true},
    {"Flux2Transformer2DModel", flux2, true, true},
    {"ZImageTransformer2DModel", z_image, true, false, true},
    {"HunyuanVideoTransformer3DModel", plain, true, false, true},
    {"WanTransformer3DModel", plain, false, false, true},
    {"CogVideoXTransformer3DModel", cogvideox, true, false, true},
    {"QwenImageTransformer2DModel", qwen_image, true, true, true},
    {"LTXVideoTransformer3DModel", ltx, false, false, true},
    {"MochiTransformer3DModel", mochi, true, false, true},
    {"CosmosTransformer3DModel", cosmos, false, false, true},
    {"ChromaTransformer2DModel", flux, true},
    {"BriaTransformer2DModel", flux, true},
    {"OvisImageTransformer2DModel", ovis_image, true},
    {"LongCatImageTransformer2DModel", longcat_image, true},
    {"Lumina2Transformer2DModel", lumina2, true},
    {"HunyuanVideo15Transformer3DModel", plain, true, false, true},
    {"HunyuanImageTransformer2DModel", hunyuan_image, true},
    {"HunyuanDiT2DModel", hunyuan_dit},
    {"WanVACETransformer3DModel", plain, false, false, true},
    {"WanAnimateTransformer3DModel", plain, false, false, true},
    {"SkyReelsV2Transformer3DModel", plain, false, false, true},
    {"ChronoEditTransformer3DModel", chrono_edit, false, false, true},
    {"ConsisIDTransformer3DModel", cogvideox, true, false, true},
    {"CogView4Transformer2DModel", cogview4, true},
    {"QwenImage21Transformer2DModel", qwen_image_21, true},
    {"HiDreamImageTransformer2DModel", plain, true},
    {"AllegroTransformer3DModel", allegro, false, false, true},
};

/// Of one grid, at most `left` tokens.
Index checked(const VideoGrid& grid, const std::string& member, bool video, Index left) {
  const auto extent = [&](const char* name, Index value, Index most) {
    if (value < 1 || value > most) {
      refuse_request(member + "." + name, "from 1 to " + std::to_string(most), std::to_string(value));
    }
  };
  extent("frames", grid.frames, video ? most_tokens : 1);
  extent("height", grid.height, most_tokens), extent("width", grid.width, most_tokens);
  if (grid.height > left / grid.width || grid.frames > left / (grid.height * grid.width)) {
    refuse_request(member, "of at most " + std::to_string(left) + " tokens", "more");
  }
  return grid.frames * grid.height * grid.width;
}

void check(const Pictured& family, const PictureRequest& request) {
  const std::string name(family.name);
  if (request.text < 0 || request.text > most_tokens) {
    refuse_request("text", "from 0 to " + std::to_string(most_tokens), std::to_string(request.text));
  }
  if (request.text > 0 && !family.prompt) {
    refuse_request("text", "0: the prompt of " + name + " stands in another attention", std::to_string(request.text));
  }
  if (!request.references.empty() && !family.references) {
    refuse_request("references", "empty for " + name, std::to_string(request.references.size()));
  }
  Index left = most_tokens - request.text;
  left -= checked(request.grid, "grid", family.video, left);
  for (const VideoGrid& reference : request.references) left -= checked(reference, "references", family.video, left);
}

}  // namespace

PicturePositions picture_positions(std::string_view model, const PictureRequest& request) {
  for (const Pictured& family : families) {
    if (family.name != model) continue;
    check(family, request);
    return family.positions(request);
  }
  std::string all;
  for (const Pictured& family : families) all += (all.empty() ? "" : ", ") + std::string(family.name);
  throw ConfigError("[picture_positions] model: must be one of " + all + ", got \"" + std::string(model) + '"');
}

std::vector<std::string_view> picture_models() {
  std::vector<std::string_view> names;
  for (const Pictured& family : families) names.push_back(family.name);
  return names;
}

}  // namespace bearing
