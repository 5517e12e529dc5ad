#include "attention/amx/amx_kernels.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>

#include "attention/shared/row_kernels.hpp"
#include "simd/target.hpp"

namespace bearing::attend::amx {
namespace {

constexpr Index most_dim = 256;

constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// n rows of dim numbers as bfloat16: the caller's own, or rounded in `room`.
template <class T>
const Bfloat16* rounded(Index n, Index dim, const T* rows, Index& stride, Bfloat16* room) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return rows;
  } else {
    for (Index i = 0; i < n; ++i) narrow(dim, rows + i * stride, room + i * dim);
    stride = dim;
    return room;
  }
}

template <class T>
constexpr std::size_t room_for(Index n) {
  return std::is_same_v<T, Bfloat16> ? 1 : at(n * most_dim);
}

struct Forced {
  std::atomic<bool> on = false;
  std::atomic<const Kernels*> kernels = nullptr;
};
Forced& forced() {
  static Forced one;
  return one;
}

}  // namespace

bool usable(Index dim, Index value_dim, float scale) {
  const auto fits = [](Index n) { return n > 0 && n <= most_dim && n % 32 == 0; };
  return fits(dim) && fits(value_dim) && scale > 0 && std::isfinite(scale);
}

float in_log2(float logit) {
  if (std::isnan(logit)) return std::numeric_limits<float>::quiet_NaN();
  constexpr float most = std::numeric_limits<float>::max();
  return std::isinf(logit) ? logit : std::clamp(logit * std::numbers::log2e_v<float>, -most, most);
}

template <class T>
void pack_keys(Index cols, Index dim, const T* rows, Index stride, Bfloat16* packed) {
  std::array<Bfloat16, room_for<T>(16)> room;
  for (Index first = 0; first < padded(cols); first += 16) {
    const Index n = std::clamp<Index>(cols - first, 0, 16);
    Index step = stride;
    const Bfloat16* from = rounded(n, dim, rows + first * stride, step, room.data());
    for (Index pair = 0; pair < dim; pair += 2, packed += 32) {
      for (Index j = 0; j < n; ++j) std::memcpy(packed + 2 * j, from + j * step + pair, 2 * sizeof(Bfloat16));
      std::fill(packed + 2 * n, packed + 32, Bfloat16());
    }
  }
}

template <class T>
void pack_values(Index cols, Index dim, const T* rows, Index stride, Bfloat16* packed) {
  std::array<Bfloat16, room_for<T>(1)> room, other_room;
  std::array<Bfloat16, at(most_dim)> none{};
  for (Index first = 0; first < padded(cols); first += 32, packed += 32 * dim) {
    for (Index pair = 0; pair < 16; ++pair) {
      const auto row = [&](Index j, Bfloat16* space) {
        Index step = stride;
        return j < cols ? rounded(1, dim, rows + j * stride, step, space) : none.data();
      };
      const Bfloat16 *one = row(first + pair, room.data()), *other = row(first + 16 + pair, other_room.data());
      for (Index d = 0; d < dim; d += 16) {
        Bfloat16* to = packed + (d + pair) * 32;
        for (Index x = 0; x < 16; ++x) to[2 * x] = one[d + x], to[2 * x + 1] = other[d + x];
      }
    }
  }
}

template <class T>
void pack_queries(Index rows, Index dim, const T* q, Index stride, Bfloat16* packed) {
  for (Index i = 0; i < rows; ++i, packed += dim) {
    Index step = stride;
    const Bfloat16* row = rounded(1, dim, q + i * stride, step, packed);
    if (row != packed) std::copy_n(row, dim, packed);
  }
  std::fill_n(packed, (padded(rows) - rows) * dim, Bfloat16());
}

template void pack_keys(Index, Index, const float*, Index, Bfloat16*);
template void pack_keys(Index, Index, const Bfloat16*, Index, Bfloat16*);
template void pack_values(Index, Index, const float*, Index, Bfloat16*);
template void pack_values(Index, Index, const Bfloat16*, Index, Bfloat16*);
template void pack_queries(Index, Index, const float*, Index, Bfloat16*);
template void pack_queries(Index, Index, const Bfloat16*, Index, Bfloat16*);

const Kernels* kernels() {
  if (forced().on) return forced().kernels;
#if defined(__x86_64__)
  if (simd::has_amx_bf16()) return &machine;
#endif
  return nullptr;
}

void force_kernels(std::optional<const Kernels*> choice) {
  forced().kernels = choice.value_or(nullptr);
  forced().on = choice.has_value();
}

}  // namespace bearing::attend::amx
