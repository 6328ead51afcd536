#!/usr/bin/env python3
"""Loss curves of T5 1.1 beside those of PyTorch: the same initial weights, spans, optimizer and schedule; 200 steps in fp32 and in bf16.

A small model (3 + 3 layers of --hidden) learns span corruption on a random Markov chain. transformers writes the initial weights,
`stoa train` reads them (restore_from_path). The samples of each step are computed here again with numpy from the published rules
(texts: Megatron's GPTDataset; spans: Raffel et al. 2020), so the data is checked too. The rest as in loss_curves.py.

  fp32   bar: losses of the first 50 steps within 1e-3
  bf16   Stoa against PyTorch eager under autocast, and that against torch.compile of itself; bar: Stoa is no further from eager than
         eager is from its compiled self (root mean square)

  python tests/oracle/t5_curves.py [fp32] [bf16] [--json FILE]

Needs: pip install torch transformers; a C++ compiler for torch.compile. Exit status 1 when a bar is missed.
"""
import argparse
import json
import pathlib
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
import transformers

import loss_curves
import oracle

SOURCE, TARGET, BATCH, STEPS, SENTINELS = 64, 24, 8, 200, 20
DENSITY, MEAN, EOS, START = 0.15, 3, 1, 0


def span_lengths(tokens):
    noise = min(max(round(tokens * DENSITY), 1), tokens - 1)
    return noise, min(max(round(noise / MEAN), 1), tokens - noise)


def text_length():
    """The longest text whose source fits."""
    best, tokens = 0, 2
    while True:
        noise, spans = span_lengths(tokens)
        source = tokens - noise + spans + 1
        if source > SOURCE and tokens > SOURCE: return best
        if source <= SOURCE: best = tokens
        tokens += 1


def random_lengths(total, parts, rng):
    ends = np.zeros(total - 1, np.uint8)
    ends[: parts - 1] = 1
    rng.shuffle(ends)
    out = [1]
    for end in ends:
        if end: out.append(1)
        else: out[-1] += 1
    return out


def pair_of(text, sample, sentinels):
    rng = np.random.RandomState((loss_curves.DATA_SEED + sample) % 2**32)
    noise, spans = span_lengths(len(text))
    hidden = random_lengths(noise, spans, rng)
    kept = random_lengths(len(text) - noise, spans, rng)
    source, target, at = [], [], 0
    for s in range(spans):
        source += [*text[at : at + kept[s]], sentinels[s]]
        at += kept[s]
        target += [sentinels[s], *text[at : at + hidden[s]]]
        at += hidden[s]
    return source + [EOS], target + [EOS]


