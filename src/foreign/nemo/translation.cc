#include "foreign/nemo/translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "config/value.h"

namespace stoa::foreign {

using config::Node;

const Node* NemoTranslation::find(std::string_view path) const {
  const Node* node = root_.find_path(path);
  return node && !node->is_null() ? node : nullptr;
}

std::string NemoTranslation::text(std::string_view path) const {
  const Node* node = find(path);
  if (!node || !node->is_scalar()) return {};
  std::string lower = node->scalar;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool NemoTranslation::is_true(std::string_view path) const { return text(path) == "true"; }

std::int64_t NemoTranslation::number(std::string_view path, std::int64_t otherwise) const {
  return config::parse_integer(text(path)).value_or(otherwise);
}

void NemoTranslation::erase(std::string_view path) {
  const auto dot = path.rfind('.');
  Node* parent = dot == std::string_view::npos ? &root_ : root_.find_path(path.substr(0, dot));
  if (parent && parent->is_map()) parent->erase(dot == std::string_view::npos ? path : path.substr(dot + 1));
}

void NemoTranslation::put(std::string_view path, std::string value, std::string_view source) {
  const Node* present = root_.find_path(path);
  if (present && !present->is_null() && present->origin.layer > 0) return;  // the user's own word
  const Node* from = root_.find_path(source);
  const config::Origin origin = from ? from->origin : config::Origin{};
  Node& node = root_.make_path(path);
  node = Node::plain(std::move(value));
  node.origin = origin;
}

void NemoTranslation::replace(std::string_view path, std::string value) {
  Node& node = *root_.find_path(path);
  const config::Origin origin = node.origin;
  node = Node::plain(std::move(value));
  node.origin = origin;
}

void NemoTranslation::move(std::string_view from, std::string_view to) {
  const Node* node = root_.find_path(from);
  if (!node) return;
  Node copy = *node;
  erase(from);
  const Node* present = root_.find_path(to);
  if (!present || present->origin.layer <= copy.origin.layer) root_.make_path(to) = std::move(copy);
}

void NemoTranslation::problem(std::string_view path, std::string_view reason) {
  const Node* node = root_.find_path(path);
  problems.push_back(node ? fmt::format("{}: {}: {} cannot be honoured: {}", node->origin.text(), path,
                                        node->summary(), reason)
                          : fmt::format("{}: {}", path, reason));
}

void NemoTranslation::run() {
  if (!find("model")) return;
  if (find("model.encoder") || find("model.decoder"))
    encoder_decoder();
  else if (find("model.mcore_bert") || find("model.bert_binary_head") || text("name") == "megatron_bert")
    bert();
  shape();
  falcon_and_gemma();
  attention();
  experts();
  eight_bits();
  recomputation();
  layout();
  batch_and_length();
  data();
  tokenizer();
}

void NemoTranslation::encoder_decoder() {
  if (text("name").find("bart") != std::string::npos || text("model.data.dataset_type") == "bart")
    problem("model.data.dataset_type",
            "encoder-decoders are T5 and mT5, BART's denoising does not exist here");
  if (!find("model.encoder") || !find("model.decoder")) {
    problems.emplace_back("model: an encoder-decoder needs both model.encoder and model.decoder");
    return;
  }
  put("model.kind", "t5", "model.encoder");
  put("model.t5.scale_attention", "true", "model.encoder");
  const std::int64_t encoder = number("model.encoder.num_layers", 12),
                     decoder = number("model.decoder.num_layers", encoder);
  put("model.num_layers", std::to_string(encoder + decoder), "model.encoder.num_layers");
  put("model.t5.encoder_layers", std::to_string(encoder), "model.encoder.num_layers");
  erase("model.encoder.num_layers");
  erase("model.decoder.num_layers");
  stacks();
  move("model.data.seq_length_dec", "model.t5.seq_length_dec");
  if (!find("model.embedding_dropout")) put("model.embedding_dropout", "0.1", "model.hidden_dropout");
  if (text("model.share_token_embeddings") == "false")
    problem("model.share_token_embeddings", "encoder and decoder share the token embedding");
  erase("model.share_token_embeddings");
  if (find("model.share_decoder_tokens_head_embeddings"))
    move("model.share_decoder_tokens_head_embeddings", "model.share_embeddings_and_output_weights");
  if (text("model.tokens_head_bias") != "false") put("model.lm_head_bias", "true", "model.tokens_head_bias");
  erase("model.tokens_head_bias");
}

// Both stacks of Stoa's T5 are alike: what NeMo says for each is given once.
void NemoTranslation::stacks() {
  const Node encoder = *find("model.encoder"), decoder = *find("model.decoder");
  for (const auto& [key, value] : encoder.entries) {
    const Node* other = decoder.find(key);
    if (other && !other->same_value(value))
      problems.push_back(
          fmt::format("{}: model.decoder.{}: {} is not {}, as in the encoder: both stacks are alike in Stoa",
                      other->origin.text(), key, other->summary(), value.summary()));
    const bool of_t5 = key == "relative_attention_num_buckets" || key == "relative_attention_max_distance";
    const std::string path = (of_t5 ? "model.t5." : "model.") + key;
    const Node* present = root_.find_path(path);
    if (!present || present->origin.layer == 0) root_.make_path(path) = value;
  }
  for (const auto& [key, value] : decoder.entries)
    if (!encoder.find(key))
      problems.push_back(fmt::format("{}: model.decoder.{}: not given for the encoder: both stacks are alike",
                                     value.origin.text(), key));
  erase("model.encoder");
  erase("model.decoder");
}

void NemoTranslation::bert() {
  put("model.kind", "bert", "model.bert_binary_head");
  const std::string block = text("model.transformer_block_type");
  if (!block.empty() && block != "pre_ln")
    problem("model.transformer_block_type", "NeMo's BERT is read where it is pre_ln");
  for (const auto& [key, word] : {std::pair("model.bert.pre_norm", "true"),
                                  {"model.bert.embedding_norm", "false"},
                                  {"model.bert.head_activation", "gelu"}})
    put(key, word, "model.transformer_block_type");
  const bool judges = text("model.bert_binary_head") != "false";
  put("model.bert.binary_head", judges ? "true" : "false", "model.bert_binary_head");
  if (!judges) put("model.bert.num_token_types", "0", "model.bert_binary_head");
  erase("model.bert_binary_head");
  if (text("model.add_lm_head") == "false") put("model.bert.lm_head", "false", "model.add_lm_head");
}

void NemoTranslation::shape() {
  if (find("model.override_vocab_size"))
    put("model.vocab_size", text("model.override_vocab_size"), "model.override_vocab_size");
  erase("model.override_vocab_size");
  // The embedding of GPT and BERT has the dropout of the layers.
  if (!find("model.embedding_dropout") && text("model.kind") != "t5")
    put("model.embedding_dropout", find("model.hidden_dropout") ? text("model.hidden_dropout") : "0.1",
        "model.hidden_dropout");
  if (is_true("model.openai_gelu")) {
    const std::string activation = text("model.activation").empty() ? "gelu" : text("model.activation");
    if (activation == "gelu")
      put("model.activation", "gelu_tanh", "model.openai_gelu");
    else if (activation == "geglu" || activation == "fast-geglu")
      put("model.activation", "geglu_tanh", "model.openai_gelu");
    else
      problem("model.openai_gelu", fmt::format("the activation is {}", activation));
    erase("model.openai_gelu");
  }
  if (const Node* own = find("model.embedding_init_method_std")) {
    const Node* common = find("model.init_method_std");
    const auto a = config::parse_real(own->scalar),
               b = config::parse_real(common ? common->scalar : std::string("0.02"));
    if (a == b)
      erase("model.embedding_init_method_std");
    else
      problem("model.embedding_init_method_std", "all weights start with init_method_std");
  }
  // That optimizer gets rate, decay and betas alone of NeMo, and is Megatron-Core's: fp32 moments, its own
  // choice of what decays.
  const bool megatron = text("model.optim.name") == "mcore_distributed_optim";
  if (const std::string type = text("model.optim.dtype"); megatron && !type.empty()) {
    notes.push_back(
        fmt::format("model.optim.dtype {}: NeMo does not read it with mcore_distributed_optim", type));
    erase("model.optim.dtype");
  }
  if (text("model.do_layer_norm_weight_decay") == "true" && megatron)
    notes.emplace_back(
        "model.do_layer_norm_weight_decay: NeMo does not read it with mcore_distributed_optim");
  else if (text("model.do_layer_norm_weight_decay") == "true")
    problem("model.do_layer_norm_weight_decay", "norms and biases have no weight decay");
  erase("model.do_layer_norm_weight_decay");
}

void NemoTranslation::falcon_and_gemma() {
  const std::string own = "model.mcore_customization_config.";
  if (is_true(own + "parallel_attention")) {
    put("model.use_parallel_residual", "true", own + "parallel_attention");
    // One norm for both branches; two with the later architecture (Falcon 40B).
    put("model.num_ln_in_parallel_attn", is_true(own + "new_decoder_architecture") ? "2" : "1",
        own + "parallel_attention");
  }
  erase(own + "parallel_attention");
  erase(own + "new_decoder_architecture");
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"})
    move(own + key, std::string("model.") + key);
  if (const Node* rest = find("model.mcore_customization_config"); rest && rest->is_map()) {
    for (const auto& [key, value] : rest->entries) problem(own + key, "Stoa does not know this key");
  }
  erase("model.mcore_customization_config");
  if (text("model.name") == "megatron_gemma2" || text("name") == "megatron_gemma2") {
    // What NeMo's layers of Gemma 2 are by their class: norms on both sides, a window in every other layer.
    put("model.norm_placement", "both", "name");
    if (!find("model.window_size")) {
      put("model.window_size", "4096", "name");
      put("model.window_attn_skip_freq", "2", "name");
    }
    notes.emplace_back(
        "megatron_gemma2: norms before and after each branch, a window of 4096 tokens in every other layer");
  }
}

void NemoTranslation::attention() {
  if (const Node* window = find("model.window_size"); window && window->is_sequence()) {
    const auto keys = window->items.empty() ? std::nullopt : config::parse_integer(window->items[0].scalar);
    if (!keys) {
      problem("model.window_size", "expected two numbers, such as [4096, 0]");
    } else if (*keys < 0) {
      erase("model.window_size");
    } else {
      replace("model.window_size", std::to_string(*keys + 1));  // itself included
    }
  }
  if (is_true("model.scale_positional_embedding")) {
    const char* source = "model.scale_positional_embedding";
    put("model.rope_scaling.type", "llama3", source);
    put("model.rope_scaling.factor", "8", source);
    put("model.rope_scaling.low_freq_factor", "1", source);
    put("model.rope_scaling.high_freq_factor", "4", source);
    put("model.rope_scaling.original_max_position_embeddings", "8192", source);
  }
  erase("model.scale_positional_embedding");
  if (is_true("model.rotary_interleaved") && purpose_ != Purpose::kTrain) {
    notes.emplace_back(
        "rotary_interleaved: Stoa rotates halves, not neighbours; the plan is the same, and a run is "
        "refused");
    erase("model.rotary_interleaved");
  }
}

void NemoTranslation::experts() {
  if (number("model.num_moe_experts", 0) == 1) erase("model.num_moe_experts");
  const bool has = find("model.num_moe_experts");
  for (const char* key : {"model.moe_grouped_gemm", "model.moe_token_dispatcher_type"}) erase(key);
  if (!has) return;
  const std::string type = text("model.moe_router_load_balancing_type").empty()
                               ? "aux_loss"
                               : text("model.moe_router_load_balancing_type");
  const double weight = config::parse_real(text("model.moe_aux_loss_coeff")).value_or(0);
  const std::int64_t micro = number("model.micro_batch_size", 1);
  // Stoa balances by a loss per sequence, which is that of a microbatch of one sequence.
  if (type == "aux_loss" && (micro == 1 || weight == 0)) {
    put("model.moe_router_load_balancing_type", "seq_aux_loss", "model.moe_router_load_balancing_type");
    if (!find("model.moe_aux_loss_coeff")) put("model.moe_aux_loss_coeff", "0", "model.num_moe_experts");
  } else if (type == "aux_loss" && (purpose_ == Purpose::kPlan || purpose_ == Purpose::kShow)) {
    put("model.moe_router_load_balancing_type", "seq_aux_loss", "model.moe_router_load_balancing_type");
    notes.emplace_back(
        "model.moe_aux_loss_coeff: a loss over microbatches of several sequences: Stoa's is per sequence. "
        "The "
        "plan is the same; 'stoa train' refuses it");
  } else if (type == "aux_loss") {
    problem("model.moe_aux_loss_coeff",
            "a loss over microbatches of several sequences: Stoa's is per sequence, seq_aux_loss");
  }
  if (find("model.moe_expert_capacity_factor") && micro > 1)
    problem("model.moe_expert_capacity_factor",
            "a capacity over microbatches of several sequences: Stoa's is per sequence");
}

void NemoTranslation::eight_bits() {
  const std::string on = text("model.fp8");
  if (on == "true") {
    replace("model.fp8", is_true("model.fp8_e4m3") ? "e4m3" : "hybrid");
    put("model.fp8_recipe", "delayed", "model.fp8");
  }
  for (const char* key : {"model.fp8_e4m3", "model.fp8_hybrid"}) erase(key);
}

void NemoTranslation::recomputation() {
  // NeMo's files name a method and a number of layers together with a granularity that is null: nothing is
  // recomputed.
  if (text("model.activations_checkpoint_granularity") == "full") return;
  for (const char* key : {"model.activations_checkpoint_method", "model.activations_checkpoint_num_layers"})
    if (const Node* node = find(key); node && node->origin.layer == 0) erase(key);
}

void NemoTranslation::layout() {
  const std::string name = text("model.optim.name");
  if (!find("model.zero_stage") && (name == "distributed_fused_adam" || name == "mcore_distributed_optim"))
    put("model.zero_stage", "1", "model.optim.name");
  if (is_true("model.fsdp")) {
    const std::string strategy = text("model.fsdp_sharding_strategy");
    if (strategy == "hybrid")
      problem("model.fsdp_sharding_strategy", "shards are those of all data-parallel ranks: full or grad");
    put("model.zero_stage", strategy == "grad" ? "2" : "3", "model.fsdp");
    erase("model.fsdp");
  }
  if (number("model.pipeline_model_parallel_size", 1) == 1 &&
      number("model.virtual_pipeline_model_parallel_size", 1) > 1) {
    notes.push_back(fmt::format("virtual_pipeline_model_parallel_size {}: NeMo has no chunks with one stage",
                                number("model.virtual_pipeline_model_parallel_size", 1)));
    erase("model.virtual_pipeline_model_parallel_size");
  }
}

void NemoTranslation::batch_and_length() {
  for (const char* key : {"trainer.max_epochs", "trainer.max_steps"})
    if (number(key, 0) == -1) erase(key);
  if (!find("model.global_batch_size")) {  // NeMo: a microbatch for each data-parallel rank
    const std::int64_t group = number("model.tensor_model_parallel_size", 1) *
                               number("model.pipeline_model_parallel_size", 1) *
                               number("model.context_parallel_size", 1),
                       ranks = number("trainer.devices", 1) * number("trainer.num_nodes", 1);
    const std::int64_t batch = number("model.micro_batch_size", 1) *
                               std::max<std::int64_t>(ranks / std::max<std::int64_t>(group, 1), 1);
    put("model.global_batch_size", std::to_string(batch), "model.micro_batch_size");
    notes.push_back(
        fmt::format("model.global_batch_size is not given: {}, a microbatch for each of the "
                    "data-parallel ranks",
                    batch));
  }
  lengths();
}

// Samples have the length of the data. Between stages NeMo sends tensors of the model's length, so there both
// must be one.
void NemoTranslation::lengths() {
  const char* own = find("model.encoder_seq_length") ? "model.encoder_seq_length" : "model.seq_length";
  const std::int64_t model = number(own, 0), data = number("model.data.seq_length", 0);
  if (model == 0 || data == 0 || model == data) return;
  const Node* first = find(own);
  if (first->origin.layer != find("model.data.seq_length")->origin.layer) return;  // the later one counts
  if (number("model.pipeline_model_parallel_size", 1) > 1) return;  // the reader says that they differ
  notes.push_back(fmt::format("samples have {} tokens (model.data.seq_length; {} is {})", data, own, model));
  erase(own);
  if (!find("model.max_position_embeddings"))
    put("model.max_position_embeddings", std::to_string(model), "model.data.seq_length");
}

void NemoTranslation::data() {
  if (find("model.retro") || find("model.data.retro_data"))
    problem(find("model.retro") ? "model.retro" : "model.data.retro_data",
            "retrieval (RETRO) does not exist here: leave it out with ~model.retro ~model.data.retro_data");
  if (is_true("model.data.add_fim")) {
    problem("model.data.add_fim", "samples are not rearranged (fill in the middle)");
  } else {
    erase("model.data.fim");
  }
  if (text("model.data.data_impl") == "mock") {
    if (purpose_ != Purpose::kTrain)
      erase("model.data.data_impl");
    else
      problem("model.data.data_impl", "for random tokens use 'stoa bench train'");
  }
}

}  // namespace stoa::foreign
