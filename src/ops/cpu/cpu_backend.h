// The fast CPU backend: fp32, bf16 and fp16 with kernels chosen by instruction set; fp64 is left to the
// reference.
#pragma once

#include "base/worker_pool.h"
#include "ops/cpu/gemm.h"
#include "ops/reference/reference_backend.h"

namespace stoa::ops::cpu {

class CpuBackend final : public ReferenceBackend {
 public:
  // ConfigError where the processor has no `isa`. `rows_apart`: products of linear layers as in
  // MatrixKernels, for inference.
  explicit CpuBackend(WorkerPool& pool, InstructionSet isa = best_instruction_set(), bool rows_apart = false);
  // With other matrix products than those of `isa`, in tests: instructions that the processor has not are
  // theirs to emulate.
  CpuBackend(WorkerPool& pool, InstructionSet isa, const MatrixKernels& products);

  std::string_view name() const override { return "cpu"; }
  InstructionSet instruction_set() const { return isa_; }

  // linear.cc
  void execute(const LinearForward& op, Resources resources) override;
  void execute(const LinearBackwardInput& op, Resources resources) override;
  void execute(const LinearBackwardWeight& op, Resources resources) override;
  void execute(const PackedLinearForward& op, Resources resources) override;
  void execute(const PackedLinearBackwardInput& op, Resources resources) override;
  std::size_t workspace_bytes(const PackedLinearForward& op) const override;
  std::size_t workspace_bytes(const PackedLinearBackwardInput& op) const override;
  std::size_t workspace_bytes(const LinearForward& op) const override;
  std::size_t workspace_bytes(const LinearBackwardInput& op) const override;
  std::size_t workspace_bytes(const LinearBackwardWeight& op) const override;
  // quantised_linear.cc
  void execute(const QuantisedLinear& op, Resources resources) override;
  void execute(const GroupedQuantisedLinear& op, Resources resources) override;
  void execute(const QuantisedRows& op, Resources resources) override;
  std::size_t workspace_bytes(const QuantisedLinear& op) const override;
  std::size_t workspace_bytes(const GroupedQuantisedLinear& op) const override;
  std::size_t workspace_bytes(const QuantisedRows& op) const override;
  // draw_tokens.cc
  void execute(const DrawTokens& op, Resources resources) override;
  // fp8.cc
  void execute(const AbsoluteMax& op, Resources resources) override;
  void execute(const Quantize& op, Resources resources) override;
  void execute(const ScaledProduct& op, Resources resources) override;
  void execute(const BiasBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const AbsoluteMax& op) const override;
  std::size_t workspace_bytes(const GroupedAbsoluteMax& op) const override;
  std::size_t workspace_bytes(const ScaledProduct& op) const override;
  // attention.cc
  void execute(const AttentionForward& op, Resources resources) override;
  void execute(const AttentionBackward& op, Resources resources) override;
  void execute(const AttentionMerge& op, Resources resources) override;
  // attention_sink.cc
  void execute(const AttentionSink& op, Resources resources) override;
  void execute(const AttentionSinkBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const AttentionForward& op) const override;
  std::size_t workspace_bytes(const AttentionBackward& op) const override;
  // norm.cc, activation.cc, rotary.cc, embedding.cc, loss.cc, elementwise.cc, optimizer.cc
  void execute(const NormForward& op, Resources resources) override;
  void execute(const NormBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const NormBackward& op) const override;
  void execute(const ActivationForward& op, Resources resources) override;
  void execute(const ActivationBackward& op, Resources resources) override;
  void execute(const Rotary& op, Resources resources) override;
  void execute(const EmbeddingForward& op, Resources resources) override;
  void execute(const EmbeddingBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const EmbeddingBackward& op) const override;
  void execute(const CrossEntropy& op, Resources resources) override;
  void execute(const CrossEntropyPart& op, Resources resources) override;
  void execute(const CrossEntropyMerge& op, Resources resources) override;
  void execute(const DivergencePart& op, Resources resources) override;
  void execute(const DivergenceSums& op, Resources resources) override;
  void execute(const DivergenceMerge& op, Resources resources) override;
  void execute(const KeptPart& op, Resources resources) override;
  void execute(const KeptMerge& op, Resources resources) override;
  void execute(const Cast& op, Resources resources) override;
  void execute(const ResidualAdd& op, Resources resources) override;
  void execute(const DropoutBackward& op, Resources resources) override;
  void execute(const AddTo& op, Resources resources) override;
  void execute(const Combine& op, Resources resources) override;
  void execute(const CopyRows& op, Resources resources) override;
  // cache_rows.cc
  void execute(const ScatterRows& op, Resources resources) override;
  void execute(const FillZero& op, Resources resources) override;
  // scale_matrix.cc
  void execute(const ScaleMatrix& op, Resources resources) override;
  void execute(const ScaleMatrixBackward& op, Resources resources) override;
  void execute(const RowDots& op, Resources resources) override;
  void execute(const SumSquares& op, Resources resources) override;
  void execute(const AdamUpdate& op, Resources resources) override;
  void execute(const SgdUpdate& op, Resources resources) override;
  void execute(const MuonMomentum& op, Resources resources) override;
  void execute(const MuonUpdate& op, Resources resources) override;
  // latent_heads.cc
  void execute(const LatentHeads& op, Resources resources) override;
  void execute(const LatentHeadsBackward& op, Resources resources) override;
  // linear_attention.cc
  void execute(const ShortConvForward& op, Resources resources) override;
  void execute(const ShortConvBackward& op, Resources resources) override;
  void execute(const GatedDeltaForward& op, Resources resources) override;
  void execute(const GatedDeltaBackward& op, Resources resources) override;
  std::size_t workspace_bytes(const GatedDeltaForward& op) const override;
  std::size_t workspace_bytes(const GatedDeltaBackward& op) const override;
  // moe.cc
  void execute(const RouterForward& op, Resources resources) override;
  void execute(const RouterBackward& op, Resources resources) override;
  void execute(const GatherRows& op, Resources resources) override;
  void execute(const SumRows& op, Resources resources) override;
  void execute(const ScaleRows& op, Resources resources) override;
  void execute(const ScaleRowsBackward& op, Resources resources) override;
  void execute(const GroupedLinearForward& op, Resources resources) override;
  void execute(const GroupedLinearBackwardInput& op, Resources resources) override;
  void execute(const GroupedLinearBackwardWeight& op, Resources resources) override;
  std::size_t workspace_bytes(const GroupedLinearForward& op) const override;
  std::size_t workspace_bytes(const GroupedLinearBackwardInput& op) const override;
  std::size_t workspace_bytes(const GroupedLinearBackwardWeight& op) const override;
  // expert_bias.cc
  void execute(const ExpertBias& op, Resources resources) override;
  void execute(const ExpertBiasBackward& op, Resources resources) override;
  void execute(const ExpertBiasBackwardWeights& op, Resources resources) override;
  // CountAssignments, PlaceChoices, LimitExperts, GroupByExpert, GroupArrivals, ExpertBiasUpdate, SumLosses,
  // BeginStep, PrepareUpdate, AmaxHistoryUpdate: a few scalars; UnitNorm: its sum; GroupedAbsoluteMax,
  // GroupedQuantize: operations of their groups; the reference serves.
  using ReferenceBackend::execute;
  using ReferenceBackend::workspace_bytes;

 private:
  WorkerPool& pool_;
  const InstructionSet isa_;
  const MatrixKernels products_;
};

}  // namespace stoa::ops::cpu
