#!/usr/bin/env python3
"""Seeds and dictionaries for the fuzz targets, made from the files of the tests.  fuzz_seeds.py OUTPUT"""
import json
import struct
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
fixtures = root / "tests" / "fixtures"
output = Path(sys.argv[1])


def write(target, seeds, words):
    directory = output / target
    directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (directory / f"seed-{number:03}").write_bytes(seed if isinstance(seed, bytes) else seed.encode())
    lines = []
    for word in words:
        quoted = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\x{b:02x}" for b in word.encode())
        lines.append(f'"{quoted}"\n')
    (output / f"{target}.dict").write_text("".join(lines))


def safetensors(header, size=0):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + b"x" * size


def idx(lengths, dtype=8, width=2):
    offsets = [sum(lengths[:i]) * width for i in range(len(lengths))]
    documents = range(len(lengths) + 1)
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, dtype, len(lengths), len(lengths) + 1)
            + struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(lengths)}q", *offsets)
            + struct.pack(f"<{len(lengths) + 1}q", *documents))


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


write("safetensors", [
    safetensors({"a.weight": tensor("BF16", [3, 2], 0, 12), "b": tensor("F32", [4], 12, 28)}, 28),
    safetensors({"__metadata__": {"format": "pt"}}),
    safetensors({"__metadata__": {"a": "b"}, "e": tensor("F16", [0, 5], 0, 0), "n": tensor("I64", [], 0, 8)}, 8),
    json.dumps({"format": 1, "sequence": 1, "training": {"step": 1, "samples": 2, "loss_scale": [1.5], "metrics": {"val_loss": 2.5}},
                "files": [{"path": "model/config.json", "bytes": 3, "checksum": "5"}]}),
], ['"dtype"', '"shape"', '"data_offsets"', '"__metadata__"', '"BOOL"', '"F8_E4M3"', '"U8"', '"F64"', "18446744073709551615",
    "9223372036854775807", "-1", "1e9", "[0,0]", "null", "\\u0000", '"checksum"', '"manifest_checksum"', '"format"'])

