#include "curate/code/licence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/file.h"
#include "curate/code/source_language.h"
#include "curate/text/character.h"
#include "data/file_names.h"

namespace stoa::curate {
namespace {

constexpr int kDeepestFolder = 32;
constexpr std::size_t kLicenceBytes = 1 << 16, kHeaderBytes = 2048;

// In this order: a text that quotes another licence comes before that one.
constexpr std::pair<std::string_view, std::string_view> kLicencePhrases[] = {
    {"gnu affero general public license version 3", "AGPL-3.0"},
    {"gnu lesser general public license version 3", "LGPL-3.0"},
    {"gnu lesser general public license version 2.1", "LGPL-2.1"},
    {"gnu library general public license version 2", "LGPL-2.0"},
    {"gnu general public license version 3", "GPL-3.0"},
    {"gnu general public license version 2", "GPL-2.0"},
    {"apache license version 2.0", "Apache-2.0"},
    {"mozilla public license version 2.0", "MPL-2.0"},
    {"eclipse public license v 2.0", "EPL-2.0"},
    {"eclipse public license v 1.0", "EPL-1.0"},
    {"boost software license version 1.0", "BSL-1.0"},
    {"do what the fuck you want to public license", "WTFPL"},
    {"this is free and unencumbered software released into the public domain", "Unlicense"},
    {"cc0 1.0 universal", "CC0-1.0"},
    {"permission to use copy modify and or distribute this software for any purpose with or without fee",
     "ISC"},
    {"permission is hereby granted free of charge to any person obtaining a copy of this software", "MIT"},
    {"neither the name of", "BSD-3-Clause"},
    {"redistribution and use in source and binary forms with or without modification", "BSD-2-Clause"},
    {"altered source versions must be plainly marked as such", "Zlib"},
};

// Words in lower case with one blank between, dots within numbers kept: licences come in many layouts.
std::string plain_words(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool dot = c == '.' && i > 0 && i + 1 < text.size() &&
                     std::isdigit(static_cast<unsigned char>(text[i - 1])) &&
                     std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (std::isalnum(c) || dot)
      out += static_cast<char>(std::tolower(c));
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  return out;
}

// `license.py` is a program and `licenses.json` a list, whatever phrases they quote.
bool may_be_prose(const fs::path& path) {
  const std::string_view language = source_language(path);
  const std::string extension = data::extension_of(path);
  const bool is_markup = language == "Markdown" || language == "reStructuredText" || language == "HTML";
  return (language.empty() || is_markup) && extension != ".json" && extension != ".yml" &&
         extension != ".yaml" && extension != ".xml" && extension != ".toml" && extension != ".csv";
}

bool is_licence_file(const fs::path& path) {
  if (!may_be_prose(path)) return false;
  const std::string stem = lower_ascii(path.stem().string());
  return stem.starts_with("license") || stem.starts_with("licence") || stem.starts_with("copying") ||
         stem == "unlicense" || stem == "copyright" || stem.ends_with("-license") ||
         stem.ends_with("-licence");
}

// The expression that follows the tag of SPDX: identifiers with AND, OR and WITH between, and no end of a
// comment.
std::string licence_expression(std::string_view text) {
  constexpr std::string_view kOfIdentifiers =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-+:()";
  const auto take_word = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const std::string_view word =
        text.substr(0, std::min(text.find_first_not_of(kOfIdentifiers), text.size()));
    text.remove_prefix(word.size());
    return word;
  };
  std::string out(take_word());
  for (std::string_view joint = take_word(); joint == "AND" || joint == "OR" || joint == "WITH";
       joint = take_word())
    out += fmt::format(" {} {}", joint, take_word());
  while (out.ends_with('-')) out.pop_back();  // of -->
  return out;
}

}  // namespace

std::string_view licence_named(std::string_view text) {
  const std::string words = plain_words(text.substr(0, kLicenceBytes));
  for (const auto& [phrase, name] : kLicencePhrases)
    if (words.find(phrase) != words.npos) return name;
  return {};
}

std::string LicenceFinder::operator()(const fs::path& file, std::string_view text) {
  constexpr std::string_view kTag = "SPDX-License-Identifier:";
  const std::string_view head = text.substr(0, kHeaderBytes);
  if (const std::size_t at = head.find(kTag); at != head.npos) {
    if (std::string id = licence_expression(head.substr(at + kTag.size())); !id.empty()) return id;
  }
  return of_folder(fs::absolute(file).parent_path(), 0);
}

const std::string& LicenceFinder::of_folder(const fs::path& folder, int depth) {
  if (const auto found = known_.find(folder); found != known_.end()) return found->second;
  std::vector<fs::path> files;
  std::error_code ignored;
  bool top = folder == folder.root_path() || depth == kDeepestFolder;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename() == ".git") top = true;
    if (entry.is_regular_file(ignored) && is_licence_file(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string name;
  for (const fs::path& file : files) {
    name = licence_named(read_text(file));
    if (!name.empty()) break;
  }
  if (name.empty() && !files.empty())
    name = "unknown";
  else if (name.empty() && !top)
    name = of_folder(folder.parent_path(), depth + 1);
  return known_[folder] = name;
}

}  // namespace stoa::curate
