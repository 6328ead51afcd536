"""Writes tests/fixtures/parquet: a table of every kind of column as pyarrow writes it, with each codec, version and
encoding, and its rows as JSON lines (rows.jsonl), which every file must give; in others/ what fastparquet writes, and
decimals of up to 32 bytes. Python with pyarrow and fastparquet."""
import base64
import datetime
import decimal
import json
import pathlib
import random
import uuid

import fastparquet
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/parquet"
ROWS = 40


def table():
    rng = random.Random(5)
    words = "the harbour ferry — fährt 早い \"quoted\" back\\slash tab\t line\nnext".split(" ")

    def text():
        return " ".join(rng.choice(words) for _ in range(rng.randrange(6)))

    def maybe(value):
        return None if rng.random() < 0.2 else value

    def some(most, make):
        return [make() for _ in range(rng.randrange(most))]

    def turn():
        return {"role": rng.choice(["user", "assistant"]), "content": maybe(text()),
                "tool_calls": maybe(some(3, lambda: {"name": text(), "arguments": maybe(some(3, text))}))}

    day = datetime.datetime(1969, 12, 30, 23, 59, 58, 120_000)
    step = datetime.timedelta(days=400, hours=3, seconds=7, microseconds=345_678)
    columns = {
        "text": (pa.string(), lambda i: maybe(text())),
        "id": (pa.int64(), lambda i: i * 10**12),
        "required": (pa.string(), lambda i: f"row {i}"),
        "small": (pa.int8(), lambda i: maybe(i - 20)),
        "unsigned": (pa.uint64(), lambda i: 2**64 - 1 - i),
        "unsigned32": (pa.uint32(), lambda i: 2**32 - 1 - i),
        "flag": (pa.bool_(), lambda i: maybe(rng.random() < 0.5)),
        "real": (pa.float64(), lambda i: maybe(rng.choice([i / 7, float(i), float("nan"), 1e300]))),
        "real32": (pa.float32(), lambda i: i / 3),
        "half": (pa.float16(), lambda i: np.float16(i / 4)),
        "day": (pa.date32(), lambda i: (day + i * step).date()),
        "milliseconds": (pa.timestamp("ms"), lambda i: (day + i * step).replace(microsecond=1000 * i)),
        "microseconds": (pa.timestamp("us", tz="UTC"), lambda i: maybe(day + i * step)),
        "time": (pa.time64("us"), lambda i: (day + i * step).time()),
        "money": (pa.decimal128(12, 2), lambda i: maybe(decimal.Decimal(i - 20) / 8 * 2)),
        "bytes": (pa.binary(), lambda i: bytes([i, 255, 254][: i % 4]) if i % 3 else b"plain"),
        "uuid": (pa.binary(16), lambda i: bytes(range(i, i + 16))),
        "label": (pa.dictionary(pa.int32(), pa.string()), lambda i: rng.choice(["yes", "no"])),
        "nothing": (pa.string(), lambda i: None),
        "messages": (
            pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()),
                                ("tool_calls", pa.list_(pa.struct([("name", pa.string()),
                                                                   ("arguments", pa.list_(pa.string()))])))])),
            lambda i: maybe(some(4, turn))),
        "matrix": (pa.list_(pa.list_(pa.int32())),
                   lambda i: maybe(some(3, lambda: maybe(some(4, lambda: maybe(rng.randrange(9))))))),
        "pairs": (pa.map_(pa.string(), pa.int32()), lambda i: maybe([(f"k{k}", maybe(k)) for k in range(i % 3)])),
        "inner": (pa.struct([("a", pa.struct([("b", pa.list_(pa.float64()))])), ("c", pa.string())]),
                  lambda i: maybe({"a": maybe({"b": maybe(some(3, lambda: 0.5))}), "c": maybe(text())})),
    }
    arrays, fields = [], []
    for name, (kind, make) in columns.items():
        values = [make(i) for i in range(ROWS)]
        if name == "money":
            values = [None if v is None else v.quantize(decimal.Decimal("0.01")) for v in values]
        arrays.append(pa.array(values, kind))
        fields.append(pa.field(name, kind, nullable=name != "required"))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def as_json(value, kind):
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [as_json(v, kind.value_type) for v in value]
    if pa.types.is_map(kind):
        return {k: as_json(v, kind.item_type) for k, v in value}
    if pa.types.is_struct(kind):
        return {f.name: as_json(value[f.name], f.type) for f in kind}
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        out = value.strftime("%Y-%m-%dT%H:%M:%S")
        if value.microsecond:
            out += f".{value.microsecond:06}" if kind.unit == "us" else f".{value.microsecond // 1000:03}"
        return out
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M:%S") + (f".{value.microsecond:06}" if value.microsecond else "")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def others():
    folder = FOLDER / "others"
    folder.mkdir(exist_ok=True)
    rows = pandas.DataFrame({"text": [f"boat {i} of the harbour" for i in range(6)], "number": range(6),
                             "share": [None if i == 2 else i / 4 for i in range(6)]})
    for codec in ["LZ4", "GZIP"]:
        fastparquet.write(folder / f"fastparquet-{codec.lower()}.parquet", rows, compression=codec, row_group_offsets=4,
                          object_encoding="utf8")
    values = ["0", "-1", "12345678901234567890123456789012345678901234567890.123", "-99999999999999999999.999"]
    pq.write_table(pa.table({"d": pa.array([decimal.Decimal(v) for v in values], pa.decimal256(60, 3))}),
                   folder / "decimals.parquet", store_schema=False)
    torn = pa.array([b"one", b"caf\xe9", "früh".encode()], pa.binary()).view(pa.string())  # which nobody checks
    pq.write_table(pa.table({"text": torn}), folder / "torn.parquet", store_schema=False)


