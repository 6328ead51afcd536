// Linear layers with a matrix per expert (ops/moe.h). How many rows an expert has is read from device memory.
#pragma once

#include "ops/cuda/kernels/element.h"
#include "ops/cuda/kernels/fp8.h"

namespace stoa::ops::cuda {

// Rows [begin[e], begin[e + 1]) of sorted rows are expert e's. tiles[e]: tiles of `tile` rows that experts
// before e have.
struct ExpertBoundsArgs {
  const std::int32_t* sorted_experts = nullptr;
  std::int64_t rows = 0, experts = 0;
  int tile = 1;
  std::int32_t* begin = nullptr;  // [experts + 1]
  std::int32_t* tiles = nullptr;  // [experts + 1]
};
void launch_expert_bounds(const ExpertBoundsArgs& args, void* stream);

// Rows of the tiles in which products of such elements are computed.
int grouped_tile_rows(Element type);

// Operands of 8 bits: E4M3, but for dy. They are multiplied as bf16, which holds them all.
struct GroupedCodes {
  bool used = false;
  Float8 dy = Float8::kE4M3;
  const float* inverse_a = nullptr;  // [experts]: reciprocals of the scales of both operands
  const float* inverse_b = nullptr;
};

// Contiguous matrices; sums in fp32, in the order of what is summed over. `wide`: all row lengths are
// multiples of 8 elements, addresses of 16 bytes, also of what is written. Codes are wide, with row lengths
// that are multiples of 16.
struct GroupedArgs {
  Element type = Element::kF32;  // of y or dx; of the operands unless they are codes
  GroupedCodes codes;
  std::int64_t rows = 0, experts = 0;
  std::int64_t k = 0, n = 0;  // inputs and outputs of the layer
  const std::int32_t* begin = nullptr;
  const std::int32_t* tiles = nullptr;
  const void* x = nullptr;    // [rows, k]
  const void* w = nullptr;    // [experts n, k]
  const void* dy = nullptr;   // [rows, n]
  void* out = nullptr;        // y, dx or dw (fp32)
  bool accumulate = false;    // dw
  std::int64_t part_of = -1;  // ops::GroupedLinearBackwardWeight::part_of
  bool wide = false;
  int warpgroup_blocks = 0;  // how many compute by warpgroups at once; 0: the device does not
};
void launch_grouped_forward(const GroupedArgs& args, void* stream);
void launch_grouped_backward_input(const GroupedArgs& args, void* stream);
void launch_grouped_backward_weight(const GroupedArgs& args, void* stream);

// Whether a device of this compute capability multiplies wide bf16 and fp16 operands by warpgroups, which
// needs code for sm_90a.
bool has_warpgroup_products(int major, int minor);
void launch_forward_by_warpgroups(const GroupedArgs& args, void* stream);
void launch_backward_input_by_warpgroups(const GroupedArgs& args, void* stream);
void launch_backward_weight_by_warpgroups(const GroupedArgs& args, void* stream);

}  // namespace stoa::ops::cuda
