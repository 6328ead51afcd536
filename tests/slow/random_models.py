#!/usr/bin/env python3
"""Random models of every family beside transformers: odd sizes, every option, both spellings of config.json.

A family is a file of tests/slow/random_families/, named after its model_type; its `options(r)` draws the keyword arguments of the
family's configuration (docs/add-a-model.md, "Random models"). Each model gets random weights in which a mistake shows, is saved
by transformers, spelled as version 4 or 5 or with both spellings, whole or without what a default says, and then:

  read      `stoa score --ids --dtype fp32` gives the log-probabilities that transformers gives of the same directory, within 1e-3
  written   `stoa checkpoint export --family auto` writes it anew; transformers loads that without a missing or unexpected tensor and
            gives the same, within 1e-3

A family that transformers does not have is computed as another one (`AS`), whose directory then gets the family's own keys and names
(`disguise`). What transformers does not make or cannot run is drawn again. A refusal of Stoa is a failure unless the family's REFUSALS names it.

  python tests/slow/random_models.py [--count 2000] [--family llama,qwen2] [--seed 0] [--stoa build/release/src/stoa] [--json FILE]
                                     [--keep DIR]

Needs: pip install torch transformers. A failure prints the seed that draws that model again (--family F --seed N --count 1).
Exit status 1 when anything differs.
"""
import argparse
import collections
import copy
import importlib.util
import json
import logging
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

TOLERANCE = 1e-3
REFUSALS = {"rotary positions rotate pairs": "a share of a head in which no channel rotates",  # of every family
            "yarn needs pairs": "yarn of an odd number of channels"}
# Of version 4, where they are not those of every family.
OLD_ROPE_NAMES = {"gpt_neox": ("rotary_emb_base", "rotary_pct", None),
                  "modernbert": ("global_rope_theta", None, "local_rope_theta"),
                  "olmo3": ("rope_theta", None, None)}
# The grouped products of version 5 want sizes that odd models do not have.
EXPERTS = {"experts_implementation": "eager"} if int(transformers.__version__.split(".")[0]) >= 5 else {}


