#pragma once

#include <Python.h>

#include <functional>
#include <memory>
#include <string>

#include "buffers.hpp"
#include "simd/denormals.hpp"

// Python in this process, for the peers that are called from it. Denormals are flushed in all of its
// calls: peers have settings for it and lose several times without. We run in the environment that a program starts
// with.

namespace bearing::bench::python {

struct Release {
  void operator()(PyObject* object) const { Py_DecRef(object); }
};
using Object = std::unique_ptr<PyObject, Release>;

/// Takes a new reference from a call into Python; an error there becomes an exception here.
Object checked(PyObject* result);

/// As the program at `interpreter`: one of a virtual environment finds that environment's packages.
void start(const std::string& interpreter);

/// One of ours, from this folder; loaded once.
PyObject* module(const char* name);

/// A memoryview.
Object memory(const HugeBuffer& buffer, std::size_t first, std::size_t bytes);
Object memory(const void* data, std::size_t bytes);

/// module.function(arguments), which PyObject_CallMethod's format describes.
template <class... Arguments>
Object call(const char* module_name, const char* function, const char* format, Arguments... arguments) {
  const simd::FlushDenormals flushed;
  return checked(PyObject_CallMethod(module(module_name), function, format, arguments...));
}

std::function<void()> call_each_time(Object step);

}  // namespace bearing::bench::python