def main():
    others()
    FOLDER.mkdir(parents=True, exist_ok=True)
    t = table()
    with open(FOLDER / "rows.jsonl", "w", encoding="utf-8") as out:
        for row in t.to_pylist():
            line = {f.name: as_json(row[f.name], f.type) for f in t.schema}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    small = dict(row_group_size=15, write_batch_size=4, data_page_size=64, store_schema=False)
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        for version in ["1.0", "2.0"]:
            pq.write_table(t, FOLDER / f"{codec}-{version}.parquet", compression=codec, data_page_version=version,
                           write_page_checksum=version == "1.0", **small)
    plain = [f.name for f in t.schema if f.name not in ("messages", "matrix", "pairs", "inner")]
    pq.write_table(t, FOLDER / "plain.parquet", use_dictionary=False, compression="none", version="1.0",
                   use_deprecated_int96_timestamps=False, **small)
    encodings = {name: "PLAIN" for name in plain}
    for name in ["id", "small", "unsigned", "day", "milliseconds", "unsigned32"]:
        encodings[name] = "DELTA_BINARY_PACKED"
    encodings.update(text="DELTA_BYTE_ARRAY", required="DELTA_LENGTH_BYTE_ARRAY", flag="RLE", label="DELTA_BYTE_ARRAY",
                     uuid="BYTE_STREAM_SPLIT", real="BYTE_STREAM_SPLIT", real32="BYTE_STREAM_SPLIT",
                     microseconds="BYTE_STREAM_SPLIT")
    pq.write_table(t, FOLDER / "encodings.parquet", use_dictionary=False, column_encoding=encodings,
                   compression="zstd", data_page_version="2.0", **small)
    pq.write_table(t.slice(0, 0), FOLDER / "empty.parquet")
    chats = [[("user", "Hello"), ("assistant", "Good day.")],
             [("system", "Be brief."), ("user", 'Where is the "ferry"?'), ("assistant", "In the\nharbour.")]]
    rows = [{"messages": [{"role": role, "content": content} for role, content in chat]} for chat in chats]
    pq.write_table(pa.Table.from_pylist(rows), FOLDER / "chats.parquet")


if __name__ == "__main__":
    main()
