#!/usr/bin/env python3
"""Facts of Megatron-Bridge's recipes, made without Stoa: the recipes' own functions are run on classes that record what is set.

The corpus, tests/fixtures/nemo2/bridge.json, holds the keys that the recipes set, as ConfigContainer.to_yaml writes them, and what they
must give. Fields that a recipe leaves alone are not in it. Shapes of models that a recipe takes from Hugging Face are those of the published
config.json, below, through Bridge's own table of names (CONFIG_MAPPING). Needs a checkout of Megatron-Bridge and PyYAML, nothing else.

  python3 tests/oracle/bridge_facts.py BRIDGE           # compares the corpus with the recipes of the checkout BRIDGE
  python3 tests/oracle/bridge_facts.py BRIDGE --write   # writes the corpus; `refused` of known recipes stays
"""
import argparse
import ast
import dataclasses
import importlib.abc
import importlib.machinery
import json
import pathlib
import subprocess
import sys
import types

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "nemo2" / "bridge.json"
RECIPES = "src/megatron/bridge/recipes"
FILES = ["llama/h100/llama3", "llama/h100/llama2", "qwen/h100/qwen3", "qwen/h100/qwen2", "gpt/h100/gpt3_175b", "gpt/h100/vanilla_gpt",
         "deepseek/h100/deepseek_v3", "qwen/h100/qwen3_moe", "olmoe/h100/olmoe_7b"]


def llama(layers, hidden, ffn, heads, tied=False, theta=500000.0, vocab=128256, positions=131072, factor=None, **more):
    rope = {"rope_type": "llama3", "factor": factor} if factor else None
    return dict(kind="llama", num_hidden_layers=layers, hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads,
                num_key_value_heads=8, vocab_size=vocab, max_position_embeddings=positions, rms_norm_eps=1e-05, initializer_range=0.02,
                attention_dropout=0.0, tie_word_embeddings=tied, attention_bias=False, mlp_bias=False, rope_theta=theta,
                rope_scaling=rope, **more)


def qwen(kind, layers, hidden, ffn, heads, groups, tied, vocab=151936, theta=1000000.0, positions=40960, eps=1e-06, **more):
    return dict(kind=kind, num_hidden_layers=layers, hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads,
                num_key_value_heads=groups, vocab_size=vocab, max_position_embeddings=positions, rms_norm_eps=eps,
                initializer_range=0.02, attention_dropout=0.0, tie_word_embeddings=tied, rope_theta=theta, **more)


# Published config.json files.
PUBLISHED = {
    "meta-llama/Llama-3.2-1B": llama(16, 2048, 8192, 32, tied=True, factor=32.0, head_dim=64),
    "meta-llama/Llama-3.2-3B": llama(28, 3072, 8192, 24, tied=True, factor=32.0, head_dim=128),
    "meta-llama/Meta-Llama-3-8B": llama(32, 4096, 14336, 32, positions=8192),
    "meta-llama/Meta-Llama-3-70B": llama(80, 8192, 28672, 64, positions=8192),
    "meta-llama/Meta-Llama-3.1-8B": llama(32, 4096, 14336, 32, factor=8.0),
    "meta-llama/Meta-Llama-3.1-70B": llama(80, 8192, 28672, 64, factor=8.0),
    "meta-llama/Meta-Llama-3.1-405B": llama(126, 16384, 53248, 128, factor=8.0),
    "meta-llama/Llama-2-7b-hf": dict(llama(32, 4096, 11008, 32, vocab=32000, positions=4096, theta=10000.0), num_key_value_heads=32),
    "Qwen/Qwen3-0.6B": qwen("qwen3", 28, 1024, 3072, 16, 8, True, head_dim=128),
    "Qwen/Qwen3-1.7B": qwen("qwen3", 28, 2048, 6144, 16, 8, True, head_dim=128),
    "Qwen/Qwen3-4B": qwen("qwen3", 36, 2560, 9728, 32, 8, True, head_dim=128),
    "Qwen/Qwen3-8B": qwen("qwen3", 36, 4096, 12288, 32, 8, False, head_dim=128),
    "Qwen/Qwen3-14B": qwen("qwen3", 40, 5120, 17408, 40, 8, False, head_dim=128),
    "Qwen/Qwen3-32B": qwen("qwen3", 64, 5120, 25600, 64, 8, False, head_dim=128),
    "Qwen/Qwen2-500M": None,
    "Qwen/Qwen2-0.5B": qwen("qwen2", 24, 896, 4864, 14, 2, True, positions=131072),
    "Qwen/Qwen2-1.5B": qwen("qwen2", 28, 1536, 8960, 12, 2, True, positions=131072),
    "Qwen/Qwen2-7B": qwen("qwen2", 28, 3584, 18944, 28, 4, False, vocab=152064, positions=131072),
    "Qwen/Qwen2-72B": qwen("qwen2", 80, 8192, 29568, 64, 8, False, vocab=152064, positions=131072, eps=1e-05),
    "Qwen/Qwen2.5-0.5B": qwen("qwen2", 24, 896, 4864, 14, 2, True, positions=32768),
    "Qwen/Qwen2.5-1.5B": qwen("qwen2", 28, 1536, 8960, 12, 2, True, positions=131072),
    "Qwen/Qwen2.5-7B": qwen("qwen2", 28, 3584, 18944, 28, 4, False, vocab=152064, positions=131072),
    "Qwen/Qwen2.5-14B": qwen("qwen2", 48, 5120, 13824, 40, 8, False, vocab=152064, positions=131072, eps=1e-05),
    "Qwen/Qwen2.5-32B": qwen("qwen2", 64, 5120, 27648, 40, 8, False, vocab=152064, positions=131072, eps=1e-05),
    "Qwen/Qwen2.5-72B": qwen("qwen2", 80, 8192, 29568, 64, 8, False, vocab=152064, positions=131072, eps=1e-05),
    "Qwen/Qwen3-30B-A3B": qwen("qwen3_moe", 48, 2048, 6144, 32, 4, False, head_dim=128, num_experts=128, num_experts_per_tok=8,
                              moe_intermediate_size=768, router_aux_loss_coef=0.001),
    "Qwen/Qwen3-235B-A22B": qwen("qwen3_moe", 94, 4096, 12288, 64, 4, False, head_dim=128, num_experts=128, num_experts_per_tok=8,
                                moe_intermediate_size=1536, router_aux_loss_coef=0.001),
}


