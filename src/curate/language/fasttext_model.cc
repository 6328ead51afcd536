#include "curate/language/fasttext_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace stoa::curate {
namespace {

constexpr int kCentroids = 256;

std::uint32_t fnv_hash(std::string_view text) {  // FNV-1a of signed bytes
  std::uint32_t h = 2166136261U;
  for (const char c : text) h = (h ^ static_cast<std::uint32_t>(static_cast<std::int8_t>(c))) * 16777619U;
  return h;
}

// As fastText looks it up while it computes: in steps of 1/32 from -8 to 8.
float stepped_sigmoid(float x) {
  constexpr float kMost = 8;
  constexpr int kSteps = 512;
  if (!(x >= -kMost)) return 0;  // also what became no number, of weights that are too large
  if (x > kMost) return 1;
  const auto step = static_cast<std::int64_t>((x + kMost) * kSteps / kMost / 2);
  const float at = static_cast<float>(step * 2) * kMost / kSteps - kMost;
  return static_cast<float>(1.0 / (1.0 + static_cast<double>(std::exp(-at))));
}

float log_of(float x) { return static_cast<float>(std::log(static_cast<double>(x) + 1e-5)); }

}  // namespace

class FastTextModel::Reader {
 public:
  Reader(std::string_view content, const std::string& name) : rest_(content), name_(name) {}

  [[noreturn]] void refuse(std::string_view why) const {
    fail<DataError>("'{}' is no fastText model: {}", name_, why);
  }
  std::string_view bytes(std::uint64_t count) {
    if (count > rest_.size()) refuse("it ends too soon");
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  template <class T>
  T value() {
    T value;
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> values(std::uint64_t count) {
    if (count > rest_.size() / sizeof(T)) refuse("it ends too soon");
    std::vector<T> out(count);
    if (count > 0) std::memcpy(out.data(), bytes(count * sizeof(T)).data(), count * sizeof(T));
    return out;
  }
  std::vector<float> weights(std::uint64_t count) {
    std::vector<float> out = values<float>(count);
    if (!std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); }))
      refuse("a weight of it is no finite number");
    return out;
  }
  std::string_view text() {
    const std::size_t end = rest_.find('\0');
    if (end == rest_.npos) refuse("it ends within a word");
    const std::string_view out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return out;
  }
  // A number between two others.
  std::int64_t within(std::int64_t value, std::int64_t least, std::int64_t most, const char* what) const {
    if (value < least || value > most) refuse(fmt::format("{} is {}", what, value));
    return value;
  }
  std::uint64_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  const std::string& name_;
};

FastTextModel::FastTextModel(const fs::path& path) : FastTextModel(read_text(path), path.string()) {}

FastTextModel::FastTextModel(std::string content, const std::string& name) {
  Reader in(content, name);
  read(in);
}

