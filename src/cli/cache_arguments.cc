#include "cli/cache_arguments.h"

#include "base/error.h"
#include "infer/cache_type.h"

namespace stoa::cli {

void CacheArguments::add_to(CLI::App& command) {
  command
      .add_option(
          "--kv-dtype", name_,
          "Type of the keys and values of texts under way: auto, fp32, bf16, fp16 or int8; auto: that "
          "of the computation, but fp16 for weights that stay as a quantised GGUF file holds them")
      ->capture_default_str();
}

std::optional<DType> CacheArguments::type() const { return infer::cache_type_from_name(name_); }

void CacheArguments::require_use(const infer::OpenModel& model) const {
  require<ConfigError>(model.kind() != model::ModelKind::kBert || !type(),
                       "--kv-dtype is for models that keep keys and values, and encoders keep none");
}

}  // namespace stoa::cli
