#!/usr/bin/env python3
"""Import of a large checkpoint of Megatron-Core's form beside a copy of its files, alternating in one run.

  python bench/import_torch_dist.py --stoa build/release/src/stoa --folder DIR [--gigabytes 2] [--rounds 5]

Writes a Llama of about that size into DIR (bf16, torch_dist), imports it and
copies it in turn, and prints medians: seconds, bytes per second, the ratio, and the most anonymous memory that the import had beside the
largest tensor. Both write to the same disk and end with their files synced. Needs torch.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

import torch
import torch.distributed.checkpoint as dcp

HIDDEN, HEADS, GROUPS, HEAD, FFN, VOCABULARY = 4096, 32, 8, 128, 14336, 32000


def shapes(layers):
    qkv = (HEADS + 2 * GROUPS) * HEAD
    return {"embedding.word_embeddings.weight": (VOCABULARY, HIDDEN),
            "decoder.layers.self_attention.linear_qkv.layer_norm_weight": (layers, HIDDEN),
            "decoder.layers.self_attention.linear_qkv.weight": (layers, qkv, HIDDEN),
            "decoder.layers.self_attention.linear_proj.weight": (layers, HIDDEN, HEADS * HEAD),
            "decoder.layers.mlp.linear_fc1.layer_norm_weight": (layers, HIDDEN),
            "decoder.layers.mlp.linear_fc1.weight": (layers, 2 * FFN, HIDDEN),
            "decoder.layers.mlp.linear_fc2.weight": (layers, HIDDEN, FFN),
            "decoder.final_layernorm.weight": (HIDDEN,), "output_layer.weight": (VOCABULARY, HIDDEN)}


def write(folder, gigabytes):
    def size(layers):
        return sum(2 * torch.Size(shape).numel() for shape in shapes(layers).values())
    layers = max(1, round((gigabytes * 1e9 - size(0)) / (size(1) - size(0))))
    tensors = {name: torch.rand(shape).to(torch.bfloat16) for name, shape in shapes(layers).items()}
    dcp.save(tensors, checkpoint_id=folder, no_dist=True)
    args = dict(num_layers=layers, hidden_size=HIDDEN, num_attention_heads=HEADS, group_query_attention=True, num_query_groups=GROUPS,
                kv_channels=HEAD, ffn_hidden_size=FFN, swiglu=True, normalization="RMSNorm", position_embedding_type="rope",
                add_bias_linear=False, untie_embeddings_and_output_weights=True, vocab_size=VOCABULARY, max_position_embeddings=4096)
    torch.save({"args": argparse.Namespace(**args), "iteration": 1}, folder / "common.pt")
    (folder / "metadata.json").write_text('{"sharded_backend": "torch_dist", "sharded_backend_version": 1}')
    return 2 * max(torch.Size(shape[1:] if ".layers." in name else shape).numel() for name, shape in shapes(layers).items())


def sync(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())


def timed(action):
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def imported(stoa, source, target):
    """The most anonymous memory of the process, in bytes."""
    process = subprocess.Popen([stoa, "checkpoint", "import", source, "--output", target], stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            most = max(most, next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon")))
        except (OSError, StopIteration):
            pass
        time.sleep(0.01)
    if process.returncode:
        raise SystemExit(f"the import failed with {process.returncode}")
    sync(pathlib.Path(target))
    return most


def copied(source, target):
    shutil.copytree(source, target)
    sync(target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stoa", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    source = a.folder / "checkpoint"
    source.mkdir(parents=True)
    largest = write(source, a.gigabytes)
    size = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    times = {"import": [], "copy": []}
    memory = []
    for _ in range(a.rounds):
        for name in times:
            target = a.folder / name
            seconds, most = timed(lambda: imported(a.stoa, source, target) if name == "import" else copied(source, target))
            times[name].append(seconds)
            if most:
                memory.append(most)
            shutil.rmtree(target)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(json.dumps({"bytes": size, "seconds": {name: [round(v, 2) for v in values] for name, values in times.items()},
                      "rate_import": size / medians["import"], "rate_copy": size / medians["copy"],
                      "ratio": medians["copy"] / medians["import"], "anonymous_memory": max(memory), "largest_tensor": largest,
                      "memory_ratio": max(memory) / largest}, indent=1))


if __name__ == "__main__":
    main()
