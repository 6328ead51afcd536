"""Makes tests/fixtures/model/encoders/*.json: what transformers computes for tiny encoders with the head of masked tokens, and for
encoder-decoders. Weights follow the integer formula of make_model_fixtures.py; rows are run one by one, so that nothing is padded.

    python tests/oracle/make_encoder_fixtures.py                # every case; needs torch and transformers
    python tests/oracle/make_encoder_fixtures.py modernbert     # only these cases
"""
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors import safe_open

from make_model_fixtures import numbers, weight

BASE = dict(vocab_size=41, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
            max_position_embeddings=48)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
MODERN = dict(BASE, num_hidden_layers=4, local_attention=6, pad_token_id=None, bos_token_id=None, eos_token_id=None,
              cls_token_id=None, sep_token_id=None)
CASES = {
    "distilbert": ("distilbert", dict(vocab_size=41, dim=24, hidden_dim=40, n_layers=3, n_heads=4, max_position_embeddings=48,
                                      dropout=0.0, attention_dropout=0.0)),
    "electra": ("electra", dict(BASE, **NO_DROPOUT, embedding_size=24)),
    "mpnet": ("mpnet", dict(BASE, **NO_DROPOUT)),
    "nomic_bert": ("nomic_bert", dict(BASE, **NO_DROPOUT)),
    "megatron_bert": ("megatron-bert", dict(BASE, **NO_DROPOUT)),
    "modernbert": ("modernbert", MODERN),
    "modernbert_biases": ("modernbert", dict(MODERN, attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True,
                                             local_attention=9, num_hidden_layers=3,
                                             layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "umt5": ("umt5", dict(vocab_size=41, d_model=24, d_kv=6, d_ff=40, num_layers=2, num_decoder_layers=3, num_heads=4,
                          relative_attention_num_buckets=8, relative_attention_max_distance=16, dropout_rate=0.0)),
}
ROWS = [[3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7, 40, 33, 12, 6, 38, 21, 19, 4], [3, 17, 5, 29, 11]]
TYPES = [[0] * 9 + [1] * 11, [0, 0, 0, 1, 1]]
LABELS = [[[2, 6], [7, 9], [15, 31]], [[1, 4]]]
SHOWN = [[0, 19], [4]]  # tokens of each row whose logits are kept
TARGET = [0, 4, 21, 6, 13, 28, 10, 33, 5]  # of encoder-decoders: input of the decoder
TARGET_LABELS = [4, 21, 6, 13, 28, 10, 33, 5, 1]


def file_names(model):
    """Name in files -> parameter and rows of it: transformers may split in memory what files hold as one."""
    with tempfile.TemporaryDirectory() as folder:
        model.float().save_pretrained(folder)
        with safe_open(f"{folder}/model.safetensors", "pt") as file:
            names = list(file.keys())
    model.double()
    known = dict(model.named_parameters())
    if names and all(name in known for name in names): return {name: [known[name]] for name in names}
    renamed = [("encoder.layers", "layers"), ("emb_ln", "embeddings.LayerNorm"), ("attn.out_proj", "self_attn.o_proj"),
               ("fc11", "up_proj"), ("fc12", "gate_proj"), ("fc2", "down_proj"), ("norm1", "post_attention_layernorm"),
               ("norm2", "post_mlp_layernorm")]
    out = {}
    for name in names:
        own = name
        for old, new in renamed: own = own.replace(old, new)
        parts = [own.replace("attn.Wqkv", f"self_attn.{p}_proj") for p in "qkv"] if "attn.Wqkv" in own else [own]
        out[name] = [known[part] for part in parts]
    return out


def fill(named):
    for t, name in enumerate(sorted(named)):
        parts = named[name]
        v = torch.from_numpy(weight(t, sum(p.numel() for p in parts)))
        if parts[0].dim() == 1 and name.endswith("weight"): v = 1 + v / 2
        for p, values in zip(parts, v.split([p.numel() for p in parts])):
            with torch.no_grad(): p.copy_(values.reshape(p.shape))


def run_encoder(model, kind):
    losses, shown, squares = [], [], 0.0
    for row, types, labels, kept in zip(ROWS, TYPES, LABELS, SHOWN):
        more = dict(token_type_ids=torch.tensor([types])) if kind in ("electra", "megatron-bert", "nomic_bert") else {}
        logits = model(torch.tensor([row]), **more).logits[0]
        losses += [torch.nn.functional.cross_entropy(logits[at][None], torch.tensor([label])) for at, label in labels]
        shown += [logits[i] for i in kept]
        squares += logits.pow(2).sum().item()
    return torch.stack(losses).mean(), torch.stack(shown), squares


def run_pairs(model):
    out = model(torch.tensor([ROWS[0]]), decoder_input_ids=torch.tensor([TARGET])).logits[0]
    loss = torch.nn.functional.cross_entropy(out, torch.tensor(TARGET_LABELS))
    return loss, out[[0, 8]], out.pow(2).sum().item()


def make_case(kind, options):
    config = transformers.AutoConfig.for_model(kind, **options)
    pairs = kind == "umt5"
    maker = transformers.AutoModelForSeq2SeqLM if pairs else transformers.AutoModelForMaskedLM
    model = maker.from_config(config, attn_implementation="eager").double().eval()
    named = file_names(model)
    fill(named)
    loss, shown, squares = run_pairs(model) if pairs else run_encoder(model, kind)
    loss.backward()
    gradients = {}
    for t, name in enumerate(sorted(named)):
        g = np.concatenate([p.grad.numpy().ravel() for p in named[name]])
        gradients[name] = dict(norm=numbers([np.linalg.norm(g)])[0], projection=numbers([g @ weight(t + 500, g.size)])[0],
                               first=numbers(g[:4]))
    written = {k: v for k, v in json.loads(config.to_json_string(use_diff=False)).items() if k != "_name_or_path"}
    written["architectures"] = [type(model).__name__]
    return dict(config=written, loss=numbers([loss.item()])[0], logits=numbers(shown.detach()),
                logits_norm=numbers([squares**0.5])[0], gradients=gradients)


def main():
    torch.set_num_threads(1)
    target = pathlib.Path(__file__).parents[1] / "fixtures" / "model" / "encoders"
    target.mkdir(parents=True, exist_ok=True)
    shared = dict(made_with=dict(transformers=transformers.__version__, torch=re.sub(r"\+.*", "", torch.__version__)), rows=ROWS,
                  types=TYPES, labels=LABELS, shown=SHOWN, target=TARGET, target_labels=TARGET_LABELS)
    for name in sys.argv[1:] or CASES:
        case = make_case(*CASES[name])
        head, body = (json.dumps(part, separators=(",", ":")) for part in (shared, case))
        (target / f"{name}.json").write_text(f"{head[:-1]},\n{body[1:]}\n")
        print(name)


if __name__ == "__main__":
    main()
