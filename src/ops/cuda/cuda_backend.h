// The GPU backend. Everything here is host code without CUDA headers: kernels are started through plain
// functions (kernels/*.h), matrix products and attention go to libraries behind interfaces. So the whole of
// it also runs on the block emulator, without a GPU.
#pragma once

#include <memory>

#include "device/native_stream.h"
#include "ops/backend.h"
#include "ops/cuda/attention_library.h"
#include "ops/cuda/kernel_choice.h"
#include "ops/cuda/matmul.h"
#include "ops/most_likely.h"

namespace stoa::ops::cuda {

class CudaBackend final : public Backend {
 public:
  // `attention` may be null: Stoa's own kernels do all attention.
  CudaBackend(std::shared_ptr<MatmulLibrary> matmul, std::shared_ptr<AttentionLibrary> attention,
              DeviceKind tensors = DeviceKind::kCuda, const KernelChoice& kernels = {})
      : matmul_(std::move(matmul)), attention_(std::move(attention)), tensors_(tensors), kernels_(kernels) {}

  std::string_view name() const override { return "cuda"; }
  bool multiplies_stored_experts() const override { return false; }
  DeviceKind device_kind() const override { return tensors_; }

  // linear.cc
  void execute(const LinearForward& op, Resources resources) override;
  void execute(const LinearBackwardInput& op, Resources resources) override;
  void execute(const LinearBackwardWeight& op, Resources resources) override;
  std::size_t workspace_bytes(const LinearForward& op) const override;
  std::size_t workspace_bytes(const LinearBackwardInput& op) const override;
  std::size_t workspace_bytes(const LinearBackwardWeight& op) const override;
  // packed_linear.cc
  void execute(const PackedLinearForward& op, Resources resources) override;
  void execute(const PackedLinearBackwardInput& op, Resources resources) override;
  std::size_t workspace_bytes(const PackedLinearForward& op) const override;
  std::size_t workspace_bytes(const PackedLinearBackwardInput& op) const override;
  // quantised_linear.cc
  void execute(const QuantisedLinear& op, Resources resources) override;
  void execute(const GroupedQuantisedLinear& op, Resources resources) override;
  void execute(const QuantisedRows& op, Resources resources) override;
  std::size_t workspace_bytes(const QuantisedLinear& op) const override;
  // fp8.cc
  void execute(const AbsoluteMax& op, Resources resources) override;
  void execute(const Quantize& op, Resources resources) override;
  void execute(const GroupedAbsoluteMax& op, Resources resources) override;
  void execute(const GroupedQuantize& op, Resources resources) override;
  void execute(const AmaxHistoryUpdate& op, Resources resources) override;
  void execute(const ScaledProduct& op, Resources resources) override;
  void execute(const BiasBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const AbsoluteMax& op) const override;
  std::size_t workspace_bytes(const ScaledProduct& op) const override;
  std::size_t workspace_bytes(const BiasBackward& op) const override;
  // attention.cc
  void execute(const AttentionForward& op, Resources resources) override;
  void execute(const AttentionBackward& op, Resources resources) override;
  void execute(const AttentionMerge& op, Resources resources) override;
  void execute(const Rotary& op, Resources resources) override;
  std::size_t workspace_bytes(const AttentionForward& op) const override;
  std::size_t workspace_bytes(const AttentionBackward& op) const override;
  // layers.cc
  void execute(const NormForward& op, Resources resources) override;
  void execute(const NormBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const NormBackward& op) const override;
  void execute(const ActivationForward& op, Resources resources) override;
  void execute(const ActivationBackward& op, Resources resources) override;
  void execute(const EmbeddingForward& op, Resources resources) override;
  void execute(const EmbeddingBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const EmbeddingBackward& op) const override;
  void execute(const Cast& op, Resources resources) override;
  void execute(const ResidualAdd& op, Resources resources) override;
  void execute(const DropoutBackward& op, Resources resources) override;
  void execute(const AddTo& op, Resources resources) override;
  void execute(const Combine& op, Resources resources) override;
  void execute(const FillZero& op, Resources resources) override;
  // rows.cc
  void execute(const CopyRows& op, Resources resources) override;
  void execute(const GatherRows& op, Resources resources) override;
  void execute(const SumRows& op, Resources resources) override;
  void execute(const ScaleRows& op, Resources resources) override;
  void execute(const ScaleRowsBackward& op, Resources resources) override;
  void execute(const LatentHeads& op, Resources resources) override;
  void execute(const LatentHeadsBackward& op, Resources resources) override;
  // attention_sink.cc
  void execute(const AttentionSink& op, Resources resources) override;
  void execute(const AttentionSinkBackward& op, Resources resources) override;
  // expert_bias.cc
  void execute(const ExpertBias& op, Resources resources) override;
  void execute(const ExpertBiasBackward& op, Resources resources) override;
  void execute(const ExpertBiasBackwardWeights& op, Resources resources) override;
  // scale_matrix.cc
  void execute(const ScaleMatrix& op, Resources resources) override;
  void execute(const ScaleMatrixBackward& op, Resources resources) override;
  void execute(const RowDots& op, Resources resources) override;
  void execute(const InverseRoot& op, Resources resources) override;
  // cache_rows.cc
  void execute(const ScatterRows& op, Resources resources) override;
  // most_likely.cc, draw_tokens.cc
  void execute(const MostLikely& op, Resources resources) override;
  void execute(const DrawTokens& op, Resources resources) override;
  // linear_attention.cc
  void execute(const ShortConvForward& op, Resources resources) override;
  void execute(const ShortConvBackward& op, Resources resources) override;
  void execute(const GatedDeltaForward& op, Resources resources) override;
  void execute(const GatedDeltaBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const ShortConvForward& op) const override;
  std::size_t workspace_bytes(const GatedDeltaForward& op) const override;
  // step.cc
  void execute(const CrossEntropy& op, Resources resources) override;
  void execute(const CrossEntropyPart& op, Resources resources) override;
  void execute(const CrossEntropyMerge& op, Resources resources) override;
  void execute(const SumLosses& op, Resources resources) override;
  void execute(const BeginStep& op, Resources resources) override;
  void execute(const SumSquares& op, Resources resources) override;
  void execute(const AddSquares& op, Resources resources) override;
  void execute(const PrepareUpdate& op, Resources resources) override;
  void execute(const AdamUpdate& op, Resources resources) override;
  void execute(const SgdUpdate& op, Resources resources) override;
  // moe.cc
  void execute(const RouterForward& op, Resources resources) override;
  void execute(const RouterBackward& op, Resources resources) override;
  void execute(const CountAssignments& op, Resources resources) override;
  void execute(const PlaceChoices& op, Resources resources) override;
  void execute(const LimitExperts& op, Resources resources) override;
  void execute(const GroupByExpert& op, Resources resources) override;
  void execute(const GroupArrivals& op, Resources resources) override;
  void execute(const GroupedLinearForward& op, Resources resources) override;
  void execute(const GroupedLinearBackwardInput& op, Resources resources) override;
  void execute(const GroupedLinearBackwardWeight& op, Resources resources) override;
  void execute(const ExpertBiasUpdate& op, Resources resources) override;
  std::size_t workspace_bytes(const GroupByExpert& op) const override;
  std::size_t workspace_bytes(const GroupArrivals& op) const override;
  std::size_t workspace_bytes(const GroupedLinearForward& op) const override;
  std::size_t workspace_bytes(const GroupedLinearBackwardInput& op) const override;
  std::size_t workspace_bytes(const GroupedLinearBackwardWeight& op) const override;
  // muon.cc
  void execute(const MuonMomentum& op, Resources resources) override;
  void execute(const UnitNorm& op, Resources resources) override;
  void execute(const MuonUpdate& op, Resources resources) override;
  std::size_t workspace_bytes(const UnitNorm& op) const override;

  // refused.cc: what no kernel computes yet. A dry run asks for the workspace, so a model is refused before
  // it has memory.
  void execute(const DivergencePart& op, Resources resources) override;
  void execute(const DivergenceSums& op, Resources resources) override;
  void execute(const DivergenceMerge& op, Resources resources) override;
  void execute(const KeptPart& op, Resources resources) override;
  void execute(const KeptMerge& op, Resources resources) override;
  std::size_t workspace_bytes(const DivergencePart& op) const override;
  std::size_t workspace_bytes(const KeptPart& op) const override;

  using Backend::execute;
  using Backend::workspace_bytes;

 private:
  std::shared_ptr<MatmulLibrary> matmul_;
  std::shared_ptr<AttentionLibrary> attention_;
  const DeviceKind tensors_;
  const KernelChoice kernels_;
};

}  // namespace stoa::ops::cuda
