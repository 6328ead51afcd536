"""8-bit floats by PyTorch: the value of every code, and the code of every bf16 number. -> tests/fixtures/base/fp8.txt

PyTorch's casts overflow to NaN or infinity; Stoa's saturate, as those of GPUs do: numbers are clamped first."""
import pathlib

import torch

lines = []
every_bf16 = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float().tolist()
    largest = torch.finfo(dtype).max
    codes = every_bf16.float().clamp(-largest, largest).to(dtype).view(torch.uint8).tolist()
    nan = every_bf16.isnan().tolist()
    # Runs of bf16 bits of one code: first bits, code; -1 for NaN.
    runs = [(i, -1 if nan[i] else codes[i]) for i in range(1 << 16)
            if i == 0 or (nan[i], nan[i] or codes[i]) != (nan[i - 1], nan[i - 1] or codes[i - 1])]
    lines += [f"{name} values 256", " ".join("nan" if v != v else str(v) for v in values)]
    lines += [f"{name} codes {len(runs)}", " ".join(f"{i} {c}" for i, c in runs)]
path = pathlib.Path(__file__).parents[1] / "fixtures/base/fp8.txt"
path.write_text("\n".join(lines) + "\n")
print(path, path.stat().st_size, "bytes")
