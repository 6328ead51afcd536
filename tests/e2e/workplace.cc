#include "workplace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/file.h"

namespace stoa::e2e {
std::string pseudo_prose(std::uint64_t seed, int words) {
  static constexpr std::array<const char*, 32> kWords{
      "the",    "of",   "and",  "stone", "column",  "roof",    "light", "walks", "under", "porch", "learner",
      "talks",  "with", "a",    "sea",   "wind",    "bread",   "olive", "names", "every", "word",  "twice",
      "slowly", "long", "road", "to",    "harbour", "morning", "we",    "count", "steps", "home"};
  std::string text;
  std::uint64_t state = seed * 2654435761u + 12345, previous = 0;
  for (int i = 0; i < words; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // A word depends on the one before, with some chance: that is what can be learned.
    previous = (previous * 7 + 3 + (state >> 61)) % kWords.size();
    text += kWords[previous];
    text += i % 11 == 10 ? ".\n" : " ";
  }
  return text;
}

void Workplace::SetUp() {
  std::string lines;
  for (int d = 0; d < 120; ++d)
    lines +=
        nlohmann::json{{"text", pseudo_prose(static_cast<std::uint64_t>(d), 60 + d % 7 * 20)}}.dump() + "\n";
  write_text(path("text.jsonl"), lines);
  write_text(path("text.txt"), pseudo_prose(99, 3000));
  stoa_ok({"tokenizer", "train", "text.txt", "--vocab-size", "300", "--output", "tok"});
  stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--output", "data"});
}

void Workplace::write_sentences() const {
  const std::string lines = read_text(path("text.jsonl")), end = ".\\n";
  std::string sentences;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines.compare(i, end.size(), end) == 0 && i + end.size() < lines.size()) {
      i += end.size();
      sentences += ". ";
      sentences += static_cast<char>(std::toupper(static_cast<unsigned char>(lines[i])));
    } else {
      sentences += lines[i];
    }
  }
  write_text(path("sentences.jsonl"), sentences);
}

void Workplace::TearDown() {
  if (HasFailure() && std::getenv("STOA_E2E_KEEP")) directory_.keep();
}

Outcome Workplace::stoa(const Arguments& arguments) const { return stoa(arguments, {}); }

Outcome Workplace::stoa(const Arguments& arguments, ProgramOptions options) const {
  if (options.directory.empty()) options.directory = directory();
  return Program(arguments, options).wait();
}

Outcome Workplace::stoa_ok(const Arguments& arguments) const {
  const Outcome outcome = stoa(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << "stoa " << joined(arguments) << "\n" << outcome.text();
  return outcome;
}

nlohmann::json Workplace::json_of(const Arguments& arguments) const {
  const std::string text = stoa_ok(arguments).out;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << text;
  return json;
}

Arguments Workplace::micro_model() {
  return {"tiny",
          "model.num_layers=2",
          "model.hidden_size=32",
          "model.num_attention_heads=2",
          "model.encoder_seq_length=32",
          "model.micro_batch_size=2",
          "model.global_batch_size=4",
          "model.optim.sched.warmup_steps=2",
          "trainer.max_steps=12",
          "trainer.precision=fp32",
          "trainer.log_every_n_steps=1",
          "trainer.val_check_interval=0",
          "trainer.num_threads=2"};
}

Arguments Workplace::train(const std::string& run, const Arguments& more) {
  return Arguments{"train"} + micro_model() +
         Arguments{"model.data=data", "model.tokenizer=tok", "model.data.splits_string='90,10,0'"} + more +
         (run.empty() ? Arguments{} : Arguments{"--output", run});
}

namespace {

std::map<std::int64_t, nlohmann::json> lines_with(const fs::path& file, const char* key) {
  std::map<std::int64_t, nlohmann::json> found;
  const std::string text = read_text(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_NE(end, std::string::npos) << "a torn line in " << file;
    if (end == std::string::npos) break;
    const auto line = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    EXPECT_TRUE(line.is_object()) << text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.is_object() || !line.contains(key)) continue;
    EXPECT_TRUE(found.emplace(line["step"].get<std::int64_t>(), line).second) << "step twice: " << line;
  }
  return found;
}

}  // namespace

std::map<std::int64_t, nlohmann::json> Workplace::metrics(const std::string& run) const {
  return lines_with(path(run) / "metrics.jsonl", "loss");
}

std::map<std::int64_t, nlohmann::json> Workplace::validations(const std::string& run) const {
  return lines_with(path(run) / "metrics.jsonl", "val_loss");
}

std::vector<std::string> Workplace::checkpoints(const std::string& run) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path(run) / "checkpoints"))
    if (entry.is_directory() && !entry.is_symlink()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void Workplace::expect_same(const std::string& a, const std::string& b) const {
  const Outcome outcome = stoa({"compare", a, b, "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
  const auto report = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << outcome.text();
  EXPECT_GT(report["steps"].get<int>(), 0) << report;
  EXPECT_EQ(report["tensors"], report["equal_tensors"]) << report;
  EXPECT_GT(report["tensors"].get<int>(), 20) << report;
}

}  // namespace stoa::e2e
