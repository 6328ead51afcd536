#include "cli/calibration_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "token/encoder.h"

namespace stoa::cli {

std::vector<std::int32_t> calibration_tokens(infer::OpenModel& model, const data::TextFile& text,
                                             std::int64_t most) {
  const token::Tokenizer& tokenizer = model.tokenizer();
  token::Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  if (tokenizer.bos_id()) ids.push_back(*tokenizer.bos_id());
  data::each_document(text, [&](std::string_view document, std::uint64_t) {
    if (static_cast<std::int64_t>(ids.size()) < most)
      encoder.encode(document, {.plain = false, .add_special = false}, ids);
  });
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(most)));
  require<DataError>(ids.size() >= 2, "'{}' has {} tokens, expected at least 2", text.path.string(),
                     ids.size());
  return ids;
}

run::Calibration measured_on(const std::string& model, const MachineOptions& machine,
                             const data::TextFile& text, std::int64_t tokens) {
  return run::measure_importance(
      [&](infer::MakeMachine make) { return infer::OpenModel(model, DType::kF32, std::move(make)); },
      [machine] { return make_machine(machine); },
      [&](infer::OpenModel& opened) { return calibration_tokens(opened, text, tokens); });
}

}  // namespace stoa::cli
