#pragma once

#include <string>

namespace bearing::bench {

/// Starts Python in this process, as the program at `interpreter` (one of a virtual environment finds that
/// environment's packages), loads peers.py and registers PyTorch's and ONNX Runtime's cases.
void add_peer_cases(const std::string& interpreter);

}  // namespace bearing::bench
