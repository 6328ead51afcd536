// Models read from files and used on a device whose memory the host cannot touch, against the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <functional>

#include "base/file.h"
#include "base/test_folder.h"
#include "emulated_gpu.h"
#include "infer/encoder_rank.h"
#include "infer/engine/engine.h"
#include "infer/engine/single_text.h"
#include "infer/engine/text_losses.h"
#include "ops/cpu/cpu_backend.h"
#include "run/export_gguf.h"

namespace stoa::layouts {
namespace {

namespace hf = model::huggingface;

// Its memory may be read and written by its own copies and operations alone: whoever else does ends the
// program with a segmentation fault.
class GuardedDevice final : public HiddenDevice {
 public:
  Buffer allocate(std::size_t bytes) override {
    expect_chosen();
    if (bytes == 0) return {};
    void* data = ::mmap(nullptr, whole(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require<DeviceError>(data != MAP_FAILED, "no memory");
    std::memset(data, 0xff, whole(bytes));
    guard(data, bytes, PROT_NONE);
    blocks_.push_back({data, bytes});
    return Buffer(*this, data, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) override {
    opened([&] { HiddenDevice::copy_to_host(host, device, bytes, stream); });
  }
  void copy_from_host(void* device, const void* host, std::size_t bytes, Stream& stream) override {
    opened([&] { HiddenDevice::copy_from_host(device, host, bytes, stream); });
  }
  void fill_zero(void* device, std::size_t bytes, Stream& stream) override {
    opened([&] { HiddenDevice::fill_zero(device, bytes, stream); });
  }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    opened([&] { HiddenDevice::copy(to, from, bytes, stream); });
  }
  void opened(const std::function<void()>& body) {
    for (const Block& block : blocks_) guard(block.data, block.bytes, PROT_READ | PROT_WRITE);
    body();
    for (const Block& block : blocks_) guard(block.data, block.bytes, PROT_NONE);
  }

 private:
  struct Block {
    void* data;
    std::size_t bytes;
  };
  static std::size_t whole(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
  static void guard(void* data, std::size_t bytes, int access) {
    require<InternalError>(::mprotect(data, whole(bytes), access) == 0, "mprotect failed");
  }
  void release(void* data, std::size_t bytes) noexcept override {
    std::erase_if(blocks_, [&](const Block& block) { return block.data == data; });
    ::munmap(data, whole(bytes));
  }

  std::vector<Block> blocks_;
};

class GuardedBackend final : public ops::ForwardOps<GuardedBackend> {
 public:
  GuardedBackend(ops::Backend& inner, GuardedDevice& device) : inner_(inner), device_(device) {}
  std::string_view name() const override { return inner_.name(); }
  DeviceKind device_kind() const override { return inner_.device_kind(); }
  bool multiplies_stored_experts() const override { return inner_.multiplies_stored_experts(); }
  template <class Op>
  void apply(const Op& op, ops::Resources resources) {
    device_.opened([&] { inner_.execute(op, resources); });
  }
  template <class Op>
  std::size_t workspace(const Op& op) const {
    return inner_.workspace_bytes(op);
  }

 private:
  ops::Backend& inner_;
  GuardedDevice& device_;
};

infer::Machine guarded_machine() {
  infer::Machine machine = emulated_machine();
  auto device = std::make_unique<GuardedDevice>();
  machine.parts.push_back(std::move(machine.backend));
  machine.backend = std::make_unique<GuardedBackend>(*machine.parts.back(), *device);
  machine.stream = device->create_stream();
  machine.device = std::move(device);
  return machine;
}

infer::Machine plain_machine() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HostDevice>();
  machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
  machine.stream = machine.device->create_stream();
  return machine;
}

// A model directory with weights that differ from each other.
class Files {
 public:
  explicit Files(const std::string& config) {
    const auto description = hf::read_config(config);
    const model::ModelSpec spec = model::resolve_model(description.config);
    ckpt::ShardedWriter writer(path(), ckpt::kModelStem,
                               infer::model_entries(spec, *description.family, DType::kF32),
                               ckpt::WriteMode::kInPlace);
    std::vector<float> values(1 << 16);
    std::size_t next = 0;
    infer::write_model(writer, spec, *description.family, DType::kF32, [&](const std::string&) {
      for (float& value : values) value = 0.3f * std::sin(0.7f * static_cast<float>(++next % 1013));
      return TensorView(values.data(), DType::kF32, {static_cast<std::int64_t>(values.size())});
    });
    writer.commit();
    write_text(path() / "config.json", config);
  }
  const fs::path& path() const { return directory_.path(); }

 private:
  TestFolder directory_;
};

using Answers = std::vector<float>;
void append(Answers& to, std::span<const float> from) { to.insert(to.end(), from.begin(), from.end()); }

using Use = std::function<Answers(infer::OpenModel&)>;

// `use`: what a model answers; in each type of weights. `tolerance`: with fp32.
void expect_same_answers_of(const fs::path& model, const Use& use, double tolerance = 1e-5) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(name_of(type));
    constexpr auto kStored = infer::QuantisedWeights::kStored;
    infer::OpenModel here(model, type, plain_machine, std::nullopt, kStored),
        there(model, type, guarded_machine, std::nullopt, kStored);
    EXPECT_EQ(there.stored_types() != nullptr, model.extension() == ".gguf");
    const Answers expected = use(here), answers = use(there);
    ASSERT_EQ(answers.size(), expected.size());
    double error = 0, size = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      error += std::pow(answers[i] - expected[i], 2);
      size += std::pow(expected[i], 2);
    }
    EXPECT_GT(size, 0);
    EXPECT_LT(std::sqrt(error / size), type == DType::kF32 ? tolerance : 0.02);
  }
}
void expect_same_answers(const std::string& config, const Use& use) {
  expect_same_answers_of(Files(config).path(), use);
}

Answers continue_text(infer::OpenModel& model) {
  const auto rank = infer::load_paged_decoder(model, {.sequences = 1,
                                                      .pass_tokens = 8,
                                                      .scored = 1,
                                                      .tokenizer = false,
                                                      .losses = true,
                                                      .cache = model.precision().compute});
  Answers out = infer::text_losses(*rank, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6});
  infer::SingleText text(*rank);
  append(out, text.feed(std::vector<std::int32_t>{7, 8, 9}));
  append(out, text.feed(std::vector<std::int32_t>{10}));
  return out;
}

