#!/usr/bin/env python3
"""Writes tests/fixtures/tuning: a small llama, data, and the losses of 50 steps of TRL on them, which Finetune.LossesAreThoseOfTrlAndPeft
compares with Stoa's.  Needs torch, transformers, trl, peft, datasets.

    tests/oracle/make_tuning_fixtures.py [OUT]
    tests/oracle/make_tuning_fixtures.py --adapters     # only those of PEFT, on the model that is there
    tests/oracle/make_tuning_fixtures.py --orpo         # only ORPO, on the model that is there

Every step sees all records, so that the order of samples plays no part. fp32, AdamW without decay, constant rate, norm capped at 1.
"""
import json
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import peft
import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

ROOT = Path(__file__).resolve().parent.parent.parent
ADAPTERS_ALONE, ORPO_ALONE = "--adapters" in sys.argv, "--orpo" in sys.argv
out = Path(sys.argv[1]) if len(sys.argv) > 1 and not ADAPTERS_ALONE and not ORPO_ALONE else ROOT / "tests/fixtures/tuning"
STEPS, RATE, RECORDS = 50, 2e-3, 8
WORDS = "stone sea wind bread road roof light word home morning".split()


def records():
    rng = random.Random(3)
    pick = lambda n: " ".join(rng.choice(WORDS) for _ in range(n))
    return [{"prompt": f"Question: {pick(3)}\nAnswer:\n", "chosen": pick(2 + i % 4), "rejected": pick(2 + (i + 1) % 3)}
            for i in range(RECORDS)]


def tokenizer():
    t = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tests/fixtures/token/gpt2/tokenizer.json"))
    t.eos_token = t.pad_token = "<|endoftext|>"
    return t


def fresh(path):
    return LlamaForCausalLM.from_pretrained(path, dtype=torch.float32)


def common(name, extra=None):
    return dict(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=RECORDS, max_steps=STEPS, learning_rate=RATE,
                lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8,
                max_grad_norm=1.0, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, bf16=False, fp16=False,
                gradient_checkpointing=False, seed=1, **(extra or {}))


def losses(trainer):
    trainer.train()
    return [round(entry["loss"], 7) for entry in trainer.state.log_history if "loss" in entry]


def save(model, name):
    """Without what belongs to this machine."""
    model.save_pretrained(out / name)
    (out / name / "README.md").unlink(missing_ok=True)
    file = out / name / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": ""}, indent=2) + "\n")


