#!/usr/bin/env python3
"""Writes tests/fixtures/token/t5 and llama-spm: SentencePiece models trained on corpus.txt, and what Hugging Face makes of
texts with them.

  python tests/oracle/make_sentencepiece_fixtures.py tests/fixtures/token

  t5/spiece.model         unigram, 400 pieces, NFKC; tokenizer_config.json with 10 sentinels
  llama-spm/tokenizer.model  BPE with bytes, 700 pieces, no normalization; <s> and </s>
  sentencepiece.json      texts with ids: by T5's tokenizer, by SentencePiece itself
Needs: pip install transformers sentencepiece
"""
import json
import os
import sys
import tempfile

import sentencepiece
import transformers

TEXTS = ["", " ", "a", "The harbour was quiet again.", "  two  spaces   and more ", "Hello world", "naïve ﬁne Ｆｕｌｌ １２３",
         "今天天气很好", "🙂 ok", "line\nbreak\ttab", "<extra_id_0> and <extra_id_1>", "a<extra_id_9>b <extra_id_10>",
         "</s> in the text", "x <pad> y", "Größe Straße ÉTÉ", "it's 3.14, isn't it?"]


def train(corpus, prefix, **options):
    sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, minloglevel=2, **options)


def main(root):
    corpus = os.path.join(root, "corpus.txt")
    t5, llama = os.path.join(root, "t5"), os.path.join(root, "llama-spm")
    os.makedirs(t5, exist_ok=True)
    os.makedirs(llama, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        train(corpus, os.path.join(work, "u"), model_type="unigram", vocab_size=400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
        os.replace(os.path.join(work, "u.model"), os.path.join(t5, "spiece.model"))
        train(corpus, os.path.join(work, "b"), model_type="bpe", vocab_size=700, byte_fallback=True,
              normalization_rule_name="identity", character_coverage=0.99)
        os.replace(os.path.join(work, "b.model"), os.path.join(llama, "tokenizer.model"))
    config = {"tokenizer_class": "T5Tokenizer", "extra_ids": 10, "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    with open(os.path.join(t5, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    hf = transformers.AutoTokenizer.from_pretrained(t5)
    spm = sentencepiece.SentencePieceProcessor(model_file=os.path.join(llama, "tokenizer.model"))
    samples = {"t5": [], "llama-spm": [{"text": t, "ids": spm.encode(t)} for t in TEXTS if "<" not in t]}
    for text in TEXTS:
        ids = hf(text, add_special_tokens=False)["input_ids"]
        special = hf(text)["input_ids"]
        samples["t5"].append({"text": text, "ids": ids, "special": special, "decoded": hf.decode(special),
                              "skipped": hf.decode(special, skip_special_tokens=True)})
    samples["t5_first_sentinel"] = hf.convert_tokens_to_ids("<extra_id_0>")
    with open(os.path.join(root, "sentencepiece.json"), "w") as f:
        json.dump(samples, f, ensure_ascii=False, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
