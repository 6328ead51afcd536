"""LoRA by PEFT + TRL, or all weights by TRL with torch.compile, as a user would run it; called by tuning.py.
FOLDER packed|padded|full THREADS STEPS LENGTH ROWS -> one JSON line.

`full` compiles for minutes: it prints "warm" after two steps, and then for each line that it reads takes STEPS steps and prints
a JSON line."""
import json
import resource
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
WARM_UP = 2


class Watch(transformers.TrainerCallback):
    def on_step_begin(self, *_, **__):
        if mode == "full" and len(seconds) >= WARM_UP and (len(seconds) - WARM_UP) % steps == 0:
            print("warm" if len(seconds) == WARM_UP else report(len(seconds) - steps), flush=True)
            if not sys.stdin.readline(): raise SystemExit
        self.begin = time.perf_counter()

    def on_step_end(self, *_, **__):
        seconds.append(time.perf_counter() - self.begin)


def report(first):
    """Of the steps from `first` on."""
    per_step = len(trained) // len(seconds)
    speed = max(sum(trained[i * per_step:(i + 1) * per_step]) / seconds[i] for i in range(first, len(seconds)))
    return json.dumps({"tokens_per_second": speed, "step_seconds": min(seconds[first:]),
                       "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})


class Counting(trl.SFTTrainer):
    def compute_loss(self, model, inputs, *more, **named):
        trained.append(int((inputs["labels"] != -100).sum()))
        return super().compute_loss(model, inputs, *more, **named)


packed = mode != "padded"
arguments = trl.SFTConfig(output_dir=f"{folder}/trl-{mode}", max_length=length, packing=packed, per_device_train_batch_size=1 if packed else rows,
                          gradient_accumulation_steps=rows if packed else 1, max_steps=steps if mode != "full" else 1000, learning_rate=2e-4, use_cpu=True, bf16=True,
                          save_strategy="no", report_to=[], gradient_checkpointing=False, torch_compile=mode == "full")
adapter = peft.LoraConfig(r=16, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM") if mode != "full" else None
Counting(model, args=arguments, train_dataset=data, processing_class=tokenizer, callbacks=[Watch()], peft_config=adapter).train()
print(report(1))
