import json

import random_families.deepseek_v3 as deepseek_v3

AS = "deepseek_v3"
respell = deepseek_v3.respell


def options(r):
    return dict(deepseek_v3.options(r), rope_interleave=True)


def disguise(directory, r):
    path = directory / "config.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), model_type="kimi_k2"), indent=1))
