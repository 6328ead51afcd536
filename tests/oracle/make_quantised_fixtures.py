#!/usr/bin/env python3
"""Writes tests/fixtures/quantised/KIND.safetensors: a quantised matrix "m" of each kind that Hugging Face directories have, and
"expected", what it stands for by the reference: compressed_tensors and bitsandbytes where they run on CPUs; GPTQ, AWQ, FP8 in
blocks and NVFP4 by the published layout, in PyTorch. kinds.json holds the quantization_config of each.

    pip install torch safetensors compressed-tensors bitsandbytes;  python3 tests/oracle/make_quantised_fixtures.py
"""
import json
import pathlib

import bitsandbytes.functional as bnb
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file

folder = pathlib.Path(__file__).resolve().parent.parent / "fixtures/quantised"
folder.mkdir(exist_ok=True)
torch.manual_seed(26)
N, K, GROUP = 32, 64, 32
kinds = {}


def save(kind, config, tensors, expected):
    kinds[kind] = config
    save_file({**{f"m.{name}": t.contiguous() for name, t in tensors.items()}, "expected": expected.contiguous()},
              folder / f"{kind}.safetensors")


def words(codes, bits):  # [n, 32 / bits] -> [n], lowest first
    out = torch.zeros(codes.shape[0], dtype=torch.int64)
    for i in range(codes.shape[1]):
        out |= codes[:, i].long() << (bits * i)
    return torch.where(out >= 2**31, out - 2**32, out).to(torch.int32)


def gptq(kind, bits, order, second):
    per, groups = 32 // bits, K // GROUP
    q = torch.randint(0, 2**bits, (K, N))
    z = torch.randint(0 if second else 1, 2**bits, (groups, N))
    s = (torch.rand(groups, N) * 0.02 + 0.001).half()
    index = (torch.arange(K) // GROUP if not order else torch.arange(K)[torch.randperm(K)] // GROUP).to(torch.int32)
    stored = z if second else z - 1
    tensors = {"qweight": words(q.T.reshape(-1, per), bits).reshape(N, K // per).T,
               "qzeros": words(stored.reshape(-1, per), bits).reshape(groups, N // per), "scales": s}
    if order:
        tensors["g_idx"] = index
    g = index.long()
    save(kind, {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": order,
                "checkpoint_format": "gptq_v2" if second else "gptq"}, tensors,
         (s[g] * (q - z[g]).half()).T)


gptq("gptq", 4, False, False)
gptq("gptq_act_order", 4, True, False)
gptq("gptq_v2_8bit", 8, False, True)

order = [0, 2, 4, 6, 1, 3, 5, 7]
q, z = torch.randint(0, 16, (K, N)), torch.randint(0, 16, (K // GROUP, N))
s = (torch.rand(K // GROUP, N) * 0.02 + 0.001).half()
pack = lambda t: words(t.reshape(-1, 8)[:, order], 4).reshape(t.shape[0], N // 8)
g = torch.arange(K) // GROUP
save("awq", {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True},
     {"qweight": pack(q), "qzeros": pack(z), "scales": s}, (s[g] * (q - z[g]).half()).T)


def compressed(kind, bits, strategy, symmetric, form):
    groups = {"group": K // GROUP, "channel": 1, "tensor": 1}[strategy]
    s = (torch.rand(N if strategy != "tensor" else 1, groups) * 0.02 + 0.001).bfloat16()
    args = QuantizationArgs(num_bits=bits, type="float" if form.startswith("float") else "int", strategy=strategy,
                            symmetric=symmetric, group_size=GROUP if strategy == "group" else None)
    weights = {"num_bits": bits, "type": args.type, "strategy": strategy, "symmetric": symmetric,
               "group_size": args.group_size}
    config = {"quant_method": "compressed-tensors", "format": form,
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ["lm_head"]}
    if form == "float-quantized":
        q = (torch.randn(N, K) * 50).clamp(-448, 448).to(torch.float8_e4m3fn)
    else:
        q = torch.randint(-2**(bits - 1), 2**(bits - 1), (N, K), dtype=torch.int8)
    scale = s if strategy != "tensor" else s.reshape(1)
    tensors = {"weight_scale": scale}
    zero = None
    if form == "pack-quantized":
        tensors["weight_packed"] = pack_to_int32(q, bits)
        tensors["weight_shape"] = torch.tensor([N, K])
        if not symmetric:
            zero = torch.randint(-2**(bits - 1), 2**(bits - 1), (N, groups), dtype=torch.int8)
            tensors["weight_zero_point"] = pack_to_int32(zero, bits, packed_dim=0)
    else:
        tensors["weight"] = q
    save(kind, config, tensors, dequantize(q, scale, zero, args))


compressed("int4_group", 4, "group", True, "pack-quantized")
compressed("int4_zeros", 4, "group", False, "pack-quantized")
compressed("int8_packed", 8, "channel", True, "pack-quantized")
compressed("int8", 8, "channel", True, "int-quantized")
compressed("fp8_channel", 8, "channel", True, "float-quantized")
compressed("fp8_tensor", 8, "tensor", True, "float-quantized")

q = (torch.randn(N, 40) * 50).clamp(-448, 448).to(torch.float8_e4m3fn)
s = torch.rand(2, 3) * 0.02
full = s.repeat_interleave(16, 0)[:N].repeat_interleave(16, 1)[:, :40]
save("fp8_block", {"quant_method": "fp8", "weight_block_size": [16, 16]}, {"weight": q, "weight_scale_inv": s},
     (q.float() * full).bfloat16())

e2m1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
codes = torch.randint(0, 16, (N, K))
scales = (torch.rand(N, K // 16) * 200 + 1).to(torch.float8_e4m3fn)
g = torch.tensor([448 * 6 / 2.7])
packed = (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8)
value = e2m1[codes].reshape(N, -1, 16) * (scales.float() * (1 / g))[..., None]
save("nvfp4", {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
     {"weight_packed": packed, "weight_scale": scales, "weight_global_scale": g}, value.reshape(N, K).bfloat16())


def four_bits(kind, name, double):
    w = torch.randn(N, K) * 0.05
    codes, state = bnb.quantize_4bit(w.bfloat16(), blocksize=64, quant_type=name, compress_statistics=double)
    tensors = {"weight": codes}
    for key, value in state.as_dict(packed=True).items():
        tensors[f"weight.{key}"] = value
    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": name}
    save(kind, config, tensors, bnb.dequantize_4bit(codes, state))


four_bits("nf4", "nf4", False)
four_bits("nf4_double", "nf4", True)
four_bits("fp4", "fp4", False)

q, scb = torch.randint(-127, 128, (N, K), dtype=torch.int8), torch.rand(N)
save("llm_int8", {"quant_method": "bitsandbytes", "load_in_8bit": True},
     {"weight": q, "SCB": scb, "weight_format": torch.tensor(0, dtype=torch.uint8)},
     (q.float() * (scb / 127)[:, None]).bfloat16())
(folder / "kinds.json").write_text(json.dumps(kinds, indent=1, default=lambda o: getattr(o, "value", str(o))) + "\n")