write("torch_file", [p.read_bytes() for p in sorted(fixtures.glob("torch/*.p*"))],
      ["ctorch\n", "ctorch._utils\n_rebuild_tensor_v2\n", "ccollections\nOrderedDict\n", "storage", "FloatStorage", "UntypedStorage",
       "PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "data.pkl", "byteorder", "I9223372036854775807\n", "tR", "Q", "h\0", "q\0"])

write("idx", [idx([5, 3, 7]), idx([]), idx([15], 8), idx([7], 4, 4), idx([1] * 15)],
      ["MMIDIDX", "\0\0\0\0\0\0\0\1"])

tokenizers = sorted(fixtures.glob("token/*/tokenizer.json"))
small = []
for path in tokenizers:
    model = json.loads(path.read_text())
    for keep in (300, 20):  # a small vocabulary: thousands of runs a second
        vocabulary = dict(list(model["model"]["vocab"].items())[:keep])
        cut = dict(model, model=dict(model["model"], vocab=vocabulary))
        if "merges" in model["model"]:  # WordPiece has none
            cut["model"]["merges"] = [
                m for m in model["model"]["merges"]
                if all(p in vocabulary for p in (m if isinstance(m, list) else m.split(" ")))
                and "".join(m if isinstance(m, list) else m.split(" ")) in vocabulary]
        small.append(json.dumps(cut, ensure_ascii=False, separators=(",", ":")))
tokenizer_words = ['"added_tokens"', '"id":', '"content"', '"special"', '"normalized"', '"lstrip"', '"model"', '"vocab"', '"merges"',
       '"byte_fallback"', '"ignore_merges"', '"unk_token"', '"pre_tokenizer"', '"Split"', '"ByteLevel"', '"Regex"',
       '"Sequence"', '"normalizer"', '"NFC"', '"Prepend"', '"Replace"', '"decoder"', '"Strip"', '"post_processor"',
       '"TemplateProcessing"', '"SpecialToken"', '"chat_template"', '"eos_token"', '"added_tokens_decoder"', "2147483647",
       '"WordPiece"', '"continuing_subword_prefix"', '"max_input_chars_per_word"', '"BertNormalizer"', '"strip_accents"',
       '"BertPreTokenizer"', '"cleanup"', "-1", "null", "true", "\\ud83d", "<0x0A>",
    '"Unigram"', '"unk_id"', '"WordLevel"', '"Metaspace"', '"prepend_scheme"', '"Digits"', '"Punctuation"', '"behavior"', '"Isolated"', '"UnicodeScripts"', '"Precompiled"',
    '"precompiled_charsmap"', '"NFKC"', '"Lowercase"', '"CTC"', '"dropout"', '"end_of_word_suffix"', '"FixedLength"', '"CharDelimiterSplit"']

components = json.loads((fixtures / "token" / "components.json").read_text())
parts = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder")
write("tokenizer_json", small + [p.read_bytes() for p in sorted(fixtures.glob("token/fuzz/*"))] + [
    json.dumps({"version": "1.0", **{k: t[k] for k in parts}, "model": components["models"][t["model"]]}, ensure_ascii=False, separators=(",", ":"))
    for t in components["tokenizers"]], tokenizer_words)

write("ranked_tokens", [p.read_bytes() for p in sorted(fixtures.glob("token/fuzz-ranks/*"))],
      ["YQ==", " 256\n", '"rank":', '"token_bytes":', '"pattern":', '"default_vocab_size":', '"default_num_special_tokens":', '"special_tokens"', '"token_str"', "\\p{L}"])

vocabularies = [json.loads(path.read_text())["model"]["vocab"] for path in tokenizers if "bert" in path.parent.name]
write("vocab_txt", ["".join(token + "\n" for token in sorted(v, key=v.get)[:keep]) for v in vocabularies for keep in (30, 800)]
      + ["[UNK]\r\na\r\n##b\r\n", "[PAD]\n\n[UNK]\n[CLS]\n[SEP]\n\n\n##\n## x\n 中"],
      ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "##", "\r\n", "\n\n", "\u0301", "中", "\u3000"])

write("yaml", [p.read_text() for p in sorted((root / "configs").glob("*.yaml"))] + [
    "name: x\na: {count: 3, list: [1, 2.5, 1e-4]}\nflag: true\n",
    'a.count=3\nname: "${a.count} and ${.flag}"\nflag: null\n',
    "a: &x [1, [2, 3], {b: *x}]\nnumber: ${multiply:2,${add:1,2}}\n",
    "? key\n: value\n--- # comment\n%YAML 1.2\n!!str tag: !x y\n<<: *z\n",
    "a: 5\nname: >-\n  folded ${name}\n  ${divide:1,0}\nold: {x: ${nowhere}}\n"],
      ["${", "}", "&a ", "*a", ": ", "- ", "|\n", ">-\n", "!!str ", "<<: ", "---\n", "? ", "count", "list", "flag", "name",
       "number", "a.b.c", "${multiply:", "${a.count}", "${..}", "1e9", ".inf", "0x10", "null", "~", "\u2028"])

write("task", [p.read_text() for p in sorted((root / "configs/eval").rglob("*.yaml"))],
      ["task: ", "doc_to_text: ", "doc_to_target: ", "doc_to_choice: ", "output_type: ", "metric_list: ", "filter_list: ", "!function ", "{{", "}}",
       "multi_choice_regex", "regex_pattern: ", "fewshot_config: ", "generation_kwargs: ", "until: ", "\\_", "|\n  ", "<<: "])

# The records of src/tune/record_fuzz_test.cc are the test's own seeds; here one of every form.
write("record", [json.dumps(r) for r in (
          {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A", "weight": 1}], "tools": []},
          {"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}], "system": "S"},
          {"instruction": "I", "input": "", "output": "O"}, {"prompt": "P", "completion": "C", "label": True},
          {"prompt": "P", "chosen": "A", "rejected": "B"}, {"input": "I", "output": "O"}, {"text": "T"})],
      ['"messages"', '"role"', '"content"', '"tool_calls"', '"function"', '"arguments"', '"weight"', '"conversations"', '"from"', '"value"',
       '"chosen"', '"rejected"', '"label"', '"type"', '"text"', "[", "]", "{", "}", "null", "\\ud83d", "<|im_end|>"])

warc = (b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\nWARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: 200\r\n\r\n")
answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\n<p>a\n\r\n0\r\n\r\n"
write("warc", [warc + answer, answer, answer.replace(b"Transfer-Encoding: chunked", b"Content-Encoding: deflate")],
      ["WARC/1.1", "WARC-Type: revisit", "Content-Length: ", "Transfer-Encoding: chunked", "Content-Encoding: gzip", "Content-Encoding: br", "\r\n\r\n", "\r\n ", "ffffffffffffffff"])
write("html", [json.loads(line)["html"] for line in (fixtures / "curate/justext.jsonl").read_text().splitlines()][:40],
      ["<div>", "</div>", "<table>", "<tr>", "<td ", "<p", "<script>", "</script>", "<style>", "<!--", "-->", "<![CDATA[", "&amp;", "&#x", "&notin;", "class='nav'", "<title>", "<pre>", "<textarea>",
       "<svg>", "<select>", "<template>", "charset=", "hidden"])
write("wiki", [p.read_bytes() for p in sorted((fixtures / "curate/wiki").rglob("*")) if p.is_file() and p.stat().st_size < 16384],
      ["{{", "}}", "{|", "|}", "[[", "]]", "<ref", "</ref>", "<nowiki>", "''", "==", "-{", "}-", "|-", "[[File:", "<page>", "</page>", "<ns>", "<text", "<!--"])
write("parquet", [p.read_bytes() for p in sorted((fixtures / "parquet").glob("*.parquet")) if p.stat().st_size < 16384], ["PAR1"])
write("fasttext", [p.read_bytes() for p in sorted((fixtures / "curate/fasttext").iterdir()) if p.suffix in (".bin", ".ftz") and p.stat().st_size < 16384], ["__label__", "</s>"])
write("arpa", ["\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-1\t<s>\t-0.3\n-1\t</s>\n-0.5\tthe\t-0.2\n\n\\2-grams:\n-0.1\t<s> the\n\n\\end\\\n"],
      ["\\data\\", "ngram 2=", "\\1-grams:", "\\2-grams:", "\\end\\", "<s>", "</s>", "<unk>", "-99", "nan", "inf", "1e999"])

write("chat_template", json.loads((fixtures / "chat" / "templates.json").read_text())["templates"],
      ["{{", "}}", "{%", "%}", "{%-", "-%}", "{#", "#}", "for ", " in ", "endfor", "if ", "elif ", "else", "endif", "set ",
       "endset", "macro ", "endmacro", "call", "filter ", "loop.index0", "loop.first", "loop.last", "namespace(", "messages",
       "message['content']", "message.role", "tools", "add_generation_prompt", "bos_token", "raise_exception(", "range(",
       "| tojson", "| trim", "| length", "| join(", "| map(", "| selectattr(", "is defined", "is none", "is string", "not ",
       " and ", " or ", " ~ ", "//", "**", "[::-1]", "[1:]", ".split(", ".strip()", ".startswith(", "strftime_now(", "break",
       "continue", "generation", "endgeneration", "'", '"', "\\"])

megatron = [entry["arguments"] for entry in json.loads((fixtures / "megatron/corpus.json").read_text())]
recipes = [json.dumps(entry["values"]) for name in ("corpus", "bridge") for entry in json.loads((fixtures / f"nemo2/{name}.json").read_text())]
script = "N=${{N:-2}}\nA=(\n {}\n)\nif [ $N -gt 1 ]; then X='--bf16'; fi\ntorchrun --nnodes $((N*2)) pretrain_gpt.py \"${{A[@]}}\" $X | tee l\n"
write("foreign", ["\0" + a for a in megatron] + ["\1" + script.format(a) for a in megatron[:30]]
      + ["\2MODEL_ARGS:\n  --num-layers: 12\n  --bf16: true\n  --moe-layer-freq: ([0]*3+[1]*9)\n"] + ["\3" + r for r in recipes[::6]],
      ["--num-layers", "--pipeline-model-parallel-layout", "Et*3|(tt|)*29L", "([0]*3+[1]*58)", "pretrain_gpt.py", "torchrun", "${A[@]}", "$((", "))",
       "${X:-1}", "if [", "; then", "fi", "eval", "bash -c", "#SBATCH", "MODEL_ARGS", "_target_", "log", "resume", "trainer", "strategy", "null"])
write("nemo", [json.dumps(entry["values"]) for entry in json.loads((fixtures / "nemo/corpus.json").read_text())][::3],
      ["${multiply:4, ${.hidden_size}}", "${oc.env:HOME,x}", "${data_dir}", "defaults", "_self_", "training", "model", "encoder", "tokenizer", "optim",
       "sched", "data_prefix", "null", "true", "fsdp", "fp8", "window_size"])

write("constraint", [
    'root ::= "a"{2,} [^b-d\\u00e9] (item | <s> <[1]>)*\nitem ::= root? "x" # end\n',
    r"(^a|[^\]b]+?|\p{L}\d{2,3})*(?:x|\u00e9)$",
    json.dumps({"type": "object", "properties": {"a": {"type": ["integer", "null"], "minimum": -1.5, "multipleOf": 3}, "b": {"$ref": "#/$defs/b"}}, "required": ["a"],
                "$defs": {"b": {"anyOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": 2}, {"enum": ["x", 1, None]}]}}}),
    json.dumps({"oneOf": [{"const": {"a": [1]}}, {"type": "string", "pattern": "^a", "format": "date"}], "not": {"type": "boolean"}, "if": {"required": ["a"]},
                "then": {"patternProperties": {"^x": {"minLength": 2}}, "additionalProperties": False}})],
      ["::=", "{2,}", "[^", "\\p{L}", "(?:", '"type"', '"properties"', '"required"', '"anyOf"', '"allOf"', '"$ref"', '"#/$defs/b"', '"enum"', '"const"', '"pattern"',
       '"minimum"', '"multipleOf"', '"items"', '"prefixItems"', '"additionalProperties"', '"format"', '"not"', "<[1]>"])
