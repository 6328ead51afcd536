// Every operation, listed once: backends are generated from this list.
#pragma once

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/attention_sink.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/expert_bias.h"
#include "ops/fp8.h"
#include "ops/gated_delta.h"
#include "ops/latent_heads.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/moe.h"
#include "ops/muon.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/packed_linear.h"
#include "ops/quantised_linear.h"
#include "ops/scale_matrix.h"
#include "ops/short_conv.h"
#include "ops/step_state.h"

namespace stoa::ops {

template <class... Ops>
struct OpList {};

using AllOps =
    OpList<LinearForward, LinearBackwardInput, LinearBackwardWeight, PackedLinearForward,
           PackedLinearBackwardInput, QuantisedLinear, QuantisedRows, AbsoluteMax, Quantize,
           GroupedAbsoluteMax, GroupedQuantize, AmaxHistoryUpdate, ScaledProduct, BiasBackward, NormForward,
           NormBackward, AttentionForward, AttentionBackward, AttentionMerge, AttentionSink,
           AttentionSinkBackward, Rotary, LatentHeads, LatentHeadsBackward, ShortConvForward,
           ShortConvBackward, GatedDeltaForward, GatedDeltaBackward, ActivationForward, ActivationBackward,
           EmbeddingForward, EmbeddingBackward, CrossEntropy, CrossEntropyPart, CrossEntropyMerge, SumLosses,
           Cast, ResidualAdd, DropoutBackward, AddTo, Combine, CopyRows, FillZero, ScaleMatrix,
           ScaleMatrixBackward, RowDots, InverseRoot, RouterForward, CountAssignments, PlaceChoices,
           LimitExperts, RouterBackward, GroupByExpert, GroupArrivals, GatherRows, SumRows, ScaleRows,
           ScaleRowsBackward, GroupedLinearForward, GroupedLinearBackwardInput, GroupedLinearBackwardWeight,
           ExpertBias, ExpertBiasBackward, ExpertBiasBackwardWeights, ExpertBiasUpdate, BeginStep, SumSquares,
           AddSquares, PrepareUpdate, AdamUpdate, SgdUpdate, MuonMomentum, UnitNorm, MuonUpdate>;

// Throws ShapeError unless shapes and types fit. Called once, by run().
void check(const LinearForward&);
void check(const LinearBackwardInput&);
void check(const LinearBackwardWeight&);
void check(const PackedLinearForward&);
void check(const PackedLinearBackwardInput&);
void check(const QuantisedLinear&);
void check(const QuantisedRows&);
void check(const AbsoluteMax&);
void check(const Quantize&);
void check(const GroupedAbsoluteMax&);
void check(const GroupedQuantize&);
void check(const AmaxHistoryUpdate&);
void check(const ScaledProduct&);
void check(const BiasBackward&);
void check(const NormForward&);
void check(const NormBackward&);
void check(const AttentionForward&);
void check(const AttentionBackward&);
void check(const AttentionMerge&);
void check(const AttentionSink&);
void check(const AttentionSinkBackward&);
void check(const Rotary&);
void check(const LatentHeads&);
void check(const LatentHeadsBackward&);
void check(const ShortConvForward&);
void check(const ShortConvBackward&);
void check(const GatedDeltaForward&);
void check(const GatedDeltaBackward&);
void check(const ActivationForward&);
void check(const ActivationBackward&);
void check(const EmbeddingForward&);
void check(const EmbeddingBackward&);
void check(const CrossEntropy&);
void check(const CrossEntropyPart&);
void check(const CrossEntropyMerge&);
void check(const SumLosses&);
void check(const Cast&);
void check(const ResidualAdd&);
void check(const DropoutBackward&);
void check(const AddTo&);
void check(const Combine&);
void check(const CopyRows&);
void check(const FillZero&);
void check(const ScaleMatrix&);
void check(const ScaleMatrixBackward&);
void check(const RowDots&);
void check(const InverseRoot&);
void check(const RouterForward&);
void check(const CountAssignments&);
void check(const PlaceChoices&);
void check(const LimitExperts&);
void check(const RouterBackward&);
void check(const GroupByExpert&);
void check(const GroupArrivals&);
void check(const GatherRows&);
void check(const SumRows&);
void check(const ScaleRows&);
void check(const ScaleRowsBackward&);
void check(const GroupedLinearForward&);
void check(const GroupedLinearBackwardInput&);
void check(const GroupedLinearBackwardWeight&);
void check(const ExpertBias&);
void check(const ExpertBiasBackward&);
void check(const ExpertBiasBackwardWeights&);
void check(const ExpertBiasUpdate&);
void check(const BeginStep&);
void check(const SumSquares&);
void check(const AddSquares&);
void check(const PrepareUpdate&);
void check(const AdamUpdate&);
void check(const SgdUpdate&);
void check(const MuonMomentum&);
void check(const UnitNorm&);
void check(const MuonUpdate&);

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
double matrix_flops(const QuantisedLinear&);
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
