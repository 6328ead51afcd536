"""Adapters trained on a model in 4 bits (`quantize_base=nf4`), loaded by PEFT: on the model's weights as they are in its files, and
on what bitsandbytes makes of them in 4 bits. Log-probabilities in fp32.

    python tests/oracle/check_quantised_adapters.py build/release/src/stoa     # needs torch, transformers, peft and bitsandbytes

`stoa score RUN` uses the adapter with the weights of the files, `stoa checkpoint merge` adds it to the quantised values. These are those
of bitsandbytes to rounding, but for one block in a thousand. Its products on CPUs round to bf16, so they are compared twice: with products
in fp32 of the values that its layers hold, and as they are.
"""
import bitsandbytes
import peft
import torch
import transformers
from adapter_scores import LLAMA, check_all, compare, moved, torch_scores

WIDE = dict(LLAMA, hidden_size=128, intermediate_size=256)
# The layers that Stoa holds in 4 bits: linear layers, but neither embedding nor head.
CASES = {
    "llama": ("llama", WIDE, []),
    "llama_all": ("llama", WIDE, ["model.peft.lora_tuning.adapter_dim=16", "model.peft.lora_tuning.use_rslora=true"]),
    "qwen2": ("qwen2", WIDE, []),
}


def load(directory, **keys):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, torch_dtype=torch.float32, **keys)


def apart(what, ours, theirs):
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"  {what:<44} largest difference {worst:.1e}")
    return worst


def check(place, name):
    model_type, configuration, options = CASES[name]
    print(name)
    base, here = place.make_base(name, model_type, configuration), place.folder / name
    adapter = place.train(base, here / "run", "model.peft.peft_scheme=lora", "model.peft.quantize_base=nf4", "model.optim.lr=0.02", *options)
    of_files = place.scores(here / "run")
    good = compare("on the files' weights, PEFT", of_files, torch_scores(peft.PeftModel.from_pretrained(load(base), adapter)))
    place.stoa("checkpoint", "merge", here / "run", "--dtype", "fp32", "--output", here / "merged")
    of_codes = place.scores(here / "merged")
    bits = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                           bnb_4bit_compute_dtype=torch.float32, llm_int8_skip_modules=["lm_head"])
    packed = load(base, quantization_config=bits, device_map="cpu")
    values = load(base)
    for key, layer in packed.named_modules():
        if isinstance(layer, bitsandbytes.nn.Linear4bit):
            values.get_submodule(key).weight.data = bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    good &= apart("values of bitsandbytes, PEFT", of_codes, torch_scores(peft.PeftModel.from_pretrained(values, adapter))) < 2e-3
    theirs = torch_scores(peft.PeftModel.from_pretrained(packed, adapter))
    good &= apart("layers of bitsandbytes, PEFT", of_codes, theirs) < 0.2 * apart("what 4 bits move", of_codes, of_files)
    moved("trained: it moved", of_files, place.scores(base))
    return good


check_all(CASES, check)