def batches(documents, sentinels):
    rng = np.random.RandomState(loss_curves.DATA_SEED)
    order = np.arange(len(documents), dtype=np.int32)
    rng.shuffle(order)
    stream = np.concatenate([documents[d] for d in order])
    length = text_length()
    shuffle = np.arange(len(stream) // length, dtype=np.uint32)
    assert len(shuffle) >= STEPS * BATCH, "the corpus must last for one epoch"
    rng.shuffle(shuffle)
    for step in range(STEPS):
        pairs = [pair_of(stream[j * length : (j + 1) * length].tolist(), step * BATCH + i, sentinels)
                 for i, j in enumerate(map(int, shuffle[step * BATCH : (step + 1) * BATCH]))]
        sources = torch.tensor([s + [START] * (SOURCE - len(s)) for s, _ in pairs])
        mask = torch.tensor([[int(i < len(s)) for i in range(SOURCE)] for s, _ in pairs])
        labels = torch.tensor([t + [-100] * (TARGET - len(t)) for _, t in pairs])
        yield {"input_ids": sources, "attention_mask": mask, "labels": labels}


def torch_curve(weights, documents, sentinels, autocast, compiled):
    model = transformers.T5ForConditionalGeneration.from_pretrained(weights, dtype=torch.float32).train()
    parameters = list(model.parameters())
    optim = loss_curves.OPTIM
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.ndim > 1], "weight_decay": optim["weight_decay"]},
                                   {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}],
                                  lr=0.0, betas=tuple(optim["betas"]), eps=optim["eps"])

    def loss_of(batch):
        logits = model(**batch, use_cache=False).logits
        return F.cross_entropy(logits.float().flatten(0, 1), batch["labels"].flatten())

    run = torch.compile(loss_of) if compiled else loss_of
    curve = []
    for step, batch in enumerate(batches(documents, sentinels)):
        for group in optimizer.param_groups: group["lr"] = loss_curves.rate(step, STEPS)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = run(batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, loss_curves.CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append((loss.item(), norm.item()))
    return np.array(curve)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=[])
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    what = args.what or ["fp32", "bf16"]
    if set(what) - {"fp32", "bf16"}: parser.error("expected fp32, bf16")
    torch.set_num_threads(args.threads)
    vocabulary = loss_curves.VOCABULARY
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "words.txt").write_text("the quick brown fox jumps over the lazy dog while seven rivers carry their stones to the sea and an owl sleeps\n" * 50)
        oracle.call(args.stoa, "tokenizer", "train", folder / "words.txt", "--kind", "unigram", "--vocab-size", 40, "--sentinels", SENTINELS,
                    "--output", folder / "pieces")
        sentinels = [40 + SENTINELS - 1 - i for i in range(SENTINELS)]
        rng = np.random.default_rng(2)
        loss_curves.VOCABULARY = vocabulary - 60  # states of the chain: ids that are no pieces
        documents = [d + 60 for d in loss_curves.markov_documents(STEPS * BATCH * text_length() + 5000, rng)]
        loss_curves.VOCABULARY = vocabulary
        oracle.write_corpus(folder / "corpus", documents)
        torch.manual_seed(1)
        hidden = args.hidden
        config = transformers.T5Config(vocab_size=vocabulary, d_model=hidden, d_kv=hidden // 4, d_ff=2 * hidden, num_layers=3, num_heads=4,
                                       dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                                       relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=START)
        initial = transformers.T5ForConditionalGeneration(config).float()
        # transformers 5 ties the head all the same.
        initial.lm_head.weight = torch.nn.Parameter(hidden**-0.5 * torch.randn(vocabulary, hidden))
        initial.save_pretrained(folder / "weights")
        ours = {"kind": "t5", "num_layers": 6, "hidden_size": hidden, "kv_channels": hidden // 4, "ffn_hidden_size": 2 * hidden,
                "num_attention_heads": 4, "encoder_seq_length": SOURCE, "position_embedding_type": "relative", "normalization": "rmsnorm",
                "layernorm_epsilon": 1e-6, "activation": "geglu_tanh", "bias": "none", "tokenizer": str(folder / "pieces"),
                "share_embeddings_and_output_weights": False, "vocab_size": vocabulary, "seed": loss_curves.DATA_SEED,
                "t5": {"seq_length_dec": TARGET, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}}

        def stoa(precision, residual):
            return loss_curves.stoa_curve(args.stoa, folder, f"{precision}-{residual}", ours, folder / "weights", STEPS, precision, residual)

        def report(pair, a, b, **more):
            rows.append(loss_curves.show({"pair": pair, "steps": STEPS, "first_loss": float(b[0, 0]), "last_loss": float(b[-1, 0]),
                                          **loss_curves.distance(a, b), **more}))
            return rows[-1]

        theirs = torch_curve(folder / "weights", documents, sentinels, False, False)
        if "fp32" in what:
            mine = stoa("fp32", False)
            early = float(np.max(np.abs(mine[:50, 0] - theirs[:50, 0])))
            report("stoa - eager, fp32", mine, theirs, max_of_50=early, passed=early <= 1e-3)
        if "bf16" in what:
            eager = torch_curve(folder / "weights", documents, sentinels, True, False)
            bar = None
            if not args.no_compile:
                bar = report("compiled - eager, bf16", torch_curve(folder / "weights", documents, sentinels, True, True), eager)["rms"]
            report("eager, bf16 - fp32", eager, theirs)
            for residual in (False, True):
                mine = stoa("bf16", residual)
                name = "stoa fp32 residual" if residual else "stoa"
                report(f"{name}, bf16 - fp32", mine, theirs)
                row = report(f"{name} - eager, bf16", mine, eager)
                if bar is not None: row["passed"] = row["rms"] <= bar
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "rows": rows},
                                                      indent=1) + "\n")
    if not all(row.get("passed", True) for row in rows): raise SystemExit(1)


main()
