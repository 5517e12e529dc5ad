#pragma once

#include <bearing/export.hpp>
#include <cstdint>
#include <string_view>

namespace bearing {

/// Where memory lies. The kinds have DLPack's numbers (DLDeviceType), so that a tensor's device is taken over as it is.
struct Device {
  enum class Kind : std::int32_t {
    host = 1,
    cuda = 2,
    cuda_host = 3,  ///< host memory, pinned for CUDA
    opencl = 4,
    vulkan = 7,
    metal = 8,
    vpi = 9,
    rocm = 10,
    rocm_host = 11,  ///< host memory, pinned for ROCm
    extension = 12,
    cuda_managed = 13,
    one_api = 14,
    webgpu = 15,
    hexagon = 16,
  };

  Kind kind = Kind::host;
  std::int32_t index = 0;  ///< which one of them

  /// Whether the host reads and writes the memory as it is.
  constexpr bool is_host() const { return kind == Kind::host || kind == Kind::cuda_host || kind == Kind::rocm_host; }

  bool operator==(const Device&) const = default;
};

/// "host", "cuda", "rocm", …; "device" for a kind that has no name here.
constexpr std::string_view name(Device::Kind kind) {
  switch (kind) {
    case Device::Kind::host:
      return "host";
    case Device::Kind::cuda:
      return "cuda";
    case Device::Kind::cuda_host:
      return "cuda_host";
    case Device::Kind::opencl:
      return "opencl";
    case Device::Kind::vulkan:
      return "vulkan";
    case Device::Kind::metal:
      return "metal";
    case Device::Kind::vpi:
      return "vpi";
    case Device::Kind::rocm:
      return "rocm";
    case Device::Kind::rocm_host:
      return "rocm_host";
    case Device::Kind::extension:
      return "extension";
    case Device::Kind::cuda_managed:
      return "cuda_managed";
    case Device::Kind::one_api:
      return "one_api";
    case Device::Kind::webgpu:
      return "webgpu";
    case Device::Kind::hexagon:
      return "hexagon";
  }
  return "device";
}

}  // namespace bearing
