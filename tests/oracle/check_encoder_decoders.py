#!/usr/bin/env python3
"""Encoder-decoders of transformers read by Stoa and the other way: the same log-probabilities, the same answers.

For t5 (1.0: tied, relu; 1.1: own head, gated) and mt5, with random weights, 1.1 also with the tied head that transformers 5
gives a model that it begins afresh:
  read      transformers saves, `stoa score --dtype fp32` rates pairs: log-probabilities within 1e-4 of transformers'
  greedy    `stoa generate --prompts --greedy`: the ids of transformers' generate(), a batch of sources of several lengths
  beams     the same with --beams 4, and scores within 1e-4
            (all three also over ranks: --tp 2, --pp 2)
  trained   `stoa train` starts from it; transformers loads the checkpoint without a missing or unexpected tensor: the same
            log-probabilities within 1e-4; the same again after `stoa checkpoint export --dtype fp32`
  prompt    PEFT's virtual tokens in front of the source, used by Stoa; Stoa's, trained on 2 x 2 ranks (tensor, data), loaded by PEFT: the same
  p-tuning  log-probabilities within 1e-4

  python tests/oracle/check_encoder_decoders.py [--stoa build/release/src/stoa] [--json FILE]

Needs: pip install torch transformers peft. Exit status 1 when anything is too far.
"""
import argparse
import copy
import json
import pathlib
import shutil
import tempfile

import numpy as np
import peft
import torch
import transformers

import oracle

TOLERANCE = 1e-4
SIZE = dict(d_model=48, d_kv=16, d_ff=80, num_layers=3, num_decoder_layers=2, num_heads=4, relative_attention_num_buckets=8,
            relative_attention_max_distance=20, dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
UNSCALED = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
CASES = {"t5 1.0": ("t5", dict(feed_forward_proj="relu"), False),  # kind, configuration, whether the head is its own
         "t5 1.1": ("t5", UNSCALED, True),
         "t5 1.1 tied": ("t5", UNSCALED, False),
         "mt5": ("mt5", UNSCALED, True)}
TALES = ["the fox runs in the wood", "an owl sleeps", "the river sings to the stone and the stone is still", "who goes there",
         "bread and salt on the table of the king"]


RANKS = [[], ["--tp", 2], ["--pp", 2]]


def ranks_text(ranks):
    return "".join(f" {x}" for x in ranks)


def make_model(kind, options, own_head, vocabulary):
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, vocab_size=vocabulary, **SIZE, **options)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).float().eval()
    if own_head:  # transformers 5 ties them all
        model.lm_head.weight = torch.nn.Parameter(0.1 * torch.randn(vocabulary, SIZE["d_model"]))
    with torch.no_grad():
        for parameter in model.parameters(): parameter += 0.05 * torch.randn_like(parameter)
    return model


def load_strictly(directory):
    model, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(directory), dtype=torch.float32, output_loading_info=True)
    bad = {k: sorted(v) for k, v in info.items() if v}
    if bad: raise SystemExit(f"{directory}: transformers finds {bad}")
    return model.eval()


def logprobs(model, source, target):
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([source]), labels=torch.tensor([target])).logits[0].float()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(target)[:, None])[:, 0].numpy()


def score(stoa, model, pairs, *more):
    text = "".join(" ".join(map(str, s)) + "\t" + " ".join(map(str, t)) + "\n" for s, t in pairs)
    lines = [json.loads(line) for line in oracle.call(stoa, "score", model, *more, "--ids", "--dtype", "fp32", text=text).splitlines()]
    assert [line["ids"] for line in lines] == [list(t) for _, t in pairs]
    return [np.array(line["logprobs"]) for line in lines]


def difference(a, b):
    return max(float(np.max(np.abs(x - y))) for x, y in zip(a, b, strict=True))


def answers(stoa, model, file, *more):
    out = oracle.call(stoa, "generate", model, "--prompts", file, "--max-tokens", 24, "--dtype", "fp32", "--json", *more)
    return [json.loads(line) for line in out.splitlines()]


def their_answers(model, sources, **more):
    """Ids without start, end and padding, and scores, of one source at a time: padding is none of their maths."""
    found = []
    for source in sources:
        with torch.no_grad():
            out = model.generate(torch.tensor([source]), max_new_tokens=24, do_sample=False, output_scores=True,
                                 return_dict_in_generate=True, **more)
        ids = out.sequences[0, 1:].tolist()
        if 1 in ids: ids = ids[: ids.index(1)]
        found.append((ids, float(out.sequences_scores[0]) if "sequences_scores" in out else None))
    return found


