// The safetensors reader against good, truncated and damaged files; the writer; conversion and shards.
#include "ckpt/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "base/checksum.h"
#include "base/test_folder.h"
#include "ckpt/convert.h"
#include "ckpt/safetensors_writer.h"
#include "ckpt/shard_io.h"
#include "ckpt/tensor_directory.h"

namespace stoa::ckpt {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string file_text(const std::string& json, std::size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  return out + json + std::string(data_bytes, '\0');
}
SafetensorsHeader parse(const std::string& text) {
  return parse_safetensors(std::as_bytes(std::span(text)), "file");
}
std::string entry(const std::string& type, const std::string& shape, std::uint64_t begin, std::uint64_t end) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", type, shape, begin, end);
}

TEST(Safetensors, ReadsTypesShapesAndMetadata) {
  const auto header = parse(
      file_text(R"({"__metadata__":{"format":"pt"},"b":)" + entry("BF16", "[2,3]", 8, 20) + R"(,"a":)" +
                    entry("F64", "[]", 0, 8) + R"(,"e":)" + entry("F32", "[0,9999999999,9999999999]", 8, 8) +
                    R"(,"c":)" + entry("BOOL", "[1,1,1,1,3]", 20, 23) + "}   ",
                23));
  ASSERT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "e");
  EXPECT_EQ(header.tensors[1].elements(), 0);
  EXPECT_EQ(header.tensors[2].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[3].shape.size(), 5u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Safetensors, MetadataMayBeNull) {
  const auto header = parse(file_text(R"({"__metadata__":null,"a":)" + entry("F32", "[1]", 0, 4) + "}", 4));
  EXPECT_EQ(header.tensors.size(), 1u);
  EXPECT_TRUE(header.metadata.empty());
}

TEST(Safetensors, RefusesEveryBreachOfTheFormat) {
  const auto refused = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { parse(text); }, ThrowsMessage<DataError>(HasSubstr(message))) << text.substr(8, 200);
  };
  refused("", "8 bytes of header length");
  refused(std::string(8, '\0'), "does not start with");
  refused(std::string(8, '\xff') + "{}", "at most 100000000");
  refused(std::string("\x10\0\0\0\0\0\0\0", 8) + "{}", "truncated");
  refused("version https://git-lfs.github.com/spec/v1", "is a pointer of Git LFS");
  refused(file_text("{", 0), "JSON");
  refused(file_text("[]", 0), "does not start with");
  refused(file_text("{} x", 0), "JSON");
  refused(file_text(R"({"a":1})", 0), "damaged header");
  refused(file_text(R"({"a":)" + entry("F32", "[1]", 0, 4) + R"(,"a":)" + entry("F32", "[1]", 4, 8) + "}", 8),
          "names 'a' twice");
  refused(file_text(
              R"({"\u0061":)" + entry("F32", "[1]", 0, 4) + R"(,"a":)" + entry("F32", "[1]", 4, 8) + "}", 8),
          "names 'a' twice");
  refused(file_text(R"({"a":)" + entry("F31", "[1]", 0, 4) + "}", 4), "unknown type 'F31'");
  refused(file_text(R"({"a":)" + entry("F32", "[-1]", 0, 4) + "}", 4), "damaged header");
  refused(file_text(R"({"a":)" + entry("F32", "[1.0]", 0, 4) + "}", 4), "damaged header");
  refused(file_text(R"({"a":)" + entry("F32", "[2]", 0, 4) + "}", 4), "not its size");
  refused(file_text(R"({"a":)" + entry("F32", "[4294967296,4294967296]", 0, 0) + "}", 0), "not its size");
  refused(file_text(R"({"a":)" + entry("F32", "[4611686018427387905]", 0, 4) + "}", 4), "not its size");
  refused(file_text(R"({"a":)" + entry("F32", "[18446744073709551615]", 0, 4) + "}", 4), "impossible shape");
  refused(file_text(R"({"a":)" + entry("F32", "[1]", 8, 4) + "}", 4), "not its size");
  refused(file_text(R"({"a":)" + entry("F32", "[1]", 4, 8) + "}", 8), "hole");
  refused(file_text(R"({"a":)" + entry("F32", "[2]", 0, 8) + R"(,"b":)" + entry("F32", "[1]", 4, 8) + "}", 8),
          "overlaps");
  refused(file_text(R"({"a":)" + entry("F32", "[1]", 0, 4) + "}", 5), "5 bytes of data");
  refused(file_text(R"({"a":)" + entry("F32", "[2]", 0, 8) + "}", 4), "truncated");
  refused(file_text(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "without dtype, shape or data_offsets");
  refused(file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,5]}})", 4), "3 data offsets");
  refused(file_text(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
          "repeated");
  refused(file_text(R"({"__metadata__":{"format":1}})", 0), "__metadata__");
  refused(file_text(std::string(3000, '['), 0), "does not start");
  refused(file_text("{\"a\":" + std::string(3000, '['), 0), "JSON");
}

