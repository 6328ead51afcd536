#!/usr/bin/env python3
"""Facts of the recipes of nemo.collections.llm, made without Stoa: the recipes and the model classes themselves are run.

The corpus, tests/fixtures/nemo2/corpus.json, holds what `nemo llm pretrain --factory NAME --to-yaml` prints (nemo_run's own serializer)
and what it must give: fields of the built model class, and what the recipe sets. Needs the sources of NeMo (2.5), torch, megatron-core,
nemo-run, fiddle and lightning; modules of NeMo's other parts that are missing are replaced by empty ones.

  python3 tests/oracle/nemo2_facts.py NEMO           # compares the corpus with the recipes of the checkout NEMO
  python3 tests/oracle/nemo2_facts.py NEMO --write   # writes the corpus; `refused` of known recipes stays
"""
import argparse
import importlib
import importlib.abc
import importlib.machinery
import json
import math
import pathlib
import subprocess
import sys
import types

import yaml

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "nemo2" / "corpus.json"
# Modules that recipes of language models import and do not use.
EMPTY = ["onnx", "nemo.collections.nlp", "leptonai", "contextlib2", "tensorstore", "modelopt"]
FOLDERS = ("nemo/collections/llm/recipes", "nemo/collections/llm/t5/recipes")


class Anything:
    def __init__(self, *_, **__):
        pass

    def __call__(self, *values, **__):
        return values[0] if len(values) == 1 and callable(values[0]) else Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __class_getitem__(cls, _):
        return cls

    def __iter__(self):
        return iter(())


