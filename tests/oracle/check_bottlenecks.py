"""Compares bottleneck adapters with those of AdapterHub's library "adapters": what it made is used by `stoa score`, what `stoa train` made on 2 x 2
ranks is loaded by it. Log-probabilities in fp32.

    python tests/oracle/check_bottlenecks.py build/release/src/stoa            # needs torch and adapters (1.3.0, which brings its own transformers)
    python tests/oracle/check_bottlenecks.py build/release/src/stoa llama_par_bn
"""
import adapters
import torch
import transformers
from adapter_scores import GPT2, LLAMA, VOCABULARY, check_all, compare, moved, torch_scores

MODELS = {
    "llama": ("llama", LLAMA), "gpt2": ("gpt2", GPT2),
    "gptj": ("gptj", dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, bos_token_id=1, eos_token_id=2,
                          resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
}
CONFIGS = {"seq_bn": dict(reduction_factor=4), "double_seq_bn": dict(reduction_factor=8, leave_out=[1]), "par_bn": dict(reduction_factor=4)}
CASES = {f"{model}_{config}": (model, config) for model in MODELS for config in CONFIGS
         if model != "gptj" or config == "double_seq_bn"}  # the others are refused


def load(directory):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, torch_dtype=torch.float32)
    adapters.init(model)
    return model


def check(place, name):
    model, config = CASES[name]
    model_type, configuration = MODELS[model]
    print(name)
    base, here = place.make_base(name, model_type, configuration), place.folder / name
    adapted = load(base)
    adapted.add_adapter("mine", config=adapters.AdapterConfig.load(config, **CONFIGS[config]))
    adapted.set_active_adapters("mine")
    for key, parameter in adapted.named_parameters():
        if ".adapters.mine." in key:
            torch.nn.init.normal_(parameter, std=0.2)
    adapted.save_adapter(here / "hub", "mine", with_head=False)
    theirs = torch_scores(adapted)
    good = compare("AdapterHub's adapter, used by Stoa", place.scores(base, "--adapter", here / "hub"), theirs)
    moved("it moves", theirs, place.scores(base))
    width = 32 // CONFIGS[config]["reduction_factor"]
    adapter = place.train(base, here / "run", "model.peft.peft_scheme=adapter", f"model.peft.adapter_tuning.type={config}",
                          f"model.peft.adapter_tuning.adapter_dim={width}", "model.peft.adapter_tuning.layer_selection=[2]",
                          "model.optim.lr=0.05")
    ours = place.scores(here / "run")
    trained = load(base)
    trained.set_active_adapters(trained.load_adapter(str(adapter), use_safetensors=True))
    good &= compare("Stoa's adapter, loaded by AdapterHub", ours, torch_scores(trained))
    moved("trained: it moved", ours, place.scores(base))
    return good


check_all(CASES, check)
