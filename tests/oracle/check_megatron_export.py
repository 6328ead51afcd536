"""Loads into Megatron-Core what `stoa checkpoint export --to megatron` or `--to nemo` wrote of a training in
tests/fixtures/megatron_training, and goes on.

    stoa checkpoint import tests/fixtures/megatron_training/gpt --with-optimizer --output stoa
    stoa checkpoint export stoa --to megatron --dtype fp32 --output back
    python tests/oracle/check_megatron_export.py gpt back/iter_0000002 [TP [EP]]      # needs torch and megatron-core; no GPU

NeMo 2's folder is named by its `weights`, an unpacked .nemo by its `model_weights`, whose weights alone are looked at: NeMo loads both so,
with a prefix before every name.

Model and optimizer are loaded by dist_checkpointing.load, on TP x EP processes (default: one); with EP above 1 the export is made with
--expert-model-parallel-size EP. The log-probabilities (of bert: both losses of the next batch) and, after one more step, every weight and
moment are compared with the fixture's (of t5: before that step); exits with 1 where one differs by more than 1e-4.
"""
import json
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
import torch.nn.functional as F

import make_megatron_training_fixtures as fixtures


def visit(node, wanted, found):
    """Adds to `found` how far each tensor of a sharded state is from the one in `wanted` that has its key."""
    if isinstance(node, dict):
        for value in node.values():
            visit(value, wanted, found)
    elif isinstance(node, (list, tuple)):
        for value in node:
            visit(value, wanted, found)
    elif hasattr(node, "build"):
        visit(node.build(), wanted, found)
    elif hasattr(node, "global_offset") and isinstance(node.data, torch.Tensor) and node.key in wanted:
        there = wanted[node.key]
        for dimension in range(node.prepend_axis_num):
            there = there[node.global_offset[dimension]]
        for dimension, size in enumerate(node.data.shape):
            there = there.narrow(dimension, node.global_offset[node.prepend_axis_num + dimension], size)
        found.append((node.data.detach() - there).abs().max().item())


def answer(name, a, model, answers):
    """The loss of the next batch, and how far answers are from the fixture's."""
    if name == "bert":
        masked, order = fixtures.Bert(a["seq_length"]).losses(model, 2)
        return masked + order, max(abs(masked.item() - answers["loss"]), abs(order.item() - answers["sentence_loss"]))
    if name == "t5":
        logprobs = fixtures.T5.forward(model)[0].double()[:, :a["vocab_size"]].log_softmax(-1)
        return None, max(abs(logprobs[i, t].item() - answers["logprobs"][i]) for i, t in enumerate(answers["target"]))
    ids, positions, mask = fixtures.inputs()
    logits = model(ids, positions, mask).float().clone()
    logprobs = logits[0].double().log_softmax(-1)
    worst = max(abs(logprobs[i, t].item() - answers["logprobs"][i + 1]) for i, t in enumerate(answers["ids"][1:]))
    return F.cross_entropy(logits.view(-1, fixtures.VOCABULARY), torch.roll(ids, -1, 1).reshape(-1)), worst


def check(rank, name, folder, layout):
    fixtures.start(rank, layout[0] * layout[2], layout)
    from megatron.core import dist_checkpointing
    a = dict(fixtures.MODELS[name], tensor_model_parallel_size=layout[0], expert_model_parallel_size=layout[2])
    if name == "t5":  # Megatron-Core takes the bias of its head, which it has twice, with the vocabulary's own size alone
        a["padded_vocab_size"] = a["vocab_size"]
    model, optimizer = fixtures.with_optimizer(fixtures.build(a, layout), False)
    prefix = {"weights": "module.", "model_weights": "model."}.get(pathlib.Path(folder).name, "")
    form = {"prefix": prefix, "sharding_type": "fully_sharded_model_space"} if prefix else {}
    wanted = fixtures.sharded(model, optimizer, loading=True, **form)
    if prefix:  # as Lightning names and nests them
        wanted = {"state_dict": wanted["model"], "optimizer": [wanted["optimizer"]]}
        if prefix == "model.":
            del wanted["optimizer"]
    loaded = dist_checkpointing.load(wanted, folder)
    weights = loaded["state_dict"] if prefix else loaded["model"]
    model.module.load_state_dict({key.removeprefix(prefix): value for key, value in weights.items()})
    if prefix != "model.":
        optimizer.load_state_dict(loaded["optimizer"][0] if prefix else loaded["optimizer"])
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.1 * group["wd_mult"]
    answers = json.loads((fixtures.OUTPUT / name / "answers.json").read_text())
    loss, worst = answer(name, a, model, answers)
    if prefix == "model.":
        print(f"{name}, rank {rank}: log-probabilities differ by {worst:.1e}", flush=True)
        dist.barrier()
        sys.exit(0 if worst < 1e-4 else 1)
    after = fixtures.OUTPUT / name / "iter_0000003"
    if after.exists():
        model.zero_grad_buffer()
        optimizer.zero_grad()
        loss.backward()
        model.finish_grad_sync()
        optimizer.step()
    else:
        after = fixtures.OUTPUT / name / "iter_0000002"
    reader = dcp.FileSystemReader(after)
    wanted = {key: torch.empty(item.size, dtype=item.properties.dtype) for key, item in reader.read_metadata().state_dict_metadata.items()
              if hasattr(item, "size")}
    dcp.load(wanted, storage_reader=reader, no_dist=True)
    found = []
    visit(fixtures.sharded(model, optimizer), wanted, found)
    print(f"{name}, rank {rank}: answers differ by {worst:.1e}; {len(found)} tensors of {after.name} by {max(found):.1e}", flush=True)
    dist.barrier()
    if not (worst < 1e-4 and max(found) < 1e-4 and len(found) > 20):
        sys.exit(1)


def main():
    name, folder = sys.argv[1], sys.argv[2]
    tensor, expert = [int(size) for size in sys.argv[3:]] + [1] * (5 - len(sys.argv))
    mp.spawn(check, args=(name, folder, (tensor, 1, expert)), nprocs=tensor * expert)


if __name__ == "__main__":
    main()
