"""What the oracle scripts share: models of each family in the words of transformers and of Stoa, corpora, calls of `stoa`."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import torch
import transformers

transformers.utils.logging.disable_progress_bar()
VERSION_5 = int(transformers.__version__.split(".")[0]) >= 5


def rope(theta):
    """Rotary base in the form of the transformers that runs: rope_parameters from 5 on, rope_theta before."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta}} if VERSION_5 else {"rope_theta": theta}


def gpt2(vocabulary=503, layers=2, hidden=64, heads=4, positions=128, **more):
    theirs = transformers.GPT2Config(vocab_size=vocabulary, n_layer=layers, n_embd=hidden, n_head=heads, n_positions=positions,
                                     bos_token_id=1, eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **more)
    ours = dict(num_layers=layers, hidden_size=hidden, num_attention_heads=heads, encoder_seq_length=positions, vocab_size=vocabulary,
                position_embedding_type="learned_absolute", normalization="layernorm", layernorm_epsilon=1e-5,
                activation="gelu_tanh", bias="all", share_embeddings_and_output_weights=True)
    return theirs, ours


def llama_like(kind, vocabulary=503, layers=2, hidden=64, heads=4, groups=2, ffn=96, positions=128, theta=10000.0, tied=False,
               window=None):
    config = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig, "qwen2": transformers.Qwen2Config,
              "qwen3": transformers.Qwen3Config}[kind]
    more = {}
    if kind == "mistral": more["sliding_window"] = window
    if kind == "qwen3": more["head_dim"] = hidden // heads
    theirs = config(vocab_size=vocabulary, num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                    num_key_value_heads=groups, intermediate_size=ffn, max_position_embeddings=positions, rms_norm_eps=1e-6,
                    tie_word_embeddings=tied, bos_token_id=1, eos_token_id=2, pad_token_id=None, **rope(theta), **more)
    ours = dict(num_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_query_groups=groups, ffn_hidden_size=ffn,
                encoder_seq_length=positions, vocab_size=vocabulary, position_embedding_type="rope", rotary_base=theta,
                normalization="rmsnorm", layernorm_epsilon=1e-6, activation="swiglu",
                bias="qkv" if kind == "qwen2" else "none", share_embeddings_and_output_weights=tied,
                qk_layernorm=kind == "qwen3", window_size=window)
    return theirs, ours


FAMILIES = {
    "gpt2": lambda: gpt2(),
    "llama": lambda: llama_like("llama"),
    "mistral": lambda: llama_like("mistral", window=24, theta=1e6),
    "qwen2": lambda: llama_like("qwen2", tied=True, theta=1e6),
    "qwen3": lambda: llama_like("qwen3", theta=1e6),
}


def make_model(config, seed=1, spread=None):
    """Random weights. spread: every tensor, norms and biases included, moves away from the values at which a mistake hides."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    if spread:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += spread * torch.randn_like(parameter)
    return model


def load_model(directory, dtype=torch.float32):
    return transformers.AutoModelForCausalLM.from_pretrained(str(directory), dtype=dtype, attn_implementation="eager").eval()


def logprobs(model, ids):
    """Natural logarithm of the probability of each token but the first."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1].float()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].numpy()


def call(stoa, *arguments, text=None):
    done = subprocess.run([str(stoa), *map(str, arguments)], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"stoa {' '.join(map(str, arguments))}\nexit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def score(stoa, model, texts, dtype):
    lines = "".join(" ".join(map(str, ids)) + "\n" for ids in texts)
    out = [json.loads(line) for line in call(stoa, "score", model, "--ids", "--dtype", dtype, text=lines).splitlines()]
    assert [line["ids"] for line in out] == [list(ids) for ids in texts]
    return [np.array(line["logprobs"][1:], np.float64) for line in out]


def write_corpus(prefix, documents):
    """Megatron's .bin/.idx (version 1), tokens of 16 bits. A document is an array of tokens or a list of its sentences."""
    documents = [d if isinstance(d, list) else [d] for d in documents]
    sequences = [s for d in documents for s in d]
    ends = np.cumsum([0] + [len(d) for d in documents])
    lengths = np.array([len(s) for s in sequences], np.int32)
    pathlib.Path(f"{prefix}.bin").write_bytes(np.concatenate(sequences).astype("<u2").tobytes())
    offsets = np.concatenate([[0], np.cumsum(lengths[:-1].astype(np.int64) * 2)]).astype("<i8")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + bytes([8]))
        file.write(np.array([len(lengths), len(ends)], "<u8").tobytes())
        file.write(lengths.astype("<i4").tobytes() + offsets.tobytes() + ends.astype("<i8").tobytes())


def write_config(path, model, corpus, trainer, optim, batch=4, micro_batch=None, weights=None, data=None, **more):
    """A configuration of stoa; `data`: more keys of model.data. JSON is YAML."""
    config = {"name": "oracle", "trainer": trainer,
              "model": {**model, "micro_batch_size": micro_batch or batch, "global_batch_size": batch, "optim": optim,
                        "data": {"data_prefix": [1.0, str(corpus)], "splits_string": "100,0,0", **(data or {})}, **more}}
    if weights: config["restore_from_path"] = str(weights)
    pathlib.Path(path).write_text(json.dumps(config, indent=1))


def default_stoa():
    return os.environ.get("STOA", str(pathlib.Path(__file__).resolve().parents[2] / "build/release/src/stoa"))