void FastTextModel::read(Reader& in) {
  if (in.left() < 8 || in.value<std::int32_t>() != kMagic) in.refuse("it does not begin as one");
  if (const auto version = in.value<std::int32_t>(); version != kVersion)
    in.refuse(fmt::format("its version is {}; expected {}", version, kVersion));
  const auto settings = in.values<std::int32_t>(12);
  in.value<double>();
  dim_ = static_cast<std::int32_t>(in.within(settings[0], 1, 1 << 16, "the length of its vectors"));
  word_ngrams_ = static_cast<std::int32_t>(in.within(settings[5], 0, 100, "the length of its word n-grams"));
  loss_ = static_cast<Loss>(in.within(settings[6], 1, 4, "its loss"));
  if (settings[7] != kSupervised) in.refuse("it holds word vectors, no classifier");
  bucket_ = static_cast<std::int32_t>(in.within(settings[8], 0, 1 << 30, "its number of buckets"));
  minn_ =
      static_cast<std::int32_t>(in.within(settings[9], 0, 1000, "the length of its shortest parts of words"));
  maxn_ =
      static_cast<std::int32_t>(in.within(settings[10], 0, 1000, "the length of its longest parts of words"));

  const std::int64_t entries =
      in.within(in.value<std::int32_t>(), 0, static_cast<std::int64_t>(in.left()), "its number of entries");
  word_count_ = in.within(in.value<std::int32_t>(), 0, entries, "its number of words");
  const std::int64_t labels = in.within(in.value<std::int32_t>(), 1, entries, "its number of labels");
  in.value<std::int64_t>();
  const auto pairs = in.within(in.value<std::int64_t>(), -1, static_cast<std::int64_t>(in.left() / 8),
                               "its number of kept buckets");
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < entries; ++i) {
    const std::string_view text = in.text();
    const auto count = in.value<std::int64_t>();
    if (in.value<std::int8_t>() == 0) {
      words_.emplace(text, static_cast<std::int32_t>(i));
    } else {
      labels_.emplace_back(text.starts_with(kLabelPrefix) ? text.substr(kLabelPrefix.size()) : text);
      counts.push_back(in.within(count, 0, 1'000'000'000'000, "the count of a label"));
    }
  }
  if (std::ssize(labels_) != labels || word_count_ + labels != entries)
    in.refuse("its words and labels are not as many as it says");
  if (words_.size() != static_cast<std::size_t>(word_count_)) in.refuse("a word is in it twice");
  pruned_ = pairs >= 0;
  if (pruned_) kept_.resize(static_cast<std::size_t>(bucket_) / 64 + 1);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto from = static_cast<std::int32_t>(
        in.within(in.value<std::int32_t>(), 0, std::max(bucket_ - 1, 0), "a bucket"));
    places_[from] = in.value<std::int32_t>();
    kept_[static_cast<std::size_t>(from) / 64] |= std::uint64_t{1} << (from % 64);
  }
  const bool quantised = in.value<std::int8_t>() != 0;
  input_ = read_matrix(in, quantised);
  const bool output_quantised = in.value<std::int8_t>() != 0;
  output_ = read_matrix(in, quantised && output_quantised);
  if (input_.columns != dim_ || output_.columns != dim_)
    in.refuse("its matrices are not as wide as its vectors");
  const std::int64_t rows = word_count_ + (pruned_ ? pairs : bucket_);
  if (input_.rows < rows && (input_.rows < word_count_ || maxn_ > 0 || word_ngrams_ > 1))
    in.refuse("it has fewer rows than words and buckets");
  for (const auto& [from, to] : places_)
    in.within(to, 0, input_.rows - word_count_ - 1, "the place of a bucket");
  const std::int64_t outputs = loss_ == Loss::kHierarchical ? labels - 1 : labels;
  if (output_.rows < outputs) in.refuse("it has fewer rows of output than labels");
  if (loss_ == Loss::kHierarchical) build_tree(counts);
}

FastTextModel::Matrix FastTextModel::read_matrix(Reader& in, bool quantised) {
  Matrix m;
  m.quantised = quantised;
  if (quantised) m.with_norms = in.value<std::int8_t>() != 0;
  m.rows = in.within(in.value<std::int64_t>(), 0, std::int64_t{1} << 40, "a number of rows");
  m.columns = in.within(in.value<std::int64_t>(), 1, 1 << 16, "a number of columns");
  if (!quantised) {
    m.values = in.weights(static_cast<std::uint64_t>(m.rows * m.columns));
    return m;
  }
  const auto codes = in.value<std::int32_t>();
  m.codes = in.values<std::uint8_t>(
      static_cast<std::uint64_t>(in.within(codes, 0, INT32_MAX, "a number of codes")));
  const auto read_centroids = [&](std::int64_t columns, std::int32_t& parts, std::int32_t& part,
                                  std::int32_t& last) {
    if (in.value<std::int32_t>() != columns) in.refuse("a quantiser that is not as wide as its matrix");
    parts =
        static_cast<std::int32_t>(in.within(in.value<std::int32_t>(), 1, columns, "a number of sub-vectors"));
    part = static_cast<std::int32_t>(
        in.within(in.value<std::int32_t>(), 1, columns, "the length of a sub-vector"));
    last = static_cast<std::int32_t>(
        in.within(in.value<std::int32_t>(), 1, columns, "the length of the last sub-vector"));
    if (std::int64_t{parts - 1} * part + last != columns) in.refuse("sub-vectors that do not make up a row");
    return in.weights(static_cast<std::uint64_t>(columns) * kCentroids);
  };
  m.centroids = read_centroids(m.columns, m.parts, m.part, m.last_part);
  if (std::ssize(m.codes) != m.rows * m.parts) in.refuse("codes that do not make up its rows");
  if (m.with_norms) {
    m.norm_codes = in.values<std::uint8_t>(static_cast<std::uint64_t>(m.rows));
    std::int32_t parts = 0, part = 0, last = 0;
    m.norms = read_centroids(1, parts, part, last);
  }
  return m;
}

