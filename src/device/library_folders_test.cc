#include "device/library_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/test_folder.h"

namespace stoa {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre, ::testing::IsEmpty;

TEST(LibraryFolders, TheirOrder) {
  const TestFolder root;
  const fs::path venv = root / "venv/lib/python3.11/site-packages/nvidia",
                 debian = root / "usr/lib/python3/dist-packages/nvidia";
  for (const fs::path& folder :
       {venv / "cudnn/lib", venv / "cu13/lib", venv / "no_library/include", debian / "nccl/lib"})
    fs::create_directories(folder);
  const std::string prefix = (root / "venv").string();
  const std::map<std::string, std::string> set{
      {"STOA_CUDA_LIBRARIES", "/mine::/yours"}, {"VIRTUAL_ENV", prefix}, {"CUDA_HOME", "/cuda"}};
  const auto variable = [&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
  EXPECT_THAT(library_folders("/opt/stoa/bin", variable, {root / "usr"}),
              ElementsAre("/mine", "/yours", "/opt/stoa/bin", "/opt/stoa/lib", "/cuda/lib64",
                          (venv / "cu13/lib").string(), (venv / "cudnn/lib").string(),
                          (debian / "nccl/lib").string()));
  EXPECT_THAT(library_folders({}, [](const char*) { return nullptr; }, {root / "nothing"}), IsEmpty());
}

}  // namespace
}  // namespace stoa
