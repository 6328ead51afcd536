#!/usr/bin/env python3
"""One Markdown page from the JSON files that bench/all.sh wrote. bench/page.py FOLDER [FAILED…] > FOLDER.md"""
import json
import pathlib
import sys

import common

folder, failed = pathlib.Path(sys.argv[1]), sys.argv[2:]
found = {}
for path in sorted(folder.glob("*.json")):
    try:
        found[path.stem] = json.loads(path.read_text())
    except ValueError:
        failed.append(f"{path.name} (not JSON)")
facts = common.facts()
print(f"# Benchmarks, {facts['date']}\n\nMade by `bench/all.sh` at commit {facts['commit']} on {facts['cpu']} ({', '.join(facts['flags'])}), {facts['cores']} "
      f"cores, {facts['memory_gib']} GiB, Linux {facts['kernel']}. Load average when the page was written: {facts['load_average']:.2f}. The JSON files "
      f"in `{folder.name}/` hold every run and the command of each.\n")
if failed: print(f"**Not finished: {', '.join(failed)}.**\n")
print("| measure | Stoa | peer or bound | ratio | bar |\n|---|--:|--:|--:|--:|")
row = lambda *cells: print("| " + " | ".join(str(c) for c in cells) + " |")
if t := found.get("train"):
    s = t["stoa"]
    for mode, peer in t["peers"].items():
        row(f"GPT-2 124M training, bf16, {t['micro_batch']} x {t['sequence']}, tokens/s, {peer['name']}", f"{s['tokens_per_second']:.0f}",
            f"{peer['tokens_per_second']:.0f}", f"{peer['ratio']:.2f} x", f">= {peer['bar']} x")
    # Another process' best product, maybe in another spell of the machine: the bar is for the share in turns.
    row("model TFLOP/s, and the best product of the run", f"{s['model_tflops']:.3f}", f"{t['gemm_ceiling_tflops']:.3f} (own {s['gemm_tflops']:.3f})", f"{t['share_of_gemm']:.0%}", "")
    for mode, peer in t["peers"].items():
        row(f"peak memory, GB ({mode})", f"{s['peak_memory_bytes'] / 1e9:.2f}", f"{peer['peak_memory_bytes'] / 1e9:.2f}",
            f"{peer['memory_ratio']:.0%}", "<= 60 %")
    row("arena in use against plan, bytes", f"{s['arena_peak_bytes']:.0f}", f"{s['planned_memory_bytes']:.0f}",
        "equal" if t["arena_equals_plan"] else "differ", "equal")
if s := found.get("share"):
    low, high = s["interval"]
    row("training step beside a large product, in turns", f"{s['share']:.0%}", "", f"{low:.0%} to {high:.0%}", f">= {s['bar']:.0%}")
for shape in found.get("attention", {}).get("shapes", []):
    row(f"{shape['op']}, b{shape['b']} h{shape['h']} s{shape['s']} d{shape['d']}, TFLOP/s", f"{shape['stoa_tflops']:.3f}", f"{shape['peer_tflops']:.3f}",
        f"{shape['ratio']:.1f} x", ">= 4 x" if "backward" in shape["op"] and shape["d"] == 64 else "")
if d := found.get("decode"):
    row("decoding GPT-2 124M bf16, tokens/s, bound by memory", f"{d['tokens_per_second']:.1f}", f"{d['bound_tokens_per_second']:.1f}", f"{d['share_of_bound']:.0%}", ">= 90 %")
    if "ratio" in d: row("… beside transformers' generate", f"{d.get('generate_tokens_per_second', d['tokens_per_second']):.1f}", f"{d['peer_tokens_per_second']:.1f}", f"{d['ratio']:.2f} x", "> 1 x")
for r in found.get("serve", {}).get("rows", []):
    what = f"{r['sequences']} sequences" if r["job"] == "decode" else f"reading a prompt of {found['serve']['read']}"
    row(f"SmolLM2-135M {r['format']}, {what}, tokens/s, llama.cpp", f"{r['tokens_per_second']:.1f}", f"{r['llama_cpp_tokens_per_second']:.1f}", f"{r['ratio']:.2f} x", "")
if s := found.get("start_up"):
    row("one-step run minus median step, s", f"{s['start_up_seconds']:.2f}", "", "", "< 2")
    row("… with the checkpoint at its end, s", f"{s['start_up_and_checkpoint_seconds']:.2f}", "", "", "")
if p := found.get("prepare"):
    row("data prepare of the encoder's rate, per core", f"{p['prepare_mb_per_s_per_worker']:.1f} MB/s", f"{p['encoder_mb_per_s']:.1f} MB/s", f"{p['ratio_wall']:.0%} (processor time {p['ratio_cpu']:.0%})", ">= 80 %")
for w in found.get("wordpiece", []):
    row(f"WordPiece encode, {w['file']}, 1 thread, MB/s (first pass {w['encode_first_pass_mb_per_s']})", w["encode_mb_per_s"], w["peer_encode_mb_per_s"],
        f"{w['encode_ratio']} x" + ("" if w["ids_identical"] else ", other ids"), ">= 10 x")
if e := found.get("experts"):
    row("8 experts over 4 ranks, activations beside those of an even load, default factor", "", "", f"{e['memory']['default']['ratio']:.2f} x", "<= 1.6 x")
    for case in e["table"]: row(f"… step beside one with memory for any load, {case['what']}", "", "", f"{case['cost']:+.1%}", "")
if e := found.get("evaluate"):
    if "times_faster_than_lm_eval" in e:
        row(f"{e['questions']} questions of {e['choices']} choices, s, beside lm-evaluation-harness", f"{e['seconds']['stoa']:.1f}",
            f"{e['seconds']['lm_eval']:.1f}", f"{e['times_faster_than_lm_eval']:.1f} x", "")
if b := found.get("build"):
    row("release build from clean, s (with tests)", f"{b['release_build_seconds']:.0f} ({b['with_tests_seconds']:.0f})", "", "", "< 300")
if g := found.get("gemm"):
    print(f"\nGEMM: {g['gemm_tflops']:.3f} TFLOP/s, register peak {g['register_peak_tflops']:.3f}, reading {g['read_gigabytes_per_second']:.1f} GB/s, decoding products "
          f"{g['decode_gigabytes_per_second']:.1f} GB/s ({g['machine']}).")
if t := found.get("tokenizer"):
    print("\nTokenizer:\n\n```json\n" + json.dumps(t, indent=1) + "\n```")
if p := found.get("profile"):
    print(f"\nOne step of {p['step_ms']:.0f} ms:\n\n| operation | calls | ms | share | TFLOP/s |\n|---|--:|--:|--:|--:|")
    for o in p["operations"]:
        row(o["operation"], o["calls"], f"{o['ms']:.1f}", f"{o['share']:.1%}", f"{o['tflops']:.3f}" if o["tflops"] else "")
