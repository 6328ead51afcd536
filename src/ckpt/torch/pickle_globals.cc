#include "ckpt/torch/pickle_globals.h"

#include <array>
#include <utility>

#include "ckpt/torch/torch_types.h"

namespace stoa::ckpt::torch {
namespace {

constexpr std::pair<std::string_view, Meaning> kGlobals[] = {
    {"collections.OrderedDict", Meaning::kDict},
    {"collections.defaultdict", Meaning::kDefaultDict},
    {"collections.Counter", Meaning::kCounter},
    {"collections.deque", Meaning::kList},
    {"builtins.set", Meaning::kSet},
    {"builtins.frozenset", Meaning::kSet},
    {"builtins.bytearray", Meaning::kBytes},
    {"builtins.bytes", Meaning::kBytes},
    {"_codecs.encode", Meaning::kEncode},
    {"torch.Size", Meaning::kTuple},
    {"torch._utils._rebuild_tensor", Meaning::kTensor},
    {"torch._utils._rebuild_tensor_v2", Meaning::kTensor},
    {"torch._utils._rebuild_tensor_v3", Meaning::kTensorOfType},
    {"torch._utils._rebuild_parameter", Meaning::kParameter},
    {"torch._utils._rebuild_parameter_with_state", Meaning::kParameter},
    {"torch._tensor._rebuild_from_type_v2", Meaning::kTensorSubclass},
    // Classes as values, and factories of defaultdict.
    {"torch.Tensor", Meaning::kName},
    {"torch.nn.parameter.Parameter", Meaning::kName},
    {"torch.nn.parameter.Buffer", Meaning::kName},
    {"builtins.dict", Meaning::kName},
    {"builtins.list", Meaning::kName},
    {"builtins.int", Meaning::kName},
    {"builtins.float", Meaning::kName},
    {"builtins.bool", Meaning::kName},
    {"builtins.str", Meaning::kName},
    // What checkpoints hold in addition to tensors: arguments of programs, states of random generators,
    // enumerators.
    {"builtins.complex", Meaning::kObject},
    {"builtins.range", Meaning::kObject},
    {"builtins.slice", Meaning::kObject},
    {"argparse.Namespace", Meaning::kObject},
    {"types.SimpleNamespace", Meaning::kObject},
    {"datetime.timedelta", Meaning::kObject},
    {"datetime.datetime", Meaning::kObject},
    {"pathlib.PosixPath", Meaning::kObject},
    {"pathlib.PurePosixPath", Meaning::kObject},
    {"pathlib._local.PosixPath", Meaning::kObject},
    {"signal.Signals", Meaning::kObject},
    {"_io.BytesIO", Meaning::kObject},  // states of Transformer Engine
    {"megatron.core.enums.ModelType", Meaning::kObject},
    {"megatron.core.transformer.enums.AttnBackend", Meaning::kObject},
    {"megatron.core.transformer.enums.AttnMaskType", Meaning::kObject},
    {"megatron.core.transformer.enums.AttnType", Meaning::kObject},
    {"megatron.core.transformer.enums.CudaGraphScope", Meaning::kObject},
    {"megatron.core.transformer.enums.LayerType", Meaning::kObject},
    {"megatron.core.rerun_state_machine.RerunDiagnostic", Meaning::kObject},
    {"megatron.core.rerun_state_machine.RerunMode", Meaning::kObject},
    {"megatron.core.rerun_state_machine.RerunState", Meaning::kObject},
    {"megatron.model.enums.ModelType", Meaning::kObject},
    {"megatron.model.enums.PositionEmbeddingType", Meaning::kObject},
    {"megatron.enums.PositionEmbeddingType", Meaning::kObject},
    {"deepspeed.checkpoint.universal_checkpoint.SubparamShape", Meaning::kObject},
    {"deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler", Meaning::kObject},
    {"deepspeed.runtime.fp16.loss_scaler.LossScaler", Meaning::kObject},
    {"deepspeed.runtime.zero.config.ZeroStageEnum", Meaning::kObject},
    {"deepspeed.utils.tensor_fragment.fragment_address", Meaning::kObject},
    {"torch.device", Meaning::kObject},
    {"torch.serialization._get_layout", Meaning::kObject},
    {"numpy.dtype", Meaning::kObject},
    {"numpy.ndarray", Meaning::kObject},
    {"numpy.core.multiarray._reconstruct", Meaning::kObject},
    {"numpy.core.multiarray.scalar", Meaning::kObject},
    {"numpy._core.multiarray._reconstruct", Meaning::kObject},
    {"numpy._core.multiarray.scalar", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata.Metadata", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata.StorageMeta", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata.MetadataIndex", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata.TensorStorageMetadata", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata.BytesStorageMetadata", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata.ChunkStorageMetadata", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata.TensorProperties", Meaning::kObject},
    {"torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING", Meaning::kObject},
    {"torch.distributed.checkpoint.filesystem._StorageInfo", Meaning::kObject},
    {"torch.distributed.checkpoint.planner.SavePlan", Meaning::kObject},
    {"torch.distributed.checkpoint.planner.WriteItem", Meaning::kObject},
    {"torch.distributed.checkpoint.planner.WriteItemType", Meaning::kObject},
    {"torch.distributed.checkpoint.planner.TensorWriteData", Meaning::kObject},
    {"torch.distributed.checkpoint.planner.BytesIOWriteData", Meaning::kObject},
    {"torch.distributed._shard.sharded_tensor.metadata.TensorProperties", Meaning::kObject},
    {"torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING", Meaning::kObject},
};

}  // namespace

std::string_view module_of_python_3(std::string_view module) {
  if (module == "__builtin__") return "builtins";
  return module;
}

std::optional<Meaning> meaning_of(std::string_view global) {
  for (const auto& [name, meaning] : kGlobals)
    if (name == global) return meaning;
  // torch.float32, torch.FloatStorage, torch.cuda.FloatStorage, torch.storage.UntypedStorage.
  constexpr std::string_view torch = "torch.";
  if (!global.starts_with(torch)) return std::nullopt;
  std::string_view name = global.substr(torch.size());
  if (element_type(name)) return Meaning::kName;
  for (const std::string_view module : {"cuda.", "storage."})
    if (name.starts_with(module)) name.remove_prefix(module.size());
  if (type_of_storage(name)) return Meaning::kName;
  return std::nullopt;
}

}  // namespace stoa::ckpt::torch
