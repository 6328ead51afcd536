"""Prints what AdapterHub's library "adapters" computes for bottlenecks with weights by formula on BERT and T5 with weights by formula: the numbers of
src/model/huggingface/bottleneck_files_test.cc.

    python tests/oracle/bottleneck_vectors.py        # needs torch and adapters (1.3.0)
"""
import adapters
import numpy
import torch
import transformers

IDS = [3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7]
TARGETS = [0, 4, 21, 6, 13, 28, 10]
CONFIGS = {"seq_bn": dict(reduction_factor=4), "double_seq_bn": dict(reduction_factor=4), "par_bn": dict(reduction_factor=4)}


def formula(t, count):
    i = numpy.arange(count, dtype=numpy.uint64)
    h = (i * 0x9E3779B1 + (t + 1) * 0x85EBCA77) & 0xFFFFFFFF
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
        h = ((h ^ (h >> shift)) * factor) & 0xFFFFFFFF
    return ((h >> 8).astype(numpy.float64) - 2**23) / 2**24


def fill(tensors, norms):
    with torch.no_grad():
        for t, name in enumerate(sorted(tensors)):
            v = formula(t, tensors[name].numel())
            if norms and tensors[name].ndim == 1 and name.endswith("weight"):
                v = 1 + v / 2
            tensors[name].copy_(torch.tensor(v).reshape(tensors[name].shape))


def bert():
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=40))
    return model, lambda: model(torch.tensor([IDS]), token_type_ids=torch.tensor([[0] * 6 + [1] * 6])).logits[0]


def t5():
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=32, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
        relative_attention_max_distance=16, decoder_start_token_id=0))
    return model, lambda: model(input_ids=torch.tensor([IDS]), decoder_input_ids=torch.tensor([TARGETS])).logits[0]


for make in (bert, t5):
    for config, options in CONFIGS.items():
        model, logits = make()
        model = model.eval().double()
        shared = set()
        base = {}
        for name, tensor in model.state_dict(keep_vars=True).items():  # tied tensors once, as files hold them
            tied = name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "lm_head.weight",
                            "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
            if tensor.is_floating_point() and not tied and id(tensor) not in shared:
                shared.add(id(tensor))
                base[name] = tensor
        fill(base, True)
        adapters.init(model)
        model.add_adapter("a", config=adapters.AdapterConfig.load(config, **options))
        model.double()
        model.set_active_adapters("a")
        fill({k: v for k, v in model.state_dict(keep_vars=True).items() if ".adapters.a." in k}, False)
        with torch.no_grad():
            out = logits()
        names = sorted(k for k in model.state_dict() if ".adapters.a." in k)
        print(make.__name__, config, [float(f"{x:.7g}") for x in out[-1, :4]], f"{out.sum():.7g}", len(base), names[0])
