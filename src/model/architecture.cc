#include "model/architecture.h"

#include <cstring>

#include "model/bert_architecture.h"
#include "model/gpt_architecture.h"
#include "model/t5_architecture.h"

namespace stoa::model {

std::vector<std::byte> Constant::bytes(std::int64_t sequence) const {
  const std::vector<double> source = values(sequence);
  std::vector<std::byte> out(tensor.bytes());
  if (tensor.dtype == DType::kI32) {
    const std::vector<std::int32_t> integers(source.begin(), source.end());
    std::memcpy(out.data(), integers.data(), out.size());
    return out;
  }
  dispatch_float(tensor.dtype, [&]<class T>() {
    for (std::size_t i = 0; i < source.size(); ++i) {
      T value;
      if constexpr (std::is_same_v<T, double>)
        value = source[i];
      else
        value = T(static_cast<float>(source[i]));
      std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return out;
}

Traits traits(const ModelConfig& config) {
  switch (config.kind) {
    case ModelKind::kGpt:
      return GptArchitecture::traits(config);
    case ModelKind::kBert:
      return BertArchitecture::traits(config);
    case ModelKind::kT5:
      return T5Architecture::traits(config);
  }
  fail<InternalError>("unknown kind of model");
}

std::unique_ptr<Architecture> make_architecture(const ModelSpec& spec, const ChunkOptions& options) {
  switch (spec.config.kind) {
    case ModelKind::kGpt:
      return std::make_unique<GptArchitecture>(spec, options);
    case ModelKind::kBert:
      return std::make_unique<BertArchitecture>(spec, options);
    case ModelKind::kT5:
      return std::make_unique<T5Architecture>(spec, options);
  }
  fail<InternalError>("unknown kind of model");
}

}  // namespace stoa::model
