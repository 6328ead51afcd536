#include "foreign/checkpoint/state_file.h"

#include "base/error.h"
#include "base/file.h"
#include "ckpt/torch/torch_directory.h"
#include "model/huggingface/config_json.h"

namespace stoa::foreign {

bool is_state_file(const fs::path& path) {
  const std::string extension = path.extension().string();
  return (extension == ".pt" || extension == ".pth" || extension == ".bin") && fs::is_regular_file(path);
}

ForeignCheckpoint open_state_file(const fs::path& file, const ForeignOptions& options) {
  const fs::path beside = file.parent_path() / "config.json";
  require<DataError>(options.config || fs::exists(beside),
                     "'{}' holds tensors and not what the model is: give its config.json by --config FILE",
                     file.string());
  ForeignCheckpoint out;
  out.kind = "PyTorch, a state_dict";
  out.description = model::huggingface::read_config(read_text(options.config.value_or(beside)));
  out.weights = std::make_unique<ckpt::torch::TorchDirectory>(file);
  return out;
}

}  // namespace stoa::foreign