def adapters(completions, tok):
    """Losses of PEFT's adapters, and in OUT/NAME where they start: B away from zero, factors and magnitudes away from their first
    values."""
    llama = dict(task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj", "o_proj", "down_proj"])
    configs = {"lora": peft.LoraConfig(r=4, lora_alpha=8, **llama), "dora": peft.LoraConfig(r=4, lora_alpha=8, use_dora=True, **llama),
               "ia3": peft.IA3Config(feedforward_modules=["down_proj"], **llama)}
    found = {}
    for name, config in configs.items():
        torch.manual_seed(7)
        model = peft.get_peft_model(fresh(out), config)
        for key, parameter in model.named_parameters():
            if "lora_B" in key:
                torch.nn.init.normal_(parameter, std=0.1)
            elif "ia3_l" in key or "magnitude" in key:
                parameter.data *= 1 + 0.2 * torch.randn_like(parameter)
        save(model, name)
        trainer = SFTTrainer(model=model, args=SFTConfig(**common(name, dict(completion_only_loss=True, max_length=128))),
                             train_dataset=Dataset.from_list(completions), processing_class=tok)
        found[name] = losses(trainer)
    return found


def virtual_tokens(completions, tok):
    """The same of methods with virtual tokens, in a loop of its own. PEFT keeps no encoder of p-tuning: its tensors are added to the
    file where it starts, under Stoa's names."""
    common_keys = dict(task_type="CAUSAL_LM", num_virtual_tokens=4)
    configs = {"prompt": peft.PromptTuningConfig(**common_keys),
               "p-tuning": peft.PromptEncoderConfig(encoder_reparameterization_type="MLP", encoder_hidden_size=12, **common_keys),
               "prefix": peft.PrefixTuningConfig(**common_keys)}
    prompts = [tok(record["prompt"])["input_ids"] for record in completions]
    texts = [tok(record["prompt"] + record["completion"])["input_ids"] + [tok.eos_token_id] for record in completions]
    longest = max(map(len, texts))
    ids = torch.tensor([text + [tok.pad_token_id] * (longest - len(text)) for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    labels = torch.tensor([[-100] * len(prompt) + text[len(prompt):] + [-100] * (longest - len(text))
                           for prompt, text in zip(prompts, texts)])
    found = {}
    for name, config in configs.items():
        torch.manual_seed(7)
        model = peft.get_peft_model(fresh(out), config)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in trained:
            torch.nn.init.normal_(parameter, std=0.3)
        save(model, name)
        if name == "p-tuning":
            file = out / name / "adapter_model.safetensors"
            encoder = {f"prompt_encoder.{key}": value.contiguous() for key, value in model.prompt_encoder["default"].state_dict().items()}
            save_file(load_file(file) | encoder, file, metadata={"format": "pt"})
        optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
        found[name] = []
        model.train()
        for _ in range(STEPS):
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
            found[name].append(round(loss.item(), 7))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
    return found


class AnswersTrainer(ORPOTrainer):
    """The cross entropy of ORPO's paper is of answers, per token of each. TRL's counts prompts, too, and all tokens of a batch alike."""

    def concatenated_forward(self, model, batch):
        chosen, *others, _ = super().concatenated_forward(model, batch)
        return chosen, *others, -chosen.mean()


def orpo(pairs, tok):
    trainer = AnswersTrainer(model=fresh(out), args=ORPOConfig(**common("orpo", dict(beta=0.1, max_length=128))),
                             train_dataset=Dataset.from_list(pairs), processing_class=tok)
    return {"orpo": losses(trainer)}


def write_losses(found):
    (out / "losses.json").write_text(json.dumps({"steps": STEPS, "rate": RATE, "losses": found}, indent=1) + "\n")
    for name, values in found.items():
        print(name, values[:2], values[-1])


def main():
    if ORPO_ALONE:
        pairs = [json.loads(line) for line in (out / "pairs.jsonl").read_text().splitlines()]
        return write_losses(json.loads((out / "losses.json").read_text())["losses"] | orpo(pairs, tokenizer()))
    if ADAPTERS_ALONE:
        completions = [json.loads(line) for line in (out / "completions.jsonl").read_text().splitlines()]
        found = json.loads((out / "losses.json").read_text())["losses"]
        return write_losses(found | adapters(completions, tokenizer()) | virtual_tokens(completions, tokenizer()))
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(5)
    tok = tokenizer()
    config = LlamaConfig(vocab_size=len(tok), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True, initializer_range=0.2,
                         bos_token_id=tok.eos_token_id, eos_token_id=tok.eos_token_id, pad_token_id=tok.eos_token_id)
    LlamaForCausalLM(config).save_pretrained(out)
    (out / "tokenizer.json").write_text((ROOT / "tests/fixtures/token/gpt2/tokenizer.json").read_text())
    (out / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}))
    pairs = records()
    judged = [{"prompt": p["prompt"], "completion": p["chosen"] if i % 2 else p["rejected"], "label": bool(i % 2)}
              for i, p in enumerate(pairs)]
    completions = [{"prompt": p["prompt"], "completion": p["chosen"]} for p in pairs]
    for name, rows in (("pairs", pairs), ("judged", judged), ("completions", completions)):
        (out / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = {}
    sft = SFTTrainer(model=fresh(out), args=SFTConfig(**common("sft", dict(completion_only_loss=True, max_length=128))),
                     train_dataset=Dataset.from_list(completions), processing_class=tok)
    found["sft"] = losses(sft)
    for name, extra in (("dpo", dict(loss_type="sigmoid")), ("ipo", dict(loss_type="ipo")), ("hinge", dict(loss_type="hinge")),
                        ("robust", dict(loss_type="robust", label_smoothing=0.1))):
        trainer = DPOTrainer(model=fresh(out), ref_model=fresh(out), args=DPOConfig(**common(name, dict(beta=0.1, max_length=128, **extra))),
                             train_dataset=Dataset.from_list(pairs), processing_class=tok)
        found[name] = losses(trainer)
    kto = KTOTrainer(model=fresh(out), ref_model=fresh(out),
                     args=KTOConfig(**common("kto", dict(beta=0.1, max_length=128, train_sampling_strategy="sequential"))),
                     train_dataset=Dataset.from_list(judged), processing_class=tok)
    found["kto"] = losses(kto)
    write_losses(found | orpo(pairs, tok) | adapters(completions, tok) | virtual_tokens(completions, tok))


main()
