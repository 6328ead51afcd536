#!/usr/bin/env python3
"""Facts of Megatron-LM's command lines, read without Stoa: sizes, layout, batch, recomputation, precision, experts, schedule.

The corpus, tests/fixtures/megatron/corpus.json, holds arguments of public command lines and what they must give.

  python3 tests/oracle/megatron_facts.py                    # compares the corpus with an independent reading by argparse
  python3 tests/oracle/megatron_facts.py --megatron DIR     # and, where it accepts them, with parse_args and validate_args of the
                                                            # copy of Megatron-LM in DIR (needs PyTorch, no GPU)
  python3 tests/oracle/megatron_facts.py --megatron DIR --arguments  # prints the arguments that this copy takes
  python3 tests/oracle/megatron_facts.py --write            # writes the facts of the independent reading into the corpus
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import shlex
import sys

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "megatron" / "corpus.json"


def whole(text):
    return int(text.replace("_", ""))


def parser():
    p = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    numbers = ("num-layers encoder-num-layers decoder-num-layers hidden-size num-attention-heads ffn-hidden-size seq-length "
               "encoder-seq-length vocab-size padded-vocab-size pad-vocab-size-to tensor-model-parallel-size "
               "pipeline-model-parallel-size num-layers-per-virtual-pipeline-stage num-virtual-stages-per-pipeline-rank "
               "context-parallel-size ds-sequence-parallel-size expert-model-parallel-size micro-batch-size global-batch-size "
               "moe-router-topk topk num-query-groups num-key-value-heads vocab-extra-ids decoder-seq-length")
    for name in numbers.split():
        p.add_argument("--" + name, type=whole)
    p.add_argument("--num-experts", nargs="+", type=whole)
    for name in "recompute-granularity activations-checkpoint-method pipeline-model-parallel-layout glu-activation hybrid-layer-pattern hybrid-override-pattern".split():
        p.add_argument("--" + name)
    for name in ("group-query-attention recompute-activations moe-layer-recompute checkpoint-activations bf16 fp16 swiglu quick-geglu "
                 "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split enable-zbh1-pipeline").split():
        p.add_argument("--" + name, action="store_true")
    return p


def chunks_of_layout(text):
    """Number of stages of a --pipeline-model-parallel-layout."""
    import re
    while "(" in text:
        text = re.sub(r"\(([^()]*)\)(?:\*(\d+))?", lambda m: m[1] * int(m[2] or 1), text)
    text = re.sub(r"(.)\*(\d+)", lambda m: m[1] * int(m[2]), text)
    return text.count("|") + 1


def facts(entry):
    a, _ = parser().parse_known_args(shlex.split(entry["arguments"]))
    tp, pp = a.tensor_model_parallel_size or 1, a.pipeline_model_parallel_size or 1
    cp = a.context_parallel_size or a.ds_sequence_parallel_size or 1
    pattern = a.hybrid_layer_pattern or a.hybrid_override_pattern or ""
    layers = len(pattern.replace("|", "")) or a.num_layers or a.encoder_num_layers
    counted = layers + a.account_for_embedding_in_pipeline_split + a.account_for_loss_in_pipeline_split
    if entry["kind"] == "t5":
        layers += a.decoder_num_layers or layers
    vpp = 1
    if "|" in pattern:
        vpp = len(pattern.split("|")) // pp
    elif a.pipeline_model_parallel_layout:
        vpp = chunks_of_layout(a.pipeline_model_parallel_layout) // pp
    elif a.num_layers_per_virtual_pipeline_stage and pp > 1:
        vpp = counted // pp // a.num_layers_per_virtual_pipeline_stage
    elif a.num_virtual_stages_per_pipeline_rank:
        vpp = a.num_virtual_stages_per_pipeline_rank
    gated = a.swiglu
    ffn = a.ffn_hidden_size or (int(4 * a.hidden_size * 2 / 3 / 64) * 64 if gated else 4 * a.hidden_size)
    experts = a.num_experts[0] if a.num_experts else 0
    recompute = "none"
    if a.recompute_activations or a.moe_layer_recompute:
        recompute = "selective"
    if a.recompute_granularity and a.recompute_granularity != "none":
        recompute = a.recompute_granularity
    if a.checkpoint_activations or a.activations_checkpoint_method:
        recompute = "full"
    out = {
        "layers": layers, "hidden": a.hidden_size, "heads": a.num_attention_heads,
        "groups": (a.num_query_groups or 1) if a.group_query_attention else a.num_key_value_heads or a.num_attention_heads,
        "ffn": ffn, "seq": a.seq_length or a.encoder_seq_length, "tp": tp, "pp": pp, "vpp": vpp, "cp": cp,
        "ep": a.expert_model_parallel_size or 1, "micro": a.micro_batch_size or 1,
        "recompute": recompute, "precision": "bf16" if a.bf16 else "fp16" if a.fp16 else "fp32",
        "experts": experts if experts > 1 else 0,
        "schedule": "zb-h1" if a.enable_zbh1_pipeline else "interleaved" if vpp > 1 else "1f1b" if pp > 1 else "none",
    }
    out["global"] = a.global_batch_size or out["micro"] * (entry["ranks"] // (tp * pp * cp))
    if out["experts"]:
        out["topk"] = a.moe_router_topk or a.topk or 2
    vocab = a.padded_vocab_size or a.pad_vocab_size_to or (a.vocab_size and a.vocab_size + (a.vocab_extra_ids or 0))
    if vocab:
        out["vocab"] = vocab
    return out


def megatron(directory):
    """parse_args and validate_args of a copy of Megatron-LM; what asks for a device is answered here."""
    import typing
    import warnings
    warnings.simplefilter("ignore")
    if not hasattr(typing, "override"): typing.override = lambda f: f
    import torch

    class Device:
        major, minor, total_memory, multi_processor_count, name = 9, 0, 80 << 30, 132, "H100"
    torch.cuda.get_device_properties = lambda *a, **k: Device()
    torch.cuda.get_device_capability = lambda *a, **k: (9, 0)
    torch.cuda.device_count = lambda: 8
    torch.cuda.is_available = lambda: True
    sys.path.insert(0, directory)
    import megatron.training.arguments as module

    def read(entry):
        os.environ.update(WORLD_SIZE=str(entry["ranks"]), RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1",
                          NVTE_ALLOW_NONDETERMINISTIC_ALGO="0", NCCL_ALGO="Ring", CUBLAS_WORKSPACE_CONFIG=":4096:8")
        sys.argv = ["pretrain.py", *shlex.split(entry["arguments"])]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                a = module.parse_args()
                a.world_size = entry["ranks"]
                module.validate_args(a)
            except SystemExit:
                raise RuntimeError(errors.getvalue().strip().splitlines()[-1:] or "exit") from None
        vpp = a.virtual_pipeline_model_parallel_size or 1
        layers = a.num_layers
        if entry["kind"] == "t5": layers += a.decoder_num_layers or layers
        out = {
            "layers": layers, "hidden": a.hidden_size, "heads": a.num_attention_heads,
            "groups": a.num_query_groups if a.group_query_attention else a.num_attention_heads,
            "ffn": a.ffn_hidden_size, "seq": a.seq_length, "tp": a.tensor_model_parallel_size,
            "pp": a.pipeline_model_parallel_size, "vpp": vpp, "cp": a.context_parallel_size,
            "ep": a.expert_model_parallel_size, "micro": a.micro_batch_size, "global": a.global_batch_size,
            # What the model's configuration makes of the older argument.
            "recompute": a.recompute_granularity or ("selective" if getattr(a, "moe_layer_recompute", False) else "none"),
            "precision": "bf16" if a.bf16 else "fp16" if a.fp16 else "fp32",
            "experts": a.num_experts or 0,
            "schedule": "interleaved" if vpp > 1 else "1f1b" if a.pipeline_model_parallel_size > 1 else "none",
        }
        if out["experts"]: out["topk"] = a.moe_router_topk
        return out
    return read


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--megatron", metavar="DIR")
    options.add_argument("--arguments", action="store_true")
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    corpus = json.loads(CORPUS.read_text())
    wrong = agreed = 0
    refused = []
    own = megatron(options.megatron) if options.megatron else None
    if options.arguments:
        import megatron.training.arguments as module
        taken = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
        module.add_megatron_arguments(taken)
        from megatron.post_training.arguments import add_modelopt_args
        add_modelopt_args(taken)
        print("\n".join(sorted({name.lstrip("-") for action in taken._actions for name in action.option_strings})))
        return 0
    for entry in corpus:
        mine = facts(entry)
        if options.write: entry["facts"] = mine
        if mine != entry["facts"]:
            wrong += 1
            print(f"{entry['path']}: corpus {entry['facts']}, argparse {mine}")
        if own:
            try:
                theirs = own(entry)
            except BaseException as error:  # whatever an argument of another version leads to
                refused.append(f"{entry['path']}: {str(error)[:150]}")
                continue
            differ = {k: (entry["facts"].get(k), v) for k, v in theirs.items() if entry["facts"].get(k) != v}
            wrong += bool(differ)
            agreed += not differ
            if differ: print(f"{entry['path']}: (corpus, Megatron) {differ}")
    if options.write:
        CORPUS.write_text("[\n" + ",\n".join(json.dumps(e) for e in corpus) + "\n]\n")
    print(f"{len(corpus)} command lines, {wrong} differ")
    if own:
        print(f"Megatron's own parser agrees on {agreed}, and rejects {len(refused)}:")
        print("\n".join("  " + line for line in refused))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
