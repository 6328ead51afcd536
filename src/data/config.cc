#include "data/config.h"

#include <array>

#include "base/error.h"
#include "data/splits.h"

namespace stoa::config {
namespace {

using data::WeightedPrefix;

std::vector<WeightedPrefix> parse_blend(const Node& node) {
  const ValueError error{"a path, a list of paths, or a list [weight, path, weight, path, ...]", ""};
  if (node.is_null()) return {};
  if (node.is_scalar()) return {{1.0, Codec<std::string>::parse(node)}};
  if (!node.is_sequence()) throw error;
  std::vector<WeightedPrefix> blend;
  const auto weight_of = [](const Node& item) {
    return item.is_scalar() && !item.quoted ? parse_real(item.scalar) : std::nullopt;
  };
  const bool weighted = !node.items.empty() && weight_of(node.items.front());
  if (weighted && node.items.size() % 2 != 0) throw error;
  for (std::size_t i = 0; i < node.items.size(); i += weighted ? 2 : 1) {
    WeightedPrefix entry;
    if (weighted) {
      const auto weight = weight_of(node.items[i]);
      if (!weight) throw error;
      if (*weight <= 0) throw ValueError{"weights above 0", ""};
      entry.weight = *weight;
    }
    const Node& path = node.items[i + (weighted ? 1 : 0)];
    if (!path.is_scalar() || path.scalar.empty() || weight_of(path)) throw error;
    entry.prefix = path.scalar;
    blend.push_back(std::move(entry));
  }
  return blend;
}

Node print_blend(const std::vector<WeightedPrefix>& blend) {
  std::vector<Node> items;
  for (const auto& entry : blend) {
    items.push_back(Codec<double>::print(entry.weight));
    items.push_back(Node::text(entry.prefix));
  }
  return Node::sequence(std::move(items));
}

}  // namespace

data::DataPrefix Codec<data::DataPrefix>::parse(const Node& node) {
  data::DataPrefix prefix;
  if (!node.is_map()) {
    prefix.blend = parse_blend(node);
    return prefix;
  }
  for (const auto& [key, value] : node.entries) {
    if (key == "train") {
      prefix.train = parse_blend(value);
    } else if (key == "validation") {
      prefix.validation = parse_blend(value);
    } else if (key == "test") {
      prefix.test = parse_blend(value);
    } else {
      throw ValueError{"the keys train, validation, test", ""};
    }
  }
  return prefix;
}

Node Codec<data::DataPrefix>::print(const data::DataPrefix& value) {
  if (!value.blend.empty()) return print_blend(value.blend);
  if (value.empty()) return {};
  Node node = Node::map();
  node.entries.emplace_back("train", print_blend(value.train));
  node.entries.emplace_back("validation", print_blend(value.validation));
  node.entries.emplace_back("test", print_blend(value.test));
  return node;
}

}  // namespace stoa::config

