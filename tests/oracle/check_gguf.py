#!/usr/bin/env python3
"""GGUF files that Stoa writes, loaded by llama.cpp: the same log-probabilities; and foreign files: the same tokens.

  written  random models of transformers, one of each architecture, exported by `stoa checkpoint export --to gguf --format f32`:
           log-probabilities of llama.cpp within 1e-4 of `stoa score`'s (2e-3 where llama.cpp looks up GELU in a table of half
           precision), and those of the file equal to those of the directory to the last digit. The same models in bf16, f16 and
           q8_0: log-probabilities of the file by both programs, as near as the types of llama.cpp's products allow (it rounds
           activations to 16 bits, or to 8 in blocks), and greedy answers to several prompts: every token of Stoa's is llama.cpp's
           likeliest, too, or within that distance of it
  foreign  with --file FILE.gguf (repeatable): tokens of a text of several languages equal to llama.cpp's, log-probabilities within
           0.5 each and 0.15 on average (llama.cpp rounds activations to 8 bits, Stoa does not); exported again in bf16, f16 and
           q8_0, they are compared as the random models are

  python tests/oracle/check_gguf.py [--stoa build/release/src/stoa] [--file FILE.gguf]…

Needs: pip install torch transformers llama-cpp-python. Exit status 1 when anything is too far.
"""
import argparse
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np

IDS = [1, 5, 9, 33, 2, 60, 7, 7, 12, 41, 3, 8, 19, 22, 50, 51, 52, 11, 10, 4]
TEXT = ("The capital of France is Paris, where 1234 people met in 2019.  They said: \"Hello, wörld!\" — it's naïve… "
        "東京は日本の首都です。\tdef f(x): return x**2 + 10")
SIZES = {"vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.15, "bos_token_id": 0, "eos_token_id": 0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
# llama.cpp wants the special tokens of Phi-3 where a name holds "phi3"; Phi-4 has the same architecture.
MODELS = {  # name: (transformers' name, further keys, llama.cpp has a table of GELU)
    "llama": ("Llama", {}, False),
    "llama3": ("Llama", {"rope_scaling": LLAMA3, "rope_theta": 500000.0}, False),
    "mixtral": ("Mixtral", {"num_local_experts": 4}, False),
    "qwen2": ("Qwen2", {}, False),
    "qwen3": ("Qwen3", {"head_dim": 32}, False),
    "qwen3moe": ("Qwen3Moe", {"head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                              "norm_topk_prob": True}, False),
    "gemma": ("Gemma", {"head_dim": 32}, True),
    "gemma2": ("Gemma2", {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 8}, True),
    "phi4": ("Phi3", {"pad_token_id": 0, "sliding_window": None}, False),
    "phi2": ("Phi", {"num_key_value_heads": 4, "partial_rotary_factor": 0.5}, True),
    "gptneox": ("GPTNeoX", {"rotary_pct": 0.5, "num_key_value_heads": None}, True),
    "starcoder2": ("Starcoder2", {"sliding_window": None}, True),
    "olmo2": ("Olmo2", {"pad_token_id": 0}, False),
    "granite": ("Granite", {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "logits_scaling": 2.0,
                            "attention_multiplier": 0.1}, False),
    "stablelm": ("StableLm", {"partial_rotary_factor": 0.5}, False),
}


def make_models(folder):
    import torch
    import transformers
    torch.manual_seed(0)

    def save(name, model):
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.data += torch.randn_like(parameter) * 0.1
        model.float().save_pretrained(folder / name)

    for name, (family, keys, _) in MODELS.items():
        given = {key: value for key, value in {**SIZES, **keys}.items() if value is not None or key in ("sliding_window",)}
        save(name, getattr(transformers, family + "ForCausalLM")(getattr(transformers, family + "Config")(**given)))
    save("gemma3", transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        **{**SIZES, "num_hidden_layers": 7}, head_dim=32, query_pre_attn_scalar=32, sliding_window=8)))
    save("gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=320, n_embd=64, n_layer=3, n_head=4, n_positions=128, initializer_range=0.15, bos_token_id=0,
        eos_token_id=0)))


# Type of the file: how far log-probabilities of llama.cpp, which rounds activations, may be on average and at most.
ROUNDED = {"f16": (2e-3, 1e-2), "bf16": (2e-2, 5e-2), "q8_0": (3e-2, 1.5e-1)}
PROMPTS = ["The capital of France is", "Once upon a time", "def add(a, b):", "1, 2, 3,"]


