#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "base/checksum.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/half.h"
#include "base/nearest.h"
#include "base/philox.h"
#include "base/test_folder.h"
#include "base/worker_pool.h"

namespace stoa {
namespace {

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bf16(1.00390625f).bits, 0x3f80);  // half way, even below
  EXPECT_EQ(bf16(1.01171875f).bits, 0x3f82);  // half way, even above
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(NAN))));
}

TEST(Half, F16RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    f16 h;
    h.bits = static_cast<std::uint16_t>(bits);
    const float x = static_cast<float>(h);
    if (std::isnan(x)) continue;
    EXPECT_EQ(f16(x).bits, h.bits) << bits;
  }
  EXPECT_EQ(f16(65519.9f).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(0x1p-25f).bits, 0);  // half of the smallest subnormal: even is zero
  EXPECT_EQ(f16(0x1.8p-24f).bits, 2);
}

TEST(Philox, MatchesPublishedVectors) {  // Random123 kat_vectors, philox4x32 10 rounds
  EXPECT_THAT(philox4x32({0, 0}, {0, 0, 0, 0}),
              ::testing::ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox4x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
              ::testing::ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
}

TEST(Philox, NormalHasUnitVariance) {
  const auto key = philox_key(1234, RandomPurpose::kTest, "x");
  double sum = 0, squares = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = philox_normal(key, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
}

TEST(WorkerPool, RunsEveryTaskOnceAndCarriesErrors) {
  WorkerPool pool(4);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<std::atomic<int>> seen(37);
    pool.run(37, [&](std::int64_t task, int worker) {
      ASSERT_LT(worker, 4);
      ++seen[task];
    });
    for (auto& s : seen) EXPECT_EQ(s, 1);
  }
  EXPECT_THROW(pool.run(8, [](std::int64_t task, int) { require<DataError>(task != 5, "task {}", task); }),
               DataError);
  pool.run(3, [](std::int64_t, int) {});
}

// Two pools at once, runs close together and so far apart that the workers sleep in between.
TEST(WorkerPool, RunsFollowEachOtherAwakeAndAsleep) {
  const auto use = [](int workers) {
    WorkerPool pool(workers);
    std::int64_t sum = 0;
    for (int run = 0; run < 3000; ++run) {
      std::array<std::int64_t, 5> parts{};  // not atomic: each task has its own, read when run() has returned
      const std::int64_t tasks = 1 + run % 5;
      pool.run(tasks, [&](std::int64_t task, int) { parts[task] += task + run; });
      for (const auto part : parts) sum += part;
      sum -= tasks * (tasks - 1) / 2 + tasks * run;
      if (run % 500 == 0) std::this_thread::sleep_for(4 * WorkerPool::kSpin);
    }
    EXPECT_EQ(sum, 0);
  };
  std::thread other([&] { use(3); });
  use(4);
  other.join();
}

// Callers that sleep, because a task of a worker takes long, are woken; errors do not stay in the pool.
TEST(WorkerPool, WaitsForSlowTasksAndForgetsErrors) {
  WorkerPool pool(3);
  for (int run = 0; run < 20; ++run) {
    std::atomic<int> done{0};
    pool.run(3, [&](std::int64_t, int worker) {
      if (worker != 0) std::this_thread::sleep_for(3 * WorkerPool::kSpin);
      ++done;
    });
    EXPECT_EQ(done, 3);
    EXPECT_THROW(pool.run(3, [](std::int64_t, int) { fail<DataError>("every task"); }), DataError);
  }
}

TEST(AtomicFile, LongWritesAtAnyOffset) {
  const TestFolder folder;
  const fs::path path = folder / "long";
  std::string text(300'001, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 23);
  AtomicFile file(path);
  file.write("begin");
  file.write(text);  // pieces begin anywhere
  file.write_at(70'000, "here", 4);
  file.commit();
  std::string expected = "begin" + text;
  expected.replace(70'000, 4, "here");
  EXPECT_EQ(read_text(path), expected);
}

TEST(Cores, AsManyAsTheAffinityAllows) {
  cpu_set_t before;
  CPU_ZERO(&before);
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(available_cores(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_cores(), 1);
  EXPECT_THROW(stay_on_share(0, 2), ConfigError);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Cores, SharesAreApartAndWhole) {
  const int cores = available_cores();
  for (const int parts : {1, std::max(1, cores - 1), cores}) {
    std::vector<int> owners(CPU_SETSIZE, 0);
    for (int part = 0; part < parts; ++part)
      std::thread([&, part] {
        stay_on_share(part, parts);
        cpu_set_t mine;
        ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
        EXPECT_GE(CPU_COUNT(&mine), cores / parts);
        for (int core = 0; core < CPU_SETSIZE; ++core) owners[core] += CPU_ISSET(core, &mine) ? 1 : 0;
      }).join();
    EXPECT_EQ(std::accumulate(owners.begin(), owners.end(), 0), cores);
    EXPECT_EQ(*std::max_element(owners.begin(), owners.end()), 1);
  }
  EXPECT_EQ(available_cores(), cores);
}

TEST(AtomicFile, AppearsOnlyOnCommit) {
  const TestFolder dir;
  const auto path = dir / "f";
  {
    AtomicFile file(path);
    file.write("abc");
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
  {
    AtomicFile file(path);
    file.write("abc");
    file.commit();
  }
  EXPECT_EQ(read_text(path), "abc");
  EXPECT_EQ(checksum_file(path), checksum("abc"));
  const std::string whole(1000, 'x');
  RunningChecksum pieces;
  for (std::size_t at = 0; at < whole.size(); at += 300)
    pieces.add(std::as_bytes(std::span(whole)).subspan(at, std::min<std::size_t>(300, whole.size() - at)));
  EXPECT_EQ(pieces.value(), checksum(whole));
  EXPECT_EQ(MappedFile(path).text(), "abc");
  EXPECT_THROW(read_text(dir / "g"), IoError);
}

TEST(AtomicFile, TakesNotThePlaceOfADeviceOrAPipe) {
  const TestFolder dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", dir / "device");
  for (const char* name : {"pipe", "device"}) {
    EXPECT_THROW(write_text(dir / name, "x"), IoError);
    EXPECT_FALSE(fs::is_regular_file(dir / name));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 2);
}

TEST(AtomicFile, OfKilledWritersIsTakenAway) {
  const TestFolder dir;
  for (const char* name : {"x.npy.tmp-123-456", "notes.tmp-mine", ".step-0000001.tmp-12"})
    write_text(dir / name, "left");
  {
    AtomicFile living(dir / "y");
    living.write("abc");
    remove_abandoned(dir.path());
    EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 3) << "what is being written stays";
    living.commit();
  }
  EXPECT_EQ(read_text(dir / "y"), "abc");
  EXPECT_FALSE(fs::exists(dir / "x.npy.tmp-123-456"));
  EXPECT_TRUE(fs::exists(dir / "notes.tmp-mine")) << "a name of somebody else's";
}

TEST(AtomicFile, IsNotTakenAwayBeforeItHasItsName) {
  const TestFolder dir;
  {
    const std::jthread remover([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) remove_abandoned(dir.path());
    });
    for (int i = 0; i < 300; ++i) ASSERT_NO_THROW(write_text(dir / "x", "abc")) << i;
  }
}

TEST(Nearest, FindsTyposAndRefusesStrangers) {
  const std::vector<std::string> names{"hidden_size", "num_layers"};
  EXPECT_EQ(nearest("hiden_size", names), "hidden_size");
  EXPECT_EQ(nearest("num_layer", names), "num_layers");
  EXPECT_EQ(nearest("qqqqqq", names), "");
}

TEST(Philox, NormalsAreThoseOfTheFormulaAndTheSameInBulk) {
  const PhiloxKey key = philox_key(7, RandomPurpose::kTest, "normals");
  double sum = 0, squares = 0;
  std::vector<double> bulk(20000);
  philox_normals(key, 3, 20000, bulk.data());
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double u = (static_cast<double>(philox_word(key, 2 * (i + 3))) + 1.0) * 0x1p-32;
    const double v = static_cast<double>(philox_word(key, 2 * (i + 3) + 1)) * 0x1p-32;
    const double expected = std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v);
    EXPECT_NEAR(bulk[i], expected, 1e-13 * (1 + std::abs(expected))) << i;
    EXPECT_EQ(bulk[i], philox_normal(key, i + 3)) << i;
    sum += bulk[i];
    squares += bulk[i] * bulk[i];
  }
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.04);
}

}  // namespace
}  // namespace stoa