TEST(UseOnGpu, Decoders) {
  expect_same_answers(R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 16,
      "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 24,
      "max_position_embeddings": 32})",
                      continue_text);
  expect_same_answers(R"({"model_type": "mixtral", "vocab_size": 32, "hidden_size": 16,
      "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8,
      "max_position_embeddings": 32, "num_local_experts": 4, "num_experts_per_tok": 2})",
                      continue_text);
}

TEST(UseOnGpu, SinksAndBiasesOfExperts) {
  expect_same_answers(R"({"model_type": "gpt_oss", "vocab_size": 32, "hidden_size": 16,
      "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 8,
      "max_position_embeddings": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 4,
      "sliding_window": 4})",
                      continue_text);
}

// Weights stay as the file holds them. Inputs of products are rounded to codes: one that lies between two may
// become either.
TEST(UseOnGpu, QuantisedFiles) {
  const Files files(R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 256, "num_attention_heads": 4,
      "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 256,
      "max_position_embeddings": 64})");
  for (const std::string format : {"q8_0", "q5_0", "q4_k_m"}) {
    SCOPED_TRACE(format);
    const fs::path file = files.path() / (format + ".gguf");
    run::export_gguf(ckpt::find_checkpoint(files.path()), format, file);
    expect_same_answers_of(file, continue_text, 1e-3);
  }
}

// Experts are held as numbers there, other matrices as they are stored.
TEST(UseOnGpu, QuantisedExperts) {
  const Files files(
      R"({"model_type": "mixtral", "vocab_size": 40, "hidden_size": 256, "num_attention_heads": 4,
      "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 256, "num_local_experts": 4,
      "max_position_embeddings": 64})");
  const fs::path file = files.path() / "q8_0.gguf";
  run::export_gguf(ckpt::find_checkpoint(files.path()), "q8_0", file);
  expect_same_answers_of(file, continue_text, 1e-2);
}

TEST(UseOnGpu, Encoders) {
  expect_same_answers(R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 32,
      "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 24,
      "max_position_embeddings": 16, "type_vocab_size": 2})",
                      [](infer::OpenModel& model) {
                        const auto rank = model.load<infer::EncoderRank>(
                            infer::EncoderOptions{model.model(), model.precision(), 16, 8, 2, 0});
                        const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7};
                        const std::vector<std::int64_t> lengths{3, 4};
                        Answers out;
                        append(out, rank->states(tokens, lengths));
                        append(out, rank->predict(tokens, lengths, std::vector<std::int32_t>{1, 5}));
                        return out;
                      });
}

TEST(UseOnGpu, EncoderDecoders) {
  expect_same_answers(R"({"model_type": "t5", "vocab_size": 32, "d_model": 16, "d_kv": 4, "d_ff": 24,
      "num_layers": 1, "num_heads": 4, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})",
                      [](infer::OpenModel& model) {
                        const std::vector<infer::TokenPair> pairs{{{1, 2, 3, 4}, {5, 6, 7}}, {{4, 3}, {9}}};
                        const auto rank = infer::load_for_pairs(model, pairs, {.tokenizer = false});
                        Answers out;
                        for (const auto& losses : infer::pair_losses(*rank, pairs)) append(out, losses);
                        infer::Engine engine(*rank);
                        infer::Request request{.prompt = {4, 3, 2}, .max_tokens = 3};
                        request.choices = 2;
                        request.logprobs = 8;
                        engine.submit(request, [&](const infer::Event& event) {
                          for (const auto& score : event.token.top) out.push_back(score.logprob);
                          return true;
                        });
                        while (engine.step()) continue;
                        return out;
                      });
}

}  // namespace
}  // namespace stoa::layouts
