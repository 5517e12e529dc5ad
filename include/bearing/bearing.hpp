#pragma once

// Everything of the core library. Model files: <bearing/io.hpp>; threads on oneTBB: <bearing/threads.hpp>.

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/error.hpp>
#include <bearing/executor.hpp>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/reference.hpp>
#include <bearing/target.hpp>
#include <bearing/version.hpp>
#include <bearing/view.hpp>
