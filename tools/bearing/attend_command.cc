#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/description.hpp>
#include <bearing/io.hpp>
#include <bearing/regions.hpp>
#include <chrono>
#include <cmath>
#include <limits>

#include "arguments.hpp"
#include "array_files.hpp"
#include "attend_report.hpp"
#include "command_line.hpp"
#include "commands.hpp"
#include "encoding_spec.hpp"
#include "errors.hpp"
#include "outputs.hpp"

namespace bearing::tool {
namespace {

struct AttendOptions {
  std::string q, k, v, out, lse, d_out, d_q, d_k, d_v;
  std::vector<std::string> encodings;
  std::string mask, window, regions, band, scale, soft_cap, q_positions, k_positions, length;
  std::string k_lengths, key_mask, visible, q_starts, k_starts, block_table, sinks, d_sinks;
  std::string layout = "bhtd", threads = "1";
  bool bf16 = false, json = false;

  bool backward() const { return !d_out.empty(); }
  /// Whether a spec names a file for a gradient.
  bool parameter_grads() const {
    return std::any_of(encodings.begin(), encodings.end(), [](const std::string& spec) {
      return spec.find(":d_") != spec.npos || spec.find(",d_") != spec.npos;
    });
  }
  TensorFormat format() const { return {.heads_first = heads_first(layout), .bf16 = bf16}; }
};

void check_options(const AttendOptions& options) {
  if (options.out.empty() && options.d_out.empty()) throw UsageError("--out is required, or --d-out with gradients");
  const bool grads = !options.d_q.empty() || !options.d_k.empty() || !options.d_v.empty() || !options.d_sinks.empty();
  if (grads && !options.backward()) throw UsageError("--d-q, --d-k, --d-v and --d-sinks need --d-out");
  if (!options.d_sinks.empty() && options.sinks.empty()) throw UsageError("--d-sinks needs --sinks");
  if (options.q_starts.empty() != options.k_starts.empty())
    throw UsageError("--q-starts and --k-starts must be given together");
  if (options.backward() && !grads && !options.parameter_grads()) {
    throw UsageError("--d-out needs --d-q, --d-k, --d-v, --d-sinks or an encoding's d_KEY=FILE: where a gradient goes");
  }
  if (!options.regions.empty() && !options.band.empty()) throw UsageError("--band and --regions exclude each other");
  if (options.backward() && !options.block_table.empty()) throw UsageError("--block-table has no backward");
}

const std::vector<std::pair<const char*, Mask>>& masks() {
  static const std::vector<std::pair<const char*, Mask>> words = {{"none", Mask::none},
                                                                  {"causal", Mask::causal},
                                                                  {"causal-top-left", Mask::causal_top_left},
                                                                  {"causal-bottom-right", Mask::causal_bottom_right}};
  return words;
}

Mask mask_of(const std::string& word) {
  return std::find_if(masks().begin(), masks().end(), [&](const auto& mask) { return word == mask.first; })->second;
}

Window window_of(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t comma = text.find(',');
  Window window{.before = parse_index("--window", text.substr(0, comma), -1, max_position)};
  if (comma != text.npos) window.after = parse_index("--window", text.substr(comma + 1), -1, max_position);
  return window;
}

/// A spec of one of these types as JSON. Throws UsageError, by the option's name.
Record read_spec(const char* option, const std::string& text, const std::vector<Record>& among) {
  std::vector<const RecordType*> types;
  types.reserve(among.size());
  for (const Record& one : among) types.push_back(&one.type());
  try {
    return parse_record(text, option, types);
  } catch (const ConfigError& error) {
    throw UsageError(error.what());
  }
}

/// None without the option.
std::vector<Region> regions_of(const std::string& text) {
  if (text.empty()) return {};
  const Record chunks = Record::of(DualChunk{.chunk_size = 2, .local_size = 1});
  const Record groups = Record::of(SelfExtend{.group = 1, .window = 1}), far = Record::of(ReRope{.window = 1});
  const Record spec = read_spec("--regions", text, {chunks, groups, far});
  if (const auto* dual = spec.as<DualChunk>()) return regions(*dual);
  if (const auto* extended = spec.as<SelfExtend>()) return regions(*extended);
  return regions(*spec.as<ReRope>());
}

Band band_of(const std::string& text) {
  return text.empty() ? Band{} : *read_spec("--band", text, {Record::of(Band{})}).as<Band>();
}

/// Whole numbers, "3,5,8" or a file of int64.
std::vector<Index> read_indices(const char* option, const std::string& text) {
  std::vector<Index> numbers;
  if (is_index(text.substr(0, text.find(',')))) {
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t comma = std::min(text.find(',', from), text.size());
      numbers.push_back(parse_index(option, text.substr(from, comma - from), 0, max_position));
      from = comma + 1;
    }
    return numbers;
  }
  return read_index_file(text);
}

template <std::size_t Rank>
NpyArray read_typed(const std::string& file, const char* dtype, const char* extents) {
  if (file.empty()) return {};
  NpyArray array = read_npy(file);
  if (array.dtype == dtype && array.shape.size() == Rank) {
    if (array.dtype == "b1") {  // a bool of C++ is 0 or 1
      for (std::byte& truth : array.bytes) truth = std::byte{truth != std::byte{0}};
    }
    return array;
  }
  bad_file(file, fmt::format("must be {} of dtype {}, got {} of dtype {}", extents, dtype, shape_text(array.shape),
                             array.dtype));
}

/// Everything about a call but its tensors and encodings: the files that its options name.
struct Visibility {
  std::vector<Index> k_lengths, q_starts, k_starts;
  NpyArray key_mask, visible, block_table;
  std::vector<double> sinks;

