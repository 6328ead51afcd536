#!/usr/bin/env python3
"""Writes tests/fixtures/token: tokenizers trained by Hugging Face `tokenizers` on corpus.txt, and what it makes of texts.

  python tests/oracle/make_token_fixtures.py tests/fixtures/token [--gpt2 VOCAB_JSON MERGES_TXT] [--llama2 TOKENIZER_JSON] [--many N]

  gpt2/ llama3/ qwen2/ bloom/ llama2/tokenizer.json  600 or 800 tokens: split patterns, NFC, added tokens of every kind, byte fallback
  samples.json    texts with ids: as they are, with special tokens as text, with special tokens added; decoded text
  gpt2-full.json  ids of the same texts with GPT-2's own vocabulary (--gpt2; the vocabulary itself is not committed)
  stories260k.json the same for a real tokenizer of Llama-2's form (--llama2)
  wordpiece.json  the same for bert/ and bert-cased/ (WordPiece), with one checksum per normalizer over all of Unicode
  unicode.json    one checksum per pattern over the words of a probe text for every code point of Unicode; NFC; \\w
--many N adds N random texts to samples.json (not committed). Needs: pip install tokenizers
"""
import argparse
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE = {"gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False), "llama3": split(LLAMA3), "qwen2": split(QWEN2), "bloom": split(BLOOM)}

TEXTS = [
    "", " ", "  ", "a", " a", "  a", "a ", "a  ", "\n", "\n\n", " \n", "\n ", "\t\ta", "a\r\nb\r\n\r\nc", " \r\n x", "a \n \n b",
    "The harbour was quiet again.", "Hello world", "HELLO'S WORLD'LL SAY I'M 'RE 'Ve 'x '", "don't you're we've I'm she'll he'd it's",
    "'ſ 'S'T''s", "x'ſx", "1234567890 12 3 ²³¼ ٣٤٥ Ⅷ 一二三", "3.14159, 1,000,000.00 $5 50%", "   leading and trailing   ",
    "tabs\tand\u00a0nbsp\u2003em\u3000ideographic  \u2028sep\u0085nel", "    def f(x):\n        return x  # 42\n\n\n",
    "for(int i=0;i<10;++i){a[i]=b[i]*2;}", "https://example.org/a/b?c=d&e=%20f#g", "snake_case camelCase CONST_99 a.b->c::d",
    "今天天气很好，我们去公园散步。", "東京タワーへ行きました。カタカナ、ひらがな、漢字。", "오늘은 날씨가 좋다", "השמש זרחה והציפורים", "كانت الشمس مشرقة ٢٠٢٦",
    "🙂🙂👩‍👩‍👧‍👦🇩🇪👍🏽 e\u0301 n\u0303", "a\u0300\u0301\u0323b \u1100\u1161\u11a8 \ufb01 \u212b \u1e9b\u0323", "\U00011935\U00011930 \u1ac1\u0323q\u0323\u1ac1",
    "Größe Straße ÉTÉ été ﬁ Ǆ ß İ ı", "zero\u200bwidth\u200djoin\ufeffbom", "\x00\x01\x7f\x80\u00ad control", "\ufffd\uffff\U0010ffff\ue000",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis " * 3, "=" * 70 + "\n" + "-" * 17 + " " * 40 + "x",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endof<|endoftext|>text|>", "<|start|> x <|start|>",
    "stripme  <L>  after", "<L><L>  <L>", "before  <R>  \n after", "x <LR> y <LR>\u3000<LR>z", "word wordly aword word! é word_ word2 (word)",
    "né e\u0301 ne\u0301 née", "longer long lon", "Ġ Ċ ĠĠ Ġthe", "<pad> and <PAD>", "\u0345word word\u0301",
]


def random_text(rng):
    pools = ["abcdefgh ETAOIN", " \n\t\r  ", "0123456789", "'stremvlld'S", ".,!?-_=+*/(){}<>|", "<|endoftext|>", "éüßñ\u0301\u0323\u0345",
             "今天気公園へ", "אבגدهو", "🙂👍🏽\u200d", "\u00a0\u2003\u3000\u0085", "²½٣Ⅷ"]
    out = []
    for _ in range(rng.randint(1, 40)):
        kind = rng.random()
        if kind < 0.1:
            c = rng.randrange(0x110000)
            out.append(chr(c) if not 0xD800 <= c < 0xE000 else "?")
        elif kind < 0.15:
            out.append(rng.choice(["<|endoftext|>", "<L>", "<R>", "<LR>", "word", "né", "long", "longer", "<|start|>"]))
        else:
            out.append(rng.choice(rng.choice(pools)))
    return "".join(out)


def train(name, lines):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = PRE[name]
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"], show_progress=False,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if name == "llama3":
        tok.add_special_tokens(["<|start|>"])
        start = tok.token_to_id("<|start|>")
        tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single="<|start|> $A <|endoftext|>", pair="<|start|> $A <|start|>:1 $B:1",
            special_tokens=[("<|start|>", start), ("<|endoftext|>", 0)])])
        model = json.loads(tok.to_str())
        model["model"]["ignore_merges"] = True
        tok = Tokenizer.from_str(json.dumps(model))
    if name == "qwen2":
        tok.normalizer = normalizers.NFC()
        tok.add_tokens([AddedToken("<L>", lstrip=True), AddedToken("<R>", rstrip=True, normalized=False), AddedToken("<LR>", lstrip=True, rstrip=True),
                        AddedToken("word", single_word=True), AddedToken("ne\u0301"), AddedToken("long"), AddedToken("longer")])
        tok.add_special_tokens([AddedToken("<pad>", special=True)])
    return tok