namespace stoa::data {

using config::EnumName;
using config::Section;

std::span<const EnumName<DatasetType>> enum_names(DatasetType) {
  static constexpr std::array<EnumName<DatasetType>, 2> kNames{{
      {"t5", DatasetType::kT5},
      {"t5_sentences", DatasetType::kT5Sentences},
  }};
  return kNames;
}

std::span<const EnumName<TokenizerLibrary>> enum_names(TokenizerLibrary) {
  static constexpr std::array<EnumName<TokenizerLibrary>, 3> kNames{{
      {"huggingface", TokenizerLibrary::kHuggingface},
      {"megatron", TokenizerLibrary::kMegatron},
      {"sentencepiece", TokenizerLibrary::kSentencepiece},
  }};
  return kNames;
}

namespace {

std::string splits_problem(const std::string& text) {
  try {
    parse_splits(text);
    return {};
  } catch (const ConfigError&) {
    return "up to three numbers of at least 0, as in \"980,10,10\"";
  }
}

}  // namespace

void declare(Section<DataConfig>& s) {
  using C = DataConfig;
  s.short_form("", "data_prefix");
  s.field("data_prefix", &C::data_prefix)
      .help(
          "Prepared data: PREFIX, [PREFIX, ...], [weight, PREFIX, ...], or {train: ..., validation: ..., "
          "test: ...}. Without .bin or .idx.");
  s.field("splits_string", &C::splits_string)
      .check(splits_problem)
      .help("Shares of documents for training, validation and test.");
  s.field("seq_length", &C::seq_length)
      .range(1, 1 << 24)
      .unit("tokens")
      .help("Length of a training sample. One value with model.encoder_seq_length: give either.");
  s.field("eod_mask_loss", &C::eod_mask_loss).help("No loss on the token after an end of document.");
  s.field("reset_position_ids", &C::reset_position_ids).help("Positions restart after an end of document.");
  s.field("reset_attention_mask", &C::reset_attention_mask).help("Tokens attend only within their document.");
  s.field("dataset_type", &C::dataset_type)
      .help(
          "Kind t5, how spans are removed: t5: from running text that fills the source, of similar length "
          "(Raffel et al. 2020); t5_sentences: whole words of consecutive sentences, the samples of "
          "Megatron-LM, from data prepared with --split-sentences.");
  s.field("masked_lm_prob", &C::masked_lm_prob)
      .above(0)
      .range(0, 1)
      .help(
          "Kind bert: share of the tokens of a sample that are predicted; kind t5: share of the tokens that "
          "are moved from the source to the target.");
  s.field("short_seq_prob", &C::short_seq_prob)
      .range(0, 1)
      .help("Kind bert, dataset_type t5_sentences: share of samples that are shorter than possible.");
  s.field("mean_ngram_size", &C::mean_ngram_size)
      .range(1, 64)
      .derived("3 tokens; t5_sentences: 5 words")
      .help(
          "Kind t5: average size of a removed span. t5_sentences: mean of the geometric distribution, before "
          "max_ngram_size truncates it.");
  s.field("max_ngram_size", &C::max_ngram_size)
      .range(1, 512)
      .unit("words")
      .derived("bert: 3; t5_sentences: 10")
      .help("Kind bert, dataset_type t5_sentences: largest number of words that are masked together.");
  s.field("doc_stride", &C::doc_stride)
      .range(1, 1 << 20)
      .unit("tokens")
      .help(
          "Kind bert, task question_answering: a context too long for a row is read in windows that start "
          "this many tokens apart.");
  s.field("index_mapping_dir", &C::index_mapping_dir)
      .derived("next to the data")
      .help("Directory for the cached sample and shuffle indices.");
  s.validate({"data_prefix"}, [](const C& c) {
    const DataPrefix& p = c.data_prefix;
    const bool split = !p.train.empty() || !p.validation.empty() || !p.test.empty();
    require<ConfigError>(!split || !p.train.empty(),
                         "data_prefix names validation or test data but no train data");
  });
}

void declare(Section<TokenizerConfig>& s) {
  using C = TokenizerConfig;
  s.short_form("", "type");
  s.field("library", &C::library)
      .help(
          "huggingface: a directory with tokenizer.json (or spiece.model, or vocab.json and merges.txt); "
          "sentencepiece: a "
          ".model file; megatron: GPT-2's "
          "two files.");
  s.field("type", &C::type).help("huggingface: the directory; megatron: GPT2BPETokenizer.");
  s.field("vocab_file", &C::vocab_file).help("megatron: vocab.json.");
  s.field("merge_file", &C::merge_file).help("megatron: merges.txt; null: the one next to vocab_file.");
  s.field("model", &C::model).help("sentencepiece: the .model file.");
  s.field("num_sentinel_tokens", &C::num_sentinel_tokens)
      .range(0, 100'000)
      .help("sentencepiece: tokens <extra_id_0>, <extra_id_1> ... after the vocabulary (T5: 100).");
  s.validate({"library", "type", "vocab_file", "merge_file"}, [](const C& c) {
    const bool sentencepiece = c.library == TokenizerLibrary::kSentencepiece;
    require<ConfigError>(sentencepiece || (!c.model && c.num_sentinel_tokens == 0),
                         "tokenizer.model and num_sentinel_tokens belong to library sentencepiece");
    require<ConfigError>(!sentencepiece || c.model,
                         "library sentencepiece: give tokenizer.model, the .model file");
    const bool megatron = c.library == TokenizerLibrary::kMegatron;
    require<ConfigError>(!megatron || c.type.value_or("GPT2BPETokenizer") == "GPT2BPETokenizer",
                         "library megatron: type '{}' is not offered; expected GPT2BPETokenizer",
                         c.type.value_or(""));
    require<ConfigError>(
        megatron || (!c.vocab_file && !c.merge_file),
        "vocab_file and merge_file are used only with library megatron; with huggingface, type "
        "names their directory");
  });
}

}  // namespace stoa::data