  explicit Visibility(const AttendOptions& options) {
    if (!options.k_lengths.empty()) k_lengths = read_indices("--k-lengths", options.k_lengths);
    if (!options.q_starts.empty()) q_starts = read_indices("--q-starts", options.q_starts);
    if (!options.k_starts.empty()) k_starts = read_indices("--k-starts", options.k_starts);
    key_mask = read_typed<2>(options.key_mask, "b1", "[batch, k_len]");
    visible = read_typed<4>(options.visible, "b1", "[batch, heads, q_len, k_len]");
    block_table = read_typed<2>(options.block_table, "i8", "[batch, blocks]");
    if (!options.sinks.empty()) sinks = read_numbers<double>(options.sinks, read_npy(options.sinks));
  }
};

/// What the output takes is in no file where a file has no numbers: read_tensor() bounds the rest.
void check_output(const Tensor& q, const Tensor& k, const Tensor& v, const CallShape& shape) {
  constexpr Index widest = 65536, most = Index{1} << 26;
  if (shape.value_dim > widest) {
    bad_file(v.file, fmt::format("must have a last extent of at most {}, got {}", widest, shape_text(v.array.shape)));
  }
  if (shape.batch * shape.heads * shape.q_len * shape.value_dim <= most) return;
  for (const Tensor* x : {&q, &k, &v}) {
    if (!x->array.bytes.empty()) continue;
    bad_file(x->file, fmt::format("has no numbers: the output must have at most 2^26, got {} times {}",
                                  shape_text(q.array.shape), shape.value_dim));
  }
}

CallShape shape_of(const AttendOptions& options, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Visibility& visibility) {
  CallShape shape{.batch = q.shape[0], .heads = q.shape[1], .kv_heads = k.shape[1], .q_len = q.shape[2]};
  shape.k_len = k.shape[2], shape.dim = q.shape[3], shape.value_dim = v.shape[3], shape.backward = options.backward();
  const bool paged = !options.block_table.empty();
  if (paged) shape.k_len *= visibility.block_table.shape[1];
  for (const Tensor* x : {&k, &v}) {
    if (x->array.dtype == q.array.dtype) continue;
    bad_file(x->file, fmt::format("must have the dtype of {}, {}, got {}", q.file, q.array.dtype, x->array.dtype));
  }
  if (k.shape[3] != shape.dim || (!paged && k.shape[0] != shape.batch) || k.shape[1] < 1 ||
      shape.heads % k.shape[1] != 0) {
    bad_file(k.file,
             fmt::format("must have the batch and dim of {}, {}, and as many heads or a divisor of them, got {}",
                         q.file, shape_text(q.array.shape), shape_text(k.array.shape)));
  }
  if (!std::equal(v.shape.begin(), v.shape.begin() + 3, k.shape.begin())) {
    bad_file(v.file, fmt::format("must have the shape of {} except for the last extent, {}, got {}", k.file,
                                 shape_text(k.array.shape), shape_text(v.array.shape)));
  }
  check_output(q, k, v, shape);
  if (!options.length.empty()) shape.seq_len = parse_index("--length", options.length, 1, max_position);
  return shape;
}

/// Where positions matter, queries that are fewer or more than the keys must say where they stand.
void check_positions_given(const AttendOptions& options, const CallShape& shape) {
  const Mask mask = mask_of(options.mask);
  const bool by_position = mask == Mask::causal || !options.encodings.empty() || !options.band.empty() ||
                           (mask == Mask::none && !options.window.empty());
  if (!by_position || shape.q_len == shape.k_len || !options.q_positions.empty() || !options.k_positions.empty())
    return;
  throw UsageError(
      fmt::format("--q-positions must be given for {} queries and {} keys: N if N tokens came before the first "
                  "query (here {} if the queries are the last tokens)",
                  shape.q_len, shape.k_len, shape.k_len - shape.q_len));
}

/// The scale, and none where an encoding has another one of its own.
double scale_of(const AttendOptions& options, const CallShape& shape,
                const std::vector<std::pair<std::string, double>>& own_scales) {
  if (!options.scale.empty()) return parse_number("--scale", options.scale);
  const double usual = 1 / std::sqrt(static_cast<double>(std::max<Index>(shape.dim, 1)));
  for (const auto& [encoding, scale] : own_scales) {
    throw UsageError(fmt::format("--scale must be given with {}, which was published with {}; 1/sqrt(dim) is {}",
                                 encoding, scale, usual));
  }
  return usual;
}

Index peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return static_cast<Index>(usage.ru_maxrss);
#else
  return static_cast<Index>(usage.ru_maxrss) * 1024;
#endif
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A tensor that is computed, in the files' layout.
template <class T>
struct Result {
  std::vector<T> numbers;
  View<T, 4> view;

