#pragma once

// Marks what a shared library shows; everything else in it is hidden.
#define BEARING_EXPORT __attribute__((visibility("default")))