def logits_of_llama_cpp(path, ids):
    """Of every position."""
    # Its products on AMX tiles, when GCC 12 compiled them, load a configuration without rows and end by an illegal instruction.
    options = llama_cpp.llama_model_default_params()
    options.use_extra_bufts = False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    if not model:
        sys.exit(f"llama.cpp does not load {path}")
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = max(64, len(ids))
    parameters.type_k = parameters.type_v = parameters.flash_attn_type = 0  # keys and values in fp32
    context = llama_cpp.llama_init_from_model(model, parameters)
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    if llama_cpp.llama_decode(context, batch):
        sys.exit(f"llama.cpp fails on {path}")
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)) or SIZES["vocab_size"]
    out = [np.array(llama_cpp.llama_get_logits_ith(context, i)[:size], dtype=np.float64) for i in range(len(ids))]
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return out


def logprobs_of(logits):
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def of_llama_cpp(path, ids):
    logits = logits_of_llama_cpp(path, ids)
    return np.array([logprobs_of(logits[i])[ids[i + 1]] for i in range(len(ids) - 1)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default="build/release/src/stoa")
    parser.add_argument("--file", action="append", default=[])
    arguments = parser.parse_args()
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    failed = False

    def stoa(*words):
        return subprocess.run([arguments.stoa, *map(str, words)], check=True, capture_output=True, text=True).stdout

    def report(name, what, value, allowed):
        nonlocal failed
        failed = failed or not value <= allowed
        print(f"{name:24} {what:36} {value:9.2e}  allowed {allowed:.0e}  {'ok' if value <= allowed else 'TOO FAR'}", flush=True)

    def compare(name, form, model, path, ids, mean, most):
        """A model exported in one of the shorter types: what both programs answer with the file."""
        stoa("checkpoint", "export", model, "--to", "gguf", "--format", form, "--output", path)
        (folder / "compared.txt").write_text(" ".join(map(str, ids)) + "\n")
        ours = np.array(json.loads(stoa("score", path, folder / "compared.txt", "--ids", "--dtype", "fp32", "--decoded-weights"))["logprobs"][1:])
        distance = np.abs(ours - of_llama_cpp(path, ids))
        report(name, form + ", mean", distance.mean(), mean)
        report(name, form + ", most", distance.max(), most)
        answers = folder / f"{path.stem}.jsonl"
        stoa("generate", path, "--prompts", folder / "prompts.txt", "--greedy", "--max-tokens", 16, "--dtype", "fp32", "--output", answers)
        apart = tokens = 0
        for answer in map(json.loads, answers.read_text().splitlines()):
            ids = answer["prompt_ids"] + answer["ids"]
            logits = logits_of_llama_cpp(path, ids)
            for i in range(len(answer["prompt_ids"]), len(ids)):  # the likeliest, or as good as that
                apart += logits[i - 1].max() - logits[i - 1][ids[i]] > min(most, 0.25)
                tokens += 1
        # Rounding may send a token of a mixture to another expert.
        report(name, f"{form}, of {tokens} greedy tokens apart", apart, 2 if name in ("mixtral", "qwen3moe") else 0)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make_models(folder)
        (folder / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
        stoa("tokenizer", "train", folder / "prompts.txt", "--vocab-size", 300, "--output", folder / "tokenizer")
        (folder / "ids.txt").write_text(" ".join(map(str, IDS)) + "\n")
        (folder / "text.txt").write_text(TEXT + "\n")
        for name in [*MODELS, "gemma3", "gpt2"]:
            path = folder / (name + ".gguf")
            shutil.copytree(folder / "tokenizer", folder / name, dirs_exist_ok=True)
            stoa("checkpoint", "export", folder / name, "--to", "gguf", "--format", "f32", "--output", path)
            ours, file = (json.loads(stoa("score", model, folder / "ids.txt", "--ids", "--dtype", "fp32", "--decoded-weights"))["logprobs"][1:]
                          for model in (folder / name, path))
            report(name, "file beside directory", np.abs(np.array(ours) - file).max(), 0)
            table = name in ("gemma3", "gpt2") or MODELS[name][2]
            report(name, "llama.cpp", np.abs(np.array(ours) - of_llama_cpp(path, IDS)).max(), 2e-3 if table else 1e-4)
            for form, (mean, most) in ROUNDED.items():
                compare(name, form, folder / name, folder / f"{name}-{form}.gguf", IDS, mean, most)
        for path in arguments.file:
            name = pathlib.Path(path).name
            answer = json.loads(stoa("score", path, folder / "text.txt"))
            tokens = llama_cpp.Llama(path, vocab_only=True, verbose=False).tokenize(TEXT.encode(), add_bos=True, special=True)
            report(name, "tokens", 0 if tokens == answer["ids"] else 1, 0)
            distance = np.abs(np.array(answer["logprobs"][1:]) - of_llama_cpp(path, tokens))
            report(name, "largest distance", distance.max(), 0.5)
            report(name, "mean distance", distance.mean(), 0.15)
            for form in ROUNDED:
                mean, most = (0.15, 0.5) if form == "q8_0" else (0.05, 0.25)
                compare(name, form, path, folder / f"{name}-{form}.gguf", tokens, mean, most)
    sys.exit(failed)


if __name__ == "__main__":
    main()
