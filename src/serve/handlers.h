// The endpoints that have a body. Each checks the whole request before its answer begins; ApiError says what
// is wrong.
#pragma once

#include "serve/generation_task.h"
#include "serve/model_set.h"

namespace stoa::serve {

struct Call {
  ModelSet::Model model;  // that field "model" names
  RequestBody body;
  std::string owner;  // the client's key: whose turn it is
  std::string id;     // of the request
  std::shared_ptr<http::Answer> answer;
};

void complete_text(const Call& call);      // /v1/completions
void complete_chat(const Call& call);      // chat completions
void answer_message(const Call& call);     // /v1/messages
void count_message(const Call& call);      // /v1/messages/count_tokens
void respond(const Call& call);            // /v1/responses
void complete_as_llama(const Call& call);  // /completion
void infill(const Call& call);
void embed(const Call& call);
void tokenize(const Call& call);
void detokenize(const Call& call);
void score_pairs(const Call& call);
void rerank(const Call& call);
void generate_as_nemo(const Call& call);      // /generate
void generate_as_megatron(const Call& call);  // /api
void generate_as_triton(const Call& call);    // /v2/models/NAME/generate
void stream_as_triton(const Call& call);      // /v2/models/NAME/generate_stream

constexpr std::size_t kMostPrompts = 1024;  // of a request that continues texts
// The ids of a prompt field: a text, ids, or a list of either.
std::vector<std::vector<std::int32_t>> read_prompts(const RequestBody& body, const char* name,
                                                    const ServedModel& model, bool add_special,
                                                    std::size_t most);
std::string json_text(const Json& value);

// stream_options: when a stream tells its usage.
struct StreamUsage {
  bool last = false, always = false;
};
StreamUsage read_stream_options(const RequestBody& body, bool stream);

}  // namespace stoa::serve
