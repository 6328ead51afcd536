#include "data/gpt_index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "data/numpy_random.h"

namespace stoa::data {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kSamplesPerLook = 1 << 16;  // between two looks at the stop token

void go_on(const GptIndexInput& in) {
  require<Interrupted>(!in.stop.stop_requested(), "interrupted while the data was indexed");
}

// Python's // for a positive divisor.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

std::vector<std::int32_t> build_document_index(const GptIndexInput& in, const EpochPlan& plan,
                                               NumpyRandom& random) {
  const std::int64_t per_epoch = in.last - in.first;
  std::vector<std::int32_t> index(static_cast<std::size_t>(per_epoch * plan.epochs));
  for (std::int64_t e = 0; e < plan.epochs; ++e)
    std::iota(index.begin() + e * per_epoch, index.begin() + (e + 1) * per_epoch,
              static_cast<std::int32_t>(in.first));
  const std::span all(index);
  if (plan.separate_last) {
    const auto cut = static_cast<std::size_t>(per_epoch * (plan.epochs - 1));
    random.shuffle(all.first(cut));
    random.shuffle(all.subspan(cut));
  } else {
    random.shuffle(all);
  }
  return index;
}

template <class T>
NpyArray build_sample_index(const GptIndexInput& in, const EpochPlan& plan,
                            const std::vector<std::int32_t>& documents) {
  const std::int64_t x = in.extra_token ? 1 : 0;
  const auto count = static_cast<std::int64_t>(documents.size());
  std::vector<T> rows;
  rows.reserve(static_cast<std::size_t>(plan.samples + 1) * 2);
  std::int64_t position = 0, offset = 0;
  const auto emit = [&] {
    rows.push_back(static_cast<T>(position));
    rows.push_back(static_cast<T>(offset));
  };
  emit();
  for (std::int64_t sample = 0; sample < plan.samples; ++sample) {
    if (sample % kSamplesPerLook == 0) go_on(in);
    std::int64_t remaining = in.sequence_length + x;
    while (remaining > 0) {
      const std::int64_t available = in.length(documents[static_cast<std::size_t>(position)]) - offset;
      remaining -= available;
      if (remaining <= 0) {
        offset += remaining + available - x;
        break;
      }
      if (position == count - 1) {  // the last, short sample
        offset += available - x;
        break;
      }
      ++position;
      offset = 0;
    }
    emit();
  }
  return NpyArray::from(std::move(rows), 2);
}

template <class T>
NpyArray build_shuffle_index(const EpochPlan& plan, NumpyRandom& random) {
  std::vector<T> index(static_cast<std::size_t>(plan.samples));
  std::iota(index.begin(), index.end(), T{0});
  const std::span all(index);
  if (plan.separate_last) {
    const auto cut = static_cast<std::size_t>(plan.samples_before_last);
    random.shuffle(all.first(cut));
    random.shuffle(all.subspan(cut));
  } else {
    random.shuffle(all);
  }
  return NpyArray::from(std::move(index));
}

}  // namespace

EpochPlan plan_epochs(const GptIndexInput& in) {
  require<ConfigError>(in.sequence_length >= 1, "the sequence length is {}; expected at least 1",
                       in.sequence_length);
  require<ConfigError>(!in.samples || *in.samples >= 0, "{} samples were asked for", in.samples.value_or(0));
  const std::int64_t x = in.extra_token ? 1 : 0, s = in.sequence_length;
  EpochPlan plan;
  for (std::int64_t i = in.first; i < in.last; ++i) plan.tokens_per_epoch += in.length(i);
  const std::int64_t t = plan.tokens_per_epoch;
  require<DataError>(t > 0, "sequences {} to {} of the data hold no tokens", in.first, in.last);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  require<ConfigError>(!in.samples || *in.samples <= kMost / s,
                       "{} samples of {} tokens are more than can be counted", in.samples.value_or(0), s);
  if (in.samples) plan.epochs = std::max<std::int64_t>(1, (*in.samples * s + x + t - 1) / t);
  const std::int64_t per_epoch_documents = in.last - in.first;
  require<ConfigError>(
      plan.epochs <= kInt32Max && plan.epochs * per_epoch_documents <= (std::int64_t{1} << 40),
      "{} samples of {} tokens need {} epochs of {} documents: more than an index can hold",
      in.samples.value_or(0), s, plan.epochs, per_epoch_documents);
  if (plan.epochs > 1) {
    plan.samples_before_last = floor_divide((plan.epochs - 1) * t - x, s);
    const std::int64_t from_last = *in.samples - plan.samples_before_last;
    const std::int64_t per_epoch = floor_divide(t - x, s);
    plan.separate_last = from_last < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
  }
  const std::int64_t available = plan.epochs * t - x;
  plan.samples = in.drop_last_partial ? available / s : (available + s - 1) / s;
  return plan;
}

GptIndex build_gpt_index(const GptIndexInput& in, const EpochPlan& plan) {
  require<InternalError>(in.last <= kInt32Max, "{} sequences do not fit a document index of int32", in.last);
  NumpyRandom random(in.seed);
  GptIndex index;
  auto documents = build_document_index(in, plan, random);
  go_on(in);
  std::int64_t longest = 0;
  for (std::int64_t i = in.first; i < in.last; ++i) longest = std::max(longest, in.length(i));
  const bool wide = std::max(static_cast<std::int64_t>(documents.size()), longest) > kInt32Max;
  index.sample_index = wide ? build_sample_index<std::int64_t>(in, plan, documents)
                            : build_sample_index<std::int32_t>(in, plan, documents);
  index.shuffle_index = plan.samples >= 0xfffffffe ? build_shuffle_index<std::int64_t>(plan, random)
                                                   : build_shuffle_index<std::uint32_t>(plan, random);
  index.document_index = NpyArray::from(std::move(documents));
  return index;
}

}  // namespace stoa::data