  Result(const std::array<Index, 4>& shape, const TensorFormat& format)
      : numbers(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3])),
        view{numbers.data(), shape, strides_of(shape, format)} {}
};

/// The shape of a file like x's with another last extent.
std::vector<Index> shape_like(const Tensor& x, Index dim) {
  std::vector<Index> shape = x.array.shape;
  shape.back() = dim;
  return shape;
}

template <class T>
class Attend {
  using A = Compute<T>;

 public:
  Attend(const AttendOptions& options, Tensor q, Tensor k, Tensor v)
      : options_(options),
        format_(options.format()),
        q_(std::move(q)),
        k_(std::move(k)),
        v_(std::move(v)),
        visibility_(options),
        regions_(regions_of(options.regions)),
        shape_(shape_of(options, q_, k_, v_, visibility_)),
        q_positions_(positions_of("--q-positions", options.q_positions)),
        k_positions_(positions_of("--k-positions", options.k_positions)) {
    check_positions_given(options, shape_);
    shape_.q_positions = &q_positions_.at, shape_.k_positions = &k_positions_.at;
    for (const std::string& spec : options.encodings) read_encoding(spec, shape_, encodings_);
    in_ = {.q = q_.view<const T>(),
           .k = k_.view<const T>(),
           .v = v_.view<const T>(),
           .q_positions = q_positions_.at,
           .k_positions = k_positions_.at};
    if (!options.block_table.empty()) {
      const NpyArray& table = visibility_.block_table;
      in_.block_table = dense(reinterpret_cast<const Index*>(table.bytes.data()), table.shape[0], table.shape[1]);
    }
  }

