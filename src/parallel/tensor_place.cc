#include "parallel/tensor_place.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::parallel {

Part part_of(std::int64_t total, int parts, int index) {
  require<InternalError>(total >= 0 && parts > 0 && index >= 0 && index < parts, "part {} of {} parts of {}",
                         index, parts, total);
  const std::int64_t each = total / parts, longer = total % parts;
  return {index * each + std::min<std::int64_t>(index, longer), each + (index < longer ? 1 : 0)};
}

HeadPart head_part(std::int64_t heads, std::int64_t groups, const TensorPlace& place) {
  require<InternalError>(groups > 0 && heads % groups == 0, "{} heads in {} groups", heads, groups);
  const std::int64_t per_group = heads / groups;
  HeadPart out;
  if (place.size <= groups) {
    out.groups = part_of(groups, place.size, place.rank);
    out.heads = {out.groups.begin * per_group, out.groups.count * per_group};
    return out;
  }
  for (std::int64_t group = 0; group < groups; ++group) {
    const Part ranks = part_of(place.size, static_cast<int>(groups), static_cast<int>(group));
    if (place.rank >= ranks.end()) continue;
    const auto inside = static_cast<int>(place.rank - ranks.begin);
    out.groups = {group, 1};
    out.heads = part_of(per_group, static_cast<int>(ranks.count), inside);
    out.heads.begin += group * per_group;
    out.shared = true;
    out.first_copy = inside == 0;
    return out;
  }
  fail<InternalError>("rank {} of {} has no heads", place.rank, place.size);
}

void check_split(const TensorPlace& place, const TensorSplit& split) {
  require<InternalError>(place.rank >= 0 && place.rank < place.size, "rank {} of {}", place.rank, place.size);
  const auto enough = [&](std::int64_t count, const char* what) {
    require<ConfigError>(count >= place.size,
                         "tensor_model_parallel_size {} is more than the model's {} {}: at most {}",
                         place.size, count, what, count);
  };
  enough(split.heads, "attention heads");
  enough(split.ffn, "columns of the feed-forward layer");
  enough(split.vocabulary, "ids of the vocabulary");
  require<ConfigError>(
      !place.splits_stream() || split.tokens % place.size == 0,
      "sequence_parallel splits the {} tokens of a microbatch among {} ranks: give a multiple "
      "of {}, for example {}",
      split.tokens, place.size, place.size, split.tokens / place.size * place.size + place.size);
}

}  // namespace stoa::parallel
