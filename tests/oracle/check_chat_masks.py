#!/usr/bin/env python3
"""Compares what Stoa trains of a chat with transformers' assistant mask, for the templates that TRL carries: the model's own, masked by
prefixes, and TRL's variant with {% generation %} blocks.  Needs transformers, trl, tokenizers.

    tests/oracle/check_chat_masks.py STOA

Prints a line per template; exit 1 where tokens or masks differ. Line ends behind the end of a turn may differ: Stoa never trains them.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import transformers
import trl
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parent.parent.parent
STOA = Path(sys.argv[1]).resolve()
TEMPLATES = Path(trl.__file__).parent / "chat_templates"
SPECIAL = re.compile(r"<[|｜][^|｜<>\s]*[|｜]>|</?s>|<(?:start|end)_of_turn>|<turn\|>|<\|turn>|\[e~\[|\]~b\]|<\|[A-Z_]+\|>|<end_of_utterance>")
CHAT = [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Hello, wanderer"},
        {"role": "user", "content": "Bye é"}, {"role": "assistant", "content": "So long"}]


def tokenizer(directory, template, training):
    t = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tests/fixtures/token/gpt2/tokenizer.json"), bos_token="<s>", eos_token="</s>")
    words = sorted(set(SPECIAL.findall(template + training)) | {"<s>", "</s>"})
    t.add_special_tokens({"additional_special_tokens": [AddedToken(w, special=True, normalized=False) for w in words]})
    t.chat_template = training
    t.save_pretrained(directory)
    return t


def stoa(directory, template):
    file = directory / "given.jinja"
    file.write_text(template)
    (directory / "chat.jsonl").write_text(json.dumps({"messages": CHAT}) + "\n")
    done = subprocess.run([STOA, "data", "show", "tiny", "model.data=chat.jsonl", "model.data.chat=true", "model.data.chat_template=given.jinja",
                           "model.data.packed_sequence=false", "model.data.splits_string='1,0,0'", "model.tokenizer=.", "trainer.val_check_interval=0", "trainer.max_steps=1", "model.optim.sched.warmup_steps=0",
                           "model.global_batch_size=1", "model.micro_batch_size=1", "model.encoder_seq_length=2048", "--json"], cwd=directory, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1][:160]
    row = json.loads(done.stdout)["rows"][0]
    end = row["boundaries"][1]
    off = set(row["without_loss"])
    return row["tokens"][:end], [0] + [int(i not in off) for i in range(end - 1)]


def same(tokens, theirs, ours, t):
    """Masks agree but for blank tokens that only transformers counts."""
    return all(a == b or (a and not b and not t.decode([x]).strip()) for x, a, b in zip(tokens, theirs, ours))


def main():
    print(f"transformers {transformers.__version__}, trl {trl.__version__}")
    failed = 0
    for file in sorted(TEMPLATES.glob("*_training.jinja")):
        name = file.name.removesuffix("_training.jinja")
        own = TEMPLATES / f"{name}.jinja"
        if not own.exists():
            continue
        training, template = file.read_text(), own.read_text()
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            try:
                t = tokenizer(directory, template, training)
                theirs = t.apply_chat_template(CHAT, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            except Exception as error:  # templates of pictures want other messages
                print(f"{name:28} transformers: {str(error)[:90]}")
                continue
            words = []
            for how, text in (("blocks", training), ("prefixes", template)):
                tokens, mask = stoa(directory, text)
                if tokens is None:
                    words.append(f"{how}: {mask}")
                elif tokens != theirs["input_ids"]:
                    cut = tokens == theirs["input_ids"][:len(tokens)]
                    dated = "strftime_now" in text  # transformers prints today
                    words.append(f"{how}: other tokens" + (" (earlier turns are samples of their own)" if cut else " (the date)" if dated else ""))
                    failed += not cut and not dated
                elif not same(tokens, theirs["assistant_masks"], mask, t):
                    fewer = all(a >= b for a, b in zip(theirs["assistant_masks"], mask))
                    words.append(f"{how}: {'without' if fewer else 'another mask'} " +
                                 repr(t.decode([x for x, a, b in zip(tokens, theirs["assistant_masks"], mask) if a != b])))
                    failed += not (fewer and how == "prefixes")  # what the generation prompt writes is not trained
                else:
                    words.append(f"{how}: same ({sum(mask)} tokens)")
            print(f"{name:28} " + "; ".join(words), flush=True)
    sys.exit(failed > 0)


main()
