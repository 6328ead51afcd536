#include "optim/bucket_layout.h"

#include <map>
#include <tuple>

#include "nn/packed_weight.h"

namespace stoa::optim {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

BucketLayout::BucketLayout(const nn::ParamList& params, const DataParallel& parallel,
                           std::int64_t bucket_elements, bool by_unit)
    : places_(params.specs().size()) {
  std::vector<int> uses(params.specs().size(), 0);
  for (const nn::ParamId id : params.grads()) ++uses[static_cast<std::size_t>(id.index)];
  // The bucket being filled of every kind. The matrices of the layers are apart from other matrices: an
  // optimizer may treat them differently (optim/muon.h).
  std::map<std::tuple<bool, bool, bool, bool, bool, std::vector<parallel::Group>, parallel::Group>, int> open;
  for (std::size_t p = params.specs().size(); p-- > 0;) {
    const nn::ParamSpec& spec = params.specs()[p];
    const bool late = uses[p] > 1 || !spec.grad_partial_over.empty();
    const std::int64_t count = nn::memory_elements(spec);
    const auto [it, fresh] = open.try_emplace({spec.holds_bytes(), spec.trained, spec.is_matrix(),
                                               spec.shard.local.rank() >= 2 && params.is_block(spec.unit),
                                               late, spec.grad_partial_over, spec.copies},
                                              static_cast<int>(buckets_.size()));
    if (!fresh) {
      const FlatBucket& bucket = buckets_[static_cast<std::size_t>(it->second)];
      if (bucket.elements + count > bucket_elements || (by_unit && bucket.unit != spec.unit))
        it->second = static_cast<int>(buckets_.size());
    }
    if (it->second == static_cast<int>(buckets_.size())) {
      FlatBucket& bucket = buckets_.emplace_back();
      bucket.matrices = spec.is_matrix();
      bucket.trained = spec.trained;
      bucket.bytes = spec.holds_bytes();
      bucket.unit = spec.unit;
      bucket.late = late;
      bucket.partial = spec.grad_partial_over;
      bucket.copies = spec.copies;
      bucket.shards = spec.holds_bytes() ? 1 : parallel.shards(spec.copies);
    }
    add(buckets_[static_cast<std::size_t>(it->second)], it->second, static_cast<int>(p), count);
  }
  for (FlatBucket& bucket : buckets_) close(bucket);
}

BucketLayout::BucketLayout(const std::vector<nn::ParamSpec>& specs) : places_(specs.size()) {
  for (std::size_t p = 0; p < specs.size(); ++p) {
    FlatBucket& bucket = buckets_.emplace_back();
    bucket.matrices = specs[p].is_matrix();
    bucket.unit = specs[p].unit;
    bucket.bytes = specs[p].holds_bytes();
    add(bucket, static_cast<int>(p), static_cast<int>(p), nn::memory_elements(specs[p]));
    close(bucket);
  }
}

void BucketLayout::add(FlatBucket& bucket, int b, int parameter, std::int64_t count) {
  places_[static_cast<std::size_t>(parameter)] = {b, static_cast<int>(bucket.members.size())};
  bucket.members.push_back({parameter, bucket.elements, count});
  bucket.elements = round_up(bucket.elements + count, kAlign);
}

void BucketLayout::close(FlatBucket& bucket) {
  bucket.elements = round_up(bucket.elements, kAlign * bucket.shards);
}

const FlatMember& BucketLayout::member(int parameter) const {
  const Place& place = places_[static_cast<std::size_t>(parameter)];
  return bucket(place.bucket).members[static_cast<std::size_t>(place.member)];
}

}  // namespace stoa::optim