void FastTextModel::Matrix::add_row(std::int64_t row, std::span<float> to) const {
  if (!quantised) {
    const float* from = values.data() + row * columns;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    return;
  }
  const float norm = with_norms ? norms[norm_codes[static_cast<std::size_t>(row)]] : 1;
  const std::uint8_t* code = codes.data() + row * parts;
  for (std::int32_t p = 0; p < parts; ++p) {
    const bool is_last = p == parts - 1;
    const std::int32_t length = is_last ? last_part : part;
    const float* from =
        centroids.data() + std::ptrdiff_t{p} * kCentroids * part + std::ptrdiff_t{code[p]} * length;
    for (std::int32_t i = 0; i < length; ++i) to[static_cast<std::size_t>(p * part + i)] += norm * from[i];
  }
}

float FastTextModel::Matrix::dot_row(std::int64_t row, std::span<const float> with) const {
  float sum = 0;
  if (!quantised) {
    const float* from = values.data() + row * columns;
    for (std::size_t i = 0; i < with.size(); ++i) sum += from[i] * with[i];
    return sum;
  }
  std::vector<float> values_of_row(with.size());
  add_row(row, values_of_row);
  for (std::size_t i = 0; i < with.size(); ++i) sum += values_of_row[i] * with[i];
  return sum;
}

