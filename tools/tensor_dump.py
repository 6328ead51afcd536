"""Dumps of the tensors of a training step of PyTorch or Megatron-LM, in the format of docs/tensor-dumps.md, so that
`stoa compare --locate` names the first tensor in which the step differs from one of Stoa. Needs torch and safetensors.

Megatron-LM, on every rank (docs/from-megatron.md has a worked case):

  dump = MegatronDump("dump", model, rows=args.global_batch_size, length=args.seq_length, vocabulary=tokenizer.vocab_size)
  dump.weights()                                   # before the step
  …forward and backward passes of all microbatches, reduction of gradients…
  dump.gradients()                                 # before they are clipped
  dump.end_step(1, loss)

PyTorch:

  dump = Dump("dump", layers=12, length=1024)
  watch_gpt2(dump, model)                          # or watch_llama; other models: dump.watch(module, name, layer)
  for name, layer, weight in gpt2_parameters(model, lambda p: p): dump.add("weights", layer, name, weight)
  loss = …; loss.backward()
  for name, layer, gradient in gpt2_parameters(model, lambda p: p.grad): dump.add("gradients", layer, name, gradient)
  dump.end_step(1, loss.item())
"""
import json
import pathlib

import safetensors.torch

TYPES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16", "int32": "I32", "int64": "I64"}


class Dump:
    """`compute`: the type of the matrix products. `scale`: gradients are the true ones (of the mean loss over the global batch)
    times this, for example the loss scale."""

    def __init__(self, folder, layers, length, compute="fp32", rank=0, ranks=1, layout="", writer="torch", scale=1):
        self.folder, self.rank, self.lines, self.tensors, self.scale = pathlib.Path(folder), rank, [], {}, scale
        self.folder.mkdir(parents=True, exist_ok=True)
        self.index = open(self.folder / f"rank-{rank:05}.jsonl", "w")
        print(json.dumps({"format": "stoa-tensor-dump", "version": 1, "rank": rank, "ranks": ranks, "compute": compute,
                          "layers": layers, "length": length, "layout": layout, "writer": writer}), file=self.index)

    def box(self, phase, layer, name, x, whole, begin, microbatch=-1):
        """A part of a tensor: `whole` is the shape of all of it, `begin` the first index of `x`."""
        x = x.detach().cpu()
        key = f"{phase}/{microbatch}/{name}@{','.join(map(str, begin))}"
        self.tensors[key] = x.clone().contiguous()
        line = {"phase": phase, "microbatch": microbatch, "layer": layer, "tensor": name, "dtype": TYPES[str(x.dtype)[6:]],
                "global": list(whole), "begin": list(begin), "shape": list(x.shape), "key": key}
        if phase in ("backward", "gradients") and self.scale != 1: line["scale"] = self.scale
        self.lines.append(line)

    def add(self, phase, layer, name, x, microbatch=-1):
        """A whole tensor; activations as [rows, positions, channels] or [tokens, channels]."""
        if x.dim() == 3: x = x.reshape(-1, x.shape[-1])
        self.box(phase, layer, name, x, x.shape, [0] * x.dim(), microbatch)

    def watch(self, module, name, layer, inputs=False):
        """The output of a module (or its first input), and the gradient with respect to it."""
        def seen(_, args, out):
            x = args[0] if inputs else out[0] if isinstance(out, tuple) else out
            self.add("forward", layer, name, x, 0)
            if x.requires_grad: x.register_hook(lambda gradient: self.add("backward", layer, name, gradient, 0))
        module.register_forward_hook(seen)

    def end_step(self, step, loss=None, rate=None):
        """`step` counts from 1; `loss`: the mean over the step's tokens, `rate`: the learning rate, where they are known."""
        file = f"step-{step:07}/rank-{self.rank:05}.safetensors"
        (self.folder / file).parent.mkdir(exist_ok=True)
        safetensors.torch.save_file(self.tensors, self.folder / file)
        for line in self.lines: print(json.dumps({"step": step, "file": file, **line}), file=self.index)
        print(json.dumps({"end_of_step": step, "tensors": len(self.lines), "loss": loss, "rate": rate}), file=self.index, flush=True)
        self.lines, self.tensors = [], {}


