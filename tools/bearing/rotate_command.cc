#include <fmt/format.h>

#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <bearing/io.hpp>
#include <bearing/rope_report.hpp>
#include <optional>

#include "arguments.hpp"
#include "array_files.hpp"
#include "commands.hpp"
#include "config_report.hpp"
#include "errors.hpp"
#include "outputs.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

struct RotateOptions {
  std::string config, rope, layer, length;
  std::string q, k, out_q, out_k, positions;
  std::string layout = "bhtd", threads = "1";
  bool backward = false, bf16 = false;
};

/// One of q and k.
struct Rotated : Tensor {
  std::string out;
};

Rotated read_rotated(const std::string& file, const std::string& out, Index head_dim, const RotateOptions& options) {
  const TensorFormat format{.heads_first = heads_first(options.layout), .bf16 = options.bf16};
  Rotated x{read_tensor(file, format), out};
  if (x.shape[3] != head_dim) {
    bad_file(file,
             fmt::format("must have a last extent of head_dim = {}, got {}", head_dim, shape_text(x.array.shape)));
  }
  return x;
}

Rope rope_of_model(const RotateOptions& options) {
  const Model model = read_model(options.config);
  const std::vector<LayerGroup> groups = layer_groups(model);
  const auto layers = static_cast<Index>(model.layers.size());
  std::optional<Rope> rope;
  if (!options.layer.empty()) {
    const Index i = parse_index("--layer", options.layer, 0, layers - 1);
    const Layer& layer = model.layers[static_cast<std::size_t>(i)];
    if (const Rope* found = std::get_if<Rope>(&layer.encoding)) return *found;
    bad_file(options.config, fmt::format("layer {} has no rotary encoding: there is nothing to rotate", i));
  }
  std::string rotary;
  for (const LayerGroup& group : groups) {
    const Rope* found = std::get_if<Rope>(&group.layer.encoding);
    if (found == nullptr) continue;
    if (rope && to_json(*rope) != to_json(*found)) {
      throw UsageError(
          fmt::format("--layer: {} has different encodings in layers {}; and in layers {}; say which layer",
                      options.config, rotary, ranges(group.layers)));
    }
    rope = *found;
    rotary = ranges(group.layers);
  }
  if (!rope) bad_file(options.config, "no layer has a rotary encoding: there is nothing to rotate");
  return *rope;
}

void check_options(const RotateOptions& options) {
  if (options.config.empty() == options.rope.empty())
    throw UsageError("--config or --rope must be given, and not both");
  if (options.q.empty() && options.k.empty()) throw UsageError("--q or --k must be given");
  if (options.q.empty() != options.out_q.empty()) throw UsageError("--q and --out-q must be given together");
  if (options.k.empty() != options.out_k.empty()) throw UsageError("--k and --out-k must be given together");
  if (!options.layer.empty() && options.config.empty()) throw UsageError("--layer needs --config");
}

void check_positions(const TokenPositions& positions, const Tensor& x, const RopeFrequencies& numbers,
                     const RotateOptions& options) {
  try {
    positions.at.check("rotate", "positions", numbers.axes, x.shape[0], x.shape[2]);
  } catch (const std::logic_error& error) {
    const bool number = options.positions.empty() || is_index(options.positions);
    bad_file(number ? "--positions" : options.positions,
             fmt::format("for {}: {}", x.file, without_function(error.what())));
  }
}

/// Says so when numbers that depend on the length serve a longer sequence than they are for.
void warn_about_length(const Rope& rope, Index seq_len, const TokenPositions& positions, const Tensor& x) {
  const Index trained = trained_length(rope.scaling);
  if (!depends_on_length(rope.scaling) || seq_len > 0) return;
  double last = -1;
  for (Index axis = 0; axis < positions.at.axes(); ++axis) {
    for (Index b = 0; b < x.shape[0]; ++b) {
      for (Index t = 0; t < x.shape[2]; ++t) last = std::max(last, positions.at.real(axis, b, t));
    }
  }
  if (last < static_cast<double>(trained)) return;
  note(
      fmt::format("warning: {} depends on the sequence's length; the frequencies are those for {} tokens, but a\n"
                  "token stands at {}. Say --length to get others.",
                  scaling_name(rope.scaling), trained, last));
}

template <class T>
void rotate_as(const RopeFrequencies& numbers, Tensor& x, const Positions& at, bool backward, const Executor& on) {
  // No rows are kept: those of the positions at hand are computed once each, and only they are needed.
  const RopeTable<Compute<T>> table(numbers, 0);
  if (backward) {
    rotate_backward(table, x.view<T>(), at, on);
  } else {
    rotate(table, x.view<T>(), at, on);
  }
}

