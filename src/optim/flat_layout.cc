#include "optim/flat_layout.h"

#include <map>
#include <tuple>

namespace stoa::optim {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

FlatLayout::FlatLayout(const nn::ParamList& params, int shards, std::int64_t bucket_elements, bool by_unit)
    : shards_(shards), places_(params.specs().size()) {
  std::vector<int> uses(params.specs().size(), 0);
  for (const nn::ParamId id : params.grads()) ++uses[static_cast<std::size_t>(id.index)];
  std::map<std::tuple<bool, bool, std::vector<parallel::Axis>>, int> open;  // bucket being filled
  for (std::size_t p = params.specs().size(); p-- > 0;) {
    const nn::ParamSpec& spec = params.specs()[p];
    const bool late = uses[p] > 1 || !spec.grad_partial_over.empty();
    const std::int64_t count = spec.shard.local.elements();
    const auto [it, fresh] =
        open.try_emplace({spec.is_matrix(), late, spec.grad_partial_over}, static_cast<int>(buckets_.size()));
    if (!fresh) {
      const FlatBucket& bucket = buckets_[static_cast<std::size_t>(it->second)];
      if (bucket.elements + count > bucket_elements || (by_unit && bucket.unit != spec.unit))
        it->second = static_cast<int>(buckets_.size());
    }
    if (it->second == static_cast<int>(buckets_.size())) {
      FlatBucket& bucket = buckets_.emplace_back();
      bucket.matrices = spec.is_matrix();
      bucket.unit = spec.unit;
      bucket.late = late;
      bucket.partial = spec.grad_partial_over;
    }
    add(buckets_[static_cast<std::size_t>(it->second)], it->second, static_cast<int>(p), count);
  }
  for (FlatBucket& bucket : buckets_) close(bucket);
}

FlatLayout::FlatLayout(const std::vector<nn::ParamSpec>& specs) : shards_(1), places_(specs.size()) {
  for (std::size_t p = 0; p < specs.size(); ++p) {
    FlatBucket& bucket = buckets_.emplace_back();
    bucket.matrices = specs[p].is_matrix();
    bucket.unit = specs[p].unit;
    add(bucket, static_cast<int>(p), static_cast<int>(p), specs[p].shard.local.elements());
    close(bucket);
  }
}

void FlatLayout::add(FlatBucket& bucket, int b, int parameter, std::int64_t count) {
  places_[static_cast<std::size_t>(parameter)] = {b, static_cast<int>(bucket.members.size())};
  bucket.members.push_back({parameter, bucket.elements, count});
  bucket.elements = round_up(bucket.elements + count, kAlign);
}

void FlatLayout::close(FlatBucket& bucket) { bucket.elements = round_up(bucket.elements, kAlign * shards_); }

const FlatMember& FlatLayout::member(int parameter) const {
  const Place& place = places_[static_cast<std::size_t>(parameter)];
  return bucket(place.bucket).members[static_cast<std::size_t>(place.member)];
}

}  // namespace stoa::optim