// A small file of several types, as the writer makes it.
std::string small_file(const fs::path& directory) {
  std::vector<TensorEntry> tensors{{"w", StorageType::kBF16, {3, 2}, 0, 0},
                                   {"a", StorageType::kF32, {2, 2}, 0, 0},
                                   {"n", StorageType::kI64, {}, 0, 0},
                                   {"m", StorageType::kBool, {3}, 0, 0}};
  SafetensorsWriter writer(directory / "small.safetensors", SafetensorsLayout(tensors), WriteMode::kAtomic);
  std::vector<float> w{1, 2, 3, 4, 5, 6}, a{-1, -2, -3, -4};
  std::int64_t n = 77;
  writer.write("w", TensorView(w.data(), DType::kF32, {3, 2}));
  writer.write("n", TensorView(&n, DType::kI64, {}));
  const std::array<std::byte, 3> mask{std::byte{1}, std::byte{0}, std::byte{1}};
  writer.write_bytes("m", mask);
  writer.write("a", TensorView(a.data(), DType::kF32, {2, 2}));
  writer.commit();
  return read_text(directory / "small.safetensors");
}

TEST(Safetensors, WriterMakesAlignedSortedFilesThatReadBack) {
  const TestFolder directory;
  const std::string text = small_file(directory.path());
  const auto header = parse(text);
  EXPECT_EQ(header.data_offset % 8, 0u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  std::vector<std::string> names;
  for (const auto& t : header.tensors) names.push_back(t.name);
  EXPECT_THAT(names, ::testing::ElementsAre("n", "a", "w", "m"));

  const SafetensorsFile file(directory.path() / "small.safetensors");
  EXPECT_EQ(*file.find("n")->view().as<std::int64_t>(), 77);
  EXPECT_EQ(static_cast<float>(file.find("w")->view().row<bf16>(2)[1]), 6.0f);
  EXPECT_EQ(file.find("m")->view().dtype, DType::kU8);
  std::vector<double> wide(6);
  read(*file.find("w"), TensorView(wide.data(), DType::kF64, {3, 2}));
  EXPECT_THAT(wide, ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(file.find("nothing"), nullptr);
  EXPECT_THROW(read(*file.find("w"), TensorView(wide.data(), DType::kF64, {2, 3})), ShapeError);
}

TEST(Safetensors, TruncatedAtEveryByteIsRefused) {
  const TestFolder directory;
  const std::string text = small_file(directory.path());
  EXPECT_NO_THROW(parse(text));
  for (std::size_t n = 0; n < text.size(); ++n) EXPECT_THROW(parse(text.substr(0, n)), DataError) << n;
  EXPECT_THROW(parse(text + "x"), DataError);
  for (const std::size_t n : {std::size_t{0}, std::size_t{7}, text.size() / 2, text.size() - 1}) {
    const fs::path path = directory.path() / "cut.safetensors";
    write_text(path, text.substr(0, n));
    EXPECT_THAT([&] { SafetensorsFile file(path); }, ThrowsMessage<DataError>(HasSubstr("cut.safetensors")));
  }
}

TEST(Safetensors, WriterRefusesGapsAndStrangers) {
  const TestFolder directory;
  std::vector<float> x(4);
  {
    SafetensorsWriter writer(directory.path() / "x.safetensors",
                             SafetensorsLayout({{"a", StorageType::kF32, {2, 2}, 0, 0}}), WriteMode::kAtomic);
    EXPECT_THROW(writer.write("b", TensorView(x.data(), DType::kF32, {4})), InternalError);
    EXPECT_THROW(writer.write("a", TensorView(x.data(), DType::kF32, {4})), ShapeError);
    EXPECT_THAT([&] { writer.commit(); }, ThrowsMessage<InternalError>(HasSubstr("'a': 0 of 4 elements")));
  }
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(Safetensors, SeveralWritersFillOneFile) {
  const TestFolder directory;
  const fs::path path = directory.path() / "joint.safetensors";
  const SafetensorsLayout layout({{"m", StorageType::kF32, {64, 8}, 0, 0}});
  std::vector<float> whole(64 * 8);
  std::iota(whole.begin(), whole.end(), 0.0f);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank] {  // each holds two columns of all rows
      SafetensorsWriter writer(path, layout, WriteMode::kJoint);
      const TensorView mine = TensorView(whole.data(), DType::kF32, {64, 8}).columns(rank * 2, 2);
      writer.write(ShardPiece{"m", {64, 8}, 0, 64, 0, rank * 2, 2}, mine);
      writer.commit();
    });
  for (auto& rank : ranks) rank.join();
  const SafetensorsFile file(path);
  EXPECT_EQ(std::memcmp(file.find("m")->bytes.data(), whole.data(), whole.size() * 4), 0);
}

TEST(Convert, RoundsOnceInEveryPair) {
  // 1 + 2^-8 + 2^-40 lies just above the middle of two bf16: by way of fp32 it would round to the even one
  // below.
  const double x = 1.0 + 0x1p-8 + 0x1p-40;
  bf16 b;
  convert_elements(reinterpret_cast<const std::byte*>(&x), DType::kF64, reinterpret_cast<std::byte*>(&b),
                   DType::kBF16, 1);
  EXPECT_EQ(static_cast<float>(b), 1.0f + 0x1p-7f);
  const double y = 1.0 + 0x1p-11 + 0x1p-45;
  f16 h;
  convert_elements(reinterpret_cast<const std::byte*>(&y), DType::kF64, reinterpret_cast<std::byte*>(&h),
                   DType::kF16, 1);
  EXPECT_EQ(static_cast<float>(h), 1.0f + 0x1p-10f);
  std::vector<double> values{
      0.0, -0.0, 1.5, -65504.0, 1e300, -std::numeric_limits<double>::infinity(), std::nan("")};
  std::vector<float> out(values.size());
  convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kF64,
                   reinterpret_cast<std::byte*>(out.data()), DType::kF32,
                   static_cast<std::int64_t>(values.size()));
  EXPECT_TRUE(std::signbit(out[1]));
  EXPECT_EQ(out[3], -65504.0f);
  EXPECT_TRUE(std::isinf(out[4]) && std::isinf(out[5]) && std::isnan(out[6]));
  EXPECT_EQ(count_non_finite(reinterpret_cast<const std::byte*>(values.data()), DType::kF64, 7), 2);
  std::int64_t integer = 1;
  EXPECT_THROW(convert_elements(reinterpret_cast<const std::byte*>(&integer), DType::kI64,
                                reinterpret_cast<std::byte*>(&b), DType::kBF16, 1),
               ShapeError);
}

