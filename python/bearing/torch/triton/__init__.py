"""Kernels for GPUs, in Triton. The calls of :mod:`bearing.torch` choose them by the device of their tensors; nothing here
is imported before the first such tensor.

Each kernel does the arithmetic of the library on the CPU, operation by operation: results in float32 and float64 have the
same bits. For that, kernels are compiled without fused products and sums (``FUSION``).
"""
