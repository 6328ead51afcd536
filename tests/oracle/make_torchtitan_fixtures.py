"""Makes tests/fixtures/torchtitan: the model of tests/fixtures/torch/llama as a checkpoint of torch.distributed.checkpoint.

    python tests/oracle/make_torchtitan_fixtures.py      # needs torch and safetensors; 2 processes over gloo

PyTorch writes the files; the names of the tensors and the order of channels in queries and keys are torchtitan's, as published in
its Llama 3 model. Tensors are split over the processes by rows, some also by columns.
"""
import json
import os
import pathlib
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
OUTPUT = FIXTURES / "torchtitan"
HEADS, GROUPS = 4, 2
LAYER = {"input_layernorm": "attention_norm", "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk",
         "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2"}


def neighbours(weight, heads):
    """Channels of rotary positions next to each other instead of half a head apart."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()


def content():
    out = {}
    for name, weight in load_file(FIXTURES / "torch/llama/model.safetensors").items():
        name = name.removeprefix("model.")
        if name == "embed_tokens.weight":
            out["tok_embeddings.weight"] = weight
            continue
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            rest = rest.removesuffix(".weight")
            if rest == "self_attn.q_proj":
                weight = neighbours(weight, HEADS)
            if rest == "self_attn.k_proj":
                weight = neighbours(weight, GROUPS)
            name = f"layers.{layer}.{LAYER[rest]}.weight"
        out[name] = weight
    return out


def save(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29612")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = DeviceMesh("cpu", [0, 1])
    state = {}
    for name, weight in content().items():
        dimension = 1 if name.endswith(("wo.weight", "w2.weight")) else 0
        state[name] = distribute_tensor(weight, mesh, [Shard(dimension)])
    state["optimizer"] = {"state": {"tok_embeddings.weight": {"step": torch.tensor(7.0)}}}
    state["train_state"] = {"step": 7}
    dcp.save(state, checkpoint_id=str(OUTPUT))


if __name__ == "__main__":
    shutil.rmtree(OUTPUT, ignore_errors=True)
    mp.spawn(save, nprocs=2)
    (OUTPUT / "params.json").write_text(json.dumps(dict(
        dim=16, n_layers=2, n_heads=HEADS, n_kv_heads=GROUPS, norm_eps=1e-6, rope_theta=10000.0, max_seq_len=64)) + "\n")
    for path in sorted(OUTPUT.iterdir()):
        print(path.name, path.stat().st_size)
