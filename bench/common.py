"""What the benchmarks share: facts of the machine for the result file, calls of programs, a workplace of GPT-2's size."""
import datetime
import json
import os
import pathlib
import platform
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEFAULT_STOA = str(ROOT / "build/release/src/stoa")
# Kept outside the repository: PyTorch + transformers as a user would run them (one JSON line per figure).
DEFAULT_PEERS = str(ROOT.parent / "shared/peers")
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # environment of mpirun
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_bf16", "asimd", "bf16")


def cpu():
    """(name, instruction sets that matter here)"""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.M)
    known = set(flags.group(1).split()) if flags else set()
    return name.group(1) if name else platform.processor(), [f for f in INSTRUCTIONS if f in known]


def facts():
    name, flags = cpu()
    git = lambda *a: subprocess.run(["git", "-C", str(ROOT), *a], capture_output=True, text=True).stdout.strip()
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "command": " ".join([os.path.relpath(sys.argv[0]), *sys.argv[1:]]), "commit": git("rev-parse", "--short", "HEAD"),
            "changed_files": len(git("status", "--porcelain", "--untracked-files=no").splitlines()),
            "cpu": name, "flags": flags, "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "kernel": platform.release(), "load_average": os.getloadavg()[0]}


def output(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def json_lines(*command):
    return [json.loads(line) for line in output(*command).splitlines() if line.startswith("{")]


# Each is one token of most vocabularies.
WORDS = "the road stone river answer question number house walks counts every under between seven".split()


def prompts_of_words(draw, count, words):
    return [" ".join(draw.choice(WORDS) for _ in range(words)) for _ in range(count)]


def answer_prompts(stoa, model, prompts, tokens, file, *options):
    """Tokens per second of `stoa generate --prompts` with answers of so many tokens, without loading; the answers are in FILE.out."""
    file = pathlib.Path(file)
    file.write_text("".join(json.dumps({"prompt": prompt, "min_tokens": tokens, "max_tokens": tokens}) + "\n" for prompt in prompts))
    done = subprocess.run([str(word) for word in (stoa, "generate", model, "--prompts", file, "--greedy", "--output", file.with_suffix(".out"), *options)],
                          capture_output=True, text=True, check=True)
    _, drawn, rate = re.search(r"(\d+) answers, (\d+) tokens, ([\d.]+) tokens/s", done.stderr + done.stdout).groups()
    if int(drawn) != len(prompts) * tokens: sys.exit(f"{drawn} tokens instead of {len(prompts) * tokens}")
    return float(rate)


def write_tokenizer(folder):
    """A byte-level BPE of GPT-2's size (50,257 ids) made of no text: the 256 bytes and 50,000 pairs of them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbol = {b: chr(b) for b in printable}
    for n, b in enumerate(b for b in range(256) if b not in symbol): symbol[b] = chr(256 + n)
    symbols = [symbol[b] for b in printable + [b for b in range(256) if b not in printable]]
    pairs = [(a, b) for a in symbols for b in symbols][:50000]
    ids = {s: i for i, s in enumerate([*symbols, *(a + b for a, b in pairs), "<|endoftext|>"])}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs), encoding="utf-8")
    assert len(ids) == 50257


def write_text(path, megabytes=1.0):
    """Words at random, as many documents as blank lines."""
    rng = random.Random(1)
    words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 9))) for _ in range(5000)]
    with open(path, "w") as file:
        while file.tell() < megabytes * 1e6:
            for _ in range(8): file.write(" ".join(rng.choices(words, k=40)) + ".\n")
            file.write("\n")


def prepare_workplace(stoa, folder):
    """folder/tok and the prepared corpus folder/corpus.bin/.idx"""
    folder = pathlib.Path(folder)
    write_tokenizer(folder / "tok")
    write_text(folder / "text.txt")
    output(stoa, "data", "prepare", folder / "text.txt", "--tokenizer", folder / "tok/vocab.json", "--output", folder / "corpus")
    return [f"model.data={folder / 'corpus'}", f"model.tokenizer={folder / 'tok/vocab.json'}"]


def train_in_torch(model, inputs, args):
    """Seconds of each counted step (args: threads, mode, warmup, steps) in bf16 with AdamW and clipping, as PyTorch's users train."""
    import torch
    torch.set_num_threads(args.threads)
    model.train()
    step = torch.compile(model) if args.mode == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    seconds = []
    for i in range(args.warmup + args.steps):
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = step(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if i >= args.warmup: seconds.append(time.perf_counter() - begin)
    return seconds


def save(result, path):
    text = json.dumps(result, indent=1)
    print(text)
    if path:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(text + "\n")