  /// Computes, prints what `text` makes of the report, and writes.
  void run(const Executor& on, const std::function<std::string(const AttendReport&)>& text) {
    check_outputs();
    const AttentionOptions<A> call = options_of_call();
    Result<T> out({shape_.batch, shape_.heads, shape_.q_len, shape_.value_dim}, format_);
    std::vector<A> lse(static_cast<std::size_t>(shape_.batch * shape_.heads * shape_.q_len));
    const View<A, 3> lse_view = dense(lse.data(), shape_.batch, shape_.heads, shape_.q_len);
    AttendReport report{
        .shape = shape_, .dtype = q_.array.dtype, .encodings = options_.encodings, .mask = options_.mask};
    report.before = call.window.before, report.after = call.window.after;
    report.scale = *call.scale, report.soft_cap = call.soft_cap, report.threads = on.workers;
    if (format_.bf16) report.dtype = "bf16";

    add_output(options_.out, q_.array.dtype, shape_like(q_, shape_.value_dim), out.numbers.data());
    add_output(options_.lse, dtype_of<A>(), lse_shape(), lse.data());
    const auto start = std::chrono::steady_clock::now();
    if (regions_.empty()) {
      attention<T, T>(in_, out.view, lse_view, encodings_.terms, call, on);
    } else {
      attention_in_regions<T, T>(in_, regions_, out.view, lse_view, encodings_.terms, call, on);
    }
    report.forward_seconds = seconds_since(start);
    report.blind_queries = std::count(lse.begin(), lse.end(), -std::numeric_limits<A>::infinity());
    report.tensor_bytes =
        bytes(q_) + bytes(k_) + bytes(v_) + static_cast<Index>(out.numbers.size() * sizeof(T) + lse.size() * sizeof(A));
    if (options_.backward()) {
      backward(call, {.out = out.view, .lse = lse_view, .d_out = {}}, report, on);
    }
    report.files = files_;
    report.peak_bytes = peak_bytes();
    outputs_.save(text(report));
  }

 private:
  static Index bytes(const Tensor& x) { return static_cast<Index>(x.array.bytes.size()); }

  void add_output(const std::string& file, const std::string& dtype, const std::vector<Index>& shape,
                  const void* data) {
    if (!file.empty()) outputs_.add({file, dtype, shape, data});
  }

  std::vector<Index> lse_shape() const {
    std::vector<Index> shape = {shape_.batch, shape_.heads, shape_.q_len};
    shape.erase(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(4 - q_.array.shape.size()));
    return shape;
  }

  AttentionOptions<A> options_of_call() {
    AttentionOptions<A> call{
        .mask = mask_of(options_.mask), .window = window_of(options_.window), .band = band_of(options_.band)};
    call.scale = scale_of(options_, shape_, encodings_.own_scales);
    if (!options_.soft_cap.empty()) call.soft_cap = parse_number("--soft-cap", options_.soft_cap);
    if (call.soft_cap < 0) throw UsageError("--soft-cap: must be positive, or 0 for none, got " + options_.soft_cap);
    const auto list = [](const std::vector<Index>& numbers) {
      return numbers.empty() ? View<const Index, 1>{} : dense(numbers.data(), numbers.size());
    };
    call.k_lengths = list(visibility_.k_lengths);
    call.q_starts = list(visibility_.q_starts), call.k_starts = list(visibility_.k_starts);
    const auto truths = [](const NpyArray& array) { return reinterpret_cast<const bool*>(array.bytes.data()); };
    if (!options_.key_mask.empty()) {
      const std::vector<Index>& shape = visibility_.key_mask.shape;
      call.key_mask = dense(truths(visibility_.key_mask), shape[0], shape[1]);
    }
    if (!options_.visible.empty()) call.visible = broadcast(visibility_.visible, truths(visibility_.visible));
    if (!options_.sinks.empty()) {
      sinks_.assign(visibility_.sinks.begin(), visibility_.sinks.end());
      call.sinks.value = dense<const A>(sinks_.data(), sinks_.size());
      d_sinks_.resize(options_.d_sinks.empty() ? 0 : sinks_.size());
      if (!d_sinks_.empty()) call.sinks.grad = dense(d_sinks_.data(), d_sinks_.size());
    }
    return call;
  }

