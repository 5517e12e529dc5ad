#include "python.hpp"

#include <malloc.h>

#include <limits>
#include <stdexcept>

namespace bearing::bench::python {

Object checked(PyObject* result) {
  if (result != nullptr) return Object(result);
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const Object owned[] = {Object(type), Object(value), Object(trace)};
  const Object text(PyObject_Str(value != nullptr ? value : type));
  throw std::runtime_error(std::string("[peers] ") + (text ? PyUnicode_AsUTF8(text.get()) : "failed"));
}

void start(const std::string& interpreter) {
  // Large temporaries stay in the heap, whose pages are present; else half of a peer's time goes to page faults.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  PyConfig_SetBytesString(&config, &config.executable, interpreter.c_str());
  const PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) throw std::runtime_error("cannot start Python as " + interpreter);
  const Object here = checked(PyUnicode_FromString(BEARING_BENCH_SOURCE_DIR));
  if (PyList_Insert(PySys_GetObject("path"), 0, here.get()) != 0) checked(nullptr);
}

PyObject* module(const char* name) {
  const simd::FlushDenormals flushed;
  return checked(PyImport_ImportModule(name)).release();  // kept for good, as Python itself keeps it
}

Object memory(const HugeBuffer& buffer, std::size_t first, std::size_t bytes) {
  return checked(PyMemoryView_FromMemory(buffer.as<char>() + first, static_cast<Py_ssize_t>(bytes), PyBUF_WRITE));
}

Object memory(const void* data, std::size_t bytes) {
  auto* bytes_of = const_cast<char*>(static_cast<const char*>(data));  // peers only read it
  return checked(PyMemoryView_FromMemory(bytes_of, static_cast<Py_ssize_t>(bytes), PyBUF_WRITE));
}

std::function<void()> call_each_time(Object step) {
  const std::shared_ptr<PyObject> shared(step.release(), Release{});
  return [shared] {
    const simd::FlushDenormals flushed;
    checked(PyObject_CallNoArgs(shared.get()));
  };
}

}  // namespace bearing::bench::python
