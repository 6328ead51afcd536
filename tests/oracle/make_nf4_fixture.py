"""Writes tests/fixtures/tuning/nf4.json: a matrix, and what bitsandbytes makes of it in nf4 with double quantisation.

    python tests/oracle/make_nf4_fixture.py        # needs torch and bitsandbytes
"""
import json
import pathlib

import torch
from bitsandbytes import functional

ROWS, COLUMNS = 24, 1024  # more than one group of 256 blocks
generator = torch.Generator().manual_seed(7)
# Numbers that decimals hold exactly; rows of different sizes.
matrix = (torch.randn(ROWS, COLUMNS, generator=generator) * torch.linspace(0.5, 3, ROWS)[:, None] * 64).round() / 512
quantised, state = functional.quantize_4bit(matrix, blocksize=64, compress_statistics=True, quant_type="nf4")
values = functional.dequantize_4bit(quantised, state)
out = pathlib.Path(__file__).parents[1] / "fixtures" / "tuning" / "nf4.json"
out.write_text(json.dumps({"columns": COLUMNS, "numbers": [int(x) for x in (matrix * 512).flatten()], "factor": 512,
                           "values": [float(f"{x:.9g}") for x in values.flatten().tolist()][::7]}) + "\n")
print(out, "root mean square error", (values - matrix).pow(2).mean().sqrt().item())
