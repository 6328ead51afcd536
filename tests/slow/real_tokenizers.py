#!/usr/bin/env python3
"""Real tokenizers beside the libraries that they were made for: ids, offsets and decoded texts of hostile texts.

  python tests/slow/real_tokenizers.py --stoa build/release/src/stoa [--texts 3000] FILE_OR_FOLDER...

tokenizer.json (and other JSON files of that form) and vocab.txt beside `tokenizers`; tekken*.json, .tiktoken and a .model that
holds ranks beside `tiktoken`; other *.model beside `sentencepiece`. Folders are searched. A text that the library itself refuses
must be refused. Prints a line per tokenizer; exits with 1 when anything differs.
Needs: pip install tokenizers tiktoken sentencepiece==0.2.0 (as Debian's library: 0.2.1 breaks ties of Unigram models in another way)
"""
import argparse
import base64
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata

import sentencepiece
import tiktoken
from tiktoken_ext import openai_public
from tokenizers import BertWordPieceTokenizer, Tokenizer

SCRIPTS = ["abcdefghijklmnopqrstuvwxyzETAOINSHRDLU", " \n\t\r  ", "0123456789", "'stremvlld'S", ".,!?-_=+*/(){}<>|@#$%^&~`", "éüßñçåøłđ\u0301\u0323\u0345",
           "今天気公園へカーあ東京", "אבגדהוםן", "كانتالشمسمشرقة", "🙂👍🏽\u200d👩👧🇩🇪❤\ufe0f", "\u00a0\u2003\u3000\u0085\u200b\ufeff\u2028", "²½٣Ⅷ①", "\u2581Ġ▁Ċ",
           "\u1100\u1161\u11a8\uac00한국어", "ﬁﬀ№㍿℃Ａ１", "कखगघिी्ंन", "กขคงาำิี่", "абвгдежзиЁ", "αβγδεΐ", "\x00\x01\x07\x7f\u00ad\ufffd"]
WORDS = ["the ", " The", "don't", "WE'LL", "I'm", " https://example.org/a?b=c", "    return x\n", "def f(x):", "{\"a\": [1, 2.5]}", " 1,000,000.00",
         "antidisestablishmentarianism", "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[MASK]", "[UNK]", "<|im_start|>", "[INST]", "<0x0A>",
         "snake_case", "camelCase", "ÉTÉ", "Straße", "\r\n\r\n", "\n\n\n", "        ", "İ", "ǅ"]


def hostile_texts(count, seed=22):
    rng = random.Random(seed)
    out = ["", " ", "\n", "a", "\u0301", " a b  c   d    e     ", "a" * 500, " " * 500, "\n" * 300, "今" * 200, "\u0301" * 100, "1" * 100, "aB" * 100, "🙂" * 60]
    while len(out) < count:
        pool = rng.sample(SCRIPTS, rng.randint(1, 4))
        text = []
        for _ in range(rng.choice([1, 3, 8, 20, 60, 150])):
            kind = rng.random()
            if kind < 0.05:
                c = rng.randrange(0x110000)
                text.append(chr(c) if not 0xD800 <= c < 0xE000 else "?")
            elif kind < 0.2:
                text.append(rng.choice(WORDS))
            elif kind < 0.5:
                text.append("".join(rng.choice(pool[0]) for _ in range(rng.randint(1, 12))))
            else:
                text.append(rng.choice(rng.choice(pool)) * rng.choice([1, 1, 1, 1, 1, 2, 3, 9]))
            if kind > 0.8: text.append(" ")
        out.append("".join(text))
    return out[:count]


class Stoa:
    def __init__(self, program, tokenizer, folder):
        self.program, self.tokenizer, self.folder = program, tokenizer, folder

    def lines(self, command, content, *options):
        path = os.path.join(self.folder, "lines")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(x) + "\n" for x in content)
        done = subprocess.run([self.program, "tokenizer", command, "--tokenizer", self.tokenizer, "--json", *options, path], capture_output=True, text=True)
        if done.returncode: raise RuntimeError(done.stderr.strip()[-400:])
        return [json.loads(line) for line in done.stdout.split("\n") if line]

    def encode(self, texts, *options):
        return self.lines("encode", texts, "--json-strings", *options)

    def decode(self, ids, *options):
        return [x["text"] for x in self.lines("decode", [{"ids": i} for i in ids], *options)]


