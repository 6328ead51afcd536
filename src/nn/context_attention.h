// Core attention for context parallelism: a rank holds some of the tokens of its sequences, and needs the
// keys of all.
//
// All-gather: keys and values of the whole sequence are gathered in forward and again in backward, where
// their gradients are added and scattered (Dubey et al. 2024, section 3.3.2). Each chunk of queries is a
// segment whose keys end with its last query, so documents, windows and dropout are those of one rank.
// All-to-all: for the time of the core, every rank has all tokens of some heads (Jacobs et al. 2023).
// Ring: keys and values go from rank to rank while each computes with what it has; outputs are merged by
// their log-sum-exp (Liu et al. 2023). In backward the gradients of keys and values travel with them, added
// in the accumulation type.
// Hierarchical: all-to-all among neighbours, a ring among their groups (Fang, Zhao 2024, "USP").
#pragma once

#include "nn/pass.h"
#include "nn/sinks.h"
#include "ops/attention.h"

namespace stoa::nn {

// `op` describes one rank's attention over this rank's tokens; its segments are ignored. Sinks are included
// once, together with the keys of all ranks, and require op.lse.
void context_attention(Pass& pass, const ops::AttentionForward& op, const Sinks& sinks = {});
void context_attention(Pass& pass, const ops::AttentionBackward& op, const Sinks& sinks = {});

// Core attention of this rank's tokens, forward or backward, with or without context parallelism.
inline void core_attention(Pass& pass, const ops::AttentionForward& op, const Sinks& sinks = {}) {
  if (pass.batch.context.split()) return context_attention(pass, op, sinks);
  ops::run(pass.ops, op);
  sinks.enter(pass, op.o, op.lse);
}
inline void core_attention(Pass& pass, const ops::AttentionBackward& op, const Sinks& sinks = {}) {
  if (pass.batch.context.split()) return context_attention(pass, op, sinks);
  ops::run(pass.ops, op);
  sinks.add_gradient(pass, op);
}

}  // namespace stoa::nn
