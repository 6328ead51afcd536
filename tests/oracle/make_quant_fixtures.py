#!/usr/bin/env python3
"""Writes tests/fixtures/quant/blocks.txt: blocks of random bytes of every format that Stoa reads, with the numbers that the
gguf package (the reference implementation of GGUF in Python) makes of them, and numbers with the blocks that it makes of
those where it has an encoder. Lines: "decode NAME BYTES NUMBERS" and "encode NAME NUMBERS BYTES", all in hexadecimal.

    pip install gguf numpy;  python3 tests/oracle/make_quant_fixtures.py
"""
import pathlib

import gguf
import numpy as np

FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4",
           "NVFP4", "TQ1_0", "TQ2_0"]
ENCODED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"]
# Offsets of half-precision numbers in a block: random bytes there would often be no number.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]}
BLOCKS = 2

random = np.random.default_rng(26)
lines = []
for name in FORMATS:
    kind = gguf.GGMLQuantizationType[name]
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in HALVES.get(name, []):
        blocks[:, at:at + 2] = random.normal(0, 0.1, (BLOCKS, 1)).astype(np.float16).view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = [120, 131]
    if name == "NVFP4":
        blocks[:, :4] &= 0x7f  # scales have no sign
    values = gguf.dequantize(blocks, kind).astype("<f4")
    lines.append(f"decode {name} {blocks.tobytes().hex()} {values.tobytes().hex()}")
for name in ENCODED:
    kind = gguf.GGMLQuantizationType[name]
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    values = random.normal(0, 0.05, (4, numbers)).astype("<f4")
    values[1] = 0
    values[2, :5] *= 100
    blocks = gguf.quantize(values, kind)
    lines.append(f"encode {name} {values.tobytes().hex()} {blocks.tobytes().hex()}")
path = pathlib.Path(__file__).resolve().parent.parent / "fixtures/quant/blocks.txt"
path.parent.mkdir(exist_ok=True)
path.write_text("\n".join(lines) + "\n")