void rotate_tensor(const RopeFrequencies& numbers, Tensor& x, const Positions& at, const RotateOptions& options,
                   const Executor& on) {
  const std::string& dtype = x.array.dtype;
  if (options.bf16) return rotate_as<Bfloat16>(numbers, x, at, options.backward, on);
  if (dtype == "f2") return rotate_as<Float16>(numbers, x, at, options.backward, on);
  if (dtype == "f4") return rotate_as<float>(numbers, x, at, options.backward, on);
  rotate_as<double>(numbers, x, at, options.backward, on);
}

void rotate_files(const RotateOptions& options) {
  check_options(options);
  const Executor on = executor_of(options.threads);
  const Index seq_len = options.length.empty() ? 0 : parse_index("--length", options.length, 1, max_position);
  const TokenPositions positions = positions_of("--positions", options.positions);
  const Rope rope = options.config.empty() ? parse_rope(options.rope, "--rope") : rope_of_model(options);
  const RopeFrequencies numbers = resolve(rope, seq_len);
  std::vector<Rotated> tensors;
  if (!options.q.empty()) tensors.push_back(read_rotated(options.q, options.out_q, numbers.head_dim, options));
  if (!options.k.empty()) tensors.push_back(read_rotated(options.k, options.out_k, numbers.head_dim, options));
  for (const Tensor& x : tensors) check_positions(positions, x, numbers, options);
  const Tensor& first = tensors.front();
  const Tensor& last = tensors.back();
  if (first.shape[0] != last.shape[0] || first.shape[2] != last.shape[2]) {
    bad_file(last.file, fmt::format("must have the batch and time of {} ({} and {}), got {} and {}; rotate them in two "
                                    "calls if their tokens differ",
                                    first.file, first.shape[0], first.shape[2], last.shape[0], last.shape[2]));
  }
  warn_about_length(rope, seq_len, positions, first);
  Outputs outputs;
  for (Rotated& x : tensors) {
    rotate_tensor(numbers, x, positions.at, options, on);
    outputs.add({x.out, x.array.dtype, x.array.shape, x.array.bytes.data()});
  }
  outputs.save();
}

}  // namespace

Command rotate_command() {
  const auto o = std::make_shared<RotateOptions>();
  Command command{"rotate", "Rotate queries and keys in .npy files"};
  command.input("--config", o->config, "FILE", "A model's config.json that states the encoding");
  command.text("--layer", o->layer, "I", "Which layer's encoding, where layers differ");
  command.text("--rope", o->rope, "JSON", "The encoding itself, without a model");
  command.text("--length", o->length, "N", "Length in tokens, for dynamic NTK and LongRoPE");
  command.input("--q", o->q, "FILE", "Queries: [batch, heads, time, dim]");
  command.input("--k", o->k, "FILE", "Keys: [batch, kv_heads, time, dim]");
  command.output("--out-q", o->out_q, "Where the rotated queries go");
  command.output("--out-k", o->out_k, "Where the rotated keys go");
  command.input("--positions", o->positions, "N|FILE",
                "N: of the first token (default 0). FILE: of all\ntokens, int64 or float64, [time] or [batch, time]");
  command.word("--layout", o->layout, "ORDER", layouts(), "bhtd (default) or bthd: b batch, h heads, t time");
  command.flag("--bf16", o->bf16, "The files hold bfloat16 as uint16");
  command.flag("--backward", o->backward, "Rotate gradients back: the transpose of the rotation");
  command.text("--threads", o->threads, "N", "Threads (default 1, 0: all); results do not change");
  command.footer =
      "The files are float16, float32, float64, or bfloat16 as uint16 with --bf16.\n"
      "Batch and heads may be left out: [heads, time, dim], [time, dim]. Positions of\n"
      "several axes (M-RoPE) are [axes, batch, time]. An output may replace its input.\n"
      "Nothing is written unless all of it succeeded.\n"
      "\n"
      "Examples:\n"
      "  bearing rotate --config config.json --q q.npy --k k.npy --positions 4096 \\\n"
      "                 --out-q q_rotated.npy --out-k k_rotated.npy\n"
      "  bearing rotate --rope '{\"head_dim\": 64, \"pairing\": \"half\"}' \\\n"
      "                 --q q.npy --positions p.npy --out-q q_rotated.npy";
  command.run = [o] { rotate_files(*o); };
  return command;
}

}  // namespace bearing::tool