def load_families(names):
    out = {}
    for path in sorted((HERE / "random_families").glob("*.py")):
        if names and path.stem not in names: continue
        spec = importlib.util.spec_from_file_location(f"random_families.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        out[path.stem] = module
    missing = set(names or []) - set(out)
    if missing: raise SystemExit(f"no tests/slow/random_families/*.py for {', '.join(sorted(missing))}")
    return out


def shake(model, seed):
    """Weights that neither saturate nor hide: matrices keep the scale of what they read, norms and biases are away from 1 and 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        named = list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")]
        for name, p in named:
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() == 1:
                p.add_(0.2 * noise)
            elif "embed" in name or "wte" in name or "wpe" in name or "shared" in name:
                p.copy_(0.7 * noise)
            else:
                p.copy_(noise * (1.2 / p.shape[-1] ** 0.5))


def spelled(config, form, r):
    """config.json in a spelling: 5 (as written), 4 (what version 4 wrote), or both side by side."""
    out = copy.deepcopy(config)
    rope = out.get("rope_parameters")
    if form == "5" or not isinstance(rope, dict): return out
    nested = any(isinstance(v, dict) for v in rope.values())
    flat = rope.get("full_attention", {}) if nested else rope
    base, share, local = OLD_ROPE_NAMES.get(out["model_type"], ("rope_theta", "partial_rotary_factor", "rope_local_base_freq"))
    if "rope_theta" in flat: out[base] = flat["rope_theta"]
    if "partial_rotary_factor" in flat: out[share] = flat["partial_rotary_factor"]
    if nested and local and rope.get("sliding_attention"): out[local] = rope["sliding_attention"]["rope_theta"]
    scaling = {k: v for k, v in flat.items() if k not in ("rope_theta", "partial_rotary_factor")}
    if scaling.get("rope_type", "default") != "default":
        # What version 4 called it before there were layers of two kinds.
        if r.random() < 0.3 and not nested: scaling["type"] = scaling.pop("rope_type")
        out["rope_scaling"] = scaling
    elif r.random() < 0.5:
        out["rope_scaling"] = None
    if form == "4": del out["rope_parameters"]
    if "dtype" in out: out["torch_dtype"] = out.pop("dtype")
    return out


def drop_defaults(config, r):
    """Without the keys that a default says anyway (a random half of them)."""
    defaults = json.loads(type(transformers.AutoConfig.for_model(config["model_type"]))().to_json_string(use_diff=False))
    return {k: v for k, v in config.items()
            if k in ("model_type", "architectures") or k not in defaults or defaults[k] != v or r.random() < 0.5}


def load(directory, family):
    loader = getattr(family, "LOADER", "AutoModelForCausalLM")
    model, info = getattr(transformers, loader).from_pretrained(
        str(directory), dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **EXPERTS)
    return model.eval(), {k: sorted(map(str, v)) for k, v in info.items() if v}


def logprobs(model, family, lines):
    """A list of log-probabilities for each line of tokens."""
    if hasattr(family, "logprobs"): return family.logprobs(model, lines)
    out = []
    with torch.no_grad():
        for ids in lines:
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1].double()
            out.append(torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist())
    return out


def text_of(family, lines):
    if hasattr(family, "text"): return family.text(lines)
    return "".join(" ".join(map(str, ids)) + "\n" for ids in lines)


def call(stoa, *arguments, text=None):
    done = subprocess.run([str(stoa), *map(str, arguments)], input=text, capture_output=True, text=True)
    if done.returncode:
        message = (done.stderr.strip() or done.stdout.strip()) or f"exit status {done.returncode}"
        raise RuntimeError(message if done.returncode == 1 else f"exit status {done.returncode}: {message}")
    return done.stdout


def scores(stoa, directory, family, lines):
    out = call(stoa, "score", directory, "--ids", "--dtype", "fp32", text=text_of(family, lines))
    return [[x for x in json.loads(line)["logprobs"] if x is not None] for line in out.splitlines()]


def distance(ours, theirs):
    if [len(a) for a in ours] != [len(b) for b in theirs]: return float("inf")
    d = max(float(np.max(np.abs(np.array(a) - np.array(b)))) for a, b in zip(ours, theirs))
    return d if np.isfinite(d) else float("inf")


class Drawn:
    """One model: drawn, made, saved and spelled. None in `lines`: transformers does not run it."""

    def __init__(self, family, name, seed, folder):
        r = random.Random(f"{name} {seed}")
        self.saved = folder / "saved"
        options = family.options(r)
        kind = getattr(family, "AS", name)
        torch.manual_seed(seed)
        config = transformers.AutoConfig.for_model(kind, **options)
        loader = getattr(transformers, getattr(family, "LOADER", "AutoModelForCausalLM"))
        model = loader.from_config(config, attn_implementation="eager").float().eval()
        shake(model, seed)
        model.save_pretrained(self.saved)
        if hasattr(family, "finish"): family.finish(self.saved, r)
        path = self.saved / "config.json"
        config = json.loads(path.read_text())
        whole = json.loads(model.config.to_json_string(use_diff=False))
        whole.pop("_name_or_path", None)
        if r.random() < 0.4: config = {**whole, **config}
        elif r.random() < 0.5: config = drop_defaults(config, r)
        self.form = r.choice(["5", "4", "both"])
        if hasattr(family, "respell"): config = family.respell(config, r)
        config = spelled(config, self.form, r)
        path.write_text(json.dumps(config, indent=1))
        self.config = config
        self.model, info = load(self.saved, family)
        info.pop("error_msgs", None)
        if info: raise ValueError(f"transformers finds {info}")
        positions = getattr(family, "positions", lambda c: c.get("max_position_embeddings", c.get("n_positions", 64)))(whole)
        vocabulary = whole.get("vocab_size") or whole["text_config"]["vocab_size"]
        lengths = [min(positions, r.randint(2, 40)), min(positions, r.choice([2, 7, 33, 48, 64]))]
        if hasattr(family, "lines"): self.lines = family.lines(r, whole)
        else: self.lines = [[r.randrange(vocabulary) for _ in range(max(2, n))] for n in lengths]
        self.expected = logprobs(self.model, family, self.lines)
        if not all(np.all(np.isfinite(x)) for x in self.expected): raise ValueError("not finite")
        if hasattr(family, "disguise"):
            family.disguise(self.saved, r)
            self.config = json.loads(path.read_text())


class Tally:
    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.worst = collections.defaultdict(float)
        self.failures = []

    def fail(self, name, seed, what, drawn, folder, keep):
        self.counts[name]["failed"] += 1
        self.failures.append({"family": name, "seed": seed, "what": what, "config": drawn.config})
        print(f"FAILED {name} --seed {seed} ({drawn.form}): {what}", flush=True)
        if keep: shutil.copytree(folder, pathlib.Path(keep) / f"{name}-{seed}", dirs_exist_ok=True)


def refused(family, message):
    reasons = {**REFUSALS, **getattr(family, "REFUSALS", {})}
    return next((reason for part, reason in reasons.items() if part in message), None)


def check(stoa, family, name, seed, folder, tally, keep):
    """False: transformers does not run what was drawn."""
    try:
        drawn = Drawn(family, name, seed, folder)
    except Exception as e:  # whatever transformers says
        tally.counts[name]["not run by transformers"] += 1
        tally.last = f"{type(e).__name__}: {e}"
        return False
    tally.counts[name]["drawn"] += 1
    try:
        ours = scores(stoa, drawn.saved, family, drawn.lines)
    except RuntimeError as e:
        reason = refused(family, str(e))
        if reason: tally.counts[name]["refused: " + reason] += 1
        else: tally.fail(name, seed, str(e), drawn, folder, keep)
        return True
    d = distance(ours, drawn.expected)
    tally.worst[name] = max(tally.worst[name], d)
    if d > TOLERANCE:
        tally.fail(name, seed, f"read: log-probabilities {d:.3g} apart", drawn, folder, keep)
        return True
    tally.counts[name]["read"] += 1
    out = folder / "written"
    try:
        call(stoa, "checkpoint", "export", drawn.saved, "--family", "auto", "--dtype", "fp32", "--output", out)
    except RuntimeError as e:
        tally.fail(name, seed, f"export: {e}", drawn, folder, keep)
        return True
    config = json.loads((out / "config.json").read_text())
    if config["model_type"].startswith("stoa"):
        tally.fail(name, seed, "written as no family", drawn, folder, keep)
        return True
    try:
        again, info = load(out, family)
        info.pop("error_msgs", None)
        d = distance(logprobs(again, family, drawn.lines), drawn.expected)
        if info: tally.fail(name, seed, f"written as {config['model_type']}: {info}", drawn, folder, keep)
        elif d > TOLERANCE: tally.fail(name, seed, f"written as {config['model_type']}: {d:.3g} apart", drawn, folder, keep)
        else: tally.counts[name]["written"] += 1
    except Exception as e:
        tally.fail(name, seed, f"written as {config['model_type']}: transformers: {type(e).__name__}: {e}", drawn, folder, keep)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--family", help="comma-separated; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stoa", default=os.environ.get("STOA", str(HERE.parent.parent / "build" / "release" / "src" / "stoa")))
    parser.add_argument("--json")
    parser.add_argument("--keep", help="folder that gets the directories of failures")
    args = parser.parse_args()
    torch.set_num_threads(1)
    families = load_families(args.family.split(",") if args.family else None)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {len(families)} families", flush=True)
    tally, seed, done = Tally(), args.seed, 0
    names = list(families)
    attempts = collections.Counter()
    while done < args.count and names:
        name = names[done % len(names)]
        with tempfile.TemporaryDirectory() as folder:
            made = check(args.stoa, families[name], name, seed + attempts[name], pathlib.Path(folder), tally, args.keep)
        attempts[name] += 1
        if made:
            done += 1
        elif tally.counts[name]["not run by transformers"] > 50 + 3 * tally.counts[name]["drawn"]:
            print(f"FAILED {name}: transformers runs hardly any of what is drawn: {tally.last}", flush=True)
            tally.failures.append({"family": name, "what": tally.last})
            names.remove(name)
    for name in families:
        print(f"{name:18} worst {tally.worst[name]:8.2g}  " + ", ".join(f"{k} {v}" for k, v in sorted(tally.counts[name].items())))
    print(f"{done} models, {len(tally.failures)} failures, worst {max(tally.worst.values(), default=0):.2g}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"torch": torch.__version__, "transformers": transformers.__version__, "seed": args.seed, "models": done,
             "families": {n: {"worst": tally.worst[n], **tally.counts[n]} for n in families}, "failures": tally.failures}, indent=1) + "\n")
    if tally.failures: raise SystemExit(1)


if __name__ == "__main__":
    main()