class Record:
    """An object of any class: keeps what it is given."""

    def __init__(self, *values, **fields):
        if values and not fields: fields = {"value": values[0]}
        self.__dict__.update(fields)

    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return None

    def __call__(self, *_, **__): return Record()


class Stub(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        made = type(name, (Record,), {})
        setattr(self, name, made)
        return made


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of Bridge, of Megatron-Core and of torch are empty, but for those that make the recipes."""

    def __init__(self, source): self.source = source

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("torch", "megatron", "transformers", "omegaconf", "nemo_run", "modelopt"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = Stub(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        if module.__name__ == "torch":
            for name in ("bfloat16", "float32", "float16"): setattr(module, name, {"_call_": False, "_target_": "torch." + name})
        if module.__name__ == "megatron.bridge":
            module.AutoBridge = auto_bridge(self.source)
        real = {"megatron.bridge.recipes.common": "common", "megatron.bridge.recipes.utils.optimizer_utils": "utils/optimizer_utils",
                "megatron.bridge.recipes.utils.tokenizer_utils": "utils/tokenizer_utils"}
        if module.__name__ in real:
            exec(compile(self.source(f"{RECIPES}/{real[module.__name__]}.py"), module.__name__, "exec"), module.__dict__)
        if module.__name__ == "megatron.bridge.training.mixed_precision":
            exec(compile(self.source("src/megatron/bridge/training/mixed_precision.py"), module.__name__, "exec"), module.__dict__)
        if module.__name__.endswith("environment_utils"): module.COMMON_RECIPE_ENV_VARS = {}


def auto_bridge(source):
    tree = ast.parse(source("src/megatron/bridge/models/conversion/model_bridge.py"))
    mapping = next(ast.literal_eval(n.value) for n in ast.walk(tree)
                   if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "CONFIG_MAPPING")

    class Bridge:
        def __init__(self, name):
            if not PUBLISHED.get(name): raise KeyError(f"{name} has no published shape here")
            self.config = PUBLISHED[name]

        def get_model_config(self):
            c, out = self.config, {}
            for theirs, ours in mapping:
                if theirs in c and ours not in out: out[ours] = c[theirs]
            out.update(normalization="RMSNorm", gated_linear_unit=True, hidden_dropout=0.0, position_embedding_type="rope",
                       activation_func={"_call_": False, "_target_": "torch.nn.functional.silu"}, add_bias_linear=False)
            if c["kind"] == "llama":
                scaling = c.get("rope_scaling")
                out.update(rope_scaling=bool(scaling), rope_scaling_factor=scaling["factor"] if scaling else 1.0, rotary_percent=1.0)
            if c["kind"] == "qwen2": out["add_qkv_bias"] = True
            if c["kind"].startswith("qwen3"): out["qk_layernorm"] = True
            if c["kind"] == "qwen3_moe": out.update(moe_router_load_balancing_type="aux_loss", moe_router_pre_softmax=False)
            out["_target_"] = "megatron.bridge.models.gpt_provider.GPTModelProvider"
            return Record(**out)

        def to_megatron_provider(self, *_, **__): return self.get_model_config()

    return type("AutoBridge", (), {"from_hf_pretrained": staticmethod(lambda name, *_, **__: Bridge(name)),
                                   "from_hf_config": staticmethod(lambda name, *_, **__: Bridge(name))})


def plain(value):
    if isinstance(value, Record):
        fields = {k: plain(v) for k, v in value.__dict__.items() if not k.startswith("_name")}
        if "_target_" not in fields: fields["_target_"] = "megatron.bridge.training.config." + type(value).__name__
        return fields
    if dataclasses.is_dataclass(value):
        return {"_target_": f"{type(value).__module__}.{type(value).__name__}", **{k: plain(v) for k, v in vars(value).items()}}
    if isinstance(value, dict): return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)): return [plain(v) for v in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def facts(name, values):
    m, train = values["model"], values["train"]
    pp = m.get("pipeline_model_parallel_size") or 1
    experts = m.get("num_moe_experts") or 0
    gpus = [int(part[:-3]) for part in name.split("_") if part.endswith("gpu") and part[:-3].isdigit()]
    out = {
        "layers": m["num_layers"], "hidden": m["hidden_size"], "heads": m["num_attention_heads"],
        "groups": m.get("num_query_groups") or m["num_attention_heads"], "ffn": m["ffn_hidden_size"],
        "seq": values["dataset"]["seq_length"], "tp": m.get("tensor_model_parallel_size") or 1, "pp": pp,
        "vpp": (m.get("virtual_pipeline_model_parallel_size") or 1) if pp > 1 else 1, "cp": m.get("context_parallel_size") or 1,
        "ep": m.get("expert_model_parallel_size") or 1, "sp": bool(m.get("sequence_parallel")),
        "micro": train["micro_batch_size"], "global": train["global_batch_size"], "steps": train["train_iters"],
        "recompute": m.get("recompute_granularity") or "none", "experts": experts,
        "precision": "bf16", "fp8": bool(isinstance(values["mixed_precision"], dict) and values["mixed_precision"].get("fp8")),
        "weight_decay": values["scheduler"].get("start_weight_decay") or values["optimizer"]["weight_decay"], "lr": values["optimizer"]["lr"], "beta2": values["optimizer"]["adam_beta2"],
        "zero": 1 if values["ddp"]["use_distributed_optimizer"] else 0,
    }
    if experts: out["topk"] = m["moe_router_topk"]
    if out["tp"] == 1: del out["sp"]
    return out


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bridge", metavar="BRIDGE", help="a checkout or a bare repository")
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    git = lambda *words: subprocess.run(["git", "-C", options.bridge, *words], check=True, capture_output=True, text=True).stdout
    commit = git("rev-parse", "--short=12", "HEAD").strip()
    source = lambda path: git("show", f"HEAD:{path}")
    sys.meta_path.insert(0, Stubs(source))
    known = {e["name"]: e for e in json.loads(CORPUS.read_text())} if CORPUS.exists() else {}
    corpus, skipped, wrong = [], [], 0
    for file in FILES:
        path = f"{RECIPES}/{file}.py"
        module = types.ModuleType(file)
        exec(compile(source(path), path, "exec"), module.__dict__)
        for name, function in list(module.__dict__.items()):
            if "_pretrain_" not in name or name.startswith("_") or not callable(function): continue
            try:
                values = plain(function())
            except Exception as error:  # a recipe of a model whose shape is not here
                skipped.append(f"{name}: {error}")
                continue
            for section in ("checkpoint", "logger"): values[section] = {k: v for k, v in values[section].items() if "/" not in str(v)}
            entry = {"name": name.removesuffix("_config"), "project": "NVIDIA-NeMo/Megatron-Bridge", "commit": commit, "path": path,
                     "values": values}
            try:
                entry["facts"] = facts(name, values)
            except KeyError as error:
                skipped.append(f"{name}: no {error}")
                continue
            old = known.get(entry["name"], {})
            if "refused" in old: entry["refused"] = old["refused"]
            if not options.write and (old.get("values") != values or old.get("facts") != entry["facts"]):
                wrong += 1
                print(f"{name}: not as in the corpus")
            corpus.append(entry)
    if options.write: CORPUS.write_text("[\n" + ",\n".join(json.dumps(e, sort_keys=True) for e in corpus) + "\n]\n")
    print(f"{len(corpus)} recipes, {wrong} differ; {len(skipped)} are not run:")
    print("\n".join("  " + line for line in skipped))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