  /// Extents of 1 serve all.
  View<const bool, 4> broadcast(const NpyArray& array, const bool* data) const {
    View<const bool, 4> view = dense(data, array.shape[0], array.shape[1], array.shape[2], array.shape[3]);
    const std::array<Index, 4> wanted = {shape_.batch, shape_.heads, shape_.q_len, shape_.k_len};
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (view.shape[axis] == 1) view.shape[axis] = wanted[axis], view.stride[axis] = 0;
    }
    return view;
  }

  void backward(const AttentionOptions<A>& call, AttentionResults<T> results, AttendReport& report,
                const Executor& on) {
    Tensor d_out = read_tensor(options_.d_out, format_);
    if (d_out.array.dtype != q_.array.dtype || d_out.shape != results.out.shape) {
      bad_file(d_out.file, fmt::format("must be like the output, {} of dtype {}, got {} of dtype {}",
                                       shape_text(shape_like(q_, shape_.value_dim)), q_.array.dtype,
                                       shape_text(d_out.array.shape), d_out.array.dtype));
    }
    results.d_out = d_out.view<const T>();
    grads_.reserve(3);  // their views stay where they are
    const auto wanted = [&](const std::string& file, const Tensor& x) -> View<T, 4> {
      if (file.empty()) return {};
      grads_.emplace_back(x.shape, format_);
      add_output(file, x.array.dtype, x.array.shape, grads_.back().numbers.data());
      report.tensor_bytes += bytes(x);
      return grads_.back().view;
    };
    const AttentionGrads<T> grads{
        .d_q = wanted(options_.d_q, q_), .d_k = wanted(options_.d_k, k_), .d_v = wanted(options_.d_v, v_)};
    report.tensor_bytes += bytes(d_out);
    const auto start = std::chrono::steady_clock::now();
    if (regions_.empty()) {
      attention_backward<T>(in_, results, grads, encodings_.terms, call, on);
    } else {
      attention_in_regions_backward<T>(in_, regions_, results, grads, encodings_.terms, call, on);
    }
    for (const auto& step : encodings_.after_backward) step();
    report.backward_seconds = seconds_since(start);
    add_output(options_.d_sinks, dtype_of<A>(), {static_cast<Index>(d_sinks_.size())}, d_sinks_.data());
    for (const NpyOutput& gradient : encodings_.gradients) outputs_.add(gradient);
  }

  /// Before anything is computed: no two outputs are one file. Those of options alone were looked at already.
  void check_outputs() {
    std::vector<std::pair<std::string, std::string>> outputs;
    const auto add = [&](const char* option, const std::string& file) {
      if (!file.empty()) outputs.emplace_back(option, file);
    };
    add("--out", options_.out), add("--lse", options_.lse);
    add("--d-q", options_.d_q), add("--d-k", options_.d_k), add("--d-v", options_.d_v);
    add("--d-sinks", options_.d_sinks);
    for (const NpyOutput& gradient : encodings_.gradients) add("--encoding", gradient.path);
    check_different(outputs);
    for (const auto& [option, file] : outputs) files_.push_back(file);
  }

  const AttendOptions& options_;
  TensorFormat format_;
  Tensor q_, k_, v_;
  Visibility visibility_;
  std::vector<Region> regions_;
  CallShape shape_;
  TokenPositions q_positions_, k_positions_;
  CallEncodings<A> encodings_;
  AttentionInputs<T> in_;
  std::vector<A> sinks_, d_sinks_;
  std::vector<Result<T>> grads_;
  Outputs outputs_;
  std::vector<std::string> files_;
};

void attend_files(const AttendOptions& options) {
  check_options(options);
  window_of(options.window), regions_of(options.regions), band_of(options.band);
  const Executor on = executor_of(options.threads);
  const TensorFormat format = options.format();
  Tensor q = read_tensor(options.q, format), k = read_tensor(options.k, format), v = read_tensor(options.v, format);
  const std::string dtype = q.array.dtype;
  const auto text = [&](const AttendReport& report) {
    return options.json ? to_json(report) : to_text(report, output_style());
  };
  const auto run = [&]<class T>(T) { Attend<T>(options, std::move(q), std::move(k), std::move(v)).run(on, text); };
  if (options.bf16) return run(Bfloat16{});
  if (dtype == "f2") return run(Float16{});
  if (dtype == "f4") return run(float{});
  run(double{});
}

void add_tensor_options(Command& command, AttendOptions& o) {
  command.input("--q", o.q, "FILE", "Queries: [batch, heads, q_len, dim]").required = true;
  command.input("--k", o.k, "FILE", "Keys: [batch, kv_heads, k_len, dim]").required = true;
  command.input("--v", o.v, "FILE", "Values: [batch, kv_heads, k_len, value_dim]").required = true;
  std::vector<std::string> words;
  for (const auto& mask : masks()) words.emplace_back(mask.first);
  command
      .word("--mask", o.mask, "MASK", words,
            "none, causal (by position), causal-top-left or\ncausal-bottom-right (by index)")
      .required = true;
  command.options.push_back(
      {"--encoding", "SPEC", "NAME or NAME:KEY=VALUE,...; several: all act", Takes::spec, &o.encodings});
  command.output("-o,--out", o.out, "Where the output goes");
  command.output("--lse", o.lse, "Where ln(sum of exp(scores)) goes");
}