TEST(Convert, EveryHalfSurvivesTheWayThroughDouble) {
  for (const DType type : {DType::kBF16, DType::kF16})
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto in = static_cast<std::uint16_t>(bits);
      double wide = 0;
      std::uint16_t out = 0;
      convert_elements(reinterpret_cast<const std::byte*>(&in), type, reinterpret_cast<std::byte*>(&wide),
                       DType::kF64, 1);
      convert_elements(reinterpret_cast<const std::byte*>(&wide), DType::kF64,
                       reinterpret_cast<std::byte*>(&out), type, 1);
      ASSERT_TRUE(in == out || std::isnan(wide)) << bits;
    }
}

// A file whose bytes came in order has its checksum; one that did not is read again by who wants it.
TEST(Shards, ChecksumOfWhatIsWrittenInOrder) {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1.0f);
  const auto bytes = std::as_bytes(std::span(values));
  const auto write_all = [&](const fs::path& folder,
                             const std::vector<std::pair<const char*, std::int64_t>>& halves) {
    fs::create_directory(folder);
    ShardedWriter writer(folder, "model",
                         {{"b", StorageType::kF32, {100}, 0, 0}, {"a", StorageType::kF32, {100}, 0, 0}},
                         WriteMode::kInPlace);
    for (const auto& [name, begin] : halves)
      writer.write_elements(name, begin, bytes.subspan(static_cast<std::size_t>(begin) * 4, 200));
    EXPECT_TRUE(writer.checksums().empty());
    writer.commit();
    return writer.checksums();
  };
  const TestFolder directory;
  const auto ordered = write_all(directory / "ordered", {{"a", 0}, {"a", 50}, {"b", 0}, {"b", 50}});
  ASSERT_TRUE(ordered.contains("model.safetensors"));
  EXPECT_EQ(ordered.at("model.safetensors"), checksum_file(directory / "ordered/model.safetensors"));
  EXPECT_TRUE(write_all(directory / "other", {{"a", 0}, {"b", 0}, {"a", 50}, {"b", 50}}).empty());
}

