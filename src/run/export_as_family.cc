#include "run/export_as_family.h"

#include <algorithm>
#include <list>

#include "formats/gguf/gguf_file.h"
#include "infer/model_files.h"
#include "token/tokenizer_texts.h"

namespace stoa::run {

namespace hf = model::huggingface;

FamilyExport export_as_family(const ckpt::FoundCheckpoint& from, const std::string& family, DType dtype,
                              const std::filesystem::path& output, std::uint64_t max_shard_bytes,
                              const ckpt::ExportProgress& progress) {
  const infer::ModelFiles files(from.model);
  const model::ModelSpec& spec = files.model();
  FamilyExport out;
  const hf::Family& target =
      family == "auto" ? hf::choose_family(spec.config, &out.why_not) : hf::family_for(family, spec.config);
  out.family = target.type;
  std::list<std::vector<std::byte>> alive;
  // fp32 in between: norms that a file holds minus 1 keep their digits.
  const DType type = files.stored_type() == DType::kF64 ? DType::kF64 : DType::kF32;
  const auto source = [&](const std::string& name) {
    auto& bytes = alive.emplace_back(files.canonical(name, type));
    return TensorView(bytes.data(), type, {static_cast<std::int64_t>(bytes.size() / size_of(type))});
  };
  ckpt::ExportContent content{hf::write_config(spec, target, dtype, files.description().special),
                              infer::model_entries(spec, target, dtype), nullptr};
  if (gguf::is_gguf(from.model))
    for (auto& text : token::tokenizer_texts(token::Tokenizer::load(from.model)))
      content.texts.push_back({std::move(text.name), std::move(text.text)});
  std::uint64_t done = 0, total = 0;
  for (const auto& entry : content.tensors) total += entry.bytes();
  content.write = [&](ckpt::ShardedWriter& writer) {
    infer::write_model(writer, spec, target, dtype, source, [&] {
      for (const auto& bytes : alive) done += bytes.size() / size_of(type) * size_of(dtype);
      alive.clear();
      if (progress) progress(std::min(done, total), total);
    });
  };
  out.result = ckpt::export_content(from.model, content, output, max_shard_bytes, progress);
  return out;
}

}  // namespace stoa::run
