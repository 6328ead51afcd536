#!/usr/bin/env python3
"""Facts of NeMo's training files, read without Stoa: sizes, layout, batch, recomputation, precision, experts, schedule.

The corpus, tests/fixtures/nemo/corpus.json, holds the values of public files and what they must give. Needs omegaconf; --hydra needs
hydra-core.

  python3 tests/oracle/nemo_facts.py               # compares the corpus with an independent reading by OmegaConf
  python3 tests/oracle/nemo_facts.py --hydra CONF  # and composes the launcher's files with Hydra: CONF is the directory of config.yaml
  python3 tests/oracle/nemo_facts.py --write       # writes the facts of the independent reading into the corpus
"""
import argparse
import json
import math
import pathlib
import sys

from omegaconf import OmegaConf

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "nemo" / "corpus.json"
AROUND = {"data_dir": "/data", "base_results_dir": "/results", "launcher_scripts_path": "/launcher"}
DISTRIBUTED = ("distributed_fused_adam", "mcore_distributed_optim")


def resolvers():
    for name, function in {"multiply": lambda *v: math.prod(v), "divide_floor": lambda a, b: a // b,
                           "divide_ceil": lambda a, b: -(-a // b), "sum": lambda *v: sum(v),
                           "add": lambda *v: sum(v)}.items():
        OmegaConf.register_new_resolver(name, function, replace=True)


def needed(config, path):
    """A value with its references resolved, or None."""
    return OmegaConf.select(config, path, default=None)


def facts(values):
    """`values`: the training file. It is mounted at `training`, as the launcher does, and its keys are at the top, as in the examples."""
    tree = OmegaConf.create({**AROUND, **values, "training": values})
    get = lambda path: needed(tree, path)
    t5, bert = get("model.encoder") is not None, get("model.bert_binary_head") is not None
    stack = "model.encoder." if t5 else "model."
    tp, pp = get("model.tensor_model_parallel_size") or 1, get("model.pipeline_model_parallel_size") or 1
    vpp = (get("model.virtual_pipeline_model_parallel_size") or 1) if pp > 1 else 1
    heads = get(stack + "num_attention_heads")
    experts = get("model.num_moe_experts") or 0
    activation = (get(stack + "activation") or "gelu").replace("fast-", "").replace("-", "_")
    if get(stack + "openai_gelu"):
        activation += "_tanh"
    layers = get(stack + "num_layers")
    if t5:
        layers += get("model.decoder.num_layers")
    micro, ranks = get("model.micro_batch_size"), get("trainer.devices") * get("trainer.num_nodes")
    precision = str(get("trainer.precision")).replace("-mixed", "")
    out = {
        "kind": "t5" if t5 else "bert" if bert else "gpt",
        "layers": layers, "hidden": get(stack + "hidden_size"), "heads": heads,
        "groups": get("model.num_query_groups") or heads, "ffn": get(stack + "ffn_hidden_size"),
        "seq": get("model.data.seq_length") or get("model.encoder_seq_length") or get("model.seq_length"),
        "tp": tp, "pp": pp, "vpp": vpp, "cp": get("model.context_parallel_size") or 1,
        "ep": get("model.expert_model_parallel_size") or 1, "micro": micro, "global": get("model.global_batch_size") or micro * (ranks // (tp * pp * (get("model.context_parallel_size") or 1))),
        "ranks": ranks,
        "recompute": get(stack + "activations_checkpoint_granularity") or "none",
        "precision": {"16": "fp16", "32": "fp32"}.get(precision, precision),
        "experts": experts, "schedule": "interleaved" if vpp > 1 else "1f1b" if pp > 1 else "none",
        "zero": 3 if get("model.fsdp") else 1 if get("model.optim.name") in DISTRIBUTED else 0,
        "activation": activation, "normalization": (get(stack + "normalization") or "layernorm").replace("1p", ""),
        "positions": (get(stack + "position_embedding_type") or "learned_absolute").lower(),
        "lr": float(get("model.optim.lr")), "steps": get("trainer.max_steps"),
    }
    if experts > 1:
        out["topk"] = get("model.moe_router_topk")
    window = get("model.window_size")
    if window:
        out["window"] = window[0] + 1
    if get("model.override_vocab_size"):
        out["vocab"] = get("model.override_vocab_size")
    return out


def compose(conf, entry):
    """What Hydra makes of the launcher's config.yaml with this file as its training."""
    from hydra import compose as hydra_compose, initialize_config_dir
    option = entry["path"].split("conf/training/")[1].removesuffix(".yaml")
    with initialize_config_dir(config_dir=str(pathlib.Path(conf).resolve()), version_base="1.2"):
        config = hydra_compose("config", overrides=[f"training={option}", "launcher_scripts_path=/launcher"])
    return OmegaConf.to_container(config.training, resolve=False)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hydra", metavar="CONF")
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    resolvers()
    corpus = json.loads(CORPUS.read_text())
    wrong = composed = 0
    for entry in corpus:
        mine = facts(entry["values"]) if entry["facts"] is not None or options.write else None
        if options.write:
            entry["facts"] = mine
        if mine != entry["facts"]:
            wrong += 1
            print(f"{entry['path']}: corpus {entry['facts']}, OmegaConf {mine}")
        if options.hydra and "launcher_scripts/conf/training/" in entry["path"] and mine:
            theirs = facts(compose(options.hydra, entry))
            composed += theirs == mine
            if theirs != mine:
                wrong += 1
                print(f"{entry['path']}: corpus {mine}, Hydra {theirs}")
    if options.write:
        CORPUS.write_text("[\n" + ",\n".join(json.dumps(e) for e in corpus) + "\n]\n")
    print(f"{len(corpus)} files, {wrong} differ" + (f"; Hydra composes {composed} the same" if options.hydra else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
