"""What check_adapters.py and check_bottlenecks.py share: small models with a tokenizer and data, calls of `stoa`, log-probabilities by it and by torch."""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

VOCABULARY = 320
LLAMA = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None)
GPT2 = dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
LINES = [list(range(3, 40, 3)), [5, 80, 200, 11, 2, 319, 7]]
LAYOUT = ["--ranks", "4", "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"]


def torch_scores(model):
    out = []
    for line in LINES:
        with torch.no_grad():
            logits = model.eval()(torch.tensor([line])).logits[0, -len(line):].float()  # virtual tokens have some in front
        rows = torch.log_softmax(logits, -1)
        out += [rows[i, token].item() for i, token in enumerate(line[1:])]
    return out


def compare(what, ours, theirs):
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"  {what:<44} largest difference {worst:.1e}")
    return worst < 2e-4


def moved(what, ours, theirs):
    print(f"  {what} the scores by {max(abs(a - b) for a, b in zip(ours, theirs)):.2g}")


class Workplace:
    """A folder with a tokenizer and training data, in which `program` runs."""

    def __init__(self, program, folder):
        self.program, self.folder = str(pathlib.Path(program).resolve()), pathlib.Path(folder)
        (self.folder / "text.txt").write_text(
            "The fox runs in the wood. The owl sleeps in the oak. The river sings to the stone.\n\n" * 200)
        self.stoa("tokenizer", "train", self.folder / "text.txt", "--vocab-size", VOCABULARY, "--output", self.folder / "tok")
        self.stoa("data", "prepare", self.folder / "text.txt", "--tokenizer", self.folder / "tok", "--output", self.folder / "data",
                  "--text-split", "paragraph")

    def stoa(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"stoa {' '.join(map(str, arguments))}\n{done.stderr}")
        return done.stdout

    def scores(self, *model):
        ids = self.folder / "ids.txt"
        ids.write_text("".join(" ".join(map(str, line)) + "\n" for line in LINES))
        answers = self.stoa("score", *model, ids, "--ids", "--dtype", "fp32").splitlines()
        return [x for answer in answers for x in json.loads(answer)["logprobs"] if x is not None]

    def make_base(self, name, model_type, configuration):
        base = self.folder / name / "base"
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(model_type, **configuration))
        for parameter in model.parameters():  # far from zero, so that a wrong row shows
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.15)
        model.save_pretrained(base)
        for file in ("tokenizer.json", "vocab.json", "merges.txt"):
            (base / file).write_bytes((self.folder / "tok" / file).read_bytes())
        return base

    def train(self, base, run, *options):
        """Four steps on 2 x 2 ranks; the adapter's directory."""
        self.stoa("train", base, f"model.data={self.folder / 'data'}", "model.encoder_seq_length=32", "model.micro_batch_size=2",
                  "model.global_batch_size=4", "trainer.max_steps=4", "trainer.precision=fp32", "trainer.val_check_interval=0",
                  "model.optim.sched.warmup_steps=0", "model.data.splits_string='100,0,0'", *options, "--output", run, *LAYOUT)
        return run / "checkpoints" / "latest" / "adapter"


def check_all(cases, check):
    """Calls check(place, name) for the cases that the command line names, or all; ends the program."""
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace(sys.argv[1], folder)
        wrong = [name for name in sys.argv[2:] or cases if not check(place, name)]
    sys.exit(f"different: {', '.join(wrong)}" if wrong else 0)
