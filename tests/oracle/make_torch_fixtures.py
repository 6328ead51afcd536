"""Makes tests/fixtures/torch: small files that torch.save wrote, beside safetensors of the same tensors.

    python tests/oracle/make_torch_fixtures.py         # needs torch, transformers and safetensors

values.N.pkl: plain values by Python's pickle, protocol N.
tensors.pt, tensors_protocol_5.pt, tensors_before_1.6.pt: every element type, views, shared storages; tensors.safetensors: the
same, each tensor by itself.
llama/: a tiny model as model.safetensors, as pytorch_model.bin, as shards with an index, and in the older format; trained.pt: what a
training script keeps of a compiled model, next to its step.
"""
import collections
import json
import pathlib
import pickle

import torch
import transformers
from safetensors.torch import save_file

OUTPUT = pathlib.Path(__file__).parents[1] / "fixtures" / "torch"
LLAMA = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True)


def tensors():
    torch.manual_seed(1234)
    base = torch.randn(4, 6)
    bits = torch.arange(24, dtype=torch.uint8) * 5
    out = collections.OrderedDict()
    out["whole"] = base
    out["transposed"] = base.t()
    out["rows"] = base[1:3]
    out["columns"] = base[:, 2:5]
    out["every_second"] = base[::2, 1::2]
    out["expanded"] = base[0, :3].expand(2, 3)
    out["turned"] = torch.randn(2, 3, 4).permute(1, 2, 0)
    out["one"] = base[2, 3]
    out["empty"] = torch.zeros(0, 5)
    out["parameter"] = torch.nn.Parameter(torch.randn(3))
    out["unused"] = torch.randn(100)[10:12]
    for name in ("bfloat16", "float16", "float64"):
        out[name] = torch.randn(3, 2).to(getattr(torch, name))
    for name in ("uint8", "int8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int16", "uint16", "int32", "uint32",
                 "int64", "uint64"):
        out[name] = (bits % 2).bool() if name == "bool" else bits.clone().view(getattr(torch, name))
    out["float8_rows"] = bits.clone().view(torch.float8_e4m3fn).reshape(4, 6)[1:3, 2:]
    return out


VALUES = {
    "none": None, "flags": [True, False], "ints": [0, 255, 256, 65535, 65536, -1, -(2**31), 2**31, 2**40, -(2**63), 2**63 - 1],
    "large": 2**70, "floats": [0.5, -1e300, float("inf")], "text": "it's \"\u00e9\u4e16\U0001f600\"\n\\", "bytes": b"\x00\xff\n'",
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)], "nested": {"a": {"b": [{"c": 1}]}, 7: "seven"},
    "set": {5}, "ordered": collections.OrderedDict(x=1, y=2), "default": collections.defaultdict(list, {"k": [1]}),
    "deque": collections.deque([1, 2]),
}
VALUES["same"] = VALUES["nested"]


def main():
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for protocol in range(6):
        (OUTPUT / f"values.{protocol}.pkl").write_bytes(pickle.dumps(VALUES, protocol))

    all_types = tensors()
    content = {"tensors": all_types, "step": 7, "name": "tiny", "shape": torch.Size([4, 6]), "dtype": torch.bfloat16}
    torch.save(content, OUTPUT / "tensors.pt")
    torch.save(content, OUTPUT / "tensors_protocol_5.pt", pickle_protocol=5)
    torch.save(content, OUTPUT / "tensors_before_1.6.pt", _use_new_zipfile_serialization=False)
    save_file({k: v.detach().clone().contiguous() for k, v in all_types.items()}, OUTPUT / "tensors.safetensors")
    torch.save(torch.nn.Linear(1, 1), OUTPUT / "module.pt")
    torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1)), OUTPUT / "script.pt")

    folder = OUTPUT / "llama"
    folder.mkdir(exist_ok=True)
    torch.manual_seed(5)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.3, 0.3)
    model.config.save_pretrained(folder)
    weights = model.state_dict()  # the head beside the embedding, in one storage
    own = {k: v.clone() for k, v in weights.items() if k != "lm_head.weight"}
    save_file(own, folder / "model.safetensors", metadata={"format": "pt"})
    torch.save(weights, folder / "pytorch_model.bin")
    torch.save(weights, folder / "before_1.6.bin", _use_new_zipfile_serialization=False)
    torch.save({"step": 3, "model_state_dict": {f"module._orig_mod.{k}": v for k, v in weights.items()}}, folder / "trained.pt")
    # Shards hold views of one large storage per layer, as some trainers write them.
    flat = torch.cat([v.flatten() for v in own.values()])
    views, at = {}, 0
    for name, tensor in own.items():
        views[name] = flat[at:at + tensor.numel()].view(tensor.shape)
        at += tensor.numel()
    files = [f"pytorch_model-{i:05}-of-00002.bin" for i in (1, 2)]
    index = {name: files[i % 2] for i, name in enumerate(views)}
    for file in files:
        torch.save({name: views[name] for name in views if index[name] == file}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"metadata": {"total_size": flat.numel() * 4}, "weight_map": index}, indent=1) + "\n")
    for path in sorted(OUTPUT.rglob("*")):
        if path.is_file():
            print(path.relative_to(OUTPUT), path.stat().st_size)


main()