class MegatronDump(Dump):
    """A GPTModel of Megatron-Core on this rank: its local specification or Transformer Engine's, any tensor, sequence, pipeline and
    data parallelism. `model`: the model, or the list of its virtual pipeline chunks, without wrappers (DDP, Float16Module).
    `rows`: samples of the global batch, `vocabulary`: without padding. Microbatches are counted as the chunks run them."""

    def __init__(self, folder, model, rows, length, vocabulary, compute="fp32", loss_scale=1):
        from megatron.core import parallel_state
        import torch.distributed as dist
        chunks = model if isinstance(model, (list, tuple)) else [model]
        config, state = chunks[0].config, parallel_state
        if state.get_context_parallel_world_size() > 1: raise ValueError("context parallelism is not dumped: run the step with size 1")
        self.tp, self.tp_size = state.get_tensor_model_parallel_rank(), state.get_tensor_model_parallel_world_size()
        self.dp, self.dp_size = state.get_data_parallel_rank(), state.get_data_parallel_world_size()
        self.config, self.chunks, self.rows, self.length, self.vocabulary = config, chunks, rows, length, vocabulary
        # Every rank's loss is the mean over its own samples, and gradients are averaged over the data-parallel ranks afterwards.
        super().__init__(folder, config.num_layers, length, compute, dist.get_rank(), dist.get_world_size(),
                         f"TP{self.tp_size} PP{state.get_pipeline_model_parallel_world_size()} DP{self.dp_size}", "megatron-core")
        self.loss_scale, self.scale = loss_scale, loss_scale * self.dp_size
        for chunk in chunks: _watch_megatron_chunk(self, chunk)

    def activation(self, phase, layer, name, x, microbatch, split):
        """[positions, rows, channels, …]; `split`: this rank has a part of the channels."""
        positions, samples = x.shape[:2]
        parts = self.length // positions  # sequence parallelism: a part of the positions
        if not split and parts == 1 and self.tp > 0: return  # the same on all ranks of the group
        x = x.reshape(positions, samples, -1)
        channels = x.shape[2] * (self.tp_size if split else 1)
        first = self.tp * positions if parts > 1 else 0
        for i in range(samples):
            row = (microbatch * self.dp_size + self.dp) * samples + i
            self.box(phase, layer, name, x[:, i], [self.rows * self.length, channels],
                     [row * self.length + first, self.tp * x.shape[2] if split else 0], microbatch)

    def seen(self, layer, name, x, microbatch, split=False):
        self.activation("forward", layer, name, x, microbatch, split)
        if x.requires_grad:
            x.register_hook(lambda gradient: self.activation("backward", layer, name, gradient, microbatch, split))

    def weights(self):
        if self.dp == 0: self._parameters("weights", lambda p: getattr(p, "main_param", None) if p.dtype.itemsize < 4 else p)

    def gradients(self):
        if self.dp > 0: return
        self.scale = self.loss_scale
        self._parameters("gradients", lambda p: getattr(p, "main_grad", None) if p.grad is None else p.grad)
        self.scale = self.loss_scale * self.dp_size

    def _parameters(self, phase, value):
        for chunk in self.chunks:
            for name, layer, whole, begin, part in megatron_parameters(self, chunk, value, phase == "weights"):
                self.box(phase, layer, name, part, whole, begin)


def _is_norm(module):
    return hasattr(module, "weight") and module.weight is not None and "Identity" not in type(module).__name__


