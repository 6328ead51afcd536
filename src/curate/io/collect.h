// What a corpus is collected from: files, folders, patterns and lists of them, each file with the name of its
// source and its licence.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "curate/document.h"
#include "curate/io/input_files.h"

namespace stoa::curate {

struct CollectRequest {
  // Files, folders (searched as find_inputs does it), patterns (glob.h), and @FILE: a list of such, one a
  // line, with a source and a licence behind tabs where they differ; paths in it are relative to its folder.
  std::vector<std::string> inputs;
  std::string source;   // of all that a list says nothing of; empty: the folder's or the file's name
  std::string license;  // empty: that of the nearest licence file, else "unknown"
};

// Where a file comes from: members of its documents.
struct Provenance {
  std::string source, file, license;
  // Given by the user: takes the place of what a document itself says.
  bool source_given = false, license_given = false;
};

struct CollectedFile {
  fs::path path;
  Provenance from;
};

// In the order of the inputs; a file that comes again is taken once, where it comes first. ConfigError names
// an input without files, DataError a line of a list that is none; IoError: a file is missing. `search`: how
// folders are searched.
std::vector<CollectedFile> collect_files(const CollectRequest& request, InputSearch& search);

// Gives a document its members `source`, `file` and `license`.
void add_provenance(const Provenance& from, Document& document);

}  // namespace stoa::curate