// Four ranks of a fused tensor (q rows, k rows, padding) write; three flat ranges read; the whole is
// compared.
TEST(Shards, AnyCutReadsWhatAnyOtherWrote) {
  const TestFolder directory;
  std::vector<float> q(12 * 5), k(6 * 5);
  std::iota(q.begin(), q.end(), 100.0f);
  std::iota(k.begin(), k.end(), 500.0f);
  ShardedWriter writer(directory.path(), "model",
                       {{"q", StorageType::kF32, {12, 5}, 0, 0}, {"k", StorageType::kF32, {6, 5}, 0, 0}},
                       WriteMode::kAtomic);
  for (int rank = 0; rank < 2; ++rank) {  // tensor parallel over rows: [6 q rows, 3 k rows, 1 padding row]
    std::vector<float> local(10 * 5, -1.0f);
    std::copy_n(q.begin() + rank * 30, 30, local.begin());
    std::copy_n(k.begin() + rank * 15, 15, local.begin() + 30);
    ShardSpec shard{
        {10, 5}, {{"q", {12, 5}, rank * 6, 6, 0, 0, 5}, {"k", {6, 5}, rank * 3, 3, 6, 0, 5}}, std::nullopt};
    writer.write(shard, TensorView(local.data(), DType::kF32, {10, 5}));
  }
  writer.commit();

  const TensorDirectory files(directory.path());
  const TensorFinder find = [&](const std::string& name) -> const StoredTensor& { return files.at(name); };
  std::vector<double> joined(18 * 5, 0.0);
  ShardSpec fused{{18, 5}, {{"q", {12, 5}, 0, 12, 0, 0, 0}, {"k", {6, 5}, 0, 6, 12, 0, 0}}, std::nullopt};
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 7}, {7, 61}, {61, 90}}) {
    fused.flat = FlatRange{begin, end};
    read_shard(fused, find, TensorView(joined.data() + begin, DType::kF64, {end - begin}));
  }
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(joined[i], q[i]) << i;
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(joined[60 + i], k[i]) << i;

  std::vector<float> columns(12 * 4, 9.0f);  // columns 1..3 of q into a wider memory
  read_piece(files.at("q"), {"q", {12, 5}, 0, 12, 0, 1, 3}, TensorView(columns.data(), DType::kF32, {12, 4}));
  EXPECT_EQ(columns[4 * 3 + 0], q[3 * 5 + 1]);
  EXPECT_EQ(columns[4 * 3 + 2], q[3 * 5 + 3]);
  EXPECT_EQ(columns[4 * 3 + 3], 9.0f);
  EXPECT_THROW(read_piece(files.at("q"), {"q", {12, 5}, 8, 5, 0, 0, 0},
                          TensorView(columns.data(), DType::kF32, {12, 4})),
               ShapeError);
}

