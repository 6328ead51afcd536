// Attention while keys and values go around the ranks of a context-parallel group (see context_attention.h).
#pragma once

#include "nn/pass.h"
#include "nn/sinks.h"
#include "ops/attention.h"

namespace stoa::nn {

// `op` with the tokens of batch.context.outer(); its segments are ignored.
void ring_attention(Pass& pass, const ops::AttentionForward& op, const Sinks& sinks = {});
void ring_attention(Pass& pass, const ops::AttentionBackward& op);

}  // namespace stoa::nn
