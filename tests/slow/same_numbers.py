#!/usr/bin/env python3
"""Whether two builds of Stoa compute the same numbers: 12 short trainings with each, whose losses, gradient norms and weights must be
equal to the bit. For changes that should move code and nothing else.

    python tests/slow/same_numbers.py OLD/stoa NEW/stoa

The runs cover decoders, encoders and encoder-decoders, experts, linear attention, fp32 and bf16, and every kind of parallelism on threads.
Exit code 1 where a number differs.
"""
import argparse
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

SMALL = ["model.num_layers=4", "model.hidden_size=64", "model.num_attention_heads=4", "model.encoder_seq_length=32",
         "model.micro_batch_size=2", "model.global_batch_size=8", "model.data=rows", "model.tokenizer=bytes", "model.vocab_size=null",
         "model.optim.sched.warmup_steps=1", "trainer.max_steps=6", "trainer.val_check_interval=3", "trainer.limit_val_batches=1",
         "trainer.log_every_n_steps=1", "trainer.num_threads=1", "trainer.precision=fp32"]
LLAMA = ["model.position_embedding_type=rope", "model.normalization=rmsnorm", "model.activation=swiglu", "model.bias=none",
         "model.num_query_groups=2", "model.share_embeddings_and_output_weights=false"]
EXPERTS = ["model.num_moe_experts=4", "model.moe_router_topk=2"]
WORDS = ["model.tokenizer=pieces", "model.data=sentences"]

# Name, preset, settings besides SMALL.
RUNS = [("gpt", "tiny", []),
        ("gpt in bf16, dropout, full recomputation", "tiny",
         ["trainer.precision=bf16", "model.hidden_dropout=0.1", "model.activations_checkpoint_granularity=full",
          "model.activations_checkpoint_method=uniform"]),
        ("llama, tensor and sequence parallel", "tiny", LLAMA + ["model.tensor_model_parallel_size=2", "model.sequence_parallel=true"]),
        ("llama, interleaved pipeline", "tiny",
         LLAMA + ["model.pipeline_model_parallel_size=2", "model.virtual_pipeline_model_parallel_size=2"]),
        ("llama, ZeRO 3 in bf16", "tiny", LLAMA + ["trainer.precision=bf16", "model.zero_stage=3", "trainer.devices=2"]),
        ("llama, context parallel", "tiny", LLAMA + ["model.context_parallel_size=2"]),
        ("experts", "tiny", LLAMA + EXPERTS),
        ("experts, expert parallel", "tiny", LLAMA + EXPERTS + ["model.expert_model_parallel_size=2", "trainer.devices=2"]),
        ("linear attention", "qwen3-next-tiny", []),
        ("latent attention", "deepseek-tiny", []),
        ("encoder", "bert-110m", WORDS + ["model.bert.binary_head=true"]),
        ("encoder-decoder", "t5-220m", ["model.tokenizer=sentinels", "model.t5.seq_length_dec=16", "model.optim.sched.warmup_ratio=null",
                                         'model.data.splits_string="90,10,0"'])]
# Presets with sizes of their own keep these.
OWN_SIZES = {"qwen3-next-tiny": ("num_layers", "hidden_size", "num_attention_heads"),
             "deepseek-tiny": ("num_layers", "hidden_size", "num_attention_heads")}


def prepare(stoa, folder):
    """Text of a small vocabulary, and the tokenizers and token files of the three kinds of model."""
    draw = random.Random(7)
    words = ["".join(draw.choice("abcdefghij") for _ in range(draw.randint(2, 7))) for _ in range(300)]
    sentence = lambda: " ".join(draw.choice(words) for _ in range(draw.randint(4, 12))).capitalize() + "."
    text = "\n\n".join(" ".join(sentence() for _ in range(draw.randint(2, 6))) for _ in range(600))
    (folder / "text.txt").write_text(text + "\n")
    for kind, more in (("bytes", ["--vocab-size", "400"]), ("pieces", ["--kind", "wordpiece", "--vocab-size", "300"]),
                       ("sentinels", ["--kind", "unigram", "--vocab-size", "300", "--sentinels", "20"])):
        run(stoa, folder, "tokenizer", "train", "text.txt", *more, "--output", kind)
    parts = ["--text-split", "paragraph"]
    run(stoa, folder, "data", "prepare", "text.txt", "--tokenizer", "bytes", *parts, "--output", "rows")
    run(stoa, folder, "data", "prepare", "text.txt", "--tokenizer", "pieces", *parts, "--split-sentences", "--output", "sentences")
    run(stoa, folder, "data", "prepare", "text.txt", "--tokenizer", "sentinels", *parts, "--output", "pairs")


def run(stoa, folder, *arguments):
    done = subprocess.run([stoa, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0: sys.exit(f"{stoa} {' '.join(arguments)}\n{done.stderr}")


def numbers(stoa, folder, output, preset, settings):
    """Losses and norms of every step, validations, and the hashes of the last checkpoint's tensors."""
    kept = [s for s in SMALL if s.split("=")[0].removeprefix("model.") not in OWN_SIZES.get(preset, ())]
    if preset.startswith("t5"): settings = settings + ["model.data=pairs"]
    run(stoa, folder, "train", preset, *kept, *settings, "--output", output)
    steps = []
    for line in (folder / output / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        steps.append({k: row[k] for k in ("step", "loss", "grad_norm", "val_loss", "lr") if k in row})
    last = sorted((folder / output / "checkpoints").glob("step-*"))[-1]
    files = {str(p.relative_to(last)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(last.rglob("*.safetensors"))}
    return steps, files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old"), parser.add_argument("new")
    arguments = parser.parse_args()
    programs = [str(pathlib.Path(p).resolve()) for p in (arguments.old, arguments.new)]
    different = 0
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        prepare(programs[0], folder)
        for i, (name, preset, settings) in enumerate(RUNS):
            old, new = (numbers(program, folder, f"{side}{i}", preset, settings) for side, program in zip(("old", "new"), programs))
            same = old == new and old[0] and old[1]
            different += not same
            print(f"{'same' if same else 'DIFFERENT'}: {name}, {len(old[0])} rows of metrics, {len(old[1])} files of weights", flush=True)
    print(f"{len(RUNS) - different} of {len(RUNS)} runs are the same to the bit")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
