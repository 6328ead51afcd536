#include "cli/sampling_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/file.h"
#include "cli/number_checks.h"

namespace stoa::cli {

namespace hf = model::huggingface;

void SamplingArguments::add_to(CLI::App& command, Use use) {
  use_ = use;
  auto& s = options.sampling;
  if (use == Use::kChat) s.temperature = 0.8, s.top_p = 0.95;
  max_tokens_ = command.add_option("--max-tokens", options.max_tokens, "Longest answer in tokens")
                    ->capture_default_str()
                    ->check(between(0, 1e9));
  temperature_ =
      command.add_option("--temperature", s.temperature, "Divides the logits; 0 takes the most likely token")
          ->capture_default_str()
          ->check(between(0, 1000));
  top_k_ = command.add_option("--top-k", s.top_k, "Sample from the k most likely tokens; 0: from all")
               ->capture_default_str()
               ->check(between(0, 1e9));
  top_p_ = command.add_option("--top-p", s.top_p, "Sample from the smallest set with this total probability")
               ->capture_default_str()
               ->check(between(0, 1));
  min_p_ =
      command
          .add_option("--min-p", s.min_p, "Exclude tokens less than min-p times as likely as the most likely")
          ->capture_default_str()
          ->check(between(0, 1));
  infer::FurtherCuts& further = s.further;
  typical_p_ =
      command
          .add_option(
              "--typical-p", further.typical_p,
              "Sample from the smallest set with this total probability of tokens that surprise about as "
              "much as is expected; 1: from all")
          ->capture_default_str()
          ->check(between(1e-9, 1));
  command
      .add_option("--top-n-sigma", further.top_n_sigma,
                  "Exclude tokens more standard deviations than this below the largest logit; 0: none")
      ->capture_default_str()
      ->check(between(0, 1000));
  command
      .add_option("--xtc-probability", further.xtc_probability,
                  "How often all but the least likely of the top choices are excluded")
      ->capture_default_str()
      ->check(between(0, 1));
  command
      .add_option("--xtc-threshold", further.xtc_threshold,
                  "Probability of a top choice; above 0.5, nothing is excluded")
      ->capture_default_str()
      ->check(between(0, 1));
  counts_only_with(command, {"--xtc-threshold"}, "--xtc-probability");
  repetition_penalty_ = command
                            .add_option("--repetition-penalty", s.repetition_penalty,
                                        "Above 1: tokens seen before become less likely")
                            ->capture_default_str()
                            ->check(between(1e-3, 1000));
  command
      .add_option("--sampler-order", order_,
                  "Order of penalties, temperature and cuts: that of Hugging Face, vLLM or llama.cpp")
      ->capture_default_str()
      ->check(CLI::IsMember({"hf", "vllm", "llama.cpp"}));
  command.add_option("--stop", options.stop, "Text that ends the answer (may be given several times)")
      ->check([](const std::string& text) {
        return std::string(text.empty() ? "expected a text, got an empty one" : "");
      });
  command.add_option("--seed", s.seed, "Seed of the random numbers")
      ->capture_default_str()
      ->check(between(0, 9.2e18));
  greedy_ = command.add_flag("--greedy", s.greedy, "The most likely token every time");
  counts_only_without(command,
                      {"--temperature", "--top-k", "--top-p", "--min-p", "--typical-p", "--top-n-sigma",
                       "--xtc-probability", "--xtc-threshold", "--seed"},
                      "--greedy");
  command.add_flag(
      "--no-generation-config", ignore_file_,
      "Ignore the model's generation_config.json, which otherwise applies where no option is given");
}

SamplingArguments::Merged SamplingArguments::merged(const std::filesystem::path& directory,
                                                    const hf::SpecialTokens& config, bool draws) const {
  Merged out;
  out.options = options;
  auto& s = out.options.sampling;
  s.order = infer::sampler_order_of(order_);
  const std::filesystem::path path = directory / hf::GenerationConfig::kFile;
  hf::GenerationConfig file;
  if (!ignore_file_ && std::filesystem::exists(path)) {
    try {
      file = hf::read_generation_config(read_text(path));
    } catch (const ConfigError& error) {
      fail<ConfigError>("{}: {}; --no-generation-config ignores it", directory.string(), error.what());
    }
  }
  const auto take = [&](const char* key, const auto& value, auto& target) {
    if (!value) return;
    target = *value;
    out.taken[key] = *value;
  };
  const auto take_ids = [&](const char* key, const auto& ids, auto& target) {
    if (ids.empty()) return;
    target = ids;
    out.taken[key] = ids;
  };
  const auto& ends = file.special.eos.empty() ? config.eos : file.special.eos;
  for (const auto id : ends) out.options.end_tokens.push_back(static_cast<std::int32_t>(id));
  if (!file.special.eos.empty()) out.taken["eos_token_id"] = file.special.eos;
  if (!given(max_tokens_)) take("max_new_tokens", file.max_new_tokens, out.options.max_tokens);
  out.not_followed = file.not_followed;
  if (!draws) return out;

  take_ids("suppress_tokens", file.suppressed, s.suppressed);
  take_ids("begin_suppress_tokens", file.suppressed_first, s.suppressed_first);
  take_ids("bad_words_ids", file.bad_words, s.bad_words);
  if (!given(repetition_penalty_)) take("repetition_penalty", file.repetition_penalty, s.repetition_penalty);
  if (s.greedy) {
    infer::validate(s);
    return out;
  }
  const bool counts = use_ == Use::kChat ? file.draws() : file.do_sample.value_or(false);
  if (counts && !file.do_sample.value_or(true)) {
    const bool drawn = given(temperature_) || given(top_k_) || given(top_p_) || given(min_p_) ||
                       given(typical_p_) || s.further.any();
    if (!drawn) s.greedy = true, out.taken["do_sample"] = false;
  } else if (counts) {
    // If the file configures sampling, keys missing from it are neutral (sampling unrestricted).
    const infer::SamplingOptions neutral;
    const auto choose = [&](const CLI::Option* flag, const char* key, const auto& value, auto& target,
                            auto otherwise) {
      if (given(flag)) return;
      target = otherwise;
      take(key, value, target);
    };
    choose(temperature_, "temperature", file.temperature, s.temperature, neutral.temperature);
    choose(top_k_, "top_k", file.top_k, s.top_k, neutral.top_k);
    choose(top_p_, "top_p", file.top_p, s.top_p, neutral.top_p);
    choose(min_p_, "min_p", file.min_p, s.min_p, neutral.min_p);
    choose(typical_p_, "typical_p", file.typical_p, s.further.typical_p, neutral.further.typical_p);
    s.further.typical_p = std::min(s.further.typical_p, 1.0);  // beyond, transformers cuts nothing
  }
  try {
    infer::validate(s);
  } catch (const ConfigError& error) {
    if (out.taken.empty()) throw;
    fail<ConfigError>("{}: {}; --no-generation-config ignores it", path.string(), error.what());
  }
  return out;
}

void SamplingArguments::Merged::say(Console& console) const {
  if (!taken.empty()) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : taken.items()) {
      std::string text = value.dump();
      if (text.size() > 40) text = text.substr(0, 37) + "...";
      parts.push_back(key + " " + text);
    }
    console.line(fmt::format("from {}: {}", hf::GenerationConfig::kFile, fmt::join(parts, ", ")));
  }
  for (const auto& wish : not_followed)
    console.line(fmt::format("{}: {} is not supported", hf::GenerationConfig::kFile, wish));
}

}  // namespace stoa::cli
