#!/usr/bin/env python3
"""Writes tests/fixtures/token/components.json: a small tokenizer for every component of tokenizer.json and every option of it,
and what Hugging Face `tokenizers` makes of hostile texts with each.

  python tests/oracle/make_component_fixtures.py tests/fixtures/token/components.json
  python tests/oracle/make_component_fixtures.py --directory OUT     # one folder per tokenizer with its tokenizer.json

  models       by name; tokenizers name one
  texts        the texts; each tokenizer has a checksum per text over "ids;offsets;decoded" (FNV-1a, 32 of its bits)
Needs: pip install tokenizers sentencepiece
"""
import argparse
import base64
import json
import os
import random
import tempfile

import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))

TEXTS = ["", " ", "a", " a", "a  b", "Hello, World! It's 3.14 — isn't it?", "  leading and trailing  ", "\tTabs\nand\r\nlines\n\n",
         "naïve café Größe ÉTÉ", "e\u0301a\u0323\u0301 n\u0303", "ﬁne Ｆｕｌｌ １２３ ² ½ ℌ", "今天天气很好，我们去公园。", "東京タワー カタカナー ひらがな", "한국어 \u1112\u1161\u11ab",
         "שלום עולם ١٢٣", "🙂👍🏽👩‍👩‍👧‍👦🇩🇪", "<s>special</s> <pad> [UNK] <unk>", "word wordy aword word! WORD", "x<L> y <R>  z", "snake_case CamelCase kebab-case",
         "a\u200bb\u00adc\ufeffd\u2028e\u0085f", "\x00\x01\x07\x7f\x8f\x9f", "\u2581already\u2581there", "Ġ Ċ Ã©", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "don't do not . , ! ? ' n't 'm 's 've 're", "İstanbul ẞ ǅ ﬀ", "\u0958\u0959 \u0f73 \uf900\ufa0e", "100 000,00 €1$2", "\u1e9b\u0323 \ufb2c \u212b",
         "|a|b||c|", "low lower lowest new newer", "<0x41> <0x0A>", "\U0001e900\U0001e922 \U00011f04 \ua7cb \u1c89", "\u0e33\u0e01\u0e33 ก็ \u0903a\u0903"]


def random_texts(count, seed=20261123):
    rng = random.Random(seed)
    pools = ["abcdefgh ETAOIN", " \n\t\r  ", "0123456789", "'stremvlld'S", ".,!?-_=+*/(){}<>|", "éüßñ\u0301\u0323\u0345", "今天気公園へカーあ", "אבגדهو", "🙂👍🏽\u200d",
             "\u00a0\u2003\u3000\u0085", "²½٣Ⅷ", "\u2581Ġ", "\u1100\u1161\u11a8\uac00", "ﬁﬀ№㍿"]
    words = ["<s>", "</s>", "<L>", "<R>", "word", "<pad>", "the ", "lower", "new", " and", "n't"]
    out = []
    for _ in range(count):
        text = []
        for _ in range(rng.randint(1, 24)):
            kind = rng.random()
            if kind < 0.1:
                c = rng.randrange(0x110000)
                text.append(chr(c) if not 0xD800 <= c < 0xE000 else "?")
            elif kind < 0.25:
                text.append(rng.choice(words))
            else:
                text.append(rng.choice(rng.choice(pools)) * rng.choice([1, 1, 1, 1, 2, 5]))
        out.append("".join(text))
    return out


def corpus():
    return open(os.path.join(HERE, "../fixtures/token/corpus.txt"), encoding="utf-8", newline="").read().splitlines(keepends=True)[:400]


def trained(model, trainer, pre=None, normalizer=None):
    tok = Tokenizer(model)
    if pre is not None: tok.pre_tokenizer = pre
    if normalizer is not None: tok.normalizer = normalizer
    tok.train_from_iterator(corpus(), trainer)
    return json.loads(tok.to_str())["model"]