def _watch_megatron_chunk(dump, chunk):
    count = [-1]  # of the microbatch that the chunk runs

    def begin(*_): count[0] += 1
    chunk.register_forward_pre_hook(begin)

    def output(module, name, layer, split=False):
        def hook(_, args, out):
            bias = out[1] if isinstance(out, tuple) and len(out) > 1 else None
            x = out[0] if isinstance(out, tuple) else out
            dump.seen(layer, name, x if bias is None or bias.dim() != 1 else x + bias, count[0], split)
        module.register_forward_hook(hook)

    def first_input(module, name, layer, split=False):
        def hook(_, args, kwargs):
            dump.seen(layer, name, args[0] if args else next(iter(kwargs.values())), count[0], split)
        module.register_forward_pre_hook(hook, with_kwargs=True)

    if getattr(chunk, "pre_process", False): output(chunk.embedding, "embedding.output", -1)
    for block in chunk.decoder.layers:
        layer = block.layer_number - 1
        name = f"layers.{layer}."
        if _is_norm(block.input_layernorm): output(block.input_layernorm, name + "norm1.output", layer)

        def heads(_, args, kwargs, layer=layer, name=name):
            given = list(args) + [kwargs[k] for k in ("query", "key", "value") if k in kwargs]
            for part, x in zip("qkv", given): dump.seen(layer, f"{name}attention.{part}", x, count[0], split=True)
        block.self_attention.core_attention.register_forward_pre_hook(heads, with_kwargs=True)
        output(block.self_attention.core_attention, name + "attention.context", layer, split=True)
        output(block.self_attention, name + "attention.output", layer)
        first_input(block.pre_mlp_layernorm, name + "middle", layer)
        if _is_norm(block.pre_mlp_layernorm): output(block.pre_mlp_layernorm, name + "norm2.output", layer)
        if hasattr(block.mlp, "linear_fc2"): first_input(block.mlp.linear_fc2, name + "mlp.activated", layer, split=True)
        output(block.mlp, name + "mlp.output", layer)
        output(block, name + "output", layer)
    if getattr(chunk.decoder, "final_layernorm", None) is not None:
        output(chunk.decoder.final_layernorm, "final_norm.output", dump.config.num_layers)


def megatron_parameters(dump, chunk, value, weights):
    """(canonical name, layer, shape of the whole, first index, part) of this rank's weights or their gradients; not of experts."""
    config, tp, size = dump.config, dump.tp, dump.tp_size
    zero_centered = weights and getattr(config, "layernorm_zero_centered_gamma", False)

    def rows(name, layer, x, vocabulary=None):  # split by rows
        if x is None: return
        begin, whole = tp * x.shape[0], x.shape[0] * size
        if vocabulary is not None:
            x, whole = x[:max(0, vocabulary - begin)], vocabulary
        if len(x): yield name, layer, [whole, *x.shape[1:]], [begin, *[0] * (x.dim() - 1)], x

    def columns(name, layer, x):
        if x is not None: yield name, layer, [x.shape[0], x.shape[1] * size], [0, tp * x.shape[1]], x

    def whole(name, layer, x):
        if x is not None and tp == 0: yield name, layer, x.shape, [0] * x.dim(), x

    def of(module, attribute):
        parameter = getattr(module, attribute, None)
        return None if parameter is None else value(parameter)

    def norm(name, layer, module, fused_with):
        source, prefix = (module, "") if _is_norm(module) else (fused_with, "layer_norm_")
        weight = of(source, prefix + "weight")
        if weight is not None and zero_centered: weight = weight + 1
        yield from whole(name + ".weight", layer, weight)
        yield from whole(name + ".bias", layer, of(source, prefix + "bias"))

    if getattr(chunk, "pre_process", False):
        yield from rows("embedding.tokens.weight", -1, of(chunk.embedding.word_embeddings, "weight"), dump.vocabulary)
        if hasattr(chunk.embedding, "position_embeddings"):
            yield from whole("embedding.positions.weight", -1, of(chunk.embedding.position_embeddings, "weight"))
    for block in chunk.decoder.layers:
        layer = block.layer_number - 1
        name, attention, mlp = f"layers.{layer}.", block.self_attention, block.mlp
        yield from norm(name + "norm1", layer, block.input_layernorm, attention.linear_qkv)
        groups, width = config.num_query_groups or config.num_attention_heads, config.kv_channels
        queries = config.num_attention_heads // groups * width
        for kind in ("weight", "bias"):
            fused = of(attention.linear_qkv, kind)
            if fused is None: continue
            fused = fused.reshape(-1, queries + 2 * width, *fused.shape[1:])  # group by group
            for g, group in enumerate(fused):
                first = tp * len(fused) + g
                for part, x, rows_of_one in zip("qkv", group.split([queries, width, width]), (queries, width, width)):
                    yield (f"{name}attention.{part}.{kind}", layer, [rows_of_one * groups, *x.shape[1:]],
                           [first * rows_of_one, *[0] * (x.dim() - 1)], x)
        for part in "qk":
            module = getattr(attention, part + "_layernorm", None)
            if module is not None and _is_norm(module): yield from norm(f"{name}attention.{part}_norm", layer, module, None)
        yield from columns(name + "attention.out.weight", layer, of(attention.linear_proj, "weight"))
        yield from whole(name + "attention.out.bias", layer, of(attention.linear_proj, "bias"))
        if not hasattr(mlp, "linear_fc1"): continue
        yield from norm(name + "norm2", layer, block.pre_mlp_layernorm, mlp.linear_fc1)
        for kind in ("weight", "bias"):
            up = of(mlp.linear_fc1, kind)
            if up is not None and config.gated_linear_unit:
                gate, up = up.chunk(2)
                yield from rows(f"{name}mlp.gate.{kind}", layer, gate)
            yield from rows(f"{name}mlp.up.{kind}", layer, up)
        yield from columns(name + "mlp.down.weight", layer, of(mlp.linear_fc2, "weight"))
        yield from whole(name + "mlp.down.bias", layer, of(mlp.linear_fc2, "bias"))
    if getattr(chunk.decoder, "final_layernorm", None) is not None:
        yield from norm("final_norm", config.num_layers, chunk.decoder.final_layernorm, None)
    if getattr(chunk, "post_process", False) and not chunk.share_embeddings_and_output_weights:
        yield from rows("head.weight", config.num_layers, of(chunk.output_layer, "weight"), dump.vocabulary)


