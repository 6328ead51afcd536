// Kernels for which there are slower ones that compute the same.
#pragma once

namespace stoa::ops::cuda {

struct KernelChoice {
  int warpgroup_blocks = 0;  // GroupedArgs; 0: tiles of warps
  bool few_tokens = true;    // false: linear layers of a few tokens by the library, too
  bool few_queries = true;   // false: attention over a cache walks over all keys of a text

  static KernelChoice plain() { return {.warpgroup_blocks = 0, .few_tokens = false, .few_queries = false}; }
  bool operator==(const KernelChoice&) const = default;
};

}  // namespace stoa::ops::cuda
