#include "attend_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "json_writer.hpp"

namespace bearing::tool {
namespace {

constexpr std::size_t column = 12;

std::string line(const Style& style, const char* name, const std::string& text) {
  return bold(style, fmt::format("{:<{}}", name, column)) + wrapped(text, style.width, column);
}

std::string bytes_text(Index bytes) {
  const double b = static_cast<double>(bytes);
  if (bytes < 1 << 20) return fmt::format("{:.0f} KiB", b / 1024);
  return fmt::format("{:.1f} MiB", b / (1 << 20));
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

/// NumPy's f4 for people.
std::string dtype_text(const std::string& dtype) {
  return dtype == "bf16" ? "bfloat16" : dtype == "f2" ? "float16" : dtype == "f4" ? "float32" : "float64";
}

std::string limit_text(Index limit) { return limit < 0 ? "all" : grouped(limit); }

}  // namespace

std::string to_text(const AttendReport& report, const Style& style) {
  const CallShape& s = report.shape;
  std::string out = line(style, "queries",
                         fmt::format("batch {}, {}, {} of {}", grouped(s.batch), counted(s.heads, "head"),
                                     counted(s.q_len, "token"), s.dim));
  out += line(style, "keys",
              fmt::format("{}, {} of {}, values of {}", counted(s.kv_heads, "head"), counted(s.k_len, "token"), s.dim,
                          s.value_dim));
  out += line(style, "type", dtype_text(report.dtype));
  out += line(style, "encodings",
              report.encodings.empty() ? "none" : printable(fmt::format("{}", fmt::join(report.encodings, "; "))));
  std::string mask = report.mask;
  if (report.before >= 0 || report.after >= 0) {
    mask += fmt::format(", window {} before, {} after", limit_text(report.before), limit_text(report.after));
  }
  out += line(style, "mask", mask);
  std::string scale = fmt::format("{:.6g}", report.scale);
  if (report.soft_cap > 0) scale += fmt::format(", soft cap {:.6g}", report.soft_cap);
  out += line(style, "scale", scale);
  std::string time = "forward " + seconds_text(report.forward_seconds);
  if (report.backward_seconds) time += ", backward " + seconds_text(*report.backward_seconds);
  out += line(style, "time", fmt::format("{}; threads: {}", time, report.threads));
  out += line(style, "memory",
              fmt::format("{} of tensors; the process had at most {}", bytes_text(report.tensor_bytes),
                          bytes_text(report.peak_bytes)));
  out += line(style, "written", printable(fmt::format("{}", fmt::join(report.files, ", "))));
  if (report.blind_queries > 0) {
    out += '\n' +
           wrapped(fmt::format("{} {} no key: their output is 0, their log-sum-exp -inf.",
                               grouped(report.blind_queries), report.blind_queries == 1 ? "query sees" : "queries see"),
                   style.width, 0);
  }
  return out;
}

std::string to_json(const AttendReport& report) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.attend/1");
  json.member("dtype", report.dtype);
  json.member("batch", report.shape.batch);
  json.member("heads", report.shape.heads);
  json.member("kv_heads", report.shape.kv_heads);
  json.member("q_len", report.shape.q_len);
  json.member("k_len", report.shape.k_len);
  json.member("dim", report.shape.dim);
  json.member("value_dim", report.shape.value_dim);
  json.list("encodings", report.encodings);
  json.member("mask", report.mask);
  json.list("window", std::vector<Index>{report.before, report.after});
  json.member("scale", report.scale);
  json.member("soft_cap", report.soft_cap);
  json.member("threads", report.threads);
  json.member("blind_queries", report.blind_queries);
  json.member("forward_seconds", report.forward_seconds);
  json.key("backward_seconds");
  report.backward_seconds ? json.value(*report.backward_seconds) : json.null();
  json.member("tensor_bytes", report.tensor_bytes);
  json.member("peak_bytes", report.peak_bytes);
  json.list("files", report.files);
  json.end_object();
  return json.text();
}

}  // namespace bearing::tool
