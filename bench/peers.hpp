#pragma once

#include <string>

namespace bearing::bench {

/// Starts Python in this process, as the program at `interpreter` (one of a virtual environment finds that
/// environment's packages), and registers the cases of PyTorch, ONNX Runtime and OpenBLAS.
void add_peer_cases(const std::string& interpreter);
void add_attention_peer_cases();

}  // namespace bearing::bench
