#include "run/export_as_family.h"

#include <algorithm>
#include <list>

#include "formats/gguf/gguf_file.h"
#include "token/tokenizer_texts.h"

namespace stoa::run {

namespace hf = model::huggingface;

ckpt::ExportContent content_as_family(std::shared_ptr<const infer::ModelFiles> files,
                                      const hf::Family& family, DType dtype,
                                      const ckpt::ExportProgress& progress) {
  const model::ModelSpec& spec = files->model();
  ckpt::ExportContent content{hf::write_config(spec, family, dtype, files->description().special),
                              infer::model_entries(spec, family, dtype), nullptr};
  std::uint64_t total = 0;
  for (const auto& entry : content.tensors) total += entry.bytes();
  content.write = [files = std::move(files), &family, dtype, progress, total](ckpt::ShardedWriter& writer) {
    // fp32 in between: norms that a file holds minus 1 keep their digits.
    const DType type = files->stored_type() == DType::kF64 ? DType::kF64 : DType::kF32;
    std::list<std::vector<std::byte>> alive;
    std::uint64_t done = 0;
    const auto source = [&](const std::string& name) {
      auto& bytes = alive.emplace_back(files->canonical(name, type));
      return TensorView(bytes.data(), type, {static_cast<std::int64_t>(bytes.size() / size_of(type))});
    };
    infer::write_model(writer, files->model(), family, dtype, source, [&] {
      for (const auto& bytes : alive) done += bytes.size() / size_of(type) * size_of(dtype);
      alive.clear();
      if (progress) progress(std::min(done, total), total);
    });
  };
  return content;
}

FamilyExport export_as_family(const ckpt::FoundCheckpoint& from, const std::string& family, DType dtype,
                              const std::filesystem::path& output, std::uint64_t max_shard_bytes,
                              const ckpt::ExportProgress& progress) {
  const auto files = std::make_shared<const infer::ModelFiles>(from.model);
  const model::ModelConfig& config = files->model().config;
  FamilyExport out;
  const hf::Family& target =
      family == "auto" ? hf::choose_family(config, &out.why_not) : hf::family_for(family, config);
  out.family = target.type;
  ckpt::ExportContent content = content_as_family(files, target, dtype, progress);
  if (gguf::is_gguf(from.model))
    for (auto& text : token::tokenizer_texts(token::Tokenizer::load(from.model)))
      content.texts.push_back({std::move(text.name), std::move(text.text)});
  out.result = ckpt::export_content(from.small_files(), content, output, max_shard_bytes, progress);
  return out;
}

}  // namespace stoa::run
