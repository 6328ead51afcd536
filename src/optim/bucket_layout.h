// The parameters of a chunk in a row: buckets of parameters that are reduced, updated and gathered together,
// each cut into equal shares for the ranks that hold the same parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/module.h"
#include "optim/data_parallel.h"

namespace stoa::optim {

struct FlatMember {
  int parameter;
  std::int64_t begin, count;  // elements in the bucket
};

struct FlatBucket {
  std::vector<FlatMember> members;  // by `begin`; the last declared parameter first, as backward meets them
  std::int64_t elements = 0;        // padding included; a multiple of shards x kAlign
  bool matrices = false;            // values in compute precision, else in the accumulation type
  bool trained = true;              // all members; else none of them has a gradient
  bool bytes = false;               // all members: elements are bytes, and every rank has all of them
  int unit = 0;                     // of the first member
  // Gradients complete only when the step's last backward is done: parameters that are used twice, or whose
  // gradients are to be summed over further axes.
  bool late = false;
  std::vector<parallel::Group> partial;
  parallel::Group copies = parallel::Group::kDataContext;  // of all members
  int shards = 1;                                          // ranks of that group
};

class BucketLayout {
 public:
  static constexpr std::int64_t kAlign = 64;  // elements, of every member and share

  // A bucket ends when the next parameter would make it exceed `bucket_elements`, and with `by_unit` where a
  // unit ends.
  BucketLayout(const nn::ParamList& params, const DataParallel& parallel, std::int64_t bucket_elements,
               bool by_unit);
  // Every parameter by itself, in one share.
  explicit BucketLayout(const std::vector<nn::ParamSpec>& specs);

  const std::vector<FlatBucket>& buckets() const { return buckets_; }
  const FlatBucket& bucket(int b) const { return buckets_[static_cast<std::size_t>(b)]; }
  int bucket_of(int parameter) const { return places_[static_cast<std::size_t>(parameter)].bucket; }
  const FlatMember& member(int parameter) const;
  std::int64_t share(int b) const { return bucket(b).elements / bucket(b).shards; }
  FlatRange range(int b, int shard) const { return {shard * share(b), (shard + 1) * share(b)}; }

 private:
  void add(FlatBucket& bucket, int b, int parameter, std::int64_t count);
  void close(FlatBucket& bucket);

  struct Place {
    int bucket = -1, member = -1;
  };
  std::vector<FlatBucket> buckets_;
  std::vector<Place> places_;  // by parameter
};

// These elements of a bucket, or of a buffer shaped like one.
inline TensorView part_of(const TensorView& flat, FlatRange range) {
  return TensorView(flat.byte_offset(range.begin), flat.dtype, {range.end - range.begin}, flat.device);
}

}  // namespace stoa::optim
