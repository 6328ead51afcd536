// Every operation, listed once: backends are generated from this list.
#pragma once

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/attention_sink.h"
#include "ops/cache_rows.h"
#include "ops/divergence.h"
#include "ops/draw_tokens.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/expert_bias.h"
#include "ops/fp8.h"
#include "ops/gated_delta.h"
#include "ops/kept_divergence.h"
#include "ops/latent_heads.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/moe.h"
#include "ops/most_likely.h"
#include "ops/muon.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/packed_linear.h"
#include "ops/quantised_linear.h"
#include "ops/scale_matrix.h"
#include "ops/short_conv.h"
#include "ops/step_state.h"

namespace stoa::ops {

// clang-format off
#define STOA_FOR_EACH_OP(use) \
  use(LinearForward) use(LinearBackwardInput) use(LinearBackwardWeight) use(PackedLinearForward) \
  use(PackedLinearBackwardInput) use(QuantisedLinear) use(GroupedQuantisedLinear) use(QuantisedRows) \
  use(MostLikely) use(DrawTokens) use(AbsoluteMax) use(Quantize) use(GroupedAbsoluteMax) use(GroupedQuantize) use(AmaxHistoryUpdate) use(ScaledProduct) \
  use(BiasBackward) use(NormForward) use(NormBackward) use(AttentionForward) use(AttentionBackward) \
  use(AttentionMerge) use(AttentionSink) use(AttentionSinkBackward) use(Rotary) use(LatentHeads) \
  use(LatentHeadsBackward) use(ShortConvForward) use(ShortConvBackward) use(GatedDeltaForward) \
  use(GatedDeltaBackward) use(ActivationForward) use(ActivationBackward) use(EmbeddingForward) \
  use(EmbeddingBackward) use(CrossEntropy) use(CrossEntropyPart) use(CrossEntropyMerge) use(SumLosses) \
  use(DivergencePart) use(DivergenceSums) use(DivergenceMerge) use(KeptPart) use(KeptMerge) \
  use(Cast) use(ResidualAdd) use(DropoutBackward) use(AddTo) use(Combine) use(CopyRows) use(ScatterRows) \
  use(FillZero) use(ScaleMatrix) use(ScaleMatrixBackward) use(RowDots) use(InverseRoot) use(RouterForward) \
  use(CountAssignments) use(PlaceChoices) use(LimitExperts) use(RouterBackward) use(GroupByExpert) \
  use(GroupArrivals) use(GatherRows) use(SumRows) use(ScaleRows) use(ScaleRowsBackward) \
  use(GroupedLinearForward) use(GroupedLinearBackwardInput) use(GroupedLinearBackwardWeight) \
  use(ExpertBias) use(ExpertBiasBackward) use(ExpertBiasBackwardWeights) use(ExpertBiasUpdate) \
  use(BeginStep) use(SumSquares) use(AddSquares) use(PrepareUpdate) use(AdamUpdate) use(SgdUpdate) \
  use(MuonMomentum) use(UnitNorm) use(MuonUpdate)
// clang-format on

// Throws ShapeError unless shapes and types fit. Called once, by run().
#define STOA_DECLARE_CHECK(Op) void check(const Op&);
STOA_FOR_EACH_OP(STOA_DECLARE_CHECK)
#undef STOA_DECLARE_CHECK

// Floating-point operations of the matrix products in an operation (causal attention counted at half); 0 for
// the others.
template <class Op>
double matrix_flops(const Op&) {
  return 0;
}
template <>
double matrix_flops(const LinearForward&);
template <>
double matrix_flops(const LinearBackwardInput&);
template <>
double matrix_flops(const LinearBackwardWeight&);
template <>
double matrix_flops(const PackedLinearForward&);
template <>
double matrix_flops(const PackedLinearBackwardInput&);
template <>
double matrix_flops(const QuantisedLinear&);
template <>
double matrix_flops(const GroupedQuantisedLinear&);
template <>
double matrix_flops(const ScaledProduct&);
template <>
double matrix_flops(const GroupedLinearForward&);
template <>
double matrix_flops(const GroupedLinearBackwardInput&);
template <>
double matrix_flops(const GroupedLinearBackwardWeight&);
template <>
double matrix_flops(const AttentionForward&);
template <>
double matrix_flops(const AttentionBackward&);
template <>
double matrix_flops(const GatedDeltaForward&);
template <>
double matrix_flops(const GatedDeltaBackward&);

}  // namespace stoa::ops