def watch_gpt2(dump, model):
    """transformers' GPT2LMHeadModel."""
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


def watch_llama(dump, model):
    """transformers' models of Llama's kind (Llama, Mistral, Qwen 2 and 3): all but what their attention computes inside."""
    blocks = model.model.layers
    dump.watch(model.model.embed_tokens, "embedding.output", -1)
    for i, block in enumerate(blocks):
        name = f"layers.{i}."
        dump.watch(block.input_layernorm, name + "norm1.output", i)
        dump.watch(block.self_attn.o_proj, name + "attention.context", i, inputs=True)
        dump.watch(block.self_attn.o_proj, name + "attention.output", i)
        dump.watch(block.post_attention_layernorm, name + "middle", i, inputs=True)
        dump.watch(block.post_attention_layernorm, name + "norm2.output", i)
        dump.watch(block.mlp.down_proj, name + "mlp.activated", i, inputs=True)
        dump.watch(block.mlp.down_proj, name + "mlp.output", i)
        dump.watch(block, name + "output", i)
    dump.watch(model.model.norm, "final_norm.output", len(blocks))


def llama_parameters(model, value):
    """(canonical name, layer, tensor) of models that watch_llama takes."""
    blocks = model.model.layers
    yield "embedding.tokens.weight", -1, value(model.model.embed_tokens.weight)
    for i, block in enumerate(blocks):
        a, m = block.self_attn, block.mlp
        for ours, theirs in [("norm1", block.input_layernorm), ("norm2", block.post_attention_layernorm), ("attention.q", a.q_proj),
                             ("attention.k", a.k_proj), ("attention.v", a.v_proj), ("attention.out", a.o_proj), ("mlp.gate", m.gate_proj),
                             ("mlp.up", m.up_proj), ("mlp.down", m.down_proj)]:
            yield f"layers.{i}.{ours}.weight", i, value(theirs.weight)
            if getattr(theirs, "bias", None) is not None: yield f"layers.{i}.{ours}.bias", i, value(theirs.bias)
    yield "final_norm.weight", len(blocks), value(model.model.norm.weight)
    if model.lm_head.weight is not model.model.embed_tokens.weight:
        yield "head.weight", len(blocks), value(model.lm_head.weight)