def small_charsmap():
    """The character map of a SentencePiece model with a dozen rules."""
    rules = {"ﬁ": "fi", "Ａ": "A", "½": "1/2", "e\u0301": "é", "a\u0301": "á", "\u0323": "", "№": "No", "\t": " ", "\u3000": " ", "x": "ks", "㍿": "株式会社", "ㄱ": "\u1100"}
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "rules.tsv"), "w", encoding="utf-8") as f:
            for source, target in rules.items():
                hexed = lambda s: " ".join(f"{ord(c):X}" for c in s)
                f.write(f"{hexed(source)}\t{hexed(target)}\n")
        with open(os.path.join(work, "text.txt"), "w", encoding="utf-8") as f:
            f.writelines(corpus())
        sentencepiece.SentencePieceTrainer.train(input=os.path.join(work, "text.txt"), model_prefix=os.path.join(work, "m"), vocab_size=400, minloglevel=2, hard_vocab_limit=False, model_type="char",
                                                 normalization_rule_tsv=os.path.join(work, "rules.tsv"), character_coverage=0.98)
        blob = open(os.path.join(work, "m.model"), "rb").read()
    # normalizer_spec is field 3 of the model, precompiled_charsmap field 2 of that.
    def fields(data):
        at = 0
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128: return value
        while at < len(data):
            key = varint()
            if key & 7 == 2:
                size = varint()
                yield key >> 3, data[at:at + size]
                at += size
            elif key & 7 == 0: yield key >> 3, varint()
            elif key & 7 == 5: at += 4
            else: at += 8
    spec = next(value for field, value in fields(blob) if field == 3)
    return next(value for field, value in fields(spec) if field == 2)


