// What ranks hold of the canonical tensors, in any layout: every element is held, and written by one rank;
// what a layout reads it writes back, so that any layout reads what any other wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ckpt/shard_io.h"
#include "planned_rank.h"

namespace stoa::layouts {
namespace {

// body(held, written) for every parameter of every rank.
void for_each_parameter(const TestRun& run, const run::Layout& layout,
                        const std::function<void(const ShardSpec& held, const ShardSpec& written)>& body) {
  for (int rank = 0; rank < layout.grid.size(); ++rank) {
    PlannedRank planned(run, layout, rank, DType::kF32, 4);
    const auto& parameters = planned->parameters();
    for (std::size_t p = 0; p < parameters.specs().size(); ++p)
      body(parameters.held({static_cast<int>(p)}), parameters.written({static_cast<int>(p)}));
  }
}

// Calls body(canonical element, element of the memory that holds the shard).
void for_each_element(const ShardSpec& shard, const ShardPiece& piece,
                      const std::function<void(std::int64_t, std::int64_t)>& body) {
  ckpt::for_each_run(piece, shard.local, shard.local.inner(), shard.flat, [&](const ckpt::ElementRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) body(run.file + i, run.memory + i);
  });
}

double content(const std::string& name, std::int64_t element) {
  return static_cast<double>(element) + static_cast<double>(std::hash<std::string>()(name) % 100000) * 1e6;
}

void expect_tiles(const TestRun& run, const run::Layout& layout) {
  Tensors written;  // what ends up in a file
  std::map<std::string, Shape> shapes;
  std::map<std::string, std::vector<int>> writers;  // of every element
  for_each_parameter(run, layout, [&](const ShardSpec& held, const ShardSpec& to_write) {
    const std::int64_t count = held.flat ? held.flat->end - held.flat->begin : held.local.elements();
    std::vector<double> memory(static_cast<std::size_t>(count), -1);
    for (const ShardPiece& piece : held.pieces)
      for_each_element(held, piece, [&](std::int64_t element, std::int64_t place) {
        EXPECT_EQ(memory.at(static_cast<std::size_t>(place)), -1) << "two elements in one place";
        memory[static_cast<std::size_t>(place)] = content(piece.name, element);
      });
    for (const ShardPiece& piece : to_write.pieces) {
      const auto size = static_cast<std::size_t>(piece.global.elements());
      shapes[piece.name] = piece.global;
      auto& tensor = written[piece.name];
      auto& count_of = writers[piece.name];
      tensor.resize(size, -1);
      count_of.resize(size, 0);
      for_each_element(to_write, piece, [&](std::int64_t element, std::int64_t place) {
        tensor.at(static_cast<std::size_t>(element)) = memory.at(static_cast<std::size_t>(place));
        ++count_of[static_cast<std::size_t>(element)];
      });
    }
  });
  std::map<std::string, Shape> expected;
  for_each_parameter(run, data_parallel(1), [&](const ShardSpec& held, const ShardSpec&) {
    for (const ShardPiece& piece : held.pieces) expected[piece.name] = piece.global;
  });
  EXPECT_TRUE(shapes == expected);
  for (const auto& [name, tensor] : written) {
    EXPECT_THAT(writers[name], ::testing::Each(1)) << name;
    for (std::size_t i = 0; i < tensor.size(); ++i)
      ASSERT_EQ(tensor[i], content(name, static_cast<std::int64_t>(i))) << name;
  }
}

TEST(HeldPieces, TileTheCanonicalTensors) {
  for (const bool tied : {false, true})
    for (const int tensor : {1, 2, 3, 4})
      for (const int data : {1, 2, 3})
        for (const int stages : {1, 2})
          for (int stage = 0; stage <= 3; stage += 1 + 2 * (data == 1)) {
            SCOPED_TRACE(::testing::Message() << "tp " << tensor << " dp " << data << " pp " << stages
                                              << " zero " << stage << " tied " << tied);
            TestRun run = tiny_run();
            run.config.share_embeddings_and_output_weights = tied;
            run::Layout layout = layout_of(tensor, 1, 1, data, stages);
            layout.zero_stage = stage;
            layout.bucket_bytes = 3000;
            expect_tiles(run, layout);
            if (HasFailure()) return;
          }
}

}  // namespace
}  // namespace stoa::layouts
