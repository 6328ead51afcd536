#!/usr/bin/env python3
"""Writes tests/fixtures/gguf/values.gguf by the gguf package: keys of every type, tensors of several formats.

    pip install gguf numpy;  python3 tests/oracle/make_gguf_fixtures.py
"""
import pathlib

import gguf
import numpy as np

folder = pathlib.Path(__file__).resolve().parent.parent / "fixtures/gguf"
folder.mkdir(exist_ok=True)
writer = gguf.GGUFWriter(folder / "values.gguf", "llama")
writer.add_uint8("test.u8", 200)
writer.add_int8("test.i8", -5)
writer.add_uint16("test.u16", 60000)
writer.add_int16("test.i16", -30000)
writer.add_uint32("test.u32", 4000000000)
writer.add_int32("test.i32", -2000000000)
writer.add_float32("test.f32", 1e-5)
writer.add_uint64("test.u64", 2**63 + 5)
writer.add_int64("test.i64", -2**62)
writer.add_float64("test.f64", 0.1)
writer.add_bool("test.bool", True)
writer.add_string("test.text", "stoa \u00e4 \u2581")
writer.add_array("test.texts", ["a", "", "\u2581the"])
writer.add_array("test.numbers", [1, -2, 3])
writer.add_array("test.reals", [0.5, -0.25])
writer.add_array("test.flags", [True, False])
values = np.arange(2 * 64, dtype=np.float32).reshape(2, 64) / 64 - 1
writer.add_tensor("plain", values)
writer.add_tensor("half", values.astype(np.float16))
q = gguf.GGMLQuantizationType.Q8_0
writer.add_tensor("eight", gguf.quantize(values, q), raw_dtype=q)
writer.add_tensor("vector", np.array([1, 2, 3], dtype=np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
