#include "eval/builtin/document_filters.h"

#include <array>

#include "eval/builtin/document.h"

namespace stoa::eval {
namespace {

struct SubjectField {
  const char *module, *field;
};
constexpr std::array kSubjectFields{SubjectField{"global_mmlu", "subject"},
                                    SubjectField{"global_mmlu_lite", "subject_category"},
                                    SubjectField{"include", "domain"}, SubjectField{"mmlu_pro", "category"}};

// A subject as the functions' names have it: "Arts & Humanities" is arts_humanities.
std::string subject_name(const std::string& subject) {
  return replaced(replaced(lowered(subject), " & ", "_"), " ", "_");
}

}  // namespace

DocumentsFunction document_filter(const std::string& name) {
  if (name == "bigbench.filter_multiple_choice")
    return [](std::vector<Json>& docs, std::uint64_t) {
      std::erase_if(docs, [](const Json& doc) { return list_field(doc, "multiple_choice_targets").empty(); });
    };
  if (name == "eus_exams.process_docs")
    return [](std::vector<Json>& docs, std::uint64_t) {
      std::erase_if(docs, [](const Json& doc) {
        const Json answer = doc.value("answer", Json());
        return !answer.is_number_integer() || answer < 0 || answer > 3 ||
               doc.value("candidates", Json()) == Json::array({"", "", "", ""});
      });
    };
  for (const SubjectField& subject : kSubjectFields) {
    const std::string beginning = std::string(subject.module) + ".process_";
    if (!name.starts_with(beginning)) continue;
    return [field = subject.field, wanted = name.substr(beginning.size())](std::vector<Json>& docs,
                                                                           std::uint64_t) {
      std::erase_if(docs, [&](const Json& doc) { return subject_name(text_field(doc, field)) != wanted; });
    };
  }
  return nullptr;
}

}  // namespace stoa::eval