def train_llama2(lines):
    """Sentencepiece form: words are cut for training only, so that merges stay within them."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    tok.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=800, show_progress=False,
                                                       special_tokens=special + [f"<0x{b:02X}>" for b in range(256)]))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    data = json.loads(tok.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in special]
    return Tokenizer.from_str(json.dumps(data))


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_wordpiece(lines, cased):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=800, special_tokens=SPECIAL, show_progress=False))
    # The trainer numbers the alphabet's continuing characters in the order of a hash table.
    data = json.loads(tok.to_str())
    names = sorted(data["model"]["vocab"], key=lambda t: (SPECIAL.index(t) if t in SPECIAL else len(SPECIAL), len(t), t))
    data["model"]["vocab"] = {t: i for i, t in enumerate(names)}
    tok = Tokenizer.from_str(json.dumps(data))
    tok.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                       special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tok


WORDPIECE_TEXTS = ["Héllo, WÖRLD! naïve café", "[CLS] a [MASK] b[SEP]", "don't do not . , ! ? ' n't 'm 's 've 're", "x" * 101 + " " + "y" * 100,
                   "\uac00\ud7a3 \u0130stanbul \u1e9e \uf900\u4e2dz", "a\u200bb\u00adc\ufeffd\u2028e\u0085f", "[unk] [Mask] unaffable 1234 $5.00 ~`^|"]


def wordpiece_checksum(tok):
    h = 0xCBF29CE484222325
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        for word, _ in tok.pre_tokenizer.pre_tokenize_str(tok.normalizer.normalize_str(f"a{chr(c)}1{chr(c)} {chr(c)}B")):
            h = fnv(h, word.encode() + b"|")
    return f"{h:016x}"


def cases(tok, texts):
    out = []
    for text in texts:
        case = {"text": text, "ids": tok.encode(text, add_special_tokens=False).ids,
                "special": tok.encode(text, add_special_tokens=True).ids}
        tok.encode_special_tokens = True
        case["plain"] = tok.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = False
        case["decoded"] = tok.decode(case["special"], skip_special_tokens=False)
        case["skipped"] = tok.decode(case["special"], skip_special_tokens=True)
        if case["special"] == case["ids"]: del case["special"]
        if case["plain"] == case["ids"]: del case["plain"]
        if case["decoded"] == text: del case["decoded"]
        if case["skipped"] == case.get("decoded", text): del case["skipped"]
        out.append(case)
    return out


def fnv(hash_, data):
    for byte in data:
        hash_ = ((hash_ ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return hash_


def probe(c):
    return f"a{c}1{c}! {c}{c} \n{c}\t{c}a'{c} {c}  "


def unicode_checksums():
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    out = {"probe": "a{c}1{c}! {c}{c} \\n{c}\\t{c}a'{c} {c}  : byte lengths of the words, FNV-1a"}
    patterns = {"gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", "llama3": LLAMA3, "qwen2": QWEN2, "bloom": BLOOM}
    for name, pattern in patterns.items():
        pre, h = pre_tokenizers.Split(Regex(pattern), "isolated"), 0xCBF29CE484222325
        for c in points:
            h = fnv(h, [len(w.encode()) for w, _ in pre.pre_tokenize_str(probe(chr(c)))])
        out[name] = f"{h:016x}"
    nfc, h = normalizers.NFC(), 0xCBF29CE484222325
    for c in points:
        h = fnv(h, nfc.normalize_str(f"{chr(c)}\u0323\u0301q\u0345{chr(c)}\u0334e{chr(c)}\u0301{chr(c)}\u0345").encode())
    out["nfc"] = f"{h:016x}"
    tok = Tokenizer(models.BPE(vocab={"X": 0}, merges=[]))
    tok.add_tokens([AddedToken("XX", single_word=True)])
    h = 0xCBF29CE484222325
    for c in points:
        h = fnv(h, [int(1 not in tok.encode(chr(c) + "XX").ids)])
    out["word"] = f"{h:016x}"
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--gpt2", nargs=2)
    parser.add_argument("--llama2")
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--no-unicode", action="store_true")
    a = parser.parse_args()
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixtures/token/corpus.txt")
    lines = open(here, encoding="utf-8", newline="").read().splitlines(keepends=True)
    rng = random.Random(1234)
    texts = TEXTS + [random_text(rng) for _ in range(40 + a.many)]
    samples = {}
    for name in [*PRE, "llama2"]:
        tok = train_llama2(lines) if name == "llama2" else train(name, lines)
        os.makedirs(os.path.join(a.directory, name), exist_ok=True)
        tok.save(os.path.join(a.directory, name, "tokenizer.json"))
        samples[name] = cases(tok, texts)
    dump = lambda file, data: open(os.path.join(a.directory, file), "w").write(json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n")
    dump("samples.json", samples)
    wordpiece = {}
    for name in ["bert", "bert-cased"]:
        tok = train_wordpiece(lines, name == "bert-cased")
        os.makedirs(os.path.join(a.directory, name), exist_ok=True)
        tok.save(os.path.join(a.directory, name, "tokenizer.json"))
        wordpiece[name] = {"cases": cases(tok, texts + WORDPIECE_TEXTS), "checksum": wordpiece_checksum(tok)}
    dump("wordpiece.json", wordpiece)
    if a.gpt2:
        tok = Tokenizer(models.BPE.from_file(*a.gpt2))
        tok.pre_tokenizer, tok.decoder = PRE["gpt2"], decoders.ByteLevel()
        tok.add_special_tokens(["<|endoftext|>"])
        dump("gpt2-full.json", cases(tok, texts))
    if a.llama2:
        dump("stories260k.json", cases(Tokenizer.from_file(a.llama2), texts))
    if not a.no_unicode:
        dump("unicode.json", unicode_checksums())


main()
