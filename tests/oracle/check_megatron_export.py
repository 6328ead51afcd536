"""Loads into Megatron-Core what `stoa checkpoint export --to megatron` wrote of a training in tests/fixtures/megatron_training, and goes on.

    stoa checkpoint import tests/fixtures/megatron_training/gpt --with-optimizer --output stoa
    stoa checkpoint export stoa --to megatron --dtype fp32 --output back
    python tests/oracle/check_megatron_export.py gpt back/iter_0000002      # needs torch and megatron-core; no GPU

Model and optimizer are loaded by dist_checkpointing.load. The log-probabilities and, after one more step, every weight and moment are
compared with the fixture's; exits with 1 where one differs by more than 1e-4.
"""
import json
import sys

import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F

import make_megatron_training_fixtures as fixtures


def main():
    name, folder = sys.argv[1], sys.argv[2]
    fixtures.start(0, 1, (1, 1, 1))
    from megatron.core import dist_checkpointing
    model, optimizer = fixtures.with_optimizer(fixtures.build(fixtures.MODELS[name], (1, 1, 1)), False)
    loaded = dist_checkpointing.load(fixtures.sharded(model, optimizer, loading=True), folder)
    model.module.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.1 * group["wd_mult"]
    ids, positions, mask = fixtures.inputs()
    answers = json.loads((fixtures.OUTPUT / name / "answers.json").read_text())
    logits = model(ids, positions, mask).float().clone()
    logprobs = logits[0].double().log_softmax(-1)
    worst = max(abs(logprobs[i, t].item() - answers["logprobs"][i + 1]) for i, t in enumerate(answers["ids"][1:]))
    model.zero_grad_buffer()
    optimizer.zero_grad()
    F.cross_entropy(logits.view(-1, fixtures.VOCABULARY), torch.roll(ids, -1, 1).reshape(-1)).backward()
    model.finish_grad_sync()
    optimizer.step()
    dcp_folder = fixtures.OUTPUT / name / "iter_0000003"
    reader = dcp.FileSystemReader(dcp_folder)
    wanted = {key: torch.empty(item.size, dtype=item.properties.dtype) for key, item in reader.read_metadata().state_dict_metadata.items()
              if hasattr(item, "size")}
    dcp.load(wanted, storage_reader=reader, no_dist=True)
    state = fixtures.sharded(model, optimizer)
    different, compared = 0.0, 0

    def visit(node):
        nonlocal different, compared
        if isinstance(node, dict):
            for value in node.values():
                visit(value)
        elif isinstance(node, (list, tuple)):
            for value in node:
                visit(value)
        elif hasattr(node, "build"):
            visit(node.build())
        elif hasattr(node, "global_offset") and isinstance(node.data, torch.Tensor) and node.key in wanted:
            there = wanted[node.key]
            for dimension in range(node.prepend_axis_num):
                there = there[node.global_offset[dimension]]
            for dimension, size in enumerate(node.data.shape):
                there = there.narrow(dimension, node.global_offset[node.prepend_axis_num + dimension], size)
            different = max(different, (node.data.detach() - there).abs().max().item())
            compared += 1
    visit(state)
    print(f"{name}: log-probabilities differ by {worst:.1e}; after one more step {compared} tensors by {different:.1e}")
    sys.exit(0 if worst < 1e-4 and different < 1e-4 and compared > 20 else 1)


if __name__ == "__main__":
    main()
