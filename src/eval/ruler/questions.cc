// Questions whose document stands among others: SQuAD 2 and HotpotQA, from their own files.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "eval/ruler/making.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kTokensOfAnswer = 32;
constexpr std::uint64_t kOrderSeed = 42;
constexpr std::string_view kAskedTemplate =
    "Answer the question based on the given documents. Only give me the answer and do not output any other "
    "words.\n\nThe following are given documents.\n\n{context}\n\nAnswer the question based on the given "
    "documents. Only give me the answer and do not output any other words.\n\nQuestion: {query}";

struct AskedQuestion {
  std::string query;
  Json answers;
  std::vector<std::size_t> documents, more;  // its own; those of the same article
};

struct QuestionSet {
  std::vector<std::string> documents;
  std::vector<AskedQuestion> questions;

  void index(const std::set<std::string>& texts) {
    documents.assign(texts.begin(), texts.end());
    for (std::size_t i = 0; i < documents.size(); ++i) number_[documents[i]] = i;
  }
  std::size_t number(const std::string& text) const { return number_.at(text); }

 private:
  std::map<std::string, std::size_t> number_;
};

QuestionSet read_squad(const Json& file) {
  QuestionSet out;
  std::set<std::string> texts;
  for (const Json& article : file.at("data"))
    for (const Json& paragraph : article.at("paragraphs")) texts.insert(paragraph.at("context"));
  out.index(texts);
  for (const Json& article : file.at("data")) {
    std::vector<std::size_t> all;
    for (const Json& paragraph : article.at("paragraphs")) all.push_back(out.number(paragraph.at("context")));
    for (const Json& paragraph : article.at("paragraphs"))
      for (const Json& question : paragraph.at("qas")) {
        if (question.at("is_impossible") == true) continue;
        const std::size_t own = out.number(paragraph.at("context"));
        AskedQuestion q{question.at("question"), Json::array(), {own}, {}};
        for (const Json& answer : question.at("answers")) q.answers.push_back(answer.at("text"));
        for (const std::size_t i : all)
          if (i != own) q.more.push_back(i);
        out.questions.push_back(std::move(q));
      }
  }
  return out;
}

QuestionSet read_hotpot(const Json& file) {
  const auto text_of = [](const Json& titled) {
    std::string out = titled.at(0).get<std::string>() + "\n";
    for (const Json& sentence : titled.at(1)) out += sentence.get<std::string>();
    return out;
  };
  QuestionSet out;
  std::set<std::string> texts;
  for (const Json& question : file)
    for (const Json& titled : question.at("context")) texts.insert(text_of(titled));
  out.index(texts);
  for (const Json& question : file) {
    AskedQuestion q{question.at("question"), Json::array({question.at("answer")}), {}, {}};
    for (const Json& titled : question.at("context")) q.documents.push_back(out.number(text_of(titled)));
    out.questions.push_back(std::move(q));
  }
  return out;
}

QuestionSet read_questions(const Making& making, bool hotpot) {
  const MakingSource source =
      ruler_source(hotpot ? "qa_utils.get_hotpotqa" : "qa_utils.get_squad", making.options().data);
  require<DataError>(!source.files.empty(), "the questions of this task are missing: expected {}",
                     source.looked_for);
  const std::string& path = source.files.front().string();
  try {
    const Json file = Json::parse(read_text(source.files.front()));
    QuestionSet out = hotpot ? read_hotpot(file) : read_squad(file);
    require<DataError>(!out.questions.empty(), "'{}' holds no question", path);
    return out;
  } catch (const Json::exception& error) {
    fail<DataError>("'{}': {}", path, error.what());
  } catch (const std::out_of_range& error) {
    fail<DataError>("'{}': {}", path, error.what());
  }
}

// `count`: of the documents. The order that all documents together got stays, as in the harness.
std::string asked_text(Making& making, QuestionSet& set, const AskedQuestion& q, std::int64_t count) {
  std::vector<std::string> shown;
  const auto own = std::ssize(q.documents), more = std::ssize(q.more);
  if (count < std::ssize(set.documents)) {
    std::vector<std::size_t> chosen = q.documents;
    if (count - own > more) {
      chosen.insert(chosen.end(), q.more.begin(), q.more.end());
      const std::set<std::size_t> taken(chosen.begin(), chosen.end());
      std::vector<std::size_t> others;
      for (std::size_t i = 0; i < set.documents.size(); ++i)
        if (!taken.contains(i)) others.push_back(i);
      for (const std::size_t i :
           making.python.sample(others.size(), static_cast<std::size_t>(count - own - more)))
        chosen.push_back(others[i]);
    } else {
      for (const std::size_t i : making.python.sample(
               q.more.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, count - own))))
        chosen.push_back(q.more[i]);
    }
    for (const std::size_t i : chosen) shown.push_back(set.documents[i]);
    PythonRandom(kOrderSeed).shuffle(shown);
  } else {
    PythonRandom(kOrderSeed).shuffle(set.documents);
    shown = set.documents;
  }
  std::string context;
  for (std::size_t i = 0; i < shown.size(); ++i)
    context += (i == 0 ? "" : "\n\n") + fmt::format("Document {}:\n", i + 1) + shown[i];
  return filled(kAskedTemplate, {{"context", context}, {"query", q.query}});
}

std::vector<Json> asked_texts(Making& making, QuestionSet& set, std::int64_t longest) {
  constexpr std::int64_t kStep = 10;
  const auto all = std::ssize(set.documents);
  std::int64_t usual = kStep;
  for (std::int64_t total = 0; total + kTokensOfAnswer < longest;) {
    const AskedQuestion& q = set.questions.front();
    total = making.tokens(asked_text(making, set, q, usual) + " " + str_of(q.answers));
    if (total + kTokensOfAnswer > longest) {
      usual -= kStep;
      break;
    }
    usual += kStep;
    if (usual > all) {
      usual = all;
      break;
    }
  }
  usual = std::max<std::int64_t>(usual, 1);
  std::vector<Json> out;
  for (std::int64_t index = 0; index < std::min(making.samples(), std::ssize(set.questions)); ++index) {
    const AskedQuestion& q = set.questions[static_cast<std::size_t>(index)];
    const auto least = std::ssize(q.documents);
    for (std::int64_t used = std::max(usual, least);; used = std::max(used - kStep, least)) {
      const std::string text = asked_text(making, set, q, used);
      const std::int64_t length = making.tokens(text) + kTokensOfAnswer;
      if (length <= longest) {
        out.push_back(Making::document(index, text, q.answers, length, longest, "Answer:"));
        break;
      }
      if (used == least) break;
    }
  }
  if (out.empty()) Making::too_short("a question's documents", longest);
  return out;
}

}  // namespace

std::vector<Json> make_questions(Making& making, bool hotpot) {
  QuestionSet set = read_questions(making, hotpot);
  std::vector<Json> out;
  for (const std::int64_t length : making.lengths())
    for (Json& document : asked_texts(making, set, length)) out.push_back(std::move(document));
  return out;
}

}  // namespace stoa::eval
