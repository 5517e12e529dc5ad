#pragma once

// RapidJSON, in the one way that this library includes it.

#define RAPIDJSON_HAS_STDSTRING 1

// Version 1.1.0 adds an offset to its stack's null pointer before the first allocation, only to compare the result:
// harmless, but undefined, and clang's sanitizer says so. Our own code stays under that check.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#if defined(__clang__)
#pragma clang attribute pop
#endif
