#!/usr/bin/env python3
"""Writes tests/fixtures/curate/pii_dialects.jsonl: what dolma 1.2.1 and StarCoder's scripts find in texts (in bytes), and what StarCoder's redaction leaves.

  python tests/oracle/make_pii_fixtures.py DOLMA BIGCODE tests/fixtures/curate/pii_dialects.jsonl [TEXTS] [DOCUMENTS.jsonl]

DOLMA: the unpacked wheel (pip download --no-deps dolma==1.2.1; unzip); its tagger of addresses is loaded without the rest. BIGCODE: a folder with
emails_ip_addresses_detection.py and pii_redaction.py of github.com/bigcode-project/bigcode-dataset (pii/). TEXTS: how many generated texts (400). With DOCUMENTS,
lines of JSON, those are taken, too. Needs: Python 3.11 (whose ipaddress decides what is private), pip install regex nltk msgspec necessary omegaconf
"""
import importlib
import json
import random
import sys
import types

DOLMA, BIGCODE, OUT = sys.argv[1:4]
sys.path[:0] = [DOLMA, BIGCODE]
for package in ("dolma", "dolma.core", "dolma.taggers"):
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = [f"{DOLMA}/{package.replace('.', '/')}"]
sys.modules["gibberish_detector"] = types.ModuleType("gibberish_detector")
sys.modules["gibberish_detector"].detector = None
tagger = importlib.import_module("dolma.taggers.pii").FastPiiRegex()
from dolma.core.data_types import Document  # noqa: E402
detection = importlib.import_module("emails_ip_addresses_detection")
redaction = importlib.import_module("pii_redaction")

SPACES = [" ", "  ", "\n", "\t", "\u00a0", "\u2028", "\x1c", "\x0b", "", "", "", " \n "]
MARKS = list(".@,?!;:)([]{}<>\"'\\/=-_#%+*¿¡中文é한\b") + ["\\'", "..", "::", "://"]
WORDS = ["joe", "a.b", "o'neil", "a+b", "x=y", "-x", "x-", "ü", "é.x", "_", "名前", "dns", "Server", "isbn", "x" * 70, "b64==", "K", "mailto"]
HOSTS = ["example.com", "a-b.c-d.org", "x.-y.z", "host", "q.w.e.r", "a..b", "ex-.com", "xn--p1ai", "a.xn--p1ai", "a.xn--p1ai中", "b.com中文", "例え.jp", "1.2.3.4", "a.b.c.d.e.f.g.h.i.j.k.com",
         "l" * 64 + ".com", "l" * 65 + ".com", "x.c", "x.c1", "x.co_m", "foo'.com", "a:b.com", "a.museum"]
IPV4 = ["1.2.3.4", "8.8.8.8", "10.0.0.1", "999.8.7.6", "1.2.3.256", "01.2.3.4", "100.64.1.1", "12.12.12.34", "12.31.99.1", "203.0.113.9", "1234.5.6.78", "8.8.4.4.4", "250.251.252.253",
        "5.6.7.8", "93.184.216.34", "12.13.14", "0.0.0.0", "198.51.100.7"]
IPV6 = ["::", "::1", "::a", "1::", "fe80::1", "fe80::1%eth0", "fe80::%lo", "2001:db8::1", "2001:4860:4860::8888", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::", "::ffff:1.2.3.4",
        "::ffff:0:8.8.8.8", "2606::1.2.3.4", "a:b:c:d::01.2.3.4", "::8.8.8.8", "12:30:45", "std::vector", "ab:cd:ef:01:23:45", "abcde::1", "1::2::3", "64:ff9b::8.8.8.8", "::ffff:93.184.216.34",
        "2a00:1450:4001:81b::200e", "fdf8:f53e:61e4::18"]
PHONES = ["(212) 555-1234", "212-555-1234", "212.555.1234", "2125551234", "(212)555 1234", "212 - 555-1234", "212-555-12345", "1 212 555 1234", "٠١٢-٣٤٥-٦٧٨٩", "(212 555-1234", "212)5551234"]


def generate(rng):
    pieces = []
    for _ in range(rng.randint(2, 14)):
        kind = rng.random()
        if kind < .4:
            pieces.append(rng.choice(WORDS + IPV4) + rng.choice(["@", "@", "@", "", "@@", ".@"]) + rng.choice(HOSTS))
        elif kind < .6:
            pieces.append(rng.choice(IPV4))
        elif kind < .8:
            pieces.append(rng.choice(IPV6))
        elif kind < .9:
            pieces.append(rng.choice(PHONES))
        else:
            pieces.append(rng.choice(WORDS))
        pieces.append(rng.choice(SPACES if rng.random() < .6 else MARKS))
        if rng.random() < .3:
            pieces.append(rng.choice(MARKS + SPACES))
        if rng.random() < .05:
            pieces.append("filler " * rng.randint(10, 30))
    return "".join(pieces)


def describe(text):
    offsets, at = [], 0
    for c in text:
        offsets.append(at)
        at += len(c.encode())
    offsets.append(at)
    dolma = [[offsets[s.start], offsets[s.end], s.type] for s in tagger.predict(Document(source="", id="", text=text)).spans if not s.type.startswith("doc")]
    found = sorted(detection.detect_email_addresses(text), key=lambda m: m["tag"] != "EMAIL")  # a set names the tags
    row = {"text": text, "dolma": dolma, "starcoder": [[offsets[m["start"]], offsets[m["end"]], m["tag"]] for m in found]}
    in_order = sorted(found, key=lambda m: m["start"])
    if all(a["end"] <= b["start"] for a, b in zip(in_order, in_order[1:])):  # what it makes of others depends on the order of a set
        row["redacted"] = redaction.redact_pii_text(text, json.dumps(found), {"EMAIL": ["<mail>"], "IP_ADDRESS": {"IPv4": ["<ip>"], "IPv6": ["<ipv6>"]}})[0]
    return row


def main():
    rng = random.Random(28)
    texts = [generate(rng) for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 400)]
    if len(sys.argv) > 5:
        texts += [json.loads(line)["text"] for line in open(sys.argv[5], encoding="utf-8")]
    with open(OUT, "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps(describe(text), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
