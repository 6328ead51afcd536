"""Megatron-LM's own data sets of sentences, over documents in memory. Needs the path of a checkout whose
megatron/core/datasets was built (`make`), and: pip install numpy torch packaging pybind11"""
import sys
import tempfile

import numpy as np


class Tokenizer:
    """What the data sets ask of a tokenizer. pieces: all tokens by id, those that begin with ## go on with a word."""

    unique_identifiers = {"class": "stub"}

    def __init__(self, pieces, special, sentinels=()):
        self.inv_vocab = dict(enumerate(pieces))
        self.pad, self.bos, self.cls, self.sep, self.mask, self.eos = (special.get(k) for k in ("pad", "bos", "cls", "sep", "mask", "eos"))
        self.additional_special_tokens_ids = list(sentinels)


class Documents:
    """What data sets ask of a token file."""

    path_prefix = ""

    def __init__(self, documents):
        self.sentences = [s for d in documents for s in d]
        self.document_indices = np.cumsum([0] + [len(d) for d in documents], dtype=np.int64)
        self.sequence_lengths = np.array([len(s) for s in self.sentences], dtype=np.int32)

    def __getitem__(self, i):
        return np.array(self.sentences[i], dtype=np.int32)


class DataSets:
    def __init__(self, checkout):
        sys.path.insert(0, str(checkout))
        import torch
        from megatron.core.datasets import bert_dataset, helpers, t5_dataset
        from megatron.core.datasets.utils import Split
        self.bert_dataset, self.t5_dataset, self.split = bert_dataset, t5_dataset, Split.train
        # The mapping takes no None for "one epoch", which its callers promise.
        build_mapping = helpers.build_mapping
        helpers.build_mapping = lambda docs, sizes, epochs, samples, *more: build_mapping(
            docs, sizes, *((1, 2 ** 62) if samples is None else (epochs, samples)), *more)
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())

    def _make(self, kind, config, documents, tokenizer, samples, length, seed, short, probability, ngram, geometric, **more):
        with tempfile.TemporaryDirectory() as cache:
            c = config(random_seed=seed, sequence_length=length, path_to_cache=cache, tokenizer=tokenizer,
                       masking_probability=probability, short_sequence_probability=short, masking_max_ngram=ngram,
                       masking_do_full_word=True, masking_do_permutation=False, masking_use_longer_ngrams=False,
                       masking_use_geometric_distribution=geometric, **more)
            indices = np.arange(len(documents), dtype=np.int32)
            return kind(Documents(documents), "text", indices, samples, self.split, c)

    def bert(self, documents, tokenizer, samples, length, seed, short, pairs):
        return self._make(self.bert_dataset.BERTMaskedWordPieceDataset, self.bert_dataset.BERTMaskedWordPieceDatasetConfig, documents,
                          tokenizer, samples, length, seed, short, 0.15, 3, False, classification_head=pairs)

    def t5(self, documents, tokenizer, samples, length, seed, short, probability, ngram, target):
        return self._make(self.t5_dataset.T5MaskedWordPieceDataset, self.t5_dataset.T5MaskedWordPieceDatasetConfig, documents, tokenizer,
                          samples, length, seed, short, probability, ngram, True, sequence_length_decoder=target)
