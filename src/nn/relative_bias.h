// T5's relative position bias (Raffel et al. 2020, section 2.1): a trained number for every bucket of offsets
// (key position - query position) and every head, added to the scores of attention.
#pragma once

#include "nn/module.h"
#include "ops/attention.h"

namespace stoa::nn {

struct RelativeBuckets {
  std::int64_t count = 32;
  std::int64_t max_distance = 128;  // all offsets from here on share the last bucket
  bool bidirectional = true;        // half of the buckets are for later keys

  // Half of the buckets (all, where only earlier keys have buckets) hold one distance each, the others
  // logarithmically more.
  std::int64_t bucket_of(std::int64_t offset) const;
  // Offsets -max_distance ... max_distance have rows in the table of biases; those beyond share its ends.
  std::int64_t offsets() const { return 2 * max_distance + 1; }
  std::vector<double> buckets_of_offsets() const;
};

struct RelativeBiasOptions {
  std::string name;  // "encoder.relative_bias"
  RelativeBuckets buckets;
  std::int64_t heads = 0;
  double deviation = 0.02;
  int index = -1;        // of buckets_of_offsets() in Pass::constants
  parallel::Part local;  // heads of this rank
  bool own = false;      // of one layer, which declares it; false: see declare_table()
  parallel::TensorPlace place;
  std::int64_t layers = 0, layer = -1;  // of the stack; which of them this is
};

// All layers of a stack read one table, which every stage of a pipeline holds; each layer has its own
// accumulator for its gradient. Or a layer has a table of its own (umT5, 2305.16958).
class RelativeBias {
 public:
  explicit RelativeBias(RelativeBiasOptions options) : options_(std::move(options)) {}

  // The table, before the layers; once for all of them.
  static void declare_table(ParamList& params, const RelativeBiasOptions& options);
  static ParamId find(const ParamList& params, const RelativeBiasOptions& options);
  // A layer's use of it. InternalError without table, unless it is the layer's own, which is declared here.
  void declare(ParamList& params);

  // [offsets, heads of this rank], in scratch.
  TensorView table(Pass& pass) const;
  // A gradient of its form, zeros, in scratch; add_gradient() brings it to the parameter.
  TensorView zero_gradient(Pass& pass) const;
  void add_gradient(Pass& pass, TensorView gradient) const;
  std::int64_t first_offset() const { return -options_.buckets.max_distance; }

 private:
  static ParamSpec spec(const RelativeBiasOptions& options);
  TensorView allocate(Pass& pass) const;
  TensorView index(const Pass& pass) const {
    return pass.constants[static_cast<std::size_t>(options_.index)];
  }

  RelativeBiasOptions options_;
  Param weight_;
};

}  // namespace stoa::nn
