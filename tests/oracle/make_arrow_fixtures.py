"""Writes tests/fixtures/arrow: the table of make_parquet_fixtures.py as pyarrow writes it in Arrow's own forms (stream, file,
zstd, LZ4, wide offsets, views, dictionaries in pieces), and folders as `datasets` saves and caches them. The rows are those of
tests/fixtures/parquet/rows.jsonl. Python with pyarrow and datasets."""
import json
import os
import pathlib
import shutil
import sys
import tempfile

import pyarrow as pa

from make_parquet_fixtures import table

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/arrow"


def write(name, t, make=pa.ipc.new_stream, rows=15, **options):
    with make(str(FOLDER / f"{name}.arrow"), t.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(t, max_chunksize=rows)


def widened(kind):
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_list(kind):
        return pa.large_list(widened(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, widened(f.type), f.nullable) for f in kind])
    return kind


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    t = table()
    write("stream", t)
    write("file", t, pa.ipc.new_file, unify_dictionaries=True)
    write("zstd", t, compression="zstd")
    write("lz4", t, compression="lz4")
    write("old_form", t, use_legacy_format=True)
    write("large", t.cast(pa.schema([pa.field(f.name, widened(f.type), f.nullable) for f in t.schema])))
    write("views", t.set_column(0, pa.field("text", pa.string_view()), t["text"].cast(pa.string_view())))
    write("empty", t.slice(0, 0))
    # A dictionary that grows from batch to batch.
    schema = pa.schema([("label", pa.dictionary(pa.int8(), pa.string()))])
    with pa.ipc.new_stream(str(FOLDER / "growing.arrow"), schema,
                           options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as out:
        words = pa.array(["yes", "no", "perhaps"])
        for n in (1, 2, 3):
            out.write_batch(pa.record_batch([pa.DictionaryArray.from_arrays(pa.array(range(n), pa.int8()), words[:n])], schema=schema))
    # Unions are not read.
    union = pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])])
    write("union", pa.table({"u": union}))

    import datasets
    documents = [{"goal": f"open the door {i}", "sol1": "push it", "sol2": "wait", "label": i % 2} for i in range(5)]
    made = datasets.DatasetDict({"train": datasets.Dataset.from_list(documents), "validation": datasets.Dataset.from_list(documents[:3])})
    made.save_to_disk(str(FOLDER / "saved"))
    made["validation"].save_to_disk(str(FOLDER / "saved_split"), num_shards=2)
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work) / "validation.jsonl"
        source.write_text("".join(json.dumps(d) + "\n" for d in documents))
        cache = pathlib.Path(work) / "cache"
        datasets.load_dataset("json", data_files={"validation": str(source)}, cache_dir=str(cache))
        (arrow,) = cache.rglob("*-validation.arrow")
        place = FOLDER / "cache/baber___piqa/default/0.0.0/0123456789abcdef"
        place.mkdir(parents=True)
        shutil.copy(arrow, place / "piqa-validation.arrow")
        shutil.copy(arrow.parent / "dataset_info.json", place)
    for f in FOLDER.rglob("*.json"):
        text = f.read_text()
        if "/tmp" in text:
            f.write_text("{}\n" if f.name == "dataset_info.json" else text)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    main()
