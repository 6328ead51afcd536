// Fuzz target of the readers of foreign commands and files: shell scripts, arguments of Megatron-LM, their
// MODEL_ARGS, recipes of NeMo 2 and of Megatron-Bridge. Any bytes are read or refused with an Error. As a
// test it runs over seeds (the public command lines of tests/fixtures) and mutations of them for a second;
// tests/slow/fuzz.sh runs it with libFuzzer. Files of NeMo 1.x, which need the schema: cli/nemo_fuzz_test.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/yaml.h"
#include "foreign/megatron/patch.h"
#include "foreign/megatron_arguments.h"
#include "foreign/nemo2/recipe.h"
#include "foreign/yaml_patch.h"

namespace stoa::foreign {
namespace {

// The words of a text, changed by a plan, are read again as they were written.
void read_and_change(MegatronText::Kind kind, std::string_view bytes) {
  try {
    const MegatronText text = megatron_text(kind, std::string(bytes), "fuzz");
    try {
      (void)read_megatron(text);
    } catch (const Error&) {
    }
    config::Node plan = config::Node::map();
    plan.make_path("model.tensor_model_parallel_size") = config::Node::plain("4");
    std::string note;
    const std::string changed = patched_text(
        text, patch_megatron(text.words, write_megatron(config::Node::map()), write_megatron(plan)), {2, 8},
        "fuzz", note);
    const MegatronText again = megatron_text(
        kind == MegatronText::Kind::kYaml ? kind : MegatronText::Kind::kScript, changed, "fuzz");
    (void)read_megatron_command(again.words);
  } catch (const Error&) {
  }
}

void read_recipe_text(std::string_view bytes) {
  try {
    config::Node root = config::parse_yaml(bytes, "fuzz");
    if (!root.is_map()) return;
    for (const Purpose purpose : {Purpose::kPlan, Purpose::kTrain}) {
      std::vector<std::string> changes{"trainer.max_steps=3"};
      try {
        (void)read_nemo2(root, changes, purpose);
      } catch (const Error&) {
      }
    }
    (void)patch_yaml(std::string(bytes), {{"model.config.num_layers", "3", "was it"}, {"data", {}, "gone"}});
  } catch (const Error&) {
  }
}

void read_foreign(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes.front() % 4) {
    case 0:
      return read_and_change(MegatronText::Kind::kArguments, rest);
    case 1:
      return read_and_change(MegatronText::Kind::kScript, rest);
    case 2:
      return read_and_change(MegatronText::Kind::kYaml, rest);
    default:
      return read_recipe_text(rest);
  }
}

}  // namespace
}  // namespace stoa::foreign

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::foreign::read_foreign({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::foreign {
namespace {

std::string seed_of(char kind, std::string text) { return kind + std::move(text); }

std::vector<std::string> foreign_seeds() {
  std::vector<std::string> seeds;
  const auto corpus = [](const char* name) {
    return nlohmann::json::parse(read_text(test::source_dir() / "tests/fixtures" / name));
  };
  for (const auto& entry : corpus("megatron/corpus.json")) {
    const std::string arguments = entry["arguments"];
    seeds.push_back(seed_of('\0', arguments));
    seeds.push_back(
        seed_of('\1', fmt::format("N=${{N:-2}}\nA=(\n {}\n)\nif [ $N -gt 1 ]; then X=\"--bf16\"; fi\n"
                                  "torchrun --nnodes $((N*2)) pretrain_gpt.py \"${{A[@]}}\" $X | tee l\n",
                                  arguments)));
  }
  seeds.push_back(
      seed_of('\2', "MODEL_ARGS:\n  --num-layers: 12\n  --bf16: true\n  --moe-layer-freq: ([0]*3+[1]*9)\n"));
  int left = 12;
  for (const char* name : {"nemo2/corpus.json", "nemo2/bridge.json"})
    for (const auto& entry : corpus(name))
      if (left-- > 0) seeds.push_back(seed_of('\3', entry["values"].dump()));
  return seeds;
}

std::string foreign_mutation(const std::vector<std::string>& seeds, std::mt19937& random) {
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  std::string text = seeds[pick(seeds.size())];
  constexpr std::string_view kBytes = "\"'`$(){}[]=#\\|&;<> \n\t-*+/:!%~\0\1\2\xFF";
  for (std::size_t changes = 1 + pick(6); changes > 0 && text.size() > 1; --changes) {
    const std::size_t at = 1 + pick(text.size() - 1);
    switch (pick(4)) {
      case 0:
        text[at] = kBytes[pick(kBytes.size())];
        break;
      case 1:
        text.insert(at, 1, kBytes[pick(kBytes.size())]);
        break;
      case 2:
        text.erase(at, 1 + pick(std::min<std::size_t>(20, text.size() - at)));
        break;
      default:
        text.insert(at, text.substr(at, 1 + pick(std::min<std::size_t>(60, text.size() - at))));
    }
  }
  return text;
}

TEST(FuzzForeign, SeedsAndMutations) {
  const std::vector<std::string> seeds = foreign_seeds();
  for (const auto& seed : seeds) read_foreign(seed);
  std::mt19937 random(7);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int runs = 0; runs < 100 || std::chrono::steady_clock::now() < end; ++runs)
    read_foreign(foreign_mutation(seeds, random));
}

}  // namespace
}  // namespace stoa::foreign
#endif
