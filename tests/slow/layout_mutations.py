#!/usr/bin/env python3
"""Puts known mistakes of distributed training into the source, one at a time, and shows that the layout tests see each.

    tests/slow/layout_mutations.py [BUILD FOLDER] [NUMBER…]     (minutes; changes files of this checkout and puts them back)
    tests/slow/layout_mutations.py --check                      (only whether each mistake still has its place)

The build folder is one that was configured (default build/release). Exit status 1 when a mistake goes unseen.
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# What goes wrong, where, the text and what replaces it, the tests that should see it.
MUTATIONS = [
    ("gradients are added over the wrong group", "src/nn/param.h", "copies = parallel::Group::kDataContext", "copies = parallel::Group::kModel", "DataParallel.*"),
    ("a data rank divides by its own part of N", "src/run/training_rank.cc", "static_cast<double>(batch.valid_tokens),",
     "static_cast<double>(batch.valid_tokens) / static_cast<double>(ranks),", "DataParallel.*"),
    ("replicas draw the same dropout masks", "src/run/training_rank.cc", "first_sample + global,", "first_sample + 0 * global + microbatch * options_.micro_batch,", "DataParallel.*"),
    ("a chunk starts one layer early", "src/run/layout.cc", "    first += layers[c];", "    first += layers[c] - (c == 1 ? 1 : 0);", "Pipeline.EveryScheduleIsBitEqualTied"),
    ("the two copies of a tied embedding go apart", "src/run/training_rank.cc", "chunk.tied_apart = placed.front().rank != placed.back().rank",
     "chunk.tied_apart = false && placed.front().rank != placed.back().rank", "Pipeline.EveryScheduleIsBitEqualTied"),
    ("microbatches share a stash of weight gradients", "src/run/pipeline_memory.h",
     "arena_->view(stash_ids_[stash_places_.take(microbatch)])",
     "arena_->view(stash_ids_[stash_places_.take(microbatch) * 0])", "Pipeline.EveryScheduleIsBitEqualTied"),
    ("what arrives early is overwritten", "src/run/pipeline_memory.cc", "arena_->view(of(box).ids[place])", "arena_->view(of(box).ids[place * 0])",
     "Pipeline.EveryScheduleIsBitEqualTied"),
    ("microbatches share the host memory that they offload to", "src/run/pipeline_memory.cc", "arena_->view(host_ids_[place])", "arena_->view(host_ids_[place * 0])",
     "Offload.EveryScheduleIsBitEqual"),
    ("offloaded activations are not copied back", "src/nn/offload_ring.cc",
     "arena_->device().copy(view(block).data, block.host.data, block.host.bytes(), *back_);", "", "Offload.OneRankIsBitEqual"),
    ("an evaluation counts the samples of one replica", "src/run/training_rank.cc",
     "for (const auto group : {parallel::Group::kPipeline, parallel::Group::kDataContext})",
     "for (const auto group : {parallel::Group::kPipeline})", "DataParallel.*"),
    ("the norm is that of the own replica's or stage's tensors", "src/optim/global_norm.cc", "parallel_.parallel.along(parallel::Group::kWorld)",
     "parallel_.parallel.along(parallel::Group::kData)", "Pipeline.EveryScheduleIsBitEqualTied"),
    ("microbatches are compared with the teacher's rows of the first", "src/run/teacher_rank.cc", ".slice(microbatch * tokens_, tokens_)",
     ".slice(microbatch * 0, tokens_)", "Distillation.*"),
    ("the sums of a divergence are those of the own columns", "src/nn/output_layer.cc",
     "pass.parallel.along(parallel::Axis::kTensor).all_gather(own, of_ranks, pass.ops.stream)->wait();", "{}", "Distillation.*"),
    ("what was kept of a teacher is that of the first token of the microbatch", "src/run/device_batch.cc",
     "values + static_cast<std::size_t>(token) * width", "values + 0 * static_cast<std::size_t>(token) * width", "Distillation.*"),
    ("parts of a row-parallel product are not added", "src/nn/tensor_rows.cc",
     "group.all_reduce(rows, comm::ReduceOp::kSum, pass.ops.stream)", "group.all_reduce(rows, comm::ReduceOp::kMax, pass.ops.stream)", "Covering.*:Tensor*"),
    ("gradients of norms under sequence parallelism are not added", "src/nn/partial_gradients.cc",
     "if (group == parallel::Group::kTensor ||", "if (", "Covering.*:Tensor*"),
    ("data rank and microbatch change places", "src/run/training_rank.cc", "(microbatch * ranks + own) * options_.micro_batch",
     "(own * (options_.microbatches) + microbatch) * options_.micro_batch", "DataParallel.*"),
    ("keys of an earlier chunk are taken for the nearest ones", "src/parallel/context_place.cc", "static_cast<std::int32_t>(last - to)", "0 * static_cast<std::int32_t>(last - to)",
     "ContextParallel.*"),
    ("parts of a ring are merged by the wrong log-sum-exp", "src/nn/context_ring.cc", "AttentionMerge{part, part_lse, to, to_lse}",
     "AttentionMerge{part, to_lse, to, to_lse}", "ContextParallel.*"),
    ("gradients of a ring's late keys go to the early ones", "src/nn/context_ring.cc", "key_part.both, chunk_of(gradient.both, block.k_chunk)",
     "key_part.both, chunk_of(gradient.both, block.k_chunk * 0)", "ContextParallel.*"),
    ("neighbours take each other's heads", "src/nn/context_attention.cc", "options.first_head += place_.rank % ranks_ * (q.shape[1] / ranks_);",
     "options.first_head += place_.rank / ranks_ * (q.shape[1] / ranks_);", "ContextParallel.*"),
    ("gradients of experts are added over ranks that hold others", "src/nn/grouped_linear.cc", "spec.copies = parallel::Group::kExpertData;",
     "spec.copies = parallel::Group::kDataContext;", "ExpertParallel.OverReplicas"),
    ("rows are grouped as if another member had sent them", "src/nn/expert_exchange.cc", "ops::GroupArrivals{.self = senders().self,",
     "ops::GroupArrivals{.self = 0,", "ExpertParallel.OverReplicas"),
    ("an adapter's sum begins anew in every part of an expert's rows", "src/nn/grouped_gradient.cc", "run_part_of(cut.head_expert, 0, cut.head, true);",
     "run_part_of(cut.head_expert, 0, cut.head, false);", "ExpertBuffer.*"),
    ("only the first part of an expert's rows reaches its adapter", "src/nn/low_rank_experts.cc", "add_gradient_part(pass, matrices, rows, part, carry[number]);",
     "if (part.begins) add_gradient_part(pass, matrices, rows, part, carry[number]);", "ExpertBuffer.PartsChangeNoBitOfAdaptersOfExperts"),
    ("the balance loss counts a rank's part of its sequences", "src/nn/moe_router.cc", "for (const auto axis : {parallel::Axis::kTensor, parallel::Axis::kContext})",
     "for (const auto axis : {parallel::Axis::kTensor})", "ExpertParallel.BesideContextParallelism"),
    ("an expert takes as much of every part of a sequence", "src/nn/moe_router.cc", "  add_over_sequences(pass, choices);", "", "ExpertCapacity.*"),
    ("rates of q, k and v are counted from where a shard begins", "src/optim/optimizer.cc", "spec.shard.pieces[p].memory_row * pitch",
     "spec.shard.pieces[p].memory_row * pitch + held.begin", "Mup.*"),
    ("gradients of routers are not added over tensor ranks", "src/nn/moe.cc", "router.full_precision = true;",
     "router.full_precision = true;\n  router.grad_partial_over.clear();", "ExpertParallel.OverTensor*"),
    ("the bias of the choice sees the load of one tensor rank", "src/nn/moe.cc", "bias.update_rate = o.bias_rate;",
     "bias.update_rate = o.bias_rate;\n    bias.grad_partial_over.clear();", "ExpertParallel.Sigmoid*"),
    ("a rank of 8-bit products scales by its part of a tensor", "src/nn/fp8.cc", "if (spread.tensor) over(", "if (false && spread.tensor) over(", "Fp8.*"),
    ("a rank of 8-bit products scales by its part of the tokens", "src/nn/fp8.cc", "if (spread.context) over(", "if (false && spread.context) over(", "Fp8.*"),
    ("a rank's scales are of what it saw itself", "src/optim/amax_history.cc", "for (const auto group : {h.parts, h.copies})",
     "for (const auto group : {h.copies})", "Fp8.Delayed*"),
    ("scales of a data-parallel rank are its own", "src/optim/amax_history.cc", "for (const auto group : {h.parts, h.copies})",
     "for (const auto group : {h.parts})", "Fp8.Delayed*"),
    ("a rank of 8-bit experts scales by the tokens that came to it", "src/nn/grouped_linear.cc", "place.ranks_per_sample > 1)", "place.ranks_per_sample > 9)",
     "Fp8.ExpertsInEveryLayout"),
    ("a rank of 8-bit experts scales by its part of an expert", "src/nn/grouped_linear.cc", "if (place.tensor_size > 1) over(", "if (place.tensor_size > 9) over(",
     "Fp8.ExpertsInEveryLayout"),
    ("Muon works on parts of matrices", "src/optim/muon.cc", "all_reduce(whole, comm::ReduceOp::kSum, ops.stream)",
     "all_reduce(whole.slice(0, 0), comm::ReduceOp::kSum, ops.stream)", "Muon.*"),
]


def main() -> int:
    arguments = sys.argv[1:]
    only_places = arguments == ["--check"]
    if only_places:
        arguments = []
    if any(a.startswith("-") for a in arguments):
        print(__doc__)
        return 2
    build = arguments.pop(0) if arguments and not arguments[0].isdigit() else "build/release"
    chosen = [int(a) for a in arguments] or range(1, len(MUTATIONS) + 1)
    unseen = []
    for number in chosen:
        what, name, old, new, tests = MUTATIONS[number - 1]
        path = ROOT / name
        source = path.read_text()
        if source.count(old) != 1:
            print(f"{number}. {what}: '{old}' occurs {source.count(old)} times in {name}, expected once", flush=True)
            unseen.append(number)
            continue
        if only_places:
            continue
        try:
            path.write_text(source.replace(old, new))
            built = subprocess.run(["cmake", "--build", build, "--target", "layout_test"], cwd=ROOT, capture_output=True, text=True)
            if built.returncode != 0:
                print(f"{number}. {what}: does not build\n{built.stdout[-2000:]}", flush=True)
                unseen.append(number)
                continue
            try:
                done = subprocess.run([f"{build}/tests/layout_test", f"--gtest_filter={tests}", "--gtest_fail_fast"], cwd=ROOT,
                                      capture_output=True, text=True, timeout=400)
                seen = done.returncode != 0
            except subprocess.TimeoutExpired:
                seen = True
        finally:
            path.write_text(source)
        print(f"{number}. {what}: {'seen' if seen else 'NOT SEEN'}", flush=True)
        if not seen:
            unseen.append(number)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
