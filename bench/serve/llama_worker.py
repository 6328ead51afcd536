"""The part of bench/serve/decode.py that runs llama.cpp: reads lines of JSON, each a job, and answers with the seconds that it took.

  python bench/serve/llama_worker.py FILE.gguf THREADS SEQUENCES CONTEXT [--as-stored]

A job: {"prompts": [[ids…], …], "answer": tokens}. The prompts are read in batches of 512 tokens, then every sequence gets its most likely token, one of
each per pass, as llama-batched-bench does it; the end of text is not obeyed. With --as-stored, weights are not arranged for the processor when they are read
(use_extra_bufts). Needs: pip install llama-cpp-python
"""
import json
import sys
import time

import llama_cpp as llama
import numpy

BATCH = 512


def main():
    path, threads, sequences, context = sys.argv[1], *map(int, sys.argv[2:5])
    quiet = llama.llama_log_callback(lambda *_: None)  # must outlive the library's use of it
    llama.llama_log_set(quiet, None)
    llama.llama_backend_init()
    reading = llama.llama_model_default_params()
    reading.use_extra_bufts = "--as-stored" not in sys.argv
    model = llama.llama_model_load_from_file(path.encode(), reading)
    options = llama.llama_context_default_params()
    options.n_ctx, options.n_seq_max = context * sequences, sequences
    options.n_batch = options.n_ubatch = BATCH
    options.n_threads = options.n_threads_batch = threads
    engine = llama.llama_init_from_model(model, options)
    words = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    batch = llama.llama_batch_init(BATCH, 0, 1)

    def run(rows):
        """rows: (token, position, sequence, whether it needs logits); the most likely next token of those that do."""
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, logits) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, logits
            batch.seq_id[i][0] = sequence
        if llama.llama_decode(engine, batch): sys.exit("llama_decode failed")
        return {row[2]: int(numpy.ctypeslib.as_array(llama.llama_get_logits_ith(engine, i), (words,)).argmax())
                for i, row in enumerate(rows) if row[3]}

    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        llama.llama_memory_clear(llama.llama_get_memory(engine), True)
        begin = time.perf_counter()
        rows = [(token, i, s, i == len(ids) - 1) for s, ids in enumerate(job["prompts"]) for i, token in enumerate(ids)]
        last = {}
        for at in range(0, len(rows), BATCH): last |= run(rows[at:at + BATCH])
        for step in range(job["answer"] - 1):
            last = run([(token, len(job["prompts"][s]) + step, s, True) for s, token in last.items()])
        print(json.dumps(time.perf_counter() - begin), flush=True)


main()