// Huffman's tree over the counts of the labels, which come in descending order.
void FastTextModel::build_tree(const std::vector<std::int64_t>& counts) {
  const std::int64_t n = std::ssize(counts);
  std::vector<std::int64_t> sums(static_cast<std::size_t>(2 * n - 1), std::int64_t{1'000'000'000'000'000});
  std::copy(counts.begin(), counts.end(), sums.begin());
  tree_.resize(sums.size());
  std::int64_t leaf = n - 1, node = n;
  for (std::int64_t i = n; i < 2 * n - 1; ++i) {
    std::int64_t least[2];
    for (std::int64_t& l : least) {
      const bool takes_leaf = leaf >= 0 && (node >= i || sums[static_cast<std::size_t>(leaf)] <
                                                             sums[static_cast<std::size_t>(node)]);
      l = takes_leaf ? leaf-- : node++;
    }
    tree_[static_cast<std::size_t>(i)] = {static_cast<std::int32_t>(least[0]),
                                          static_cast<std::int32_t>(least[1])};
    sums[static_cast<std::size_t>(i)] =
        sums[static_cast<std::size_t>(least[0])] + sums[static_cast<std::size_t>(least[1])];
  }
}

void FastTextModel::push_bucket(std::uint64_t bucket, std::vector<std::int64_t>& rows) const {
  if (!pruned_) {
    rows.push_back(word_count_ + static_cast<std::int64_t>(bucket));
  } else if (kept_[bucket / 64] >> (bucket % 64) & 1) {
    rows.push_back(word_count_ + places_.find(static_cast<std::int32_t>(bucket))->second);
  }
}

void FastTextModel::add_subwords(std::string_view word, std::vector<std::int64_t>& rows) const {
  const auto continues = [&](std::size_t at) { return at < word.size() && (word[at] & 0xc0) == 0x80; };
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (continues(i)) continue;
    std::uint32_t h = 2166136261U;
    std::size_t j = i;
    for (std::int32_t n = 1; j < word.size() && n <= maxn_; ++n) {
      do {
        h = (h ^ static_cast<std::uint32_t>(static_cast<std::int8_t>(word[j]))) * 16777619U;
        ++j;
      } while (continues(j));
      if (n >= minn_ && !(n == 1 && (i == 0 || j == word.size())))
        push_bucket(h % static_cast<std::uint32_t>(bucket_), rows);
    }
  }
}

void FastTextModel::add_rows(std::string_view text, std::vector<std::int64_t>& rows) const {
  std::vector<std::int32_t> hashes;
  std::string word, bounded;
  each_word(text, [&](std::string_view token) {
    word = token;
    const auto found = words_.find(word);
    if (found == words_.end() && token.starts_with(kLabelPrefix)) return;
    if (found != words_.end()) rows.push_back(found->second);
    if (maxn_ > 0 && bucket_ > 0 && token != kEndOfLine) {
      bounded = '<';
      bounded += token;
      bounded += '>';
      add_subwords(bounded, rows);
    }
    hashes.push_back(static_cast<std::int32_t>(fnv_hash(token)));
  });
  if (bucket_ == 0) return;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    auto h = static_cast<std::uint64_t>(std::int64_t{hashes[i]});
    for (std::size_t j = i + 1; j < hashes.size() && j < i + static_cast<std::size_t>(word_ngrams_); ++j) {
      h = h * 116049371 + static_cast<std::uint64_t>(std::int64_t{hashes[j]});
      push_bucket(h % static_cast<std::uint64_t>(bucket_), rows);
    }
  }
}

void FastTextModel::predict(std::string_view text, std::vector<float>& probabilities) const {
  probabilities.assign(labels_.size(), 0);
  std::vector<std::int64_t> rows;
  add_rows(text, rows);
  if (rows.empty()) return;
  std::vector<float> hidden(static_cast<std::size_t>(dim_));
  for (const std::int64_t row : rows) input_.add_row(row, hidden);
  for (float& h : hidden) h *= 1.0F / static_cast<float>(rows.size());
  if (loss_ == Loss::kHierarchical) {
    // Logarithms on the way down: a node comes before its children from the end of the tree.
    const std::int64_t n = std::ssize(labels_);
    std::vector<float> scores(tree_.size());
    for (std::int64_t i = std::ssize(tree_) - 1; i >= n; --i) {
      const float f = 1.0F / (1 + std::exp(-output_.dot_row(i - n, hidden)));
      const TreeNode& node = tree_[static_cast<std::size_t>(i)];
      scores[static_cast<std::size_t>(node.left)] = scores[static_cast<std::size_t>(i)] + log_of(1.0F - f);
      scores[static_cast<std::size_t>(node.right)] = scores[static_cast<std::size_t>(i)] + log_of(f);
    }
    // fastText does not follow branches below log(1e-5).
    for (std::size_t i = 0; i < probabilities.size(); ++i)
      probabilities[i] = scores[i] < log_of(0) ? 0 : std::exp(scores[i]);
    return;
  }
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    probabilities[i] = output_.dot_row(static_cast<std::int64_t>(i), hidden);
  if (loss_ == Loss::kSoftmax) {
    const float most = *std::max_element(probabilities.begin(), probabilities.end());
    float sum = 0;
    for (float& p : probabilities) sum += p = std::exp(p - most);
    for (float& p : probabilities) p /= sum;
  } else {
    for (float& p : probabilities) p = stepped_sigmoid(p);
  }
  for (float& p : probabilities) p = std::exp(log_of(p));
}

}  // namespace stoa::curate
