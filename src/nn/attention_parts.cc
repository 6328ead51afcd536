#include "nn/attention_parts.h"

namespace stoa::nn {

Linear head_output(const HeadOutputOptions& o) {
  return Linear({.name = o.name + ".out",
                 .inputs = o.heads * o.size,
                 .pieces = {{o.name + ".out", o.hidden, {}}},
                 .bias = o.bias,
                 .deviation = o.deviation,
                 .split = LinearSplit::kInputs,
                 .place = o.place,
                 .columns = head_columns(o.own, o.size)});
}

ops::AttentionOptions core_options(const Pass& pass, const std::string& name, std::int64_t heads,
                                   const parallel::Part& own, float dropout) {
  ops::AttentionOptions out;
  out.first_head = own.begin;
  out.heads = heads;
  if (pass.training && dropout > 0) {
    out.dropout = dropout;
    out.dropout_key = philox_key(pass.seed, RandomPurpose::kAttentionDropout, name);
  }
  return out;
}

}  // namespace stoa::nn
