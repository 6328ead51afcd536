#!/usr/bin/env python3
"""Whether cleaning helps: the same tiny GPT trained on raw and on cleaned text, as many tokens of each, with three seeds; loss on clean text that neither has seen.

  python bench/data/helps.py STOA [DOCUMENTS.jsonl] [--steps N] [--limit N] [--texts raw cleaned clean] [--output RESULT.json]

DOCUMENTS.jsonl holds texts (`tests/slow/curate_oracle.py --collect` makes such a file; without it, the documentation and manual pages of this machine, in all its
languages, are collected). They count as clean once lines that more than five of them have (menus and footers of the pages themselves, texts of licences) and near-duplicates are
gone; 300 are held out. Raw text is the rest as a crawl has it: menus and footers around documents, copies and near-copies, pages of noise (symbols, lists of words, lines that
repeat), so that a quarter of it is text worth reading (of Common Crawl RefinedWeb keeps a ninth: Penedo et al. 2023, figure 2). `stoa data run` cleans that; it is not told which is which. The third training is on the clean text itself: what cleaning could reach at best.
Losses are per token of one tokenizer, trained on the raw text. Needs Python alone.
"""
import argparse
import collections
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

# For technical text in many languages: no stop words and no limit to the length of words, which Chinese and Japanese do not set apart; tables, listings and signatures of
# functions repeat sequences of words and have many words without a letter; lists of few words are known by their entropy.
PIPELINE = """stages:
  - gopher_repetition: {top_n_grams: [0.4, 0.4, 0.4], dup_n_grams: [0.6, 0.6, 0.6, 0.6, 0.6, 0.6]}
  - gopher_quality: {min_stop_words: 0, max_non_alpha_words_ratio: 0.2, min_doc_words: 20, max_avg_word_length: 0}
  - rpv2_signals: {min_unigram_entropy: 2.8, min_word_count: 0, max_word_count: 0, min_mean_word_length: 0, max_mean_word_length: 0, max_symbol_to_word_ratio: 0,
                   max_frac_lines_end_with_ellipsis: 0, max_frac_no_alph_words: 0, max_frac_chars_top_gram: [0, 0, 0], max_frac_chars_dupe_grams: [0, 0, 0, 0, 0, 0]}
deduplicate: [exact, minhash]
cut: [{lines: {min_characters: 15, copies: 5}}]
"""
MODEL = ["tiny", "model.num_layers=3", "model.hidden_size=96", "model.num_attention_heads=4", "model.encoder_seq_length=128", "model.micro_batch_size=8",
         "model.global_batch_size=8", "model.optim.lr=3e-3", "model.optim.sched.warmup_steps=50", "trainer.val_check_interval=0"]
MENU = ["Home | Products | Support | Blog | Contact us", "Skip to main content", "Sign in / Register", "Share this page: Facebook Twitter Reddit",
        "Cookie settings - we use cookies to improve your experience on this site", "Copyright 2026 All rights reserved. Terms of use. Privacy policy",
        "Related articles you may like", "Subscribe to our newsletter!", "Click here to read more ..."]


def noise(rng):
    kind = rng.randrange(3)
    if kind == 0:
        return "".join(rng.choice("#$%&*{}[]<>|~^=+;:0123456789 ") for _ in range(rng.randint(500, 3000)))
    if kind == 1:
        words = ["cheap", "buy", "online", "price", "best", "casino", "free", "download", "now", "shop"]
        return " ".join(rng.choice(words) for _ in range(rng.randint(100, 500)))
    return "\n".join([rng.choice(MENU)] * rng.randint(20, 80))


def raw_of(texts, rng):
    """Texts as a crawl has them; each a line of JSON's "text"."""
    out = []
    for text in texts:
        if rng.random() < .8:
            text = "\n".join(rng.sample(MENU, 4)) + "\n" + text + "\n" + "\n".join(rng.sample(MENU, 4))
        out += [text] * (1 if rng.random() < .6 else rng.randint(2, 8))
        if rng.random() < .15:
            words = text.split(" ")
            words[rng.randrange(len(words))] = "changed"
            out.append(" ".join(words))
        out += [noise(rng) for _ in range(rng.randint(2, 8))]
    rng.shuffle(out)
    return out