TEST(TensorDirectory, ShardsAndIndex) {
  const TestFolder directory;
  std::vector<TensorEntry> tensors;
  for (int i = 0; i < 5; ++i) tensors.push_back({fmt::format("t{}", i), StorageType::kF32, {10}, 0, 0});
  ShardedWriter writer(directory.path(), "model", tensors, WriteMode::kAtomic, 80);
  EXPECT_EQ(writer.shards(), 3u);
  for (int i = 0; i < 5; ++i) {
    std::vector<float> x(10, static_cast<float>(i));
    writer.write(fmt::format("t{}", i), TensorView(x.data(), DType::kF32, {10}));
  }
  writer.commit();
  EXPECT_TRUE(fs::exists(directory.path() / "model-00002-of-00003.safetensors"));
  {
    const TensorDirectory files(directory.path());
    EXPECT_EQ(files.tensors().size(), 5u);
    EXPECT_EQ(files.at("t4").view().as<float>()[9], 4.0f);
    EXPECT_THAT([&] { files.at("t9"); }, ThrowsMessage<DataError>(HasSubstr("did you mean 't")));
    const std::string problems = compare_tensors({{"t0", DType::kF32, {10}},
                                                  {"t1", DType::kF32, {5, 2}},
                                                  {"u", DType::kF32, {1}},
                                                  {"t2", DType::kF32, {10}},
                                                  {"t3", DType::kF32, {10}}},
                                                 files);
    EXPECT_THAT(problems, HasSubstr("missing: u [1]"));
    EXPECT_THAT(problems, HasSubstr("wrong shape: t1 is [10], expected [5, 2]"));
    EXPECT_THAT(problems, HasSubstr("unexpected: t4 [10]"));
    EXPECT_THROW(require_tensors({{"u", DType::kF32, {1}}}, files), DataError);
    EXPECT_EQ(compare_tensors({{"t0", DType::kBF16, {10}}}, files,
                              [](std::string_view name) { return name != "t0"; }),
              "");
  }
  fs::remove(directory.path() / "model-00002-of-00003.safetensors");
  EXPECT_THAT([&] { TensorDirectory files(directory.path()); },
              ThrowsMessage<IoError>(HasSubstr("model-00002-of-00003")));

  const fs::path index = directory.path() / "model.safetensors.index.json";
  const auto refused = [&](const std::string& text, const std::string& message) {
    write_text(index, text);
    EXPECT_THAT([&] { TensorDirectory files(directory.path()); },
                ThrowsMessage<DataError>(HasSubstr(message)))
        << text;
  };
  refused("{", "weight_map");
  refused(R"({"weight_map":[]})", "weight_map");
  refused(R"({"weight_map":{"t0":3}})", "not a file name");
  refused(R"({"weight_map":{"t0":"../model.safetensors"}})", "own directory");
  refused(R"({"weight_map":{"t9":"model-00001-of-00003.safetensors"}})", "t9");
  fs::copy_file(directory.path() / "model-00001-of-00003.safetensors", directory.path() / "b.safetensors");
  refused(R"({"weight_map":{"t0":"model-00001-of-00003.safetensors","t1":"b.safetensors"}})",
          "as another shard does");
  fs::remove(index);
  EXPECT_THROW(TensorDirectory files(directory.path()), IoError);
}

}  // namespace
}  // namespace stoa::ckpt
