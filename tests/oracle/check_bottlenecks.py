"""Compares bottleneck adapters with those of AdapterHub's library "adapters": what it made is used by `stoa score`, what `stoa train` made on 2 x 2
ranks is loaded by it. Log-probabilities in fp32.

    python tests/oracle/check_bottlenecks.py build/release/src/stoa            # needs torch and adapters (1.3.0, which brings its own transformers)
    python tests/oracle/check_bottlenecks.py build/release/src/stoa llama_par_bn
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import adapters
import torch
import transformers

VOCABULARY = 320
MODELS = {
    "llama": ("llama", dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                            num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None)),
    "gpt2": ("gpt2", dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2,
                          resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "gptj": ("gptj", dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, bos_token_id=1, eos_token_id=2,
                          resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
}
CONFIGS = {"seq_bn": dict(reduction_factor=4), "double_seq_bn": dict(reduction_factor=8, leave_out=[1]), "par_bn": dict(reduction_factor=4)}
CASES = {f"{model}_{config}": (model, config) for model in MODELS for config in CONFIGS
         if model != "gptj" or config == "double_seq_bn"}  # the others are refused
LINES = [list(range(3, 40, 3)), [5, 80, 200, 11, 2, 319, 7]]


def stoa(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"stoa {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def stoa_scores(*model):
    ids = HERE / "ids.txt"
    ids.write_text("".join(" ".join(map(str, line)) + "\n" for line in LINES))
    answers = stoa("score", *model, ids, "--ids", "--dtype", "fp32").splitlines()
    return [x for answer in answers for x in json.loads(answer)["logprobs"] if x is not None]


def torch_scores(model):
    out = []
    for line in LINES:
        with torch.no_grad():
            rows = torch.log_softmax(model.eval()(torch.tensor([line])).logits[0].float(), -1)
        out += [rows[i, token].item() for i, token in enumerate(line[1:])]
    return out


def compare(what, ours, theirs):
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"  {what:<44} largest difference {worst:.1e}")
    return worst < 2e-4


def load(directory):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, torch_dtype=torch.float32)
    adapters.init(model)
    return model


def check(name):
    model, config = CASES[name]
    model_type, configuration = MODELS[model]
    print(name)
    base = HERE / name / "base"
    torch.manual_seed(1)
    plain = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(model_type, **configuration))
    for parameter in plain.parameters():  # far from zero, so that a wrong row shows
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    plain.save_pretrained(base)
    for file in ("tokenizer.json", "vocab.json", "merges.txt"):
        (base / file).write_bytes((HERE / "tok" / file).read_bytes())
    adapted = load(base)
    adapted.add_adapter("mine", config=adapters.AdapterConfig.load(config, **CONFIGS[config]))
    adapted.set_active_adapters("mine")
    for key, parameter in adapted.named_parameters():
        if ".adapters.mine." in key:
            torch.nn.init.normal_(parameter, std=0.2)
    adapted.save_adapter(HERE / name / "hub", "mine", with_head=False)
    theirs = torch_scores(adapted)
    good = compare("AdapterHub's adapter, used by Stoa", stoa_scores(base, "--adapter", HERE / name / "hub"), theirs)
    print(f"  it moves the scores by {max(abs(a - b) for a, b in zip(theirs, stoa_scores(base))):.2g}")
    run = HERE / name / "run"
    width = 32 // CONFIGS[config]["reduction_factor"]
    stoa("train", base, "model.peft.peft_scheme=adapter", f"model.peft.adapter_tuning.type={config}",
         f"model.peft.adapter_tuning.adapter_dim={width}", "model.peft.adapter_tuning.layer_selection=[2]",
         f"model.data={HERE / 'data'}", "model.encoder_seq_length=32", "model.micro_batch_size=2", "model.global_batch_size=4",
         "trainer.max_steps=4", "trainer.precision=fp32", "trainer.val_check_interval=0", "model.optim.lr=0.05",
         "model.optim.sched.warmup_steps=0", "model.data.splits_string='100,0,0'", "--output", run, "--ranks", "4",
         "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2")
    ours = stoa_scores(run)
    trained = load(base)
    trained.set_active_adapters(trained.load_adapter(str(run / "checkpoints" / "latest" / "adapter"), use_safetensors=True))
    good &= compare("Stoa's adapter, loaded by AdapterHub", ours, torch_scores(trained))
    print(f"  trained: it moved the scores by {max(abs(a - b) for a, b in zip(ours, stoa_scores(base))):.2g}")
    return good


PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
with tempfile.TemporaryDirectory() as folder:
    HERE = pathlib.Path(folder)
    (HERE / "text.txt").write_text("The fox runs in the wood. The owl sleeps in the oak. The river sings to the stone.\n\n" * 200)
    stoa("tokenizer", "train", HERE / "text.txt", "--vocab-size", VOCABULARY, "--output", HERE / "tok")
    stoa("data", "prepare", HERE / "text.txt", "--tokenizer", HERE / "tok", "--output", HERE / "data", "--text-split", "paragraph")
    results = {name: check(name) for name in sys.argv[2:] or CASES}
wrong = [name for name, good in results.items() if not good]
sys.exit(f"different: {', '.join(wrong)}" if wrong else 0)
