// The router of a mixture of experts (ops/moe.h). Scores are in fp64, as on the CPU, so that both choose the
// same experts; what is read and written is fp32.
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

// As ops::TokenSequences.
struct SequenceArgs {
  std::int64_t count = 1, run = 1, first = 0;
};
// As ops::TokenPlaces.
struct PlaceArgs {
  SequenceArgs sequences;
  std::int64_t length = 0;
  std::int64_t begin[2] = {};
};

// Fields as in ops::RouterForward, ops::RouterBackward and their options.
struct RouterArgs {
  bool sigmoid = false, normalize = true;
  double scale = 1;
  std::int64_t groups = 1, chosen_groups = 1;
  std::int64_t tokens = 0, experts = 0, k = 0;
  const float* logits = nullptr;
  const float* bias = nullptr;  // or null
  std::int32_t* ids = nullptr;  // read in the backward pass
  float* weights = nullptr;
  // Backward.
  const float* dweights = nullptr;
  double balance = 0, z = 0;  // balance: without the seed
  SequenceArgs sequences;
  const float* counts = nullptr;
  const double* seed = nullptr;  // or null
  float* dlogits = nullptr;
  std::int64_t shared = 0;  // bytes of shared memory per token; set by the launch
};
inline constexpr std::int64_t kMostExperts = 2048;
void launch_router_forward(const RouterArgs& args, void* stream);
void launch_router_backward(const RouterArgs& args, void* stream);

struct CountAssignmentsArgs {
  SequenceArgs sequences;
  const std::int32_t* ids = nullptr;
  std::int64_t tokens = 0, experts = 0, k = 0;
  float* counts = nullptr;
  double scale = 1, offset = 0;
};
void launch_count_assignments(const CountAssignmentsArgs& args, void* stream);

struct PlaceChoicesArgs {
  PlaceArgs places;
  const std::int32_t* ids = nullptr;
  const float* weights = nullptr;
  std::int64_t tokens = 0, k = 0;
  float* choices = nullptr;
};
void launch_place_choices(const PlaceChoicesArgs& args, void* stream);

struct LimitExpertsArgs {
  PlaceArgs places;
  std::int64_t capacity = 0;
  bool by_weight = true;  // otherwise by position
  const float* choices = nullptr;
  std::int64_t tokens = 0, k = 0;
  std::int32_t* kept = nullptr;
};
void launch_limit_experts(const LimitExpertsArgs& args, void* stream);

struct ExpertBiasArgs {
  float* bias = nullptr;
  const float* excess = nullptr;
  std::int64_t count = 0;
  const double* state = nullptr;
  double rate = 0;
};
void launch_expert_bias_update(const ExpertBiasArgs& args, void* stream);

}  // namespace stoa::ops::cuda
