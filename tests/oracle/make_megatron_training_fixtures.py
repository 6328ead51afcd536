"""Makes tests/fixtures/megatron_training: checkpoints of tiny trainings that Megatron-Core made, with the optimizer's state, and what
Megatron-Core answers and does in one more step.

    python tests/oracle/make_megatron_training_fixtures.py [MODEL …]    # needs torch and megatron-core; processes over gloo, no GPU

BERT's steps are over sentences.bin, sentences.idx with the pieces of vocab.txt, as Megatron-Core's own data set makes samples of them.

One process trains two steps with Megatron-Core's model, DistributedDataParallel and optimizer, and saves (torch_dist). Other processes
load that with tensor, pipeline or expert parallelism and save it again: MODEL/iter_0000002, and for gpt and bert
MODEL_ranks/iter_0000002 in the older format, whose files are what Megatron-LM's training script puts into them. The first process makes one more step and saves
MODEL/iter_0000003; gpt_buckets is the distributed optimizer's in the form of its buffers (dp_reshardable). MODEL_distrib_optim/iter_0000002 is the
older format with the distributed optimizer's state in files of their own, distrib_optim.pt. answers.json: log-probabilities after step 2. tokens.bin, tokens.idx: the only document, of which every sample is made.
`args` are those that Megatron-LM's training script would store, reduced to what describes the model: the script is not on PyPI.
Megatron-Core expects a GPU in some places; what it asks CUDA for is answered for the CPU below.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

OUTPUT = pathlib.Path(__file__).parents[1] / "fixtures" / "megatron_training"
TOKENS = [1, 5, 9, 33, 2, 17, 39, 0]
VOCABULARY = 48  # without padding, so that Megatron-Core's loss is over the same entries as Stoa's

COMMON = dict(num_layers=2, hidden_size=16, num_attention_heads=4, ffn_hidden_size=24, hidden_dropout=0.0, attention_dropout=0.0,
              max_position_embeddings=64, seq_length=len(TOKENS), vocab_size=VOCABULARY, padded_vocab_size=VOCABULARY,
              init_method_std=0.02, norm_epsilon=1e-5, params_dtype=torch.float32, micro_batch_size=2, global_batch_size=2)
LLAMA = dict(COMMON, group_query_attention=True, num_query_groups=2, kv_channels=4, swiglu=True, normalization="RMSNorm",
             position_embedding_type="rope", rotary_base=10000, rotary_percent=1.0, add_bias_linear=False,
             untie_embeddings_and_output_weights=True)
GPT = dict(COMMON, normalization="LayerNorm", position_embedding_type="learned_absolute", add_bias_linear=True, swiglu=False,
           bias_gelu_fusion=False, untie_embeddings_and_output_weights=False)
MODELS = {
    "gpt": GPT,
    "gpt_distributed": GPT,
    "gpt_buckets": GPT,
    "gpt_interleaved": dict(GPT, num_layers=4),
    "moe": dict(LLAMA, num_experts=4, moe_router_topk=2, moe_ffn_hidden_size=12, moe_layer_freq=[0, 1],
                moe_shared_expert_intermediate_size=20, moe_router_score_function="sigmoid", moe_router_enable_expert_bias=True,
                moe_router_topk_scaling_factor=1.5),
    "mla": dict(COMMON, swiglu=True, normalization="RMSNorm", add_bias_linear=False, untie_embeddings_and_output_weights=True,
                multi_latent_attention=True, q_lora_rank=8, kv_lora_rank=8, qk_head_dim=4, qk_pos_emb_head_dim=4, v_head_dim=4,
                rope_type="yarn", rotary_scaling_factor=4, mscale=1.0, mscale_all_dim=1.0, qk_layernorm=True, rotary_base=10000,
                rotary_percent=1.0, position_embedding_type="rope"),
    "t5": dict(COMMON, hidden_size=8, ffn_hidden_size=16, vocab_size=24, padded_vocab_size=32, max_position_embeddings=16,
               encoder_num_layers=2, decoder_num_layers=3, encoder_seq_length=16, decoder_seq_length=16, normalization="LayerNorm",
               position_embedding_type="learned_absolute", add_bias_linear=True, swiglu=False, bias_gelu_fusion=False,
               untie_embeddings_and_output_weights=False),
    "bert": dict(GPT, hidden_size=8, ffn_hidden_size=16, vocab_size=40, padded_vocab_size=40, seq_length=32, bert_binary_head=True),
    "llama3": dict(LLAMA, use_rope_scaling=True, rope_scaling_factor=8.0),
}
# tensor, pipeline, expert parallel
LAYOUTS = {"gpt": (2, 2, 1), "bert": (2, 2, 1), "gpt_distributed": (1, 1, 1), "gpt_buckets": (2, 2, 1), "t5": (2, 1, 1), "moe": (1, 1, 1),
           "mla": (2, 1, 1), "llama3": (1, 1, 1)}
COPIES = {"gpt_buckets": 2}  # data-parallel ranks, where there is more than one
# Also saved in the older format, as gpt and bert are: layout, and chunks of interleaved stages.
RANKS = {"gpt_interleaved": ((1, 2, 1), 2), "moe": ((1, 1, 2), None)}


def on_cpu(function):
    def wrapped(*args, **keys):
        if str(keys.get("device", "")).startswith("cuda"):
            keys["device"] = "cpu"
        return function(*args, **keys)
    return wrapped


for name in ("tensor", "zeros", "empty", "ones", "full", "arange", "zeros_like", "empty_like", "rand"):
    setattr(torch, name, on_cpu(getattr(torch, name)))
torch.cuda.synchronize = lambda *_: None
torch.cuda.current_device = lambda: "cpu"
class Stream:
    def synchronize(self):
        pass

    def wait_stream(self, _):
        pass

    def record_event(self, *_):
        return self


torch.cuda.Stream = lambda *_, **__: Stream()
torch.cuda.current_stream = lambda *_: Stream()
torch.cuda.stream = lambda _: contextlib.nullcontext()
torch.Tensor.record_stream = lambda self, _: None
torch.Tensor.cuda = lambda self, *_, **__: self
type_of = torch.Tensor.type
torch.Tensor.type = lambda self, *a, **k: type_of(self, *a, **k) if a or k else type_of(self).replace("torch.", "torch.cuda.")


def start(rank, world, layout, chunks=None):
    tensor, pipeline, expert = layout
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="29617", LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import random
    random.get_cuda_rng_tracker().fork = lambda *_, **__: contextlib.nullcontext()  # there is no dropout
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline,
                                             expert_model_parallel_size=expert, virtual_pipeline_model_parallel_size=chunks,
                                             expert_tensor_parallel_size=1 if expert > 1 else None)


def build(a, layout, chunk=None, chunks=None):
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
    from megatron.core.transformer import MLATransformerConfig, TransformerConfig, dot_product_attention
    from megatron.core.transformer.moe import moe_utils
    moe_utils.te_general_gemm = None  # a name that it forgets without Transformer Engine
    tensor, pipeline, expert = layout
    latent = a.get("multi_latent_attention", False)
    more = {}
    if a.get("num_experts"):
        more = {k: v for k, v in a.items() if k.startswith("moe_")}
        more.update(num_moe_experts=a["num_experts"], moe_router_load_balancing_type="none",
                    moe_token_dispatcher_type="allgather")
    if latent:
        more = {k: a[k] for k in ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim", "rope_type",
                                  "rotary_scaling_factor", "mscale", "mscale_all_dim", "qk_layernorm", "rotary_base",
                                  "rotary_percent")}
    if latent:
        more["kv_channels"] = a["qk_head_dim"] + a["qk_pos_emb_head_dim"]
    config = (MLATransformerConfig if latent else TransformerConfig)(
        num_layers=a["num_layers"], hidden_size=a["hidden_size"], num_attention_heads=a["num_attention_heads"],
        num_query_groups=a.get("num_query_groups"), ffn_hidden_size=a["ffn_hidden_size"], use_cpu_initialization=True,
        tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline, expert_model_parallel_size=expert,
        virtual_pipeline_model_parallel_size=chunks,
        expert_tensor_parallel_size=1 if expert > 1 else None, pipeline_dtype=torch.float32, normalization=a["normalization"],
        layernorm_epsilon=a["norm_epsilon"], gated_linear_unit=a["swiglu"], activation_func=F.silu if a["swiglu"] else F.gelu,
        add_bias_linear=a["add_bias_linear"], gradient_accumulation_fusion=False, bias_activation_fusion=False,
        bias_dropout_fusion=False, masked_softmax_fusion=False, apply_rope_fusion=False, hidden_dropout=0.0, attention_dropout=0.0,
        **more)
    if a.get("num_experts"):
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=a["normalization"])
    else:
        spec = get_gpt_layer_local_spec(normalization=a["normalization"], multi_latent_attention=latent,
                                        qk_layernorm=a.get("qk_layernorm", False))
    if latent:  # its own attention on a CPU has one size of head
        from megatron.core.transformer import multi_latent_attention
        multi_latent_attention.HAVE_TE = False  # it takes stand-ins for Transformer Engine
        class TwoSizes(dot_product_attention.DotProductAttention):
            def __init__(self, *args, k_channels=None, v_channels=None, **keys):
                super().__init__(*args, **keys)
                if k_channels:
                    self.hidden_size_per_attention_head = k_channels
                    self.hidden_size_per_partition = v_channels * self.num_attention_heads_per_partition
        spec.submodules.self_attention.submodules.core_attention = TwoSizes
    if "decoder_num_layers" in a:
        import copy
        from megatron.core.models.T5 import t5_model, t5_spec
        encoder, config.num_layers = copy.copy(config), a["decoder_num_layers"]
        stacks = (t5_spec.get_t5_encoder_with_local_block_spec(a["encoder_num_layers"]),
                  t5_spec.get_t5_decoder_with_local_block_spec(a["decoder_num_layers"]))
        for stack in stacks:  # which the specifications for Transformer Engine have
            stack.layer_norm = t5_spec.LNImpl
        return t5_model.T5Model(config, encoder, *stacks, a["padded_vocab_size"], a["max_position_embeddings"], parallel_output=False, share_embeddings_and_output_weights=True)
    if "bert_binary_head" in a:
        from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec
        from megatron.core.models.bert.bert_model import BertModel
        return BertModel(config, 2, bert_layer_local_spec, a["padded_vocab_size"], a["max_position_embeddings"],
                         pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
                         share_embeddings_and_output_weights=True)
    where = dict(ignore_virtual=chunk is None, vp_stage=chunk)
    return GPTModel(config, spec, vocab_size=a["padded_vocab_size"], max_sequence_length=a["max_position_embeddings"], vp_stage=chunk,
                    pre_process=parallel_state.is_pipeline_first_stage(**where), post_process=parallel_state.is_pipeline_last_stage(**where),
                    share_embeddings_and_output_weights=not a["untie_embeddings_and_output_weights"],
                    position_embedding_type=a["position_embedding_type"], rotary_percent=a.get("rotary_percent", 1.0),
                    rotary_base=int(a.get("rotary_base", 10000)), rope_scaling=a.get("use_rope_scaling", False), parallel_output=False)


def with_optimizer(model, distributed):
    wrapped, optimizer = all_with_optimizer([model], distributed)
    return wrapped[0], optimizer


def all_with_optimizer(models, distributed):
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    wrapped = [DistributedDataParallel(m.config, DistributedDataParallelConfig(use_distributed_optimizer=distributed), m) for m in models]
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-2, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-4, clip_grad=1.0,
                        use_distributed_optimizer=distributed, params_dtype=torch.float32), wrapped, use_gloo_process_groups=True)
    for group in optimizer.param_groups:  # as Megatron-LM's scheduler does
        group["weight_decay"] = 0.1 * group["wd_mult"]
    return wrapped, optimizer


def sharded(model, optimizer, loading=False, prefix="", sharding_type="fully_reshardable"):
    metadata = {"distrib_optim_sharding_type": sharding_type, "chained_optim_avoid_prefix": True}
    model = model.module  # without DistributedDataParallel, as Megatron-LM's training script saves it
    states = optimizer.sharded_state_dict(model.sharded_state_dict(prefix=prefix), is_loading=loading, metadata=metadata)
    return {"model": model.sharded_state_dict(prefix=prefix), "optimizer": states}


def without_steps(optimizer):
    """Apex and Transformer Engine count steps with a group of parameters, PyTorch with each of them, which Megatron-Core does not save."""
    get, set_ = optimizer._get_main_param_and_optimizer_states, optimizer._set_main_param_and_optimizer_states
    optimizer._get_main_param_and_optimizer_states = lambda parameter: {k: v for k, v in get(parameter).items() if k != "step"}
    optimizer._set_main_param_and_optimizer_states = lambda parameter, tensors: set_(parameter, {"step": torch.tensor(2.0), **tensors})


def is_distributed(name):
    return name.endswith(("_distributed", "_buckets"))


def save(folder, a, iteration, model, optimizer, sharding_type="fully_reshardable"):
    from megatron.core import dist_checkpointing
    if dist.get_rank() == 0:
        folder.mkdir(parents=True)
    dist.barrier()
    args = argparse.Namespace(**a, iteration=iteration, consumed_train_samples=2 * iteration)
    dist_checkpointing.save({**sharded(model, optimizer, sharding_type=sharding_type), "args": args, "checkpoint_version": 3.0, "iteration": iteration}, str(folder),
                            ("torch_dist", 1))
    dist.barrier()


def inputs():
    ids = torch.tensor([TOKENS] * 2)
    return ids, torch.arange(len(TOKENS))[None].expand(2, -1), torch.ones(1, 1, len(TOKENS), len(TOKENS), dtype=torch.bool).triu(1)


class T5:
    """What differs where the model is an encoder-decoder."""
    source = torch.tensor([[5, 9, 23, 2, 17, 19, 3]] * 2)
    target = [4, 11, 7, 20, 1]
    START = 0

    @classmethod
    def forward(cls, model):
        n, m = cls.source.shape[1], len(cls.target)
        decoder = torch.tensor([[cls.START] + cls.target[:-1]] * 2)
        def seen(*shape):
            return torch.zeros(2, 1, *shape, dtype=torch.bool)
        return model(cls.source, decoder, seen(n, n), seen(m, m) | torch.ones(m, m, dtype=torch.bool).triu(1), seen(m, n))

    @classmethod
    def loss(cls, model):
        return F.cross_entropy(cls.forward(model).float().reshape(-1, 32), torch.tensor(cls.target * 2))

    @classmethod
    def save(cls, model, optimizer, a, folder):
        with torch.no_grad():
            logprobs = cls.forward(model)[0].double()[:, :a["vocab_size"]].log_softmax(-1)
        (folder / "answers.json").write_text(json.dumps({"source": cls.source[0].tolist(), "target": cls.target, "start": cls.START, "logprobs": [
            logprobs[i, t].item() for i, t in enumerate(cls.target)]}) + "\n")


class Bert:
    """What differs where the model predicts hidden tokens and judges the order of sentences."""
    PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{'' if i % 4 else '##'}w{i}" for i in range(5, 40))]
    MASK = 4
    pair = [2, 9, 17, 33, 3], [6, 21, 38, 11, 3]
    line = [2, 9, 17, 33, 6, 3, 21, 38, 11, 3]

    @classmethod
    def documents(cls):
        state, out = 1, []
        for _ in range(12):
            document = []
            for _ in range(4):
                words = []
                for _ in range(3 + state % 5):
                    state = (state * 1103515245 + 12345) % 2 ** 31
                    words.append(5 + (state >> 8) % 35)
                document.append(words)
            out.append(document)
        return out

    @classmethod
    def write(cls, folder):
        (folder / "vocab.txt").write_text("".join(piece + "\n" for piece in cls.PIECES))
        sentences = [s for d in cls.documents() for s in d]
        (folder / "sentences.bin").write_bytes(b"".join(struct.pack(f"<{len(s)}H", *s) for s in sentences))
        lengths, begins, ends = [len(s) for s in sentences], [], [0]
        for s in sentences:
            begins.append(2 * sum(lengths[:len(begins)]))
        for d in cls.documents():
            ends.append(ends[-1] + len(d))
        (folder / "sentences.idx").write_bytes(
            b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(sentences), len(ends)) + struct.pack(f"<{len(lengths)}i", *lengths) +
            struct.pack(f"<{len(begins)}q", *begins) + struct.pack(f"<{len(ends)}q", *ends))

    def __init__(self, length):
        import megatron.core
        import megatron_samples
        tokenizer = megatron_samples.Tokenizer(self.PIECES, {"pad": 0, "cls": 2, "sep": 3, "mask": self.MASK})
        sets = megatron_samples.DataSets(pathlib.Path(megatron.core.__path__[0]).parents[1])
        self.data = sets.bert(self.documents(), tokenizer, 6, length, 1234, 0.1, True)

    def losses(self, model, step):
        items = [self.data[2 * step + i] for i in range(2)]
        def stack(key):
            return torch.stack([torch.as_tensor(item[key]).long() for item in items])
        losses, order = model(stack("text"), stack("padding_mask"), tokentype_ids=stack("types"), lm_labels=stack("labels"))
        mask = stack("loss_mask").float()
        return (losses.float() * mask).sum() / mask.sum(), F.cross_entropy(order.float(), torch.tensor([int(i["is_random"]) for i in items]))

    def loss(self, model, step):
        return sum(self.losses(model, step))

    def save(self, model, folder):
        n, logprobs = len(self.line), []
        with torch.no_grad():
            for i, piece in enumerate(self.line):
                hidden = torch.tensor([self.line])
                hidden[0, i] = self.MASK
                logits, _ = model(hidden, torch.ones(1, n, dtype=torch.long), tokentype_ids=torch.zeros(1, n, dtype=torch.long))
                logprobs.append(None if piece < 5 else logits[0, i].double().log_softmax(-1)[piece].item())
            masked, order = self.losses(model, 2)
            n = len(self.pair[0])
            ids = torch.tensor([self.pair[0] + self.pair[1]])
            types = torch.tensor([[0] * n + [1] * len(self.pair[1])])
            follows = model(ids, torch.ones_like(ids), tokentype_ids=types)[1][0].double().log_softmax(-1).tolist()
        (folder / "answers.json").write_text(json.dumps({"ids": self.line, "logprobs": logprobs, "loss": masked.item(),
                                                         "sentence_loss": order.item(), "pair": self.pair, "follows": follows}) + "\n")


def train(_, name, whole):
    start(0, 1, (1, 1, 1))
    a = MODELS[name]
    torch.manual_seed(1)
    model = build(a, (1, 1, 1))
    with torch.no_grad():  # norms and biases that say which is which
        for parameter in model.parameters():
            parameter.add_(torch.empty_like(parameter).uniform_(-0.2, 0.2))
        for key, buffer in model.named_buffers():
            if key.endswith("expert_bias"):
                buffer.uniform_(-0.1, 0.1)
    model, optimizer = with_optimizer(model, is_distributed(name))
    if name == "t5":
        for _ in range(2):
            model.zero_grad_buffer()
            optimizer.zero_grad()
            loss = T5.loss(model)
            loss.backward()
            model.finish_grad_sync()
            optimizer.step()
            print(name, "loss", loss.item(), flush=True)
        save(whole, a, 2, model, optimizer)
        return T5.save(model, optimizer, a, OUTPUT / name)
    bert = Bert(a["seq_length"]) if name == "bert" else None
    ids, positions, mask = inputs()
    labels = torch.roll(ids, -1, 1)  # the sample goes on where the document begins again
    for step in range(3):
        if step == 2:
            save(whole, a, 2, model, optimizer)
            if bert:
                bert.save(model, OUTPUT / name)
            else:
                with torch.no_grad():
                    logprobs = model(ids, positions, mask)[0].double().log_softmax(-1)
                answers = [None] + [logprobs[i, t].item() for i, t in enumerate(TOKENS[1:])]
                (OUTPUT / name / "answers.json").write_text(json.dumps({"ids": TOKENS, "logprobs": answers}) + "\n")
        model.zero_grad_buffer()
        optimizer.zero_grad()
        if bert:
            loss = bert.loss(model, step)
        else:
            loss = F.cross_entropy(model(ids, positions, mask).float().clone().view(-1, VOCABULARY), labels.reshape(-1))
        loss.backward()
        model.finish_grad_sync()
        optimizer.step()
        print(name, "loss", loss.item(), flush=True)
    save(OUTPUT / name / "iter_0000003", a, 3, model, optimizer)


def reshard(rank, name, whole):
    layout = LAYOUTS[name]
    start(rank, layout[0] * layout[1] * layout[2] * COPIES.get(name, 1), layout)
    from megatron.core import dist_checkpointing
    a = dict(MODELS[name], tensor_model_parallel_size=layout[0], pipeline_model_parallel_size=layout[1],
             expert_model_parallel_size=layout[2])
    model, optimizer = with_optimizer(build(a, layout), is_distributed(name))
    if is_distributed(name):  # without Apex it does not make the states that it loads into
        for each in getattr(optimizer, "chained_optimizers", [optimizer]):
            each._init_optimizer_states_with_dummy_values()
            without_steps(each)
    loaded = dist_checkpointing.load(sharded(model, optimizer, loading=True), str(whole))
    model.module.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    save(OUTPUT / name / "iter_0000002", a, 2, model, optimizer,
         "dp_reshardable" if name.endswith("_buckets") else "fully_reshardable")
    if name in ("gpt", "bert"):
        save_rank(OUTPUT / f"{name}_ranks", a, {"model": model}, optimizer)
    if name == "gpt_buckets":
        save_distributed_rank(OUTPUT / "gpt_distrib_optim", a, {"model": model}, optimizer)


def rank_folder(folder, a):
    """mp_rank_TT[_PPP][_EEE] of this process."""
    from megatron.core import parallel_state
    numbers = "mp_rank_{:02d}".format(parallel_state.get_tensor_model_parallel_rank())
    if a["pipeline_model_parallel_size"] > 1:
        numbers += "_{:03d}".format(parallel_state.get_pipeline_model_parallel_rank())
    if a["expert_model_parallel_size"] > 1:
        numbers += "_{:03d}".format(parallel_state.get_expert_model_parallel_rank())
    folder = folder / "iter_0000002" / numbers
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save_rank(folder, a, models, optimizer):
    """The older format; of the distributed optimizer its groups alone."""
    torch.save({"args": argparse.Namespace(**a, iteration=2, consumed_train_samples=4), "checkpoint_version": 3.0, "iteration": 2,
                **{key: model.module.state_dict_for_save_checkpoint() for key, model in models.items()},
                "optimizer": optimizer.state_dict()}, rank_folder(folder, a) / "model_optim_rng.pt")


def save_distributed_rank(folder, a, models, optimizer):
    """The same of the distributed optimizer, whose first data-parallel rank saves the state in a file of its own."""
    from megatron.core import parallel_state
    if parallel_state.get_data_parallel_rank() == 0 or a["expert_model_parallel_size"] > 1:
        save_rank(folder, a, models, optimizer)
    optimizer.save_parameter_state(str(rank_folder(folder, a) / "distrib_optim.pt"))


def made_distributed(models, states):
    """The distributed optimizer with `states`: exp_avg and exp_avg_sq of every parameter of this rank, whole."""
    weights = {parameter: parameter.detach().clone() for parameter in states}
    wrapped, optimizer = all_with_optimizer([model.module for model in models], True)
    for each in getattr(optimizer, "chained_optimizers", [optimizer]):
        each._init_optimizer_states_with_dummy_values()
        without_steps(each)
        for state in each.optimizer.state.values():
            state["step"] = torch.tensor(2.0)
        for parameter in each.model_param_gbuf_map:
            part = each._get_model_param_range_map(parameter)["param"]
            with torch.no_grad():
                parameter.copy_(weights[parameter])  # which the dummy values have moved
                for key, tensor in each._get_main_param_and_optimizer_states(parameter).items():
                    whole = weights[parameter] if key == "param" else states[parameter][key]
                    tensor.copy_(whole.reshape(-1)[part.start:part.end])
    return wrapped, optimizer


def ranks(rank, name, whole, layout, chunks):
    """The older format of interleaved stages (model0, model1 …), or of expert ranks."""
    start(rank, layout[0] * layout[1] * layout[2], layout, chunks)
    from megatron.core import dist_checkpointing
    a = dict(MODELS[name], tensor_model_parallel_size=layout[0], pipeline_model_parallel_size=layout[1],
             expert_model_parallel_size=layout[2], virtual_pipeline_model_parallel_size=chunks)
    models, optimizer = all_with_optimizer([build(a, layout, chunk, chunks) for chunk in (range(chunks) if chunks else [None])], False)
    keys = [f"model{i}" for i in range(chunks)] if chunks else ["model"]
    state = {key: model.module.sharded_state_dict() for key, model in zip(keys, models)}
    wanted = {key: model.module.sharded_state_dict() for key, model in zip(keys, models)}
    wanted["optimizer"] = optimizer.sharded_state_dict(state, is_loading=True, metadata={
        "distrib_optim_sharding_type": "fully_reshardable", "chained_optim_avoid_prefix": True})
    loaded = dist_checkpointing.load(wanted, str(whole))
    for key, model in zip(keys, models):
        model.module.load_state_dict(loaded[key])
    chain = getattr(optimizer, "chained_optimizers", [optimizer])
    if len(chain) > 1:  # of dense parameters and of experts; one process has them in one
        loaded["optimizer"] = {i: loaded["optimizer"][i] for i in range(len(chain))}
        for i, each in enumerate(chain):
            loaded["optimizer"][i]["param_groups"] = each.state_dict()["param_groups"]
            loaded["optimizer"][i]["state"].setdefault("common_step", 2)
    optimizer.load_state_dict(loaded["optimizer"])
    save_rank(OUTPUT / f"{name}_ranks", a, dict(zip(keys, models)), optimizer)
    models, optimizer = made_distributed(models, {p: state for each in chain for p, state in each.optimizer.state.items()})
    save_distributed_rank(OUTPUT / f"{name}_distrib_optim", a, dict(zip(keys, models)), optimizer)


def write_tokens():
    (OUTPUT / "tokens.bin").write_bytes(struct.pack(f"<{len(TOKENS)}H", *TOKENS))
    (OUTPUT / "tokens.idx").write_bytes(b"MMIDIDX\x00\x00" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(TOKENS), 0, 0, 1))


def main():
    names = sys.argv[1:] or list(MODELS)
    OUTPUT.mkdir(exist_ok=True)
    write_tokens()
    Bert.write(OUTPUT)
    for name in names:
        for folder in (OUTPUT / name, OUTPUT / f"{name}_ranks", OUTPUT / f"{name.removesuffix('_buckets')}_distrib_optim"):
            shutil.rmtree(folder, ignore_errors=True)
        (OUTPUT / name).mkdir()
        with tempfile.TemporaryDirectory() as scratch:
            whole = pathlib.Path(scratch) / "whole"
            mp.spawn(train, args=(name, whole), nprocs=1)
            if name in RANKS:
                layout, chunks = RANKS[name]
                mp.spawn(ranks, args=(name, whole, layout, chunks), nprocs=layout[0] * layout[1] * layout[2])
            layout = LAYOUTS.get(name, (1, 1, 1))
            if layout == (1, 1, 1):
                shutil.copytree(whole, OUTPUT / name / "iter_0000002")
            else:
                mp.spawn(reshard, args=(name, whole), nprocs=layout[0] * layout[1] * layout[2] * COPIES.get(name, 1))
        if is_distributed(name):  # the same training as gpt's
            shutil.rmtree(OUTPUT / name / "iter_0000003")
            (OUTPUT / name / "answers.json").unlink()
        for folder in (OUTPUT / name, OUTPUT / f"{name}_ranks", OUTPUT / f"{name.removesuffix('_buckets')}_distrib_optim"):
            if folder.exists():
                (folder / "latest_checkpointed_iteration.txt").write_text("2")
    for path in sorted(OUTPUT.rglob("*")):
        if path.is_file():
            print(path.relative_to(OUTPUT), path.stat().st_size)


if __name__ == "__main__":
    main()
