// Packed weights against what bitsandbytes makes of the same matrix (tests/oracle/make_nf4_fixture.py).
#include "nn/packed_weight.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::nn {
namespace {

TEST(PackedWeight, HasTheValuesOfBitsandbytes) {
  const auto json = nlohmann::json::parse(read_text(test::source_dir() / "tests/fixtures/tuning/nf4.json"));
  const double factor = json["factor"];
  std::vector<float> numbers;
  for (const auto& x : json["numbers"]) numbers.push_back(static_cast<float>(x.get<double>() / factor));
  const std::int64_t columns = json["columns"], rows = static_cast<std::int64_t>(numbers.size()) / columns;
  ParamSpec spec;
  spec.name = "layers.0.mlp.up.weight";
  spec.shard = ShardSpec::whole(spec.name, {rows, columns});
  spec.packed = quant::PackedKind::kNf4;
  std::vector<std::byte> memory(static_cast<std::size_t>(memory_elements(spec)));
  pack_weight(
      spec, [&](std::size_t) { return numbers; }, memory.data());
  const std::vector<float> found = unpack_weight(spec, memory.data());
  const auto& expected = json["values"];
  ASSERT_EQ(expected.size(), (found.size() + 6) / 7);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(found[7 * i], expected[i].get<float>(), 1e-6) << 7 * i;
}

}  // namespace
}  // namespace stoa::nn
