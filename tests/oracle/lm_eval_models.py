"""Small models with random weights, their tokenizers and a chat template, for check_lm_eval.py."""

CHAT = ("{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] + '\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}")

QWEN_PIECES = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def made_tokenizer(kind, texts, size):
    """A byte-level BPE learned from `texts`; of a Llama it adds its beginning-of-text token. Of a Qwen it splits as Qwen's does:
    transformers 5 takes that for every model of the type, whatever tokenizer.json says."""
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN_PIECES), "isolated"),
                                                           pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    special = {"gpt2": ["<|endoftext|>"], "llama": ["<s>", "</s>"], "qwen2": ["<|endoftext|>", "<|im_end|>"]}[kind]
    tokenizer.train([str(texts)], trainers.BpeTrainer(vocab_size=size, special_tokens=special,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    names = {"gpt2": dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>"), "llama": dict(bos_token="<s>", eos_token="</s>"),
             "qwen2": dict(eos_token="<|im_end|>", pad_token="<|endoftext|>")}[kind]
    if kind == "llama":
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.chat_template = CHAT
    return fast


def made_models(folder, texts):
    import torch
    import transformers
    made = []
    for kind in ("gpt2", "llama", "qwen2"):
        target = folder / kind
        made.append(target)
        if (target / "config.json").exists():
            continue
        target.mkdir(parents=True)
        fast = made_tokenizer(kind, texts, 1000)
        fast.save_pretrained(target)
        size = len(fast)
        end = fast.eos_token_id
        torch.manual_seed(len(kind))
        common = dict(vocab_size=size, bos_token_id=fast.bos_token_id, eos_token_id=end, initializer_range=0.15)
        if kind == "gpt2":
            config = transformers.GPT2Config(n_positions=512, n_embd=64, n_layer=2, n_head=4, **common)
            model = transformers.GPT2LMHeadModel(config)
        else:
            made_of = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                           max_position_embeddings=512, tie_word_embeddings=False, **common)
            model = (transformers.LlamaForCausalLM(transformers.LlamaConfig(**made_of)) if kind == "llama"
                     else transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**made_of)))
        model.generation_config = transformers.GenerationConfig(eos_token_id=end, bos_token_id=fast.bos_token_id)
        model.save_pretrained(target)
    return made
