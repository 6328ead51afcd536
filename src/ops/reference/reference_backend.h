// Slow, plain and right: every operation as its formula reads, computed in fp64 from whatever type the
// tensors have. Whole models run on it in fp64; the other backends are tested against it.
#pragma once

#include "ops/backend.h"

namespace stoa::ops {

class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  DeviceKind device_kind() const override { return DeviceKind::kHost; }
  using Backend::execute;
  using Backend::workspace_bytes;

  void execute(const LinearForward& op, Resources resources) override;
  void execute(const LinearBackwardInput& op, Resources resources) override;
  void execute(const LinearBackwardWeight& op, Resources resources) override;
  void execute(const PackedLinearForward& op, Resources resources) override;
  void execute(const PackedLinearBackwardInput& op, Resources resources) override;
  void execute(const QuantisedLinear& op, Resources resources) override;
  void execute(const GroupedQuantisedLinear& op, Resources resources) override;
  void execute(const QuantisedRows& op, Resources resources) override;
  void execute(const MostLikely& op, Resources resources) override;
  void execute(const DrawTokens& op, Resources resources) override;
  void execute(const AbsoluteMax& op, Resources resources) override;
  void execute(const Quantize& op, Resources resources) override;
  void execute(const GroupedAbsoluteMax& op, Resources resources) override;
  void execute(const GroupedQuantize& op, Resources resources) override;
  void execute(const AmaxHistoryUpdate& op, Resources resources) override;
  void execute(const ScaledProduct& op, Resources resources) override;
  void execute(const BiasBackward& op, Resources resources) override;
  void execute(const NormForward& op, Resources resources) override;
  void execute(const NormBackward& op, Resources resources) override;
  void execute(const AttentionForward& op, Resources resources) override;
  void execute(const AttentionBackward& op, Resources resources) override;
  void execute(const AttentionMerge& op, Resources resources) override;
  void execute(const AttentionSink& op, Resources resources) override;
  void execute(const AttentionSinkBackward& op, Resources resources) override;
  void execute(const Rotary& op, Resources resources) override;
  void execute(const LatentHeads& op, Resources resources) override;
  void execute(const LatentHeadsBackward& op, Resources resources) override;
  void execute(const ShortConvForward& op, Resources resources) override;
  void execute(const ShortConvBackward& op, Resources resources) override;
  void execute(const GatedDeltaForward& op, Resources resources) override;
  void execute(const GatedDeltaBackward& op, Resources resources) override;
  void execute(const ActivationForward& op, Resources resources) override;
  void execute(const ActivationBackward& op, Resources resources) override;
  void execute(const EmbeddingForward& op, Resources resources) override;
  void execute(const EmbeddingBackward& op, Resources resources) override;
  void execute(const CrossEntropy& op, Resources resources) override;
  void execute(const CrossEntropyPart& op, Resources resources) override;
  void execute(const CrossEntropyMerge& op, Resources resources) override;
  void execute(const DivergencePart& op, Resources resources) override;
  void execute(const DivergenceSums& op, Resources resources) override;
  void execute(const DivergenceMerge& op, Resources resources) override;
  void execute(const KeptPart& op, Resources resources) override;
  void execute(const KeptMerge& op, Resources resources) override;
  void execute(const SumLosses& op, Resources resources) override;
  void execute(const Cast& op, Resources resources) override;
  void execute(const ResidualAdd& op, Resources resources) override;
  void execute(const DropoutBackward& op, Resources resources) override;
  void execute(const AddTo& op, Resources resources) override;
  void execute(const Combine& op, Resources resources) override;
  void execute(const CopyRows& op, Resources resources) override;
  void execute(const ScatterRows& op, Resources resources) override;
  void execute(const FillZero& op, Resources resources) override;
  void execute(const ScaleMatrix& op, Resources resources) override;
  void execute(const ScaleMatrixBackward& op, Resources resources) override;
  void execute(const RowDots& op, Resources resources) override;
  void execute(const InverseRoot& op, Resources resources) override;
  void execute(const RouterForward& op, Resources resources) override;
  void execute(const CountAssignments& op, Resources resources) override;
  void execute(const PlaceChoices& op, Resources resources) override;
  void execute(const LimitExperts& op, Resources resources) override;
  void execute(const RouterBackward& op, Resources resources) override;
  void execute(const GroupByExpert& op, Resources resources) override;
  void execute(const GroupArrivals& op, Resources resources) override;
  void execute(const GatherRows& op, Resources resources) override;
  void execute(const SumRows& op, Resources resources) override;
  void execute(const ScaleRows& op, Resources resources) override;
  void execute(const ScaleRowsBackward& op, Resources resources) override;
  void execute(const GroupedLinearForward& op, Resources resources) override;
  void execute(const GroupedLinearBackwardInput& op, Resources resources) override;
  void execute(const GroupedLinearBackwardWeight& op, Resources resources) override;
  void execute(const ExpertBias& op, Resources resources) override;
  void execute(const ExpertBiasBackward& op, Resources resources) override;
  void execute(const ExpertBiasBackwardWeights& op, Resources resources) override;
  void execute(const ExpertBiasUpdate& op, Resources resources) override;
  void execute(const BeginStep& op, Resources resources) override;
  void execute(const SumSquares& op, Resources resources) override;
  void execute(const AddSquares& op, Resources resources) override;
  void execute(const PrepareUpdate& op, Resources resources) override;
  void execute(const AdamUpdate& op, Resources resources) override;
  void execute(const SgdUpdate& op, Resources resources) override;
  void execute(const MuonMomentum& op, Resources resources) override;
  void execute(const UnitNorm& op, Resources resources) override;
  void execute(const MuonUpdate& op, Resources resources) override;
};

}  // namespace stoa::ops