def compare(report, texts, what, ours, theirs):
    for text, a, b in zip(texts, ours, theirs):
        if a == b: continue
        report["different"] += 1
        if len(report["shown"]) < 3: report["shown"].append(f"{what} of {text[:80]!r}\n    stoa  {str(a)[:300]}\n    other {str(b)[:300]}")


def encodings(tok, stoa, texts, report):
    """The texts that the library encodes, without and with special tokens; what it refuses Stoa must refuse."""
    kept, plain, special, refused = [], [], [], []
    for text in texts:
        try:
            e = tok.encode(text, add_special_tokens=False)
        except Exception:  # the library raises no other
            refused.append(text)
            continue
        kept.append(text), plain.append(e), special.append(tok.encode(text, add_special_tokens=True))
    for text in refused[:5]:
        try:
            compare(report, [text], "refused text", stoa.encode([text]), [None])
        except RuntimeError:
            pass
    if refused: report["kind"] += f", {len(refused)} texts refused by both"
    return kept, plain, special


def by_tokenizers(path, stoa, texts, report):
    if path.endswith("vocab.txt"):
        tokens = open(path, encoding="utf-8").read().split("\n")
        if "[UNK]" not in tokens:
            report["kind"] = "vocab.txt without [UNK]: not BERT's, refused"
            try:
                compare(report, ["a"], "refused file", stoa.encode(["a"]), [None])
            except RuntimeError:
                pass
            return
        tok = BertWordPieceTokenizer(path)
        report["kind"] = f"vocab.txt, {tok.get_vocab_size()} tokens"
    else:
        tok = Tokenizer.from_file(path)
        tok.no_truncation()
        tok.no_padding()
        parts = json.load(open(path, encoding="utf-8"))
        kind = lambda part: (part or {}).get("type", "-")
        report["kind"] = f"{parts['model'].get('type', '?')} {kind(parts.get('normalizer'))} {kind(parts.get('pre_tokenizer'))}"
    texts, plain, special = encodings(tok, stoa, texts, report)
    ours = stoa.encode(texts, "--offsets")
    compare(report, texts, "ids", [x["ids"] for x in ours], [e.ids for e in plain])
    compare(report, texts, "offsets", [[tuple(o) for o in x["offsets"]] for x in ours], [e.offsets for e in plain])
    compare(report, texts, "ids without offsets", [x["ids"] for x in stoa.encode(texts)], [e.ids for e in plain])
    ours = stoa.encode(texts, "--offsets", "--add-special")
    compare(report, texts, "ids with special tokens", [x["ids"] for x in ours], [e.ids for e in special])
    compare(report, texts, "offsets with special tokens", [[tuple(o) for o in x["offsets"]] for x in ours], [e.offsets for e in special])
    for skip, options in ((False, ()), (True, ("--skip-special",))):
        compare(report, texts, f"text (skip {skip})", stoa.decode([e.ids for e in special], *options),
                [tok.decode(e.ids, skip_special_tokens=skip) for e in special])


GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace("{1,3}", "")
QWEN3_5 = QWEN.replace(r"\p{L}]?\p{L}+", r"\p{L}]?[\p{L}\p{M}]+").replace(r" ?[^\s\p{L}\p{N}]", r" ?[^\s\p{L}\p{M}\p{N}]")
# Of files that do not say how they cut, by a part of their path: they get a tokenizer_config.json with it.
PATTERNS = {"gpt2.tiktoken": GPT2, "multilingual.tiktoken": GPT2, "qwen3_6.tiktoken": QWEN3_5, "llama4": None, "llama": LLAMA3}


def tiktoken_pattern(path):
    """The pattern, and whether Stoa must be told."""
    beside = os.path.join(os.path.dirname(path), "tokenizer_config.json")
    if os.path.exists(beside) and "pat_str" in json.load(open(beside)): return json.load(open(beside))["pat_str"], False
    name = os.path.basename(path).split(".")[0]
    if name == "qwen": return QWEN, False
    openai_public.load_tiktoken_bpe = lambda *_a, **_k: {}
    for part, pattern in PATTERNS.items():
        if part in path: return pattern or openai_public.o200k_base()["pat_str"], True
    return getattr(openai_public, name)()["pat_str"], False


