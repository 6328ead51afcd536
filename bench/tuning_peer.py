"""LoRA by PEFT + TRL, or all weights by TRL with torch.compile, as a user would run it; called by tuning.py.
FOLDER packed|padded|full THREADS STEPS LENGTH ROWS -> one JSON line."""
import json
import sys
import time

import datasets
import peft
import torch
import transformers
import trl

folder, mode, threads, steps, length, rows = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
torch.set_num_threads(threads)
tokenizer = transformers.AutoTokenizer.from_pretrained(folder + "/base")
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
data = datasets.load_dataset("json", data_files=folder + "/chats.jsonl", split="train")
model = transformers.AutoModelForCausalLM.from_pretrained(folder + "/base", dtype=torch.bfloat16)
seconds, trained = [], []


class Watch(transformers.TrainerCallback):
    def on_step_begin(self, *_, **__):
        self.begin = time.perf_counter()

    def on_step_end(self, *_, **__):
        seconds.append(time.perf_counter() - self.begin)


class Counting(trl.SFTTrainer):
    def compute_loss(self, model, inputs, *more, **named):
        trained.append(int((inputs["labels"] != -100).sum()))
        return super().compute_loss(model, inputs, *more, **named)


packed = mode != "padded"
arguments = trl.SFTConfig(output_dir=f"{folder}/trl-{mode}", max_length=length, packing=packed, per_device_train_batch_size=1 if packed else rows,
                          gradient_accumulation_steps=rows if packed else 1, max_steps=steps, learning_rate=2e-4, use_cpu=True, bf16=True,
                          save_strategy="no", report_to=[], gradient_checkpointing=False, torch_compile=mode == "full")
adapter = peft.LoraConfig(r=16, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM") if mode != "full" else None
Counting(model, args=arguments, train_dataset=data, processing_class=tokenizer, callbacks=[Watch()], peft_config=adapter).train()
per_step = len(trained) // len(seconds)
speed = max(sum(trained[i * per_step:(i + 1) * per_step]) / seconds[i] for i in range(1, len(seconds)))
print(json.dumps({"tokens_per_second": speed, "step_seconds": min(seconds[1:])}))
