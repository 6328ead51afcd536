#include "curate/io/http.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "base/error.h"
#include "curate/html/tokenizer.h"

namespace stoa::curate {

std::string_view trim_header(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == text.npos ? std::string_view() : text.substr(begin, end + 1 - begin);
}

namespace {

void require_room(std::size_t bytes) {
  require<DataError>(bytes <= kLongestBody, "a page of more than {} bytes after decompression", kLongestBody);
}

// None where the text is not made of chunks from beginning to end; what follows the last one is let go. A
// body that was cut short keeps what there is.
std::optional<std::string> join_chunks(std::string_view text) {
  std::string joined;
  bool any = false;
  while (!text.empty()) {
    const std::size_t line = text.find('\n');
    if (line == text.npos || line > 1000) return any ? std::optional(joined) : std::nullopt;
    const std::string_view size = trim_header(text.substr(0, std::min(line, text.find(';'))));
    std::uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), bytes, 16);
    if (error != std::errc() || end != size.data() + size.size()) return std::nullopt;
    text.remove_prefix(line + 1);
    any = true;
    if (bytes == 0) return joined;
    joined += text.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes, text.size())));
    text.remove_prefix(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, text.size())));
    if (text.starts_with("\r\n")) text.remove_prefix(2);
  }
  return any ? std::optional(joined) : std::nullopt;
}

// `bits`: zlib's window bits. What is decompressed up to an early end of the data is kept: archives cut long
// bodies.
std::string inflate_all(std::string_view text, int bits) {
  z_stream stream{};
  require<InternalError>(::inflateInit2(&stream, bits) == Z_OK, "zlib cannot be initialised");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, ::inflateEnd);
  std::string out;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  for (;;) {
    const std::size_t had = out.size();
    require_room(had);
    out.resize(had + std::max<std::size_t>(4 * text.size(), 1 << 14));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = static_cast<uInt>(out.size() - had);
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (status == Z_STREAM_END || (status == Z_BUF_ERROR && stream.avail_in == 0)) return out;
    require<DataError>(status == Z_OK || status == Z_BUF_ERROR, "its compressed body is corrupt: {}",
                       stream.msg != nullptr ? stream.msg : "no valid data");
    if (stream.avail_in == 0 && out.size() == had) return out;
  }
}

std::string unbrotli(std::string_view text) {
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      ::BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), ::BrotliDecoderDestroyInstance);
  require<InternalError>(state != nullptr, "brotli cannot be initialised");
  std::string out;
  std::size_t available = text.size();
  const auto* next = reinterpret_cast<const std::uint8_t*>(text.data());
  for (;;) {
    const std::size_t had = out.size();
    require_room(had);
    out.resize(had + std::max<std::size_t>(4 * text.size(), 1 << 14));
    std::size_t room = out.size() - had;
    auto* to = reinterpret_cast<std::uint8_t*>(out.data() + had);
    const BrotliDecoderResult result =
        ::BrotliDecoderDecompressStream(state.get(), &available, &next, &room, &to, nullptr);
    out.resize(out.size() - room);
    if (result == BROTLI_DECODER_RESULT_SUCCESS || result == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT)
      return out;
    require<DataError>(result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT, "its compressed body is corrupt");
  }
}

std::string unzstd(std::string_view text) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(::ZSTD_createDStream(),
                                                                             ::ZSTD_freeDStream);
  require<InternalError>(stream != nullptr, "zstd cannot be initialised");
  std::string out;
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  for (;;) {
    const std::size_t had = out.size();
    require_room(had);
    out.resize(had + std::max<std::size_t>(4 * text.size(), 1 << 14));
    ZSTD_outBuffer to{out.data() + had, out.size() - had, 0};
    const std::size_t status = ::ZSTD_decompressStream(stream.get(), &to, &in);
    out.resize(had + to.pos);
    require<DataError>(!::ZSTD_isError(status), "its compressed body is corrupt: {}",
                       ::ZSTD_getErrorName(status));
    if (to.pos == 0 || (status == 0 && in.pos == in.size)) return out;
  }
}

std::string decode(std::string_view body, std::string_view coding) {
  const bool is_gzip = body.starts_with("\x1f\x8b");
  if ((is_named(coding, "gzip") || is_named(coding, "x-gzip")) && is_gzip) return inflate_all(body, 15 + 16);
  if (is_named(coding, "deflate") && !body.empty() && !body.starts_with('<')) {
    const bool zlib = (static_cast<unsigned char>(body[0]) & 0x0f) == 8;
    return inflate_all(body, zlib ? 15 : -15);
  }
  if (is_named(coding, "zstd") && body.starts_with("\x28\xb5\x2f\xfd")) return unzstd(body);
  if (is_named(coding, "br") && body.find_first_not_of(" \t\r\n") != body.npos &&
      trim_header(body).find('<') != 0)
    return unbrotli(body);
  return std::string(body);
}

// Takes the last of names that commas separate; empty: none is left.
std::string_view take_last(std::string_view& names) {
  const std::size_t comma = names.rfind(',');
  const std::string_view last = trim_header(comma == names.npos ? names : names.substr(comma + 1));
  names = comma == names.npos ? std::string_view() : names.substr(0, comma);
  return last;
}

void take_off(std::string_view codings, HttpAnswer& answer) {
  while (!codings.empty()) {
    const std::string_view coding = take_last(codings);
    if (is_named(coding, "chunked")) {
      std::optional<std::string> joined = join_chunks(answer.body);
      if (!joined) continue;
      answer.decoded = std::move(*joined);
    } else {
      std::string decoded = decode(answer.body, coding);
      answer.decoded = std::move(decoded);
    }
    answer.body = answer.decoded;
    require_room(answer.body.size());
  }
}

}  // namespace

bool read_http_answer(std::string_view text, HttpAnswer& answer) {
  answer = {};
  if (!text.starts_with("HTTP/")) return false;
  const std::size_t blank = text.substr(0, 100).find(' ');
  if (blank == text.npos) return false;
  std::from_chars(text.data() + blank + 1, text.data() + text.size(), answer.status);
  std::string_view content_coding, transfer_coding;
  std::size_t end = text.find('\n');
  while (end != text.npos) {
    const std::size_t begin = end + 1;
    end = text.find('\n', begin);
    if (end == text.npos) return true;  // headers without a body
    const std::string_view line = trim_header(text.substr(begin, end - begin));
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string_view name = trim_header(line.substr(0, colon)),
                           value = trim_header(line.substr(colon + 1));
    if (is_named(name, "content-type")) answer.content_type = value;
    if (is_named(name, "content-encoding")) content_coding = value;
    if (is_named(name, "transfer-encoding")) transfer_coding = value;
  }
  if (end == text.npos) return true;
  answer.body = text.substr(end + 1);
  require_room(answer.body.size());
  take_off(transfer_coding, answer);
  take_off(content_coding, answer);
  return true;
}

}  // namespace stoa::curate
