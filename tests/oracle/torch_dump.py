"""A tensor dump of a PyTorch training step, in the form of docs/tensor-dumps.md, so that `stoa compare --locate` can judge it.

  dump = Dump("dump", layers=12, length=1024, compute="bf16")
  watch_gpt2(dump, model)                          # names for transformers' GPT-2; other models: dump.watch(module, name, layer)
  loss = …; loss.backward()
  for name, layer, gradient in gpt2_parameters(model, lambda p: p.grad): dump.add("gradients", layer, name, gradient)
  dump.end_step(1, loss.item())
"""
import json
import pathlib

import safetensors.torch

TYPES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16", "int32": "I32", "int64": "I64"}


class Dump:
    def __init__(self, folder, layers, length, compute, rank=0, ranks=1):
        self.folder, self.rank, self.lines, self.tensors = pathlib.Path(folder), rank, [], {}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.index = open(self.folder / f"rank-{rank:05}.jsonl", "w")
        print(json.dumps({"format": "stoa-tensor-dump", "version": 1, "rank": rank, "ranks": ranks, "compute": compute,
                          "layers": layers, "length": length, "writer": "torch"}), file=self.index)

    def add(self, phase, layer, name, x, microbatch=-1):
        x = x.detach().cpu()
        if x.dim() == 3: x = x.reshape(-1, x.shape[-1])  # [rows, positions, channels] -> [tokens, channels]
        key = f"{phase}/{microbatch}/{name}"
        self.tensors[key] = x.clone().contiguous()
        self.lines.append({"phase": phase, "microbatch": microbatch, "layer": layer, "tensor": name, "dtype": TYPES[str(x.dtype)[6:]],
                           "global": list(x.shape), "begin": [0] * x.dim(), "shape": list(x.shape), "key": key})

    def watch(self, module, name, layer, inputs=False):
        """The output of a module (or its first input), and the gradient with respect to it."""
        def seen(_, args, out):
            x = args[0] if inputs else out[0] if isinstance(out, tuple) else out
            self.add("forward", layer, name, x, 0)
            x.register_hook(lambda gradient: self.add("backward", layer, name, gradient, 0))
        module.register_forward_hook(seen)

    def end_step(self, step, loss=None, rate=None):
        file = f"step-{step:07}/rank-{self.rank:05}.safetensors"
        (self.folder / file).parent.mkdir(exist_ok=True)
        safetensors.torch.save_file(self.tensors, self.folder / file)
        for line in self.lines: print(json.dumps({"step": step, "file": file, **line}), file=self.index)
        print(json.dumps({"end_of_step": step, "tensors": len(self.lines), "loss": loss, "rate": rate}), file=self.index, flush=True)
        self.lines, self.tensors = [], {}


def watch_gpt2(dump, model):
    blocks = model.transformer.h
    dump.watch(blocks[0], "embedding.output", -1, inputs=True)
    for i, block in enumerate(blocks):
        name = f"layers.{i}."
        dump.watch(block.ln_1, name + "norm1.output", i)
        dump.watch(block.attn.c_proj, name + "attention.context", i, inputs=True)
        dump.watch(block.attn.c_proj, name + "attention.output", i)
        dump.watch(block.ln_2, name + "middle", i, inputs=True)
        dump.watch(block.ln_2, name + "norm2.output", i)
        dump.watch(block.mlp.c_proj, name + "mlp.activated", i, inputs=True)
        dump.watch(block.mlp.c_proj, name + "mlp.output", i)
        dump.watch(block, name + "output", i)
    dump.watch(model.transformer.ln_f, "final_norm.output", len(blocks))


def gpt2_parameters(model, value):
    """(canonical name, layer, tensor): matrices as [outputs, inputs], q, k and v apart."""
    t, layers = model.transformer, len(model.transformer.h)
    yield "embedding.tokens.weight", -1, value(t.wte.weight)
    yield "embedding.positions.weight", -1, value(t.wpe.weight)
    for i, block in enumerate(t.h):
        for ours, theirs in [("norm1", block.ln_1), ("norm2", block.ln_2), ("attention.out", block.attn.c_proj),
                             ("mlp.up", block.mlp.c_fc), ("mlp.down", block.mlp.c_proj)]:
            weight = value(theirs.weight)
            yield f"layers.{i}.{ours}.weight", i, weight.T if weight.dim() == 2 else weight
            yield f"layers.{i}.{ours}.bias", i, value(theirs.bias)
        for part, weight, bias in zip("qkv", value(block.attn.c_attn.weight).T.chunk(3), value(block.attn.c_attn.bias).chunk(3)):
            yield f"layers.{i}.attention.{part}.weight", i, weight
            yield f"layers.{i}.attention.{part}.bias", i, bias
    yield "final_norm.weight", layers, value(t.ln_f.weight)
    yield "final_norm.bias", layers, value(t.ln_f.bias)
