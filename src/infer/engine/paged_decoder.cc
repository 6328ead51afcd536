#include "infer/engine/paged_decoder.h"

#include <algorithm>

#include "base/error.h"
#include "infer/cache_type.h"
#include "ops/cache_rows.h"

namespace stoa::infer {
namespace {

constexpr std::int64_t kBlockTokens = 16;
constexpr double kGigabyte = 1e9;

bool keeps_state(const model::ModelConfig& config) {
  for (std::int64_t l = 0; l < config.num_layers; ++l)
    if (config.linear.is_linear(l)) return true;
  return false;
}

// Length of the longest text.
std::int64_t positions_of(const PassLimits& l) { return std::max(l.context, l.source_tokens); }

// Adapters use the matrices of the model as it holds them.
PagedModel::Options with_shared_types(PagedModel::Options options) {
  for (model::ModelSpec& adapted : options.adapters) adapted.stored = options.model.stored;
  return options;
}

}  // namespace

bool check_kind(const OpenModel& model, const EngineUse& use) {
  const bool pairs = use.pairs && model.kind() == model::ModelKind::kT5;
  model.require_kind(pairs ? model::ModelKind::kT5 : model::ModelKind::kGpt);
  return pairs;
}

PagedDecoder::PagedDecoder(Machine& machine, const PagedModel::Options& options,
                           std::optional<std::size_t> scratch_bytes)
    : options_(with_shared_types(options)),
      chunk_(machine, options.model, options.precision, options.limits.most_tokens(),
             positions_of(options.limits), options.share),
      adapters_(chunk_, options_.adapters, options.precision, options.limits.most_tokens(),
                positions_of(options.limits), options.share),
      model_(chunk_.arena(), options, [this] {
        return PassParts{chunk_.machine(),    chunk_.ops(),        chunk_.parallel(), chunk_.chunk(),
                         chunk_.parameters(), &chunk_.constants(), &adapters_};
      }) {
  chunk_.commit(scratch_bytes);
  adapters_.bind(machine, chunk_.arena(), positions_of(options.limits));
  pool_ = {options_.kept(), chunk_.arena().declared()[static_cast<std::size_t>(MemoryCategory::kKvCache)]};
}

DType cache_type(OpenModel& model, std::optional<DType> asked) {
  return cache_type(model.precision().compute, asked, model.stored_types() != nullptr);
}

std::size_t bytes_per_token(const model::ModelConfig& config, DType type, const RankShare& share) {
  const model::CacheSizes sizes = model::cache_sizes(config, share.tensor_place());
  std::size_t bytes = 0;
  for (const std::int64_t l : model::caching_layers(config, share.layers(config.num_layers)))
    if (!config.linear.is_linear(l))
      bytes += static_cast<std::size_t>(sizes.heads * ops::cached_width(type, sizes.width) *
                                        (sizes.shared ? 1 : 2)) *
               size_of(type);
  return bytes;
}

std::size_t most_bytes_per_token(const model::ModelConfig& config, DType type, RankShare share) {
  std::size_t most = 0;
  for (share.rank = 0; share.rank < share.ranks(); ++share.rank)
    most = std::max(most, bytes_per_token(config, type, share));
  return most;
}

bool needs_numbers(const AdapterFiles& adapter) {
  const model::PeftConfig& peft = adapter.model().config.peft;
  return peft.is_lora() && peft.lora.use_dora;
}

bool reads_one_text(const model::ModelConfig& config) {
  return keeps_state(config) || LengthTables(config).any();
}

PassLimits pass_limits(const model::ModelSpec& model, DType type, const EngineUse& use,
                       const RankShare& share) {
  const model::ModelConfig& config = model.config;
  PassLimits l;
  const std::int64_t positions = usable_positions(config);
  l.vocabulary = model.vocabulary;
  l.virtual_tokens = config.peft.virtual_count();
  const auto with_virtual = [&](std::optional<std::int64_t> tokens) {
    return tokens ? std::optional(*tokens + l.virtual_tokens) : std::nullopt;
  };
  if (config.kind == model::ModelKind::kT5) {
    l.context = longest_side(config, use.context);
    l.source_tokens = longest_side(config, with_virtual(use.source_tokens ? use.source_tokens : use.context));
  } else {
    l.context = std::min(positions, with_virtual(use.context).value_or(positions));
  }
  const bool state = keeps_state(config), alone = reads_one_text(config);
  l.sequences = alone ? 1 : use.sequences;
  l.shares = !alone;
  l.takes_back = !alone;
  if (alone && !l.reads_sources()) l.left_behind = state ? LeftBehind::kWhole : LeftBehind::kBeginning;
  const std::int64_t longest = positions_of(l);
  l.block_tokens = alone ? longest : std::min(kBlockTokens, longest);
  const std::size_t per_token = most_bytes_per_token(config, type, share);
  const double block_bytes = static_cast<double>(per_token) * static_cast<double>(l.block_tokens);
  const std::int64_t context_blocks = l.blocks_of(l.context) + l.blocks_of(l.source_tokens),
                     most = context_blocks * l.sequences;
  const double bytes =
      use.cache_bytes.value_or(std::max(kGigabyte, block_bytes * static_cast<double>(context_blocks)));
  l.blocks = block_bytes == 0 || bytes >= block_bytes * static_cast<double>(most)
                 ? most
                 : static_cast<std::int64_t>(bytes / block_bytes);
  require<PoolTooSmall>(l.blocks >= 1,
                        "{:g} bytes for keys and values hold less than one block of {} tokens ({:.0f} bytes)",
                        bytes, l.block_tokens, block_bytes);
  require<PoolTooSmall>(l.blocks >= 2 || !l.reads_sources(),
                        "{:g} bytes for keys and values hold less than two blocks of {} tokens ({:.0f} bytes "
                        "each), one for a source and one for its target",
                        bytes, l.block_tokens, block_bytes);
  l.pass_tokens = std::clamp<std::int64_t>(use.pass_tokens, 1, (l.context + l.source_tokens) * l.sequences);
  l.scored = std::max(l.sequences, use.scored);
  return l;
}

PagedModel::Options paged_options(OpenModel& model, const EngineUse& use,
                                  std::span<const AdapterFiles> adapters, const RankShare& share) {
  const bool pairs = check_kind(model, use);
  if (std::ranges::any_of(adapters, needs_numbers)) model.decode_weights();
  const DType kept = cache_type(model, use.cache);
  PagedModel::Options options{
      model.model(), model.precision(), pass_limits(model.model(), kept, use, share), {}, use.losses, kept,
      share};
  if (pairs)
    options.limits.start =
        static_cast<std::int32_t>(model.special().decoder_start.value_or(model.special().pad.value_or(0)));
  require<ConfigError>(adapters.empty() || !(pairs || reads_one_text(model.model().config)),
                       "{}: {} has one adapter", model.directory().string(),
                       pairs ? "an encoder-decoder" : "a model that reads one text at a time");
  const std::int64_t positions = usable_positions(model.model().config);
  for (const AdapterFiles& files : adapters) {
    options.adapters.push_back(files.model());
    const std::int64_t tokens = files.model().config.peft.virtual_count();
    options.limits.adapters.push_back(tokens);
    // A text of use.context tokens has room behind the virtual ones.
    if (use.context)
      options.limits.context = std::max(options.limits.context, std::min(positions, *use.context + tokens));
  }
  return options;
}

std::unique_ptr<PagedDecoder> load_paged_decoder(OpenModel& model, const EngineUse& use,
                                                 std::span<const AdapterFiles> adapters) {
  check_kind(model, use);
  if (use.tokenizer) model.tokenizer();  // before paged_options() makes the machine
  return load_share(model, paged_options(model, use, adapters), adapters);
}

std::unique_ptr<PagedDecoder> load_share(OpenModel& model, const PagedModel::Options& options,
                                         std::span<const AdapterFiles> adapters) {
  auto decoder = model.load<PagedDecoder>(options);
  for (std::size_t i = 0; i < adapters.size(); ++i)
    model.read_adapter(adapters[i], decoder->adapters().own(static_cast<int>(i) + 1));
  return decoder;
}

}  // namespace stoa::infer