def make_models():
    silent = dict(show_progress=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    out = {}
    out["bytes"] = trained(models.BPE(), trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, special_tokens=["<s>"], **silent),
                           pre_tokenizers.ByteLevel(add_prefix_space=False))
    # The bytes that no UTF-8 text holds have no tokens: GPT-NeoX.
    never = {chr(c) for c in [0xC0, 0xC1, *range(0xF5, 0x100)]}
    vocab = {t: i for i, t in enumerate(t for t in out["bytes"]["vocab"] if t not in never)}
    out["neox"] = dict(out["bytes"], vocab=vocab)
    out["characters"] = trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer(vocab_size=170, special_tokens=["<unk>", "<s>", "</s>"], **silent),
                                pre_tokenizers.Metaspace())
    out["fused"] = dict(out["characters"], fuse_unk=True)
    out["no_unknown"] = dict(out["characters"], unk_token=None)
    out["whole_words"] = dict(out["characters"], ignore_merges=True)
    dropped = dict(out["characters"], dropout=1.0)
    out["dropout_1"] = dropped
    fallback = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                       trainers.BpeTrainer(vocab_size=420, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], **silent),
                       pre_tokenizers.Metaspace())
    out["fallback"] = fallback
    few = {t: i for i, t in enumerate(t for t in fallback["vocab"] if not (t.startswith("<0x") and int(t[3:5], 16) > 0xE0))}
    out["some_fallback"] = dict(fallback, vocab=few, fuse_unk=False)
    out["suffix"] = trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
                            trainers.BpeTrainer(vocab_size=220, special_tokens=["<unk>"], end_of_word_suffix="</w>", **silent), pre_tokenizers.Whitespace())
    out["prefix"] = trained(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
                            trainers.BpeTrainer(vocab_size=220, special_tokens=["<unk>"], continuing_subword_prefix="##", **silent), pre_tokenizers.Whitespace())
    wordpiece = trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]", "<s>", "</s>"], **silent),
                        pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer())
    out["wordpiece"] = dict(wordpiece, vocab={t: i for i, t in enumerate(sorted(wordpiece["vocab"]))})
    out["short_words"] = dict(out["wordpiece"], max_input_chars_per_word=5, continuing_subword_prefix="##")
    out["words"] = trained(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=120, special_tokens=["<unk>", "<s>"], **silent),
                           pre_tokenizers.Whitespace())
    rng = random.Random(5)
    pieces = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0]] + [[t, -rng.randint(2, 60) / 4] for t in list(out["characters"]["vocab"])[3:]]
    out["unigram"] = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False}
    out["unigram_bytes"] = {"type": "Unigram", "unk_id": 0, "vocab": pieces + [[f"<0x{b:02X}>", 0.0] for b in range(256)], "byte_fallback": True}
    return out


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BARE_BYTES = dict(BYTES, use_regex=False)
STRING = lambda s: {"String": s}
REGEX = lambda s: {"Regex": s}
SPLIT = lambda pattern, behavior, invert=False: {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
REPLACE = lambda pattern, content: {"type": "Replace", "pattern": pattern, "content": content}
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def make_tokenizers(charsmap):
    out = []

    def add(name, model, normalizer=None, pre=None, post=None, decoder=None, added=(), **more):
        out.append({"name": name, "model": model, "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post, "decoder": decoder,
                    "added_tokens": list(added), **more})

    meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    # Normalizers, each before one and the same rest.
    for name, normalizer in {
            "bert": bert, "bert-cased": dict(bert, lowercase=False), "bert-accents": dict(bert, strip_accents=False), "bert-raw": dict(bert, clean_text=False),
            "bert-chinese": dict(bert, handle_chinese_chars=False, strip_accents=True, lowercase=False), "nfc": {"type": "NFC"}, "nfd": {"type": "NFD"}, "nfkc": {"type": "NFKC"},
            "nfkd": {"type": "NFKD"}, "strip": {"type": "Strip", "strip_left": True, "strip_right": True}, "strip-left": {"type": "Strip", "strip_left": True, "strip_right": False},
            "strip-right": {"type": "Strip", "strip_left": False, "strip_right": True}, "accents": sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"}),
            "lower": {"type": "Lowercase"}, "replace": REPLACE(STRING("a"), "<b>"), "replace-regex": REPLACE(REGEX(r"\s+"), " "), "replace-empty": REPLACE(REGEX(r"x*"), "-"),
            "replace-nothing": REPLACE(STRING("e"), ""), "prepend": {"type": "Prepend", "prepend": "▁x"}, "nmt": {"type": "Nmt"},
            "precompiled": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}, "bytes": {"type": "ByteLevel"},
            "many": sequence("normalizers", {"type": "Nmt"}, {"type": "NFKC"}, REPLACE(REGEX(" {2,}"), " "), {"type": "Strip", "strip_left": True, "strip_right": True},
                             {"type": "Lowercase"})}.items():
        add(f"normalizer/{name}", "unigram", normalizer=normalizer, pre=meta, decoder=meta)
    # Pre-tokenizers.
    for name, pre in {
            "none": None, "metaspace": meta, "metaspace-first": dict(meta, prepend_scheme="first"), "metaspace-never": dict(meta, prepend_scheme="never"),
            "metaspace-whole": dict(meta, split=False), "metaspace-x": dict(meta, replacement="_"), "metaspace-old": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
            "digits": {"type": "Digits", "individual_digits": False}, "digit": {"type": "Digits", "individual_digits": True}, "whitespace": {"type": "Whitespace"},
            "whitespace-split": {"type": "WhitespaceSplit"}, "bert": {"type": "BertPreTokenizer"}, "scripts": {"type": "UnicodeScripts"},
            "delimiter": {"type": "CharDelimiterSplit", "delimiter": "|"}, "fixed": {"type": "FixedLength", "length": 3},
            **{f"punctuation-{b}": {"type": "Punctuation", "behavior": b} for b in BEHAVIORS},
            **{f"split-{b}{'-invert' if i else ''}": SPLIT(REGEX(r"\d+|[aeiou]"), b, i) for b in BEHAVIORS for i in (False, True)},
            "split-string": SPLIT(STRING("an"), "MergedWithNext"), "split-empty": SPLIT(REGEX("b*"), "Isolated"), "split-look": SPLIT(REGEX(r"(?<=[a-z])(?=[A-Z])"), "Isolated"),
            "many": sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}, meta)}.items():
        add(f"pre/{name}", "characters", pre=pre, decoder={"type": "Fuse"})
    # Byte-level: patterns, options, post-processors, added tokens.
    decode = BYTES
    for name, pre in {
            "gpt2": BYTES, "prefix": dict(BYTES, add_prefix_space=True), "whole": BARE_BYTES, "o200k": sequence("pretokenizers", SPLIT(REGEX(O200K), "Isolated"), BARE_BYTES),
            "removed": sequence("pretokenizers", SPLIT(REGEX(O200K), "Removed", True), BARE_BYTES), "digits": sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, BYTES),
            "deepseek": sequence("pretokenizers", SPLIT(REGEX(r"\p{N}{1,3}"), "Isolated"), SPLIT(REGEX("[一-龥぀-ゟ゠-ヿ]+"), "Isolated"),
                                 SPLIT(REGEX(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
                                       "Isolated"), BARE_BYTES),
            "prefix-each": sequence("pretokenizers", {"type": "Digits", "individual_digits": False}, dict(BYTES, add_prefix_space=True)),
            "old-possessive": sequence("pretokenizers", SPLIT(REGEX(r"\p{N}{1,3}+|\s++$|\S+"), "Isolated"), BARE_BYTES)}.items():
        add(f"bytes/{name}", "bytes", pre=pre, decoder=decode)
    add("bytes/neox", "neox", normalizer={"type": "NFC"}, pre=BYTES, decoder=decode)
    add("bytes/upper", "bytes", normalizer={"type": "Lowercase"}, pre=BYTES, decoder=decode)
    add("bytes/no-decoder", "bytes", pre=BYTES)
    sep, cls = ["</s>", 2], ["<s>", 1]
    special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2, 2], "tokens": ["</s>", "</s>"]}}}
    posts = {"template": template, "bert": {"type": "BertProcessing", "sep": sep, "cls": cls}, "bytes": dict(BYTES, trim_offsets=True), "bytes-prefix": dict(BYTES, add_prefix_space=True),
             "bytes-whole": dict(BYTES, trim_offsets=False), "roberta": {"type": "RobertaProcessing", "sep": sep, "cls": cls, "trim_offsets": True, "add_prefix_space": True},
             "roberta-whole": {"type": "RobertaProcessing", "sep": sep, "cls": cls, "trim_offsets": False, "add_prefix_space": False},
             "many": sequence("processors", dict(BYTES, trim_offsets=True), template)}
    for name, post in posts.items():
        add(f"post/{name}", "characters", pre=dict(BYTES, add_prefix_space="prefix" in name or name == "roberta"), post=post, decoder=decode, added=special)
    # Decoders.
    for name, decoder in {
            "metaspace": meta, "metaspace-never": dict(meta, prepend_scheme="never"), "bpe": {"type": "BPEDecoder", "suffix": "</w>"}, "wordpiece": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "wordpiece-raw": {"type": "WordPiece", "prefix": "##", "cleanup": False}, "ctc": {"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": True},
            "ctc-raw": {"type": "CTC", "pad_token": "e", "word_delimiter_token": "|", "cleanup": False}, "fuse": {"type": "Fuse"}, "replace": REPLACE(STRING("▁"), " "),
            "replace-regex": REPLACE(REGEX("[aeiou]+"), "*"), "none": None,
            "llama": sequence("decoders", REPLACE(STRING("▁"), " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
            "strip": sequence("decoders", {"type": "Fuse"}, {"type": "Strip", "content": "▁", "start": 2, "stop": 0})}.items():
        add(f"decoder/{name}", "fallback", pre=meta, decoder=decoder)
    # Models.
    for model in ("characters", "fused", "no_unknown", "whole_words", "dropout_1", "fallback", "some_fallback", "unigram", "unigram_bytes"):
        add(f"model/{model}", model, pre=meta, decoder=meta)
        add(f"model/{model}-whole", model, normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, REPLACE(STRING(" "), "▁")), decoder={"type": "Fuse"})
    for model in ("suffix", "prefix", "wordpiece", "short_words", "words"):
        add(f"model/{model}", model, pre={"type": "Whitespace"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    add("model/wordpiece-bert", "wordpiece", normalizer=bert, pre={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    # Added tokens.
    flags = [("<L>", dict(lstrip=True)), ("<R>", dict(rstrip=True)), ("word", dict(single_word=True)), (" ", dict(lstrip=True, rstrip=True)), ("É", dict(normalized=True)),
             ("low", dict(normalized=True)), ("lower", dict(normalized=True)), ("<pad>", dict(special=True))]

    def tokens(size, chosen):
        usual = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
        return special + [{"id": size + i, "content": content, **usual, **given} for i, (content, given) in enumerate(chosen)]

    for name, normalizer in (("plain", None), ("lower", {"type": "Lowercase"}), ("nfd", {"type": "NFD"}), ("prepend", {"type": "Prepend", "prepend": "▁"})):
        add(f"added/{name}", "characters", normalizer=normalizer, pre=meta, decoder=meta, added=("SIZE", [f for f in flags if f[0] != " "]))
    add("added/blanks", "characters", pre=dict(meta, prepend_scheme="first"), decoder=meta, added=("SIZE", [f for f in flags if f[0] in (" ", "<R>", "<L>")]))
    add("added/bytes", "bytes", normalizer={"type": "NFC"}, pre=BYTES, decoder=decode, added=("SIZE", flags[:3] + flags[5:]))
    return out, tokens


def checksum(ids, offsets, decoded):
    text = ",".join(map(str, ids)) + ";" + ",".join(f"{a}-{b}" for a, b in offsets) + ";" + decoded
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value & 0xFFFFFFFF:08x}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?")
    parser.add_argument("--directory")
    a = parser.parse_args()
    all_models, texts = make_models(), TEXTS + random_texts(80)
    tokenizers, tokens = make_tokenizers(small_charsmap())
    for t in tokenizers:
        if t["added_tokens"][:1] == ["SIZE"]:
            t["added_tokens"] = tokens(len(all_models[t["model"]]["vocab"]), t["added_tokens"][1])
        if t["model"] == "bytes": t["added_tokens"] = [x for x in t["added_tokens"] if x["content"] not in ("<unk>", "</s>", "<s>")]
        whole = {"version": "1.0", "truncation": None, "padding": None, **{k: v for k, v in t.items() if k != "name"}, "model": all_models[t["model"]]}
        text = json.dumps(whole, ensure_ascii=False)
        if a.directory:
            folder = os.path.join(a.directory, t["name"].replace("/", "-"))
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f: f.write(text)
            continue
        tok = Tokenizer.from_str(text)
        sums = []
        for sample in texts:
            try:
                e = tok.encode(sample, add_special_tokens=True)
                sums.append(checksum(e.ids, e.offsets, tok.decode(e.ids, skip_special_tokens=False)))
            except BaseException as error:  # a panic of the library
                print(t["name"], repr(sample), type(error).__name__, str(error)[:80])
                sums.append("")
        t["sums"] = " ".join(s or "-" for s in sums)
    if a.output:
        with open(a.output, "w", encoding="utf-8") as f:
            f.write("{\"texts\":" + json.dumps(texts) + ",\n\"models\":{\n")
            f.write(",\n".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in all_models.items()))
            f.write("},\n\"tokenizers\":[\n" + ",\n".join(json.dumps(t, separators=(",", ":")) for t in tokenizers) + "]}\n")
        print(f"{len(tokenizers)} tokenizers, {len(texts)} texts, {os.path.getsize(a.output)} bytes")


main()