def by_tiktoken(path, stoa, texts, report):
    shift = 0
    if path.endswith(".json"):
        file = json.load(open(path, encoding="utf-8"))
        shift, pattern = file["config"]["default_num_special_tokens"], file["config"]["pattern"]
        ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in file["vocab"] if v["rank"] < file["config"]["default_vocab_size"] - shift}
    else:
        pattern, told = tiktoken_pattern(path)
        if told:
            with open(os.path.join(stoa.folder, "tokenizer_config.json"), "w", encoding="utf-8") as f: json.dump({"pat_str": pattern}, f)
        ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in open(path, "rb").read().splitlines() if line)}
    report["kind"] = f"tiktoken, {len(ranks)} ranks"
    encoding = tiktoken.Encoding(name="x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    wanted = [unicodedata.normalize("NFC", t) if path.endswith("qwen.tiktoken") else t for t in texts]
    ours = [x["ids"] for x in stoa.encode(texts, "--plain")]
    compare(report, texts, "ids", ours, [[i + shift for i in encoding.encode_ordinary(t)] for t in wanted])
    compare(report, texts, "text", stoa.decode(ours), [encoding.decode(encoding.encode_ordinary(t)) for t in wanted])


def by_sentencepiece(path, stoa, texts, report):
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    report["kind"] = f"SentencePiece, {model.vocab_size()} pieces"
    texts = [t for t in texts if not any(w in t for w in ("<s>", "</s>", "<unk>", "<pad>", "\x00"))]
    theirs = [model.encode(t) for t in texts]
    compare(report, texts, "ids", [x["ids"] for x in stoa.encode(texts, "--plain")], theirs)
    # What has no piece is decoded as transformers does, <unk>, not as the library, which writes a mark for it.
    known = [ids for ids in theirs if model.unk_id() not in ids]
    compare(report, known, "text", stoa.decode(known), [model.decode(ids) for ids in known])


def holds_ranks(path):
    with open(path, "rb") as f: return re.match(rb"[A-Za-z0-9+/]+=* \d+\r?\n", f.read(1000)) is not None


def holds_tokenizer(path):
    if path.endswith((".tiktoken", "vocab.txt")) or ".model" in os.path.basename(path): return True
    if not path.endswith(".json") or os.path.getsize(path) < 1000: return False
    try:
        content = json.load(open(path, encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(content, dict) and ("added_tokens" in content and "model" in content or "tekken" in os.path.basename(path) and "vocab" in content)


def find(paths):
    for path in paths:
        if os.path.isfile(path): yield path
        for folder, _, files in sorted(os.walk(path)):
            yield from (os.path.join(folder, f) for f in sorted(files) if holds_tokenizer(os.path.join(folder, f)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--stoa", required=True)
    parser.add_argument("--texts", type=int, default=3000)
    a = parser.parse_args()
    texts, failed, seen = hostile_texts(a.texts), 0, set()
    for path in find(a.paths):
        digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
        if digest in seen: continue
        seen.add(digest)
        report, start = {"different": 0, "shown": [], "kind": ""}, time.time()
        name = os.path.basename(path)
        by, file = (by_tiktoken, "tekken.json") if "tekken" in name else (by_tiktoken, name) if name.endswith(".tiktoken") else \
            (by_tiktoken if holds_ranks(path) else by_sentencepiece, "tokenizer.model") if ".model" in name else \
            (by_tokenizers, name if name == "vocab.txt" else "tokenizer.json")
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, file)
            shutil.copy(path, target)
            beside = os.path.join(os.path.dirname(path), "tokenizer_config.json")
            if by is by_tiktoken and file.endswith(".tiktoken") and os.path.exists(beside): shutil.copy(beside, folder)
            try:
                by(path, Stoa(a.stoa, target, folder), texts, report)
            except RuntimeError as error:
                report["different"] += 1
                report["shown"].append(str(error))
        failed += report["different"] > 0
        print(f"{'DIFFERENT' if report['different'] else 'same':9} {report['different']:6} {path}  ({report['kind']}, {time.time() - start:.0f} s)", flush=True)
        for line in report["shown"]: print("  " + line)
    print(f"{len(seen)} tokenizers, {len(texts)} texts each, {failed} with differences")
    sys.exit(1 if failed or not seen else 0)


main()