def without_common_lines(texts, most=5):
    """Texts without the lines that more than `most` of them have."""
    found_in = collections.Counter(line for t in texts for line in {l.strip() for l in t.split("\n")})
    out = []
    for text in texts:
        lines = [line for line in text.split("\n") if not line.strip() or found_in[line.strip()] <= most]
        out.append("\n".join(line for i, line in enumerate(lines) if line.strip() or (i and lines[i - 1].strip())).strip())
    return out


def share_of_menus(texts):
    menu = set(MENU)
    return sum(len(line) for t in texts for line in t.split("\n") if line in menu) / sum(map(len, texts))


def write(path, texts):
    path.write_text("".join(json.dumps({"id": str(i), "text": t}) + "\n" for i, t in enumerate(texts)), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("documents", nargs="?")
    parser.add_argument("--limit", type=int, default=6000)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--texts", nargs="*", default=["raw", "cleaned", "clean"], choices=["raw", "cleaned", "clean"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output")
    a = parser.parse_args()
    stoa = str(pathlib.Path(a.stoa).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        documents = a.documents and pathlib.Path(a.documents).resolve()
        if not documents:
            documents = folder / "documents.jsonl"
            oracle = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/slow/curate_oracle.py"
            subprocess.run(["python3", oracle, documents, "--collect"], check=True)

        def run(*words):
            done = subprocess.run([stoa, *map(str, words)], cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"stoa {' '.join(map(str, words))}: {done.stderr}")
            return done.stdout

        def kept(output):
            return [json.loads(line)["text"] for part in sorted((folder / output / "kept").glob("*.jsonl")) for line in open(part, encoding="utf-8")]
        texts = [t for line in open(documents, encoding="utf-8") if 400 <= len(t := json.loads(line)["text"]) <= 6000]
        texts = [t for t in without_common_lines(texts) if len(t) >= 400]
        random.Random(1).shuffle(texts)
        write(folder / "all.jsonl", texts[:3 * a.limit])
        run("data", "dedup", "all.jsonl", "--method", "minhash", "--output", "unique")
        texts = kept("unique")[:a.limit]
        held_out, clean = texts[:300], texts[300:]

        raw = raw_of(clean, random.Random(2))
        write(folder / "raw.jsonl", raw)
        write(folder / "held-out.jsonl", held_out)
        (folder / "pipeline.yaml").write_text(PIPELINE)
        flow = json.loads(run("data", "run", "pipeline.yaml", "--input", "raw.jsonl", "--output", "kept", "--json"))["flow"]
        with open(folder / "cleaned.jsonl", "wb") as out:
            for part in sorted(folder.glob("kept/kept/*.jsonl")):
                out.write(part.read_bytes())
        run("tokenizer", "train", "raw.jsonl", "--vocab-size", "1024", "--output", "tok")
        write(folder / "clean.jsonl", clean)
        for data in a.texts:
            run("data", "prepare", f"{data}.jsonl", "--tokenizer", "tok", "--output", data)
        known, cleaned = set(clean), kept("kept")
        print(f"raw: {len(raw)} documents, {sum(t in known for t in raw)} of them as they were, {100 * share_of_menus(raw):.1f} % menus; "
              f"cleaned: {len(cleaned)}, {100 * share_of_menus(cleaned):.1f} % menus; characters: clean {sum(map(len, clean))}, raw {sum(map(len, raw))}, cleaned {sum(map(len, cleaned))}", flush=True)
        losses = {data: [] for data in a.texts}
        for seed in range(1, a.seeds + 1):
            for data, found in losses.items():
                output = f"run-{data}-{seed}"
                run("train", *MODEL, f"model.data={data}", "model.tokenizer=tok", "model.data.splits_string='100,0,0'", f"trainer.max_steps={a.steps}",
                    f"model.seed={seed}", "--output", output)
                found.append(json.loads(run("eval", "perplexity", output, "--text", "held-out.jsonl", "--json"))["loss"])
                print(f"seed {seed}, {data}: {found[-1]:.4f}", flush=True)
        result = {"documents": len(texts), "raw": flow["read"], "kept": flow["kept"], "dropped": {k: v["documents"] for k, v in flow["dropped"].items()},
                  "tokens": a.steps * 8 * 128, "losses": losses, "means": {k: statistics.mean(v) for k, v in losses.items()}}
        print(json.dumps(result, indent=1))
        if a.output:
            pathlib.Path(a.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
