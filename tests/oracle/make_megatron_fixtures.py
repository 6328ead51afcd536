"""Makes tests/fixtures/megatron: a tiny checkpoint that Megatron-Core wrote with TP2 PP2, and what Megatron-Core answers with it.

    python tests/oracle/make_megatron_fixtures.py        # needs torch and megatron-core; 4 processes over gloo, no GPU

The model (sharded tensors, file format) is Megatron-Core's own. `args` are those that Megatron-LM's training script would store,
reduced to what describes the model: the script itself is not on PyPI. answers.json: log-probabilities by the same model, loaded
from the checkpoint by one process (TP1 PP1).
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

OUTPUT = pathlib.Path(__file__).parents[1] / "fixtures" / "megatron"
ARGS = dict(num_layers=2, hidden_size=16, num_attention_heads=4, group_query_attention=True, num_query_groups=2, kv_channels=4,
            ffn_hidden_size=24, swiglu=True, normalization="RMSNorm", norm_epsilon=1e-6, position_embedding_type="rope",
            rotary_base=10000, rotary_percent=1.0, max_position_embeddings=64, add_bias_linear=False, add_qkv_bias=False,
            qk_layernorm=False, untie_embeddings_and_output_weights=True, num_experts=None, vocab_size=40, padded_vocab_size=48,
            tensor_model_parallel_size=2, pipeline_model_parallel_size=2, params_dtype=torch.float32)
IDS = [[1, 5, 9, 33, 2, 17, 39, 0, 8], [7, 7, 7]]


def start(rank, world, tensor, pipeline):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    torch.cuda.synchronize = lambda *_: None  # Megatron-Core calls it before it writes
    torch.cuda.current_device = lambda: "cpu"
    dist.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import random
    random.get_cuda_rng_tracker().fork = lambda *_, **__: contextlib.nullcontext()  # there is no dropout
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline)


class SequenceParallelNorm(torch.nn.RMSNorm):
    def __init__(self, config, hidden_size, eps=1e-5, **_):
        super().__init__(hidden_size, eps)
        self.weight.sequence_parallel = True


def model(tensor, pipeline, sequence_parallel=False, rotary_base=ARGS["rotary_base"], activation=torch.nn.functional.silu):
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    config = TransformerConfig(
        num_layers=ARGS["num_layers"], hidden_size=ARGS["hidden_size"], num_attention_heads=ARGS["num_attention_heads"],
        num_query_groups=ARGS["num_query_groups"], ffn_hidden_size=ARGS["ffn_hidden_size"], use_cpu_initialization=True,
        tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline, pipeline_dtype=torch.float32,
        sequence_parallel=sequence_parallel,
        normalization="RMSNorm", layernorm_epsilon=ARGS["norm_epsilon"], gated_linear_unit=True,
        activation_func=activation, add_bias_linear=False, gradient_accumulation_fusion=False,
        bias_activation_fusion=False, bias_dropout_fusion=False, masked_softmax_fusion=False, apply_rope_fusion=False,
        hidden_dropout=0.0, attention_dropout=0.0)
    spec = get_gpt_layer_local_spec(normalization="RMSNorm")
    if sequence_parallel:  # without Transformer Engine, Megatron-Core has no norm for it
        from megatron.core.transformer import transformer_block
        transformer_block.LayerNormImpl = SequenceParallelNorm
        spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = SequenceParallelNorm
    return GPTModel(config, spec, vocab_size=ARGS["padded_vocab_size"],
                    max_sequence_length=ARGS["max_position_embeddings"], pre_process=parallel_state.is_pipeline_first_stage(),
                    post_process=parallel_state.is_pipeline_last_stage(), share_embeddings_and_output_weights=False,
                    position_embedding_type="rope", rotary_base=rotary_base, parallel_output=False)


def save(rank, folder):
    start(rank, 4, 2, 2)
    from megatron.core import dist_checkpointing, parallel_state
    built = model(2, 2)
    torch.manual_seed(100 + parallel_state.get_pipeline_model_parallel_rank() * 10 + parallel_state.get_tensor_model_parallel_rank())
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if "layernorm" in name:  # the same on every tensor-parallel rank
                generator = torch.Generator().manual_seed(len(name) + parallel_state.get_pipeline_model_parallel_rank())
                parameter.uniform_(0.5, 1.5, generator=generator)
            else:
                parameter.uniform_(-0.4, 0.4)
    dist_checkpointing.save({"model": built.sharded_state_dict(), "args": argparse.Namespace(**ARGS), "checkpoint_version": 3.0, "iteration": 7},
                            str(folder), ("torch_dist", 1))
    dist.barrier()


def answer(_, folder):
    start(0, 1, 1, 1)
    from megatron.core import dist_checkpointing
    built = model(1, 1).eval()
    loaded = dist_checkpointing.load({"model": built.sharded_state_dict()}, str(folder))
    built.load_state_dict(loaded["model"])
    answers = []
    for ids in IDS:
        tokens = torch.tensor([ids])
        positions = torch.arange(len(ids))[None]
        mask = torch.ones(1, 1, len(ids), len(ids), dtype=torch.bool).triu(1)
        with torch.no_grad():
            logits = built(tokens, positions, mask)[0, :, :ARGS["vocab_size"]].double()
        logprobs = logits.log_softmax(-1)
        answers.append({"ids": ids, "logprobs": [None] + [logprobs[i, t].item() for i, t in enumerate(ids[1:])]})
    (OUTPUT / "answers.json").write_text(json.dumps(answers) + "\n")


def main():
    shutil.rmtree(OUTPUT, ignore_errors=True)
    folder = OUTPUT / "iter_0000007"
    folder.mkdir(parents=True)
    mp.spawn(save, args=(folder,), nprocs=4)
    (OUTPUT / "latest_checkpointed_iteration.txt").write_text("7")
    mp.spawn(answer, args=(folder,), nprocs=1)
    for path in sorted(OUTPUT.rglob("*")):
        if path.is_file():
            print(path.relative_to(OUTPUT), path.stat().st_size)


if __name__ == "__main__":
    main()
