"""Makes tests/fixtures/deepspeed: a tiny Llama that DeepSpeed trains on two processes of a CPU, as it saves its checkpoints.

    python tests/oracle/make_deepspeed_fixtures.py      # needs torch, transformers and deepspeed; no GPU

zero1 (weights in bf16), zero2 and zero3 (fp32): saved after two steps, as DeepSpeed.save_checkpoint writes them. universal_zero2, universal_zero3: as
DeepSpeed's ds_to_universal.py joins them. expected/NAME: weights, adam.m/ and adam.v/ out of what that script joins; zero2_after: those of one
more step. tokens.bin, tokens.idx, answers.json: as those of megatron_training.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from safetensors.torch import save_file

OUTPUT = pathlib.Path(__file__).parents[1] / "fixtures" / "deepspeed"
TOKENS = [1, 5, 9, 13, 2, 17, 19, 0]
FORMS = {"zero1": (1, True), "zero2": (2, False), "zero3": (3, False)}
WORLD = 2


def start(rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank), LOCAL_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29744", DS_ACCELERATOR="cpu")
    torch.set_num_threads(1)
    import deepspeed
    import deepspeed.comm.torch
    deepspeed.comm.torch.build_shm_op = lambda: None  # would compile a program
    deepspeed.init_distributed("gloo")
    return deepspeed


def joined(source, target):
    """The checkpoint that DeepSpeed's own script makes of partitions."""
    subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", source, "--output_folder", target,
                    "--inject_missing_state", "--num_extract_workers", "1", "--num_merge_workers", "1"],
                   check=True, env=dict(os.environ, DS_ACCELERATOR="cpu"))
    return target


def whole(universal):
    out = {}
    states = torch.load(next(universal.glob("*mp_rank_00_model_states.pt")), weights_only=False)
    shapes = {name: shape for group in states["param_shapes"] for name, shape in group.items()}
    for name, shape in shapes.items():
        for state, prefix in (("fp32", ""), ("exp_avg", "adam.m/"), ("exp_avg_sq", "adam.v/")):
            found = torch.load(universal / "zero" / name / f"{state}.pt", weights_only=False)
            tensor = found["param"] if isinstance(found, dict) else found  # of stage 3 it is flat
            out[prefix + name] = tensor.float().reshape(shape).contiguous()
    return out


def train(rank, name, folder):
    deepspeed = start(rank)
    from transformers import LlamaConfig, LlamaForCausalLM
    stage, half = FORMS[name]
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=24, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=32, tie_word_embeddings=False, bos_token_id=1, eos_token_id=0, rms_norm_eps=1e-5)
    model = LlamaForCausalLM(config)
    with torch.no_grad():  # norms that say which is which
        for parameter in model.parameters():
            parameter.add_(torch.empty_like(parameter).uniform_(-0.2, 0.2))
    decays = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-2, betas=(0.9, 0.95),
                                  eps=1e-4)
    settings = {"train_batch_size": WORLD, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True, "steps_per_print": 1000, "gradient_clipping": 1.0, "bf16": {"enabled": half}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    ids = torch.tensor([TOKENS])
    labels = torch.roll(ids, -1, 1)  # the sample goes on where the document begins again
    for step in range(3):
        if step == 2:
            engine.save_checkpoint(folder / name)
            with torch.no_grad():
                logprobs = engine(input_ids=ids).logits[0].double().log_softmax(-1)
            if rank == 0 and name == "zero2":
                answers = [None] + [logprobs[i, t].item() for i, t in enumerate(TOKENS[1:])]
                (OUTPUT / "answers.json").write_text(json.dumps({"ids": TOKENS, "logprobs": answers}) + "\n")
        loss = F.cross_entropy(engine(input_ids=ids).logits.float().view(-1, 24), labels.reshape(-1))
        engine.backward(loss)
        engine.step()
        if rank == 0:
            print(name, "loss", loss.item(), flush=True)
    engine.save_checkpoint(folder / f"{name}_after")
    if rank == 0:
        model.config.save_pretrained(folder / name)
    dist.barrier()


def write_tokens():
    import struct
    (OUTPUT / "tokens.bin").write_bytes(struct.pack(f"<{len(TOKENS)}H", *TOKENS))
    (OUTPUT / "tokens.idx").write_bytes(b"MMIDIDX\x00\x00" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(TOKENS), 0, 0, 1))


def keep(source, name):
    """What belongs to the checkpoint, without DeepSpeed's scripts."""
    for path in source.rglob("*"):
        if path.is_file() and path.suffix != ".py" and path.name != "generation_config.json":
            target = OUTPUT / name / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def main():
    names = sys.argv[1:] or list(FORMS)
    OUTPUT.mkdir(exist_ok=True)
    write_tokens()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for name in names:
            mp.spawn(train, args=(name, scratch), nprocs=WORLD)
            shutil.rmtree(OUTPUT / name, ignore_errors=True)
            keep(scratch / name, name)
            for when, step in (("", 2), ("_after", 3))[:2 if name == "zero2" else 1]:
                universal = joined(scratch / f"{name}{when}" / f"global_step{step}", scratch / f"universal_{name}{when}" / "joined")
                (OUTPUT / "expected" / f"{name}{when}").mkdir(parents=True, exist_ok=True)
                save_file(whole(universal), OUTPUT / "expected" / f"{name}{when}" / "model.safetensors")
            if name != "zero1":
                universal = scratch / f"universal_{name}"
                shutil.copy(scratch / name / "config.json", universal)
                (universal / "latest_universal").write_text("joined")
                shutil.rmtree(OUTPUT / universal.name, ignore_errors=True)
                keep(universal, universal.name)
    (OUTPUT / "README.md").write_text("Written by DeepSpeed itself: `tests/oracle/make_deepspeed_fixtures.py`.\n")
    for path in sorted(OUTPUT.rglob("*")):
        if path.is_file():
            print(path.relative_to(OUTPUT), path.stat().st_size)


if __name__ == "__main__":
    main()