class EmptyModule(types.ModuleType):
    def __getattr__(self, name):
        if name == "__version__":
            return "99.0"
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Anything,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if any(name == empty or name.startswith(empty + ".") for empty in EMPTY):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = EmptyModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def class_fields(config):
    """The fields of the model's class with what the recipe sets, before its checks change them."""
    import dataclasses

    import fiddle as fdl
    cls = fdl.get_callable(config)
    out = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            out[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            out[field.name] = field.default_factory()
    out.update(config.__arguments__)
    return cls.__name__, out


def model_parallel(recipe):
    strategy = getattr(recipe.trainer.strategy, "__arguments__", {})
    def size(part, otherwise=1):
        return strategy.get(f"{part}_size") or otherwise
    tensor = size("tensor_model_parallel")
    experts = size("expert_model_parallel") * size("expert_tensor_parallel", tensor)
    return size("pipeline_model_parallel") * math.lcm(tensor * size("context_parallel"), experts if size("expert_model_parallel") > 1 else 1)


def activation(fields):
    name, gated = getattr(fields["activation_func"], "__name__", "?"), fields["gated_linear_unit"]
    if name == "<lambda>":  # Nemotron-H writes out the square of ReLU
        import torch
        values = fields["activation_func"](torch.tensor([-2.0, 3.0])).tolist()
        name = {(0.0, 9.0): "squared_relu"}.get(tuple(values), name)
    gates = {"silu": "swiglu", "openai_gelu": "geglu_tanh", "gelu": "geglu", "quick_gelu": "swiglu_oai"}
    return gates.get(name) if gated else {"openai_gelu": "gelu_tanh"}.get(name, name)


def facts(recipe):
    name, f = class_fields(recipe.model.config)
    trainer, strategy = recipe.trainer, recipe.trainer.strategy
    given = lambda config, key, otherwise: config.__arguments__.get(key, otherwise)
    pp = given(strategy, "pipeline_model_parallel_size", 1)
    vpp = (given(strategy, "virtual_pipeline_model_parallel_size", None) or 1) if pp > 1 else 1
    t5, bert = name.startswith("T5"), "Bert" in name
    plugins = given(trainer, "plugins", None)
    plugin = plugins[0] if isinstance(plugins, list) else plugins
    experts = f.get("num_moe_experts") or 0
    out = {
        "kind": "t5" if t5 else "bert" if bert else "gpt", "class": name,
        "layers": f["num_layers"] + (f["encoder_num_layers"] if t5 else 0), "hidden": f["hidden_size"],
        "heads": f["num_attention_heads"], "groups": f.get("num_query_groups") or f["num_attention_heads"],
        "ffn": f.get("ffn_hidden_size") or 4 * f["hidden_size"], "seq": recipe.data.seq_length,
        "tp": given(strategy, "tensor_model_parallel_size", 1), "pp": pp, "vpp": vpp,
        "cp": given(strategy, "context_parallel_size", 1), "ep": given(strategy, "expert_model_parallel_size", 1),
        "sp": bool(given(strategy, "sequence_parallel", False)),
        "micro": recipe.data.micro_batch_size, "global": recipe.data.global_batch_size,
        "ranks": trainer.devices * trainer.num_nodes, "steps": trainer.max_steps,
        "recompute": f.get("recompute_granularity") or "none",
        "precision": "bf16" if plugin and plugin.precision.startswith("bf16") else "fp32",
        "experts": experts, "zero": 1 if recipe.optim.config.use_distributed_optimizer else 0,
        "activation": activation(f), "normalization": f["normalization"].lower(), "positions": f["position_embedding_type"].replace("yarn", "rope"),
        "tied": f["share_embeddings_and_output_weights"], "bias": bool(f["add_bias_linear"]), "qkv_bias": bool(f["add_bias_linear"] or f["add_qkv_bias"]),
        "lr": recipe.optim.config.lr, "min_lr": recipe.optim.lr_scheduler.min_lr, "beta2": given(recipe.optim.config, "adam_beta2", 0.999),
        "weight_decay": recipe.optim.config.weight_decay,
        "fp8": bool(plugin and given(plugin, "fp8", None)),
    }
    if experts:
        out["topk"], out["expert_ffn"] = f["moe_router_topk"], f.get("moe_ffn_hidden_size") or out["ffn"]
    if f.get("kv_channels") and not f.get("multi_latent_attention"):
        out["channels"] = f["kv_channels"]
    if isinstance(f.get("rotary_base"), (int, float)) and out["positions"] == "rope":
        out["rotary_base"] = f["rotary_base"]
    if f.get("vocab_size"):
        out["vocab"] = f["vocab_size"]
    if f.get("hybrid_override_pattern"):
        out.update(pattern=f["hybrid_override_pattern"], state=f["mamba_state_dim"], state_head=f["mamba_head_dim"], state_groups=f["mamba_num_groups"])
        if f.get("mamba_num_heads"):
            out["state_heads"] = f["mamba_num_heads"]
    if f.get("mtp_num_layers"):
        out["mtp"] = f["mtp_num_layers"]
    if isinstance(f.get("window_size"), (list, tuple)):
        out["window"] = f["window_size"][0] + 1
    return {key: int(value) if isinstance(value, float) and math.isfinite(value) and value == int(value) else value for key, value in out.items()}


def read_recipes(nemo):
    """Name of a recipe: its path in NeMo, the tree of its YAML and its facts (None where it cannot be built without its files)."""
    sys.path.insert(0, str(nemo))
    sys.meta_path.insert(0, EmptyModules())
    import lightning.pytorch.loggers as loggers
    if not hasattr(loggers, "NeptuneLogger"):  # gone from later versions of lightning
        loggers.NeptuneLogger = type("NeptuneLogger", (), {})
    from nemo_run.core.serialization.yaml import YamlSerializer
    out = {}
    for folder in FOLDERS:
        for file in sorted((nemo / folder).glob("[!_]*.py")):
            module = importlib.import_module(".".join(file.relative_to(nemo).with_suffix("").parts))
            if not hasattr(module, "pretrain_recipe"):
                continue
            try:
                recipe = module.pretrain_recipe()
                needed = model_parallel(recipe)
                if needed > recipe.trainer.devices * recipe.trainer.num_nodes:  # more nodes than the default argument
                    recipe = module.pretrain_recipe(num_nodes=-(-needed // recipe.trainer.devices))
            except NotImplementedError:  # models that are only distilled
                continue
            has_class = hasattr(recipe.model, "config") and "num_layers" in class_fields(recipe.model.config)[1]
            out[file.stem] = {"project": "NVIDIA/NeMo", "path": str(file.relative_to(nemo)),
                              "values": yaml.safe_load(YamlSerializer().serialize(recipe)), "facts": facts(recipe) if has_class else None}
    return out


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("nemo", type=pathlib.Path)
    options.add_argument("--commit", default="")
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    corpus = json.loads(CORPUS.read_text()) if CORPUS.exists() else []
    known = {entry["name"]: entry for entry in corpus if entry["project"] == "NVIDIA/NeMo"}
    recipes = read_recipes(options.nemo.resolve())
    wrong = 0
    for name, recipe in recipes.items():
        mine = json.loads(json.dumps(recipe))
        if options.write:
            known.setdefault(name, {"name": name}).update({"commit": options.commit, **mine})
        elif name not in known or any(known[name][key] != mine[key] for key in ("values", "facts")):
            wrong += 1
            print(f"{name}: the corpus differs from the recipe")
    if options.write:
        rest = [entry for entry in corpus if entry["project"] != "NVIDIA/NeMo"]
        CORPUS.parent.mkdir(exist_ok=True)
        CORPUS.write_text("[\n" + ",\n".join(json.dumps(e) for e in list(known.values()) + rest) + "\n]\n")
    print(f"{len(recipes)} recipes, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
