"""Makes tests/fixtures/relaid_checkpoints: the training megatron_training/gpt as NeMo and DeepSpeed lay it out. Neither wrote it: names
and files follow their published sources (NeMo 1's MegatronGPTModel with and without mcore_gpt and its SaveRestoreConnector, NeMo 2's
nemo.lightning, DeepSpeed's ds_to_universal.py).

    python tests/oracle/make_relaid_checkpoint_fixtures.py      # needs torch

gpt.nemo: a tar, one rank, Megatron-Core's layers. gpt_legacy.nemo: tar.gz, two tensor ranks, the older layers. gpt_nemo2: NeMo 2.
gpt_universal: DeepSpeed's universal checkpoint of Megatron-DeepSpeed, with Adam's moments.
"""
import argparse
import io
import pathlib
import shutil
import tarfile

import torch
import torch.distributed.checkpoint as dcp

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
OUTPUT = FIXTURES / "relaid_checkpoints"
CONFIG = """mcore_gpt: {mcore}
micro_batch_size: 2
global_batch_size: 2
tensor_model_parallel_size: {tensor}
pipeline_model_parallel_size: 1
encoder_seq_length: 8
max_position_embeddings: 64
num_layers: 2
hidden_size: 16
ffn_hidden_size: 24
num_attention_heads: 4
init_method_std: 0.02
hidden_dropout: 0.0
attention_dropout: 0.0
kv_channels: null
normalization: layernorm
layernorm_epsilon: 1.0e-05
make_vocab_size_divisible_by: 1
bias: true
activation: gelu
bias_activation_fusion: false
transformer_block_type: pre_ln
position_embedding_type: learned_absolute
share_embeddings_and_output_weights: true
precision: ${{trainer.precision}}
target: nemo.collections.nlp.models.language_modeling.megatron_gpt_model.MegatronGPTModel
nemo_version: 1.23.0
"""
MODEL_YAML = """_target_: nemo.collections.llm.gpt.model.base.GPTModel
config:
  _target_: nemo.collections.llm.gpt.model.base.GPTConfig
  num_layers: 2
  hidden_size: 16
  ffn_hidden_size: 24
  num_attention_heads: 4
  seq_length: 64
  hidden_dropout: 0.0
  attention_dropout: 0.0
  layernorm_epsilon: 1.0e-05
  position_embedding_type: learned_absolute
  share_embeddings_and_output_weights: true
  bias_activation_fusion: false
"""
LEGACY = {"self_attention.linear_qkv": "self_attention.query_key_value", "self_attention.linear_proj": "self_attention.dense",
          "mlp.linear_fc1": "mlp.dense_h_to_4h", "mlp.linear_fc2": "mlp.dense_4h_to_h", "pre_mlp_layernorm": "post_attention_layernorm",
          "decoder.": "encoder."}


def weights(state=""):
    reader = dcp.FileSystemReader(FIXTURES / "megatron_training" / "gpt" / "iter_0000002")
    found = {name: torch.empty(item.size, dtype=item.properties.dtype) for name, item in reader.read_metadata().state_dict_metadata.items()
             if hasattr(item, "size") and (name.startswith(state) if state else not name.startswith("optimizer"))}
    dcp.load(found, storage_reader=reader, no_dist=True)
    return {name[len(state):]: tensor for name, tensor in found.items()}


def by_layer(stacked):
    out = {}
    for name, tensor in stacked.items():
        if ".layers." not in name:
            out[name] = tensor
            continue
        for layer, each in enumerate(tensor):
            key = name.replace(".layers.", f".layers.{layer}.")
            key = key.replace("self_attention.linear_qkv.layer_norm_", "input_layernorm.")
            key = key.replace("mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm.")
            out[key] = each.clone()
    return out


def legacy_name(name):
    for new, old in LEGACY.items():
        name = name.replace(new, old)
    return name


def legacy(layers, rank):
    out = {}
    for name, tensor in layers.items():
        name = legacy_name(name)
        rows = ("query_key_value", "dense_h_to_4h", "word_embeddings")
        if any(part in name for part in rows):
            tensor = tensor.chunk(2, 0)[rank]
        elif name.endswith(("dense.weight", "dense_4h_to_h.weight")):
            tensor = tensor.chunk(2, 1)[rank]
        out["model.language_model." + name] = tensor.clone()
    return out


def add(tar, name, content):
    info = tarfile.TarInfo("./" + name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def saved(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def write_universal():
    folder = OUTPUT / "gpt_universal" / "global_step2_universal"
    states = {"fp32": by_layer(weights()), "exp_avg": by_layer(weights("optimizer.state.exp_avg.")),
              "exp_avg_sq": by_layer(weights("optimizer.state.exp_avg_sq."))}
    for state, tensors in states.items():
        for name, tensor in tensors.items():
            parameter = folder / "zero" / ("language_model." + legacy_name(name))
            parameter.mkdir(parents=True, exist_ok=True)
            torch.save({"param": tensor}, parameter / f"{state}.pt")
            torch.save(torch.tensor(2.0), parameter / "step.pt")
    args = torch.load(FIXTURES / "megatron_training" / "gpt" / "iter_0000002" / "common.pt", weights_only=False)["args"]
    torch.save({"args": argparse.Namespace(**vars(args)), "iteration": 2, "global_steps": 2, "checkpoint_version": 3.0},
               folder / "mp_rank_00_model_states.pt")
    (OUTPUT / "gpt_universal" / "latest_universal").write_text(folder.name)


def main():
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    stacked = weights()
    layers = by_layer(stacked)
    with tarfile.open(OUTPUT / "gpt.nemo", "w") as tar:
        add(tar, "model_config.yaml", CONFIG.format(mcore="true", tensor=1).encode())
        add(tar, "model_weights.ckpt", saved({"model.module." + name: tensor for name, tensor in layers.items()}))
    with tarfile.open(OUTPUT / "gpt_legacy.nemo", "w:gz") as tar:
        add(tar, "model_config.yaml", CONFIG.format(mcore="false", tensor=2).encode())
        for rank in (0, 1):
            add(tar, f"mp_rank_{rank:02d}/model_weights.ckpt", saved(legacy(layers, rank)))
    (OUTPUT / "gpt_nemo2" / "context").mkdir(parents=True)
    (OUTPUT / "gpt_nemo2" / "context" / "model.yaml").write_text(MODEL_YAML)
    dcp.save({"module." + name: tensor for name, tensor in stacked.items()}, checkpoint_id=OUTPUT / "gpt_nemo2" / "weights", no_dist=True)
    write_universal()
    (OUTPUT / "README.md").write_text("Made by `tests/oracle/make_relaid_checkpoint_fixtures.py` from the published layouts; NeMo and DeepSpeed did not write them.\n")
    for path in sorted(OUTPUT.rglob("*")):
        if path.is_file():
            print(path.relative_to(OUTPUT), path.stat().st_size)


if __name__ == "__main__":
    main()