void add_score_options(Command& command, AttendOptions& o) {
  command.input("--q-positions", o.q_positions, "N|FILE", "N: position of the first query. FILE: of all");
  command.input("--k-positions", o.k_positions, "N|FILE", "The same for the keys (default 0)");
  command.text("--window", o.window, "BEFORE[,AFTER]", "Sliding window, in tokens; -1: no limit");
  command.text("--band", o.band, "JSON", "DistanceBand: keys so far behind, or by chunk");
  command.text("--regions", o.regions, "JSON", "DualChunk, SelfExtend or ReRope: far keys turn less");
  command.text("--scale", o.scale, "X", "Softmax scale (default 1/sqrt(dim))");
  command.text("--soft-cap", o.soft_cap, "X", "Bounds q.k: it becomes X*tanh(q.k/X)");
  command.input("--k-lengths", o.k_lengths, "N,...|FILE", "Keys of each sequence; others are padding");
  command.input("--key-mask", o.key_mask, "FILE", "bool [batch, k_len]: keys that may be seen");
  command.input("--visible", o.visible, "FILE", "bool [batch, heads, q_len, k_len]; each may be 1");
  command.input("--q-starts", o.q_starts, "N,...|FILE", "Where packed sequences begin: 0, ..., q_len");
  command.input("--k-starts", o.k_starts, "N,...|FILE", "The same for the keys");
  command.input("--block-table", o.block_table, "FILE", "int64 [batch, blocks]: a paged cache");
  command.input("--sinks", o.sinks, "FILE", "A sink logit for each head");
  command.text("--length", o.length, "N", "Length in tokens, for dynamic NTK and LongRoPE");
}

void add_backward_options(Command& command, AttendOptions& o) {
  command.input("--d-out", o.d_out, "FILE", "The output's gradient: asks for the backward");
  command.output("--d-q", o.d_q, "Where the queries' gradient goes");
  command.output("--d-k", o.d_k, "Where the keys' gradient goes");
  command.output("--d-v", o.d_v, "Where the values' gradient goes");
  command.output("--d-sinks", o.d_sinks, "Where the sinks' gradient goes");
}

}  // namespace

Command attend_command() {
  const auto o = std::make_shared<AttendOptions>();
  Command command{"attend", "Compute attention with any encodings, on .npy files"};
  add_tensor_options(command, *o);
  add_score_options(command, *o);
  add_backward_options(command, *o);
  command.word("--layout", o->layout, "ORDER", layouts(), "bhtd (default) or bthd: b batch, h heads, t time");
  command.flag("--bf16", o->bf16, "The files hold bfloat16 as uint16");
  command.text("--threads", o->threads, "N", "Threads (default 1, 0: all); results do not change");
  command.flag("--json", o->json, "The report as JSON of a stable schema");
  command.footer =
      "A SPEC is a name that 'bearing list' shows, with its numbers. What training\n"
      "made comes from .npy files, and d_KEY=FILE says where KEY's gradient goes:\n"
      "  alibi    t5:table=t5.npy,d_table=d.npy    shaw:clip=16,key=k.npy,value=v.npy\n"
      "  rope:pairing=half,base=500000    rope:'{\"head_dim\": 64, \"pairing\": \"half\"}'\n"
      "If a key is missing, the error names it and the shape that its file must have.\n"
      "Files and outputs are float16, float32, float64, or bfloat16 with --bf16; batch\n"
      "and heads may be left out. Nothing is written unless all of it succeeded.\n"
      "\n"
      "Examples:\n"
      "  bearing attend --q q.npy --k k.npy --v v.npy --mask causal --out o.npy \\\n"
      "                 --encoding rope:pairing=half --encoding alibi\n"
      "  bearing attend --q q.npy --k k.npy --v v.npy --mask none --scale 1 \\\n"
      "                 --encoding t5:table=t5.npy,d_table=d_t5.npy \\\n"
      "                 --d-out d_o.npy --d-q d_q.npy --d-k d_k.npy --d-v d_v.npy";
  command.run = [o] { attend_files(*o); };
  return command;
}

}  // namespace bearing::tool