def check_virtual(name, stoa, folder, model, pairs, report):
    """Of folder/saved, which is `model`, with the training of folder/run.yaml."""
    common = dict(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=4)
    encoder = "LSTM" if name == "mt5" else "MLP"
    for method, config in [("prompt", peft.PromptTuningConfig(**common)),
                           ("p-tuning", peft.PromptEncoderConfig(encoder_reparameterization_type=encoder, encoder_hidden_size=12, **common))]:
        torch.manual_seed(4)
        adapted = peft.get_peft_model(copy.deepcopy(model), config).eval()
        for parameter in adapted.parameters():
            if parameter.requires_grad: torch.nn.init.normal_(parameter, std=0.4)
        theirs = folder / f"{method}-peft"
        adapted.save_pretrained(theirs)
        report(f"{method}: PEFT's", difference(score(stoa, folder / "saved", pairs, "--adapter", theirs), [logprobs(adapted, *p) for p in pairs]),
               TOLERANCE)
        run = folder / method
        oracle.call(stoa, "train", folder / "run.yaml", f"model.peft.peft_scheme={'prompt' if method == 'prompt' else 'ptuning'}",
                    "model.peft.p_tuning.virtual_tokens=4", "model.optim.lr=0.05", "--ranks", 4, "model.tensor_model_parallel_size=2",
                    "model.zero_stage=1", "model.micro_batch_size=2",
                    *([f"model.peft.p_tuning.encoder_type={encoder.lower()}", "model.peft.p_tuning.bottleneck_dim=12"] if method != "prompt" else []),
                    "--output", run)
        trained = peft.PeftModel.from_pretrained(copy.deepcopy(model), run / "checkpoints/latest/adapter").eval()
        expected = [logprobs(trained, *p) for p in pairs]
        assert difference(expected, [logprobs(model, *p) for p in pairs]) > 1e-2, "training changed nothing"
        report(f"{method}: Stoa's", difference(score(stoa, run, pairs), expected), TOLERANCE)


def check(name, stoa, folder, tokenizer, vocabulary, rows):
    def report(what, value, allowed):
        rows.append({"model": name, "check": what, "value": value, "allowed": allowed, "passed": value <= allowed})
        print(f"{name:12} {what:28} {value:10.3g}  allowed {allowed:8.3g}  {'ok' if value <= allowed else 'TOO FAR'}", flush=True)

    kind, options, own_head = CASES[name]
    model = make_model(kind, options, own_head, vocabulary)
    saved = folder / "saved"
    model.save_pretrained(saved)
    for file in tokenizer.iterdir():
        if file.name != "config.json": shutil.copy(file, saved)
    rng = np.random.default_rng(5)
    words = lambda n: rng.integers(2, vocabulary, n).tolist()
    pairs = [(words(n), words(m)) for n, m in [(30, 12), (7, 25), (61, 1), (1, 9)]]
    for ranks in RANKS:
        report(f"read{ranks_text(ranks)}", difference(score(stoa, saved, pairs, *ranks), [logprobs(model, *p) for p in pairs]), TOLERANCE)

    file = folder / "prompts.txt"
    file.write_text("".join(t + "\n" for t in TALES))
    for what, ours, theirs in [("greedy", ["--greedy"], {"num_beams": 1}), ("beams", ["--beams", 4], {"num_beams": 4})]:
        their = None
        for ranks in RANKS:
            mine = answers(stoa, saved, file, *ours, *ranks)
            their = their or their_answers(model, [line["prompt_ids"] for line in mine], **theirs)
            wrong = sum(line["ids"] != ids for line, (ids, _) in zip(mine, their, strict=True))
            report(f"{what}{ranks_text(ranks)}: other ids", wrong, 0)
            if what == "beams":
                report(f"beams{ranks_text(ranks)}: scores", max(abs(line["score"] - s) for line, (_, s) in zip(mine, their)), TOLERANCE)
        print("         lengths", [len(line["ids"]) for line in mine])

    ours = {"kind": "t5", "num_layers": 5, "hidden_size": 48, "kv_channels": 16, "ffn_hidden_size": 80, "num_attention_heads": 4,
            "encoder_seq_length": 32, "position_embedding_type": "relative", "normalization": "rmsnorm", "layernorm_epsilon": 1e-6,
            "activation": "relu" if name == "t5 1.0" else "geglu_tanh", "bias": "none", "tokenizer": str(tokenizer),
            "share_embeddings_and_output_weights": not own_head, "vocab_size": vocabulary,
            "t5": {"encoder_layers": 3, "seq_length_dec": 12, "relative_attention_num_buckets": 8,
                   "relative_attention_max_distance": 20, "scale_decoder_outputs": name == "t5 1.0"}}
    documents = [rng.integers(3, 40, n) for n in rng.integers(20, 400, 60)]
    oracle.write_corpus(folder / "corpus", documents)
    oracle.write_config(folder / "run.yaml", ours, folder / "corpus", {"max_steps": 6, "precision": "fp32", "val_check_interval": 0},
                        {"name": "adamw", "lr": 1e-3}, weights=saved)
    oracle.call(stoa, "train", folder / "run.yaml", "--output", folder / "run")
    trained = load_strictly(folder / "run/checkpoints/latest/model")
    expected = [logprobs(trained, *p) for p in pairs]
    assert difference(expected, [logprobs(model, *p) for p in pairs]) > 1e-2, "training changed nothing"
    report("trained", difference(score(stoa, folder / "run", pairs), expected), TOLERANCE)
    oracle.call(stoa, "checkpoint", "export", folder / "run", "--dtype", "fp32", "--output", folder / "exported")
    again = load_strictly(folder / "exported")
    report("exported", difference([logprobs(again, *p) for p in pairs], expected), TOLERANCE)
    check_virtual(name, stoa, folder, model, pairs, report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--models", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--json")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tales.txt").write_text("\n\n".join(TALES * 40))
        oracle.call(args.stoa, "tokenizer", "train", folder / "tales.txt", "--kind", "unigram", "--vocab-size", 40, "--sentinels", 20,
                    "--output", folder / "pieces")
        for name in args.models:
            (folder / name).mkdir()
            check(name, args.stoa, folder / name, folder / "pieces", 60, rows)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                                                       "rows": rows}, indent=1) + "\n")
    if not all(row["passed"] for row in rows): raise SystemExit(1)


main()
