#include "serve/fields.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace stoa::serve {
namespace {

using enum FieldUse;

constexpr Field kModel{"model", kHonoured, "a name of `/v1/models`; without it, the first model"};
constexpr Field kTemperature{"temperature", kHonoured, "0 to 100; 0 takes the most likely token"};
constexpr Field kTopP{"top_p", kHonoured, "0 to 1; 0 takes the most likely token"};
constexpr Field kTopK{"top_k", kHonoured, "0 or -1: all tokens"};
constexpr Field kMinP{"min_p", kHonoured, "0 to 1"};
constexpr Field kSeed{"seed", kHonoured, "without it, one by chance"};
constexpr Field kStop{"stop", kHonoured, "a text or up to 64; not part of the answer"};
constexpr Field kN{"n", kHonoured, "1 to 128 choices"};
constexpr Field kStream{"stream", kHonoured, "server-sent events"};
constexpr Field kStreamOptions{"stream_options", kHonoured, "`include_usage`, `continuous_usage_stats`"};
constexpr Field kPresence{"presence_penalty", kHonoured, "-2 to 2"};
constexpr Field kFrequency{"frequency_penalty", kHonoured, "-2 to 2"};
constexpr Field kRepetition{"repetition_penalty", kHonoured, "above 0; 1: none"};
constexpr Field kBias{"logit_bias", kHonoured, "id: -100 to 100, or pairs as llama-server takes them"};
constexpr Field kMinTokens{"min_tokens", kHonoured, "no end token before"};
constexpr Field kIgnoreEos{"ignore_eos", kHonoured, "end tokens do not end the answer"};
constexpr Field kStopIds{"stop_token_ids", kHonoured, "more end tokens"};
constexpr Field kSkipSpecial{"skip_special_tokens", kHonoured, "default true"};
constexpr Field kIncludeStop{"include_stop_str_in_output", kHonoured, "default false"};
constexpr Field kUser{"user", kIgnored};
constexpr Field kServiceTier{"service_tier", kIgnored};
constexpr Field kStore{"store", kIgnored, "nothing is stored"};
constexpr Field kMetadata{"metadata", kIgnored};
constexpr Field kCacheKey{"prompt_cache_key", kIgnored};
constexpr Field kCacheRetention{"prompt_cache_retention", kIgnored};
constexpr Field kSafety{"safety_identifier", kIgnored};
constexpr Field kSamplerOrder{
    "sampler_order", kHonoured,
    "`hf` (default), `vllm`, `llama.cpp`: order of penalties, temperature and cuts"};
constexpr Field kBadWords{"bad_words", kHonoured, "texts that the answer never has, up to 64"};
constexpr Field kResponseFormat{
    "response_format", kHonoured,
    "`text`, `json_object`, `json_schema`; `strict` or not, the schema is obeyed"};
constexpr Field kGuidedJson{"guided_json", kHonoured, "a schema, or its text"};
constexpr Field kGuidedRegex{"guided_regex", kHonoured, "of the whole answer"};
constexpr Field kGuidedChoice{"guided_choice", kHonoured, "texts, one of which is the answer"};
constexpr Field kGuidedGrammar{"guided_grammar", kHonoured, "GBNF"};
constexpr Field kStructured{"structured_outputs", kHonoured,
                            "one of `json`, `regex`, `choice`, `grammar`, `json_object`"};
constexpr Field kGrammar{"grammar", kHonoured, "GBNF, as llama-server takes it"};
constexpr Field kJsonSchema{"json_schema", kHonoured, "a schema, as llama-server takes it"};
constexpr Field kLogprobsMode{"logprobs_mode", kHonoured,
                              "`raw_logprobs` (default): the model's own; `processed_logprobs`: of what is "
                              "drawn from, after penalties, cuts and temperature"};
constexpr Field kCachePrompt{"cache_prompt", kIgnored, "beginnings are always kept"};
constexpr Field kSlot{"id_slot", kIgnored, "slots are not chosen"};
constexpr Field kBeamSearch{"use_beam_search", kRefused, "", "false"};

template <std::size_t A, std::size_t B>
constexpr std::array<Field, A + B> joined(const std::array<Field, A>& a, const std::array<Field, B>& b) {
  std::array<Field, A + B> out{};
  std::copy(a.begin(), a.end(), out.begin());
  std::copy(b.begin(), b.end(), out.begin() + A);
  return out;
}

// Samplers of llama-server that are not Stoa's.
constexpr std::array kLlamaSamplers{
    Field{"typical_p", kHonoured, "0 to 1; 1: none is cut for being untypical"},
    Field{"top_n_sigma", kHonoured, "standard deviations below the largest logit; 0 and less: all"},
    Field{"mirostat", kRefused, "", "0"},
    Field{"mirostat_tau", kIgnored, "of `mirostat`"},
    Field{"mirostat_eta", kIgnored, "of `mirostat`"},
    Field{"dynatemp_range", kRefused, "", "0.0"},
    Field{"dynatemp_exponent", kIgnored, "of `dynatemp_range`"},
    Field{"xtc_probability", kHonoured,
          "that all but the least likely of the top choices are excluded; default 0"},
    Field{"xtc_threshold", kHonoured,
          "the probability of a top choice; default 0.1; above 0.5: none is excluded"},
    Field{"dry_multiplier", kRefused, "", "0.0"},
    Field{"dry_base", kIgnored, "of `dry_multiplier`"},
    Field{"dry_allowed_length", kIgnored, "of `dry_multiplier`"},
    Field{"dry_penalty_last_n", kIgnored, "of `dry_multiplier`"},
    Field{"dry_sequence_breakers", kIgnored, "of `dry_multiplier`"},
    Field{"min_keep", kRefused, "", "0"},
    Field{"n_keep", kRefused, "a text is never shifted", "0"},
    Field{"timings_per_token", kRefused, "/metrics has times, and the end of /completion has `timings`",
          "false"},
    Field{"return_progress", kRefused, "", "false"}};
// Fields of vLLM and llama-server, which their clients often send with values that have no effect.
constexpr std::array kOfOthers = joined(
    std::array{Field{"cache_salt", kHonoured, "requests with different salts do not share cached prefixes"},
               kCachePrompt, kSlot, Field{"request_id", kIgnored, "the header X-Request-Id names a request"},
               Field{"guided_decoding_backend", kIgnored, "there is one"},
               Field{"repeat_penalty", kRefused, "over the last tokens alone: repetition_penalty is over all",
                     "1.0"},
               Field{"repeat_last_n", kIgnored, "of `repeat_penalty`"},
               Field{"n_probs", kRefused, "`logprobs` gives them", "0"},
               Field{"reasoning_format", kRefused, "thoughts stay in the text", "\"none\""},
               Field{"length_penalty", kRefused, "of beam search", "1.0"},
               Field{"priority", kRefused, "", "0"},
               Field{"allowed_token_ids", kRefused, "a grammar says what is allowed"},
               Field{"prompt_logprobs", kRefused, "`echo` of /v1/completions gives them"},
               Field{"spaces_between_special_tokens", kRefused, "", "true"},
               Field{"return_tokens_as_token_ids", kRefused, "", "false"},
               Field{"return_token_ids", kRefused, "/tokenize gives them", "false"}, kBeamSearch,
               Field{"samplers", kRefused, "`sampler_order` chooses their order"}},
    kLlamaSamplers);

constexpr std::array kCompletions = joined(
    std::array{kModel,
               Field{"prompt", kHonoured, "a text, ids, or a list of either, 1024 at most"},
               Field{"max_tokens", kHonoured, "default 16; 0 only with `echo`; -1: what the context leaves"},
               kTemperature,
               kTopP,
               kTopK,
               kMinP,
               kN,
               Field{"best_of", kRefused, "", "1"},
               Field{"echo", kHonoured, "the prompt comes first, with `logprobs` its log-probabilities"},
               Field{"logprobs", kHonoured, "0 to 20 candidates per token"},
               kLogprobsMode,
               kStop,
               kSeed,
               Field{"suffix", kHonoured,
                     "the answer fills in between; of models that have tokens for it, without `echo`"},
               kPresence,
               kFrequency,
               kRepetition,
               kBias,
               kBadWords,
               kSamplerOrder,
               kStream,
               kStreamOptions,
               kMinTokens,
               kIgnoreEos,
               kStopIds,
               kSkipSpecial,
               kIncludeStop,
               Field{"add_special_tokens", kHonoured, "what the tokenizer adds to texts; default true"},
               Field{"truncate_prompt_tokens", kHonoured, "keeps the last ids of a prompt"},
               kResponseFormat,
               kGuidedJson,
               kGuidedRegex,
               kGuidedChoice,
               kGuidedGrammar,
               kStructured,
               kGrammar,
               kJsonSchema,
               Field{"prompt_embeds", kRefused, "tensors are not taken from requests"},
               kUser,
               kMetadata,
               kStore,
               kServiceTier,
               kCacheKey,
               kCacheRetention,
               kSafety},
    kOfOthers);

constexpr std::array kChat = joined(
    std::array{
        kModel,
        Field{"messages", kHonoured,
              "roles system, developer, user, assistant, tool; content a text or parts of type text"},
        Field{"max_completion_tokens", kHonoured, "default, and -1: what the context leaves"},
        Field{"max_tokens", kHonoured, "the older name of the same"},
        kTemperature,
        kTopP,
        kTopK,
        kMinP,
        kN,
        kStop,
        kSeed,
        Field{"logprobs", kHonoured},
        Field{"top_logprobs", kHonoured, "0 to 20, with `logprobs`"},
        kLogprobsMode,
        kPresence,
        kFrequency,
        kRepetition,
        kBias,
        kBadWords,
        kSamplerOrder,
        kStream,
        kStreamOptions,
        Field{"tools", kHonoured, "rendered by the chat template, calls read from the answer"},
        Field{"tool_choice", kHonoured,
              "`auto`, `none`; of `required` and a named tool the arguments fit its schema"},
        Field{"parallel_tool_calls", kHonoured, "false: the first call only"},
        kResponseFormat,
        kGuidedJson,
        kGuidedRegex,
        kGuidedChoice,
        kGuidedGrammar,
        kStructured,
        kGrammar,
        kJsonSchema,
        Field{"functions", kRefused, "the older form of `tools`", "[]"},
        Field{"function_call", kRefused, "the older form of `tool_choice`", "\"none\""},
        Field{"modalities", kRefused, "text alone", R"(["text"])"},
        Field{"audio", kRefused},
        Field{"web_search_options", kRefused, "nothing is searched"},
        kMinTokens,
        kIgnoreEos,
        kStopIds,
        kSkipSpecial,
        kIncludeStop,
        Field{"add_generation_prompt", kHonoured, "default: true, or false with `continue_final_message`"},
        Field{"continue_final_message", kHonoured, "the answer continues the last message, of the assistant"},
        Field{"chat_template_kwargs", kHonoured,
              "variables for the template, such as enable_thinking; what fields of the request say is "
              "refused here"},
        Field{"chat_template", kRefused, "the model's own is used"},
        Field{"echo", kRefused, "", "false"},
        Field{"best_of", kRefused, "", "1"},
        Field{"documents", kRefused},
        Field{"include_reasoning", kRefused, "thoughts stay in the text", "true"},
        Field{"reasoning_effort", kIgnored},
        Field{"verbosity", kIgnored},
        Field{"prediction", kIgnored, "a hint for speed"},
        kUser,
        kMetadata,
        kStore,
        kServiceTier,
        kCacheKey,
        kCacheRetention,
        kSafety},
    kOfOthers);

constexpr std::array kEmbeddings{
    kModel, Field{"input", kHonoured, "a text, ids, or a list of either, 2048 at most"},
    Field{"encoding_format", kHonoured, "`float` or `base64` (float32, little-endian)"},
    Field{"dimensions", kRefused, "vectors are not shortened"}, kUser};

constexpr std::array kTokenize{
    kModel,
    Field{"prompt", kHonoured, "a text"},
    Field{"messages", kHonoured, "in place of prompt: a chat, by its template"},
    Field{"content", kHonoured, "the name of llama-server for `prompt`"},
    Field{"add_special_tokens", kHonoured, "default true; of `content` and `messages` false"},
    Field{"add_special", kHonoured, "the name of llama-server for the same"},
    Field{"add_generation_prompt", kHonoured, "of `messages`; default true"},
    Field{"return_token_strs", kHonoured, "adds `token_strs`"},
    Field{"with_pieces", kHonoured, "each token with its text"}};
constexpr std::array kDetokenize{kModel, Field{"tokens", kHonoured, "ids"}};

constexpr Field kBlocks{"messages", kHonoured,
                        "roles user, assistant and system; a text or blocks: text, tool_use, tool_result; "
                        "thinking is left out. An "
                        "assistant's text at the end is continued"};
constexpr Field kSystem{"system", kHonoured, "a text or blocks of type text"};
constexpr Field kToolBlocks{"tools", kHonoured, "those with an `input_schema`, as of /v1/chat/completions"};
constexpr Field kToolChoice{"tool_choice", kHonoured,
                            "`auto`, `any`, `tool`, `none`; `disable_parallel_tool_use`"};
constexpr Field kThinking{"thinking", kIgnored, "the chat template decides"};
constexpr std::array kMessages{
    kModel,
    kBlocks,
    kSystem,
    Field{"max_tokens", kHonoured, "required; at most what the context leaves"},
    kTemperature,
    kTopP,
    kTopK,
    Field{"stop_sequences", kHonoured},
    kStream,
    kToolBlocks,
    kToolChoice,
    kThinking,
    Field{"output_config", kHonoured, "`format` of type json_schema; `effort` has no effect"},
    kMetadata,
    kServiceTier,
    Field{"cache_control", kIgnored, "beginnings are always kept"},
    Field{"context_management", kIgnored},
    Field{"diagnostics", kIgnored},
    Field{"inference_geo", kIgnored},
    Field{"speed", kIgnored},
    Field{"user_profile_id", kIgnored},
    Field{"workspace_id", kIgnored}};
constexpr std::array kCountTokens{kModel,
                                  kBlocks,
                                  kSystem,
                                  kToolBlocks,
                                  Field{"tool_choice", kHonoured, "checked; tools are counted in any case"},
                                  kThinking};

constexpr std::array kResponses{
    kModel,
    Field{"input", kHonoured,
          "a text, or items of type message, function_call and function_call_output; reasoning is left out"},
    Field{"instructions", kHonoured, "the system message"},
    Field{"max_output_tokens", kHonoured, "default: what the context leaves"},
    kTemperature,
    kTopP,
    kSeed,
    kStop,
    kStream,
    Field{"tools", kHonoured, "of type function"},
    Field{"tool_choice", kHonoured, "as of /v1/chat/completions"},
    Field{"parallel_tool_calls", kHonoured, "false: the first call only"},
    Field{"text", kHonoured, "`format`: `text`, `json_object`, `json_schema`; `verbosity` has no effect"},
    Field{"metadata", kHonoured, "repeated in the answer"},
    Field{"previous_response_id", kRefused, "nothing is stored: send the whole conversation"},
    Field{"conversation", kRefused, "nothing is stored"},
    Field{"prompt", kRefused, "nothing is stored"},
    Field{"background", kRefused, "", "false"},
    Field{"truncation", kRefused, "what is too long is refused", "\"disabled\""},
    Field{"top_logprobs", kRefused, "/v1/chat/completions gives them", "0"},
    Field{"include", kIgnored, "nothing of what it names is here"},
    Field{"reasoning", kIgnored},
    Field{"max_tool_calls", kIgnored, "of tools that run on the server"},
    Field{"stream_options", kIgnored},
    kStore,
    kUser,
    kServiceTier,
    kCacheKey,
    kCacheRetention,
    kSafety};

// What /completion and /infill have in common.
constexpr std::array kLlama = joined(
    std::array{
        Field{"n_predict", kHonoured, "tokens; default, and -1: what the context leaves; 0: none"},
        kTemperature,
        kTopP,
        kTopK,
        kMinP,
        Field{"seed", kHonoured, "-1, 4294967295, or without it: a random one"},
        kStop,
        kStream,
        Field{"repeat_penalty", kHonoured, "above 0; 1: none"},
        Field{"repeat_last_n", kHonoured, "of the penalties; default 64; -1: all tokens, 0: none"},
        kRepetition,
        kPresence,
        kFrequency,
        kBias,
        kIgnoreEos,
        Field{"sampler_order", kHonoured,
              "`llama.cpp` (default), `hf`, `vllm`: order of penalties, temperature and cuts"},
        kGrammar,
        kJsonSchema,
        Field{"n_probs", kHonoured, "0 to 1000 candidates per token, in `completion_probabilities`"},
        Field{"return_tokens", kHonoured, "ids of the answer, which streams always have"},
        kCachePrompt,
        kSlot,
        Field{"n_cache_reuse", kIgnored, "of texts that are shifted"},
        Field{"sse_ping_interval", kIgnored},
        Field{"n_cmpl", kRefused, "`n` of /v1/completions", "1"},
        Field{
            "samplers", kHonoured,
            "of `penalties`, `top_n_sigma`, `top_k`, `typical_p`, `top_p`, `min_p`, `xtc`, `temperature`, in "
            "this order, those that are used; `infill` is not"},
        Field{"n_indent", kHonoured, "a line with fewer blanks before it ends the answer"},
        Field{"t_max_predict_ms", kHonoured,
              "after so long a line that is complete ends the answer; 0 or -1: no limit"},
        Field{"t_max_prompt_ms", kIgnored, "prompts are computed whole"},
        Field{"post_sampling_probs", kHonoured,
              "`n_probs` are of what is drawn from, as `prob` and `top_probs`, at temperature 0 before the "
              "choice; default false"},
        Field{"response_fields", kHonoured,
              "those of the answer that are sent: `content`, `timings/prompt_n`; default all"},
        Field{"image_data", kRefused, "text alone", "[]"},
        Field{"lora", kRefused, "`model` names an adapter", "[]"}},
    kLlamaSamplers);
constexpr std::array kLlamaCompletion =
    joined(std::array{kModel, Field{"prompt", kHonoured,
                                    "a text, ids, texts and ids mixed, or a list of prompts, 1024 at most"}},
           kLlama);
constexpr std::array kInfill =
    joined(std::array{kModel, Field{"input_prefix", kHonoured, "the text before"},
                      Field{"input_suffix", kHonoured, "the text behind"},
                      Field{"prompt", kHonoured, "more of the text before: of the line that is written"},
                      Field{"input_extra", kHonoured,
                            "other files, `filename` and `text`, where the model has a token for them"}},
           kLlama);

constexpr std::array kScore{kModel, Field{"text_1", kHonoured, "a text, or a list"},
                            Field{"text_2", kHonoured, "a text, or a list; of one with many, or pairs"},
                            kUser};
constexpr std::array kRerank{kModel,
                             Field{"query", kHonoured},
                             Field{"documents", kHonoured, "texts, or objects with `text`"},
                             Field{"top_n", kHonoured, "the best n; default all"},
                             Field{"return_documents", kHonoured, "default true"},
                             kUser};

constexpr std::array kNemo{Field{"sentences", kHonoured, "1 to 128 texts"},
                           Field{"tokens_to_generate", kHonoured, "default 64"},
                           Field{"temperature", kHonoured, "above 0, at most 100; default 1"},
                           Field{"top_k", kHonoured, "default 0: all"},
                           Field{"top_p", kHonoured, "default 0.9"},
                           Field{"greedy", kHonoured, "default false"},
                           Field{"repetition_penalty", kHonoured, "at least 1; default 1"},
                           Field{"min_tokens_to_generate", kHonoured, "default 0"},
                           Field{"add_BOS", kHonoured, "default false"},
                           Field{"end_strings", kHonoured, "default end of text"},
                           Field{"compute_logprob", kHonoured, "default false"},
                           Field{"random_seed", kHonoured, "without it, one by chance"},
                           Field{"all_probs", kRefused, "a whole vocabulary per token", "false"},
                           Field{"task_ids", kRefused, "of prompt-tuned models"},
                           Field{"neighbors", kRefused, "of retrieval models"}};
constexpr std::array kMegatron{Field{"prompts", kHonoured, "1 to 128 texts"},
                               Field{"tokens_to_generate", kHonoured, "default 64"},
                               Field{"temperature", kHonoured, "default 1"},
                               Field{"top_k", kHonoured, "default 0: all"},
                               Field{"top_p", kHonoured, "default 0: all"},
                               Field{"logprobs", kHonoured, "default false"},
                               Field{"add_BOS", kHonoured, "default false"},
                               Field{"random_seed", kHonoured, "-1 or none: one by chance"},
                               Field{"beam_width", kRefused},
                               Field{"stop_token", kHonoured, "an id that ends the answer"}};

// What both of Triton's endpoints have.
constexpr std::array kTriton{
    Field{"text_input", kHonoured, "the prompt"},
    Field{"parameters", kHonoured, "an object with others of these fields"},
    Field{"sampling_parameters", kHonoured, "the same as a text, as Triton's vLLM backend takes it"},
    Field{"max_tokens", kHonoured, "default 16; -1: what the context leaves"},
    kTemperature,
    kTopK,
    kTopP,
    kMinP,
    Field{"random_seed", kHonoured, "without it, one by chance"},
    Field{"seed", kHonoured, "the same"},
    Field{"stop_words", kHonoured, "a text or up to 64; empty ones are none"},
    Field{"stop", kHonoured, "the same"},
    Field{"bad_words", kHonoured, "texts that the answer never has; empty ones are none"},
    Field{"min_length", kHonoured, "no end token before"},
    Field{"min_tokens", kHonoured, "the same"},
    kRepetition,
    kPresence,
    kFrequency,
    kIgnoreEos,
    Field{"end_id", kHonoured, "one more token that ends the answer"},
    Field{"pad_id", kIgnored, "nothing is padded"},
    Field{"id", kIgnored, "of the request"},
    Field{"beam_width", kRefused, "", "1"},
    Field{"n", kRefused, "`n` of /v1/completions", "1"},
    Field{"return_log_probs", kRefused, "`logprobs` of /v1/completions", "false"},
    Field{"return_context_logits", kRefused, "", "false"},
    Field{"return_generation_logits", kRefused, "", "false"}};
constexpr std::array kTritonWhole =
    joined(kTriton, std::array{Field{"exclude_input_in_output", kHonoured,
                                     "default false: the answer's text begins with the prompt"},
                               Field{"stream", kRefused, "`/generate_stream` streams", "false"}});
constexpr std::array kTritonStream = joined(
    kTriton,
    std::array{Field{"exclude_input_in_output", kHonoured, "default true; false: only with a single event"},
               Field{"stream", kHonoured, "default true; false: a single event"}});

constexpr std::array kEndpoints{Endpoint{"/v1/completions", kCompletions},
                                Endpoint{"/v1/chat/completions", kChat},
                                Endpoint{"/v1/embeddings", kEmbeddings},
                                Endpoint{"/v1/messages", kMessages},
                                Endpoint{"/v1/messages/count_tokens", kCountTokens},
                                Endpoint{"/v1/responses", kResponses},
                                Endpoint{"/completion", kLlamaCompletion},
                                Endpoint{"/infill", kInfill},
                                Endpoint{"/tokenize", kTokenize},
                                Endpoint{"/detokenize", kDetokenize},
                                Endpoint{"/score", kScore},
                                Endpoint{"/rerank", kRerank},
                                Endpoint{"/generate", kNemo},
                                Endpoint{"/api", kMegatron},
                                Endpoint{"/v2/models/{model}/generate", kTritonWhole},
                                Endpoint{"/v2/models/{model}/generate_stream", kTritonStream}};

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

std::span<const Field> fields_of(std::string_view path) {
  const auto found = std::find_if(kEndpoints.begin(), kEndpoints.end(),
                                  [&](const Endpoint& endpoint) { return endpoint.path == path; });
  require<InternalError>(found != kEndpoints.end(), "no fields of {}", path);
  return found->fields;
}

}  // namespace stoa::serve
