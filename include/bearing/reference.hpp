#pragma once

// Every operation again, in double, scalar and as obvious as can be. Kernels are compared with these, and here one
// reads what an encoding does. Arguments are checked only where a comment says so; all memory must be the host's.

#include <bearing/reference/alibi.hpp>
#include <bearing/reference/angle_rows.hpp>
#include <bearing/reference/attention.hpp>
#include <bearing/reference/bert_relative.hpp>
#include <bearing/reference/bucket_bias.hpp>
#include <bearing/reference/cape.hpp>
#include <bearing/reference/cope.hpp>
#include <bearing/reference/deberta.hpp>
#include <bearing/reference/dense_bias.hpp>
#include <bearing/reference/elementwise_rope.hpp>
#include <bearing/reference/fire.hpp>
#include <bearing/reference/fope.hpp>
#include <bearing/reference/forgetting.hpp>
#include <bearing/reference/fourier.hpp>
#include <bearing/reference/gated_decay.hpp>
#include <bearing/reference/gated_t5.hpp>
#include <bearing/reference/index_encoding.hpp>
#include <bearing/reference/kerple.hpp>
#include <bearing/reference/learned.hpp>
#include <bearing/reference/lie_rope.hpp>
#include <bearing/reference/linear_attention.hpp>
#include <bearing/reference/pope.hpp>
#include <bearing/reference/position_temperature.hpp>
#include <bearing/reference/regions.hpp>
#include <bearing/reference/relative_logits.hpp>
#include <bearing/reference/retention.hpp>
#include <bearing/reference/rope.hpp>
#include <bearing/reference/rope_mixed.hpp>
#include <bearing/reference/rotary_values.hpp>
#include <bearing/reference/sam.hpp>
#include <bearing/reference/sandwich.hpp>
#include <bearing/reference/shaw.hpp>
#include <bearing/reference/sinusoidal.hpp>
#include <bearing/reference/sinusoidal_2d.hpp>
#include <bearing/reference/string_rope.hpp>
#include <bearing/reference/swin.hpp>
#include <bearing/reference/t5.hpp>
#include <bearing/reference/t5_axis.hpp>
#include <bearing/reference/transformer_xl.hpp>
#include <bearing/reference/tupe.hpp>
#include <bearing/reference/xlnet.hpp>
