// Names and places of files: what an index or a directory may name, and what may stand where a file is expected.
#include "artifact/container/Reader.h"
#include "convert/HuggingFaceFolder.h"
#include "convert/quantized/Import.h"
#include "test/unit/convert/SourceBuilders.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace ninfer {
namespace {

using namespace test;

struct Name {
  std::string name;
  bool indexRefuses, partRefuses;
};

/// An index comes from anywhere, so its names are held to a stricter rule than part names, whose rule is the format's.
std::vector<Name> names() {
  using std::string;
  return {
      {"../other/m.safetensors", true, true},
      {"..", true, true},
      {".", true, true},
      {"", true, true},
      {"/etc/m.safetensors", true, true},
      {"//etc/m", true, true},
      {"a/../../m.safetensors", true, true},
      {"a/../m.safetensors", true, true},
      {"./m.safetensors", true, true},
      {"sub/m.safetensors", true, true},
      {"m.safetensors/", true, true},
      {"m.safetensors/.", true, true},
      {"..\\m.safetensors", true, true},
      {"\\\\host\\share\\m", true, true},
      {"C:\\m.safetensors", true, true},
      {"C:m.safetensors", true, false},
      {"m:stream", true, false},
      {string("m.safetensors\0x", 15), true, true},
      {string("\0", 1), true, true},
      {"m\n.safetensors", true, false},
      {"m\x1b[2J.safetensors", true, false},
      {"m\x7f.safetensors", true, false},
      {"...", false, false},
      {"..m", false, false},
      {"m..", false, false},
      {"~", false, false},
      {"$HOME", false, false},
      {"%2e%2e%2fm", false, false},
      {" m .safetensors", false, false},
      {"\xe2\x88\x95m", false, false}, // U+2215, which only looks like a slash
      {"m-00001-of-00002.safetensors", false, false},
  };
}

std::string visibleName(const std::string &name) { return nlohmann::json(name).dump(); }

TEST(FileNames, InAShardIndex) {
  for (const Name &n : names()) {
    const std::string text = "{\"weight_map\":{\"w\":" + visibleName(n.name) + "}}";
    auto map = parseShardIndex(text, "model.safetensors.index.json");
    EXPECT_EQ(map.ok(), !n.indexRefuses) << visibleName(n.name);
    if (map.ok())
      continue;
    const std::string shown = map.error().render();
    EXPECT_NE(shown.find("unsafe file name"), std::string::npos) << shown;
    for (char c : shown)
      EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << "a name reaches the terminal as it is: " << visibleName(n.name);
  }
}

TEST(FileNames, OfParts) {
  for (const Name &n : names()) {
    const std::string text = R"({"components":{"text":{"config":{}}},"objects":[{"id":"t","kind":"resource","encoding":"raw_bytes_v1",)"
                             R"("offset":0,"bytes":5}],"bindings":{},"uses":[],"files":[{"path":null,"payload_bytes":4},{"path":)" +
                             visibleName(n.name) + R"(,"payload_bytes":1}]})";
    auto directory = parseDirectory(text, "x.ninfer");
    EXPECT_EQ(directory.ok(), !n.partRefuses) << visibleName(n.name) << (directory.ok() ? "" : directory.error().message);
    if (directory.ok()) {
      const fs::path place = ("/models" / fs::path(*directory->files[1].path)).lexically_normal();
      EXPECT_EQ(place.parent_path(), "/models") << visibleName(n.name);
    }
  }
}

/// Names the command line itself gives: a folder and the base name of a file in it.
TEST(FileNames, ResolvedInAFolder) {
  TempFolder folder;
  fs::create_directory(folder / "sub");
  writeBytes(folder / "sub/m.safetensors", "x");
  writeBytes(folder / "m.safetensors", "x");
  auto model = ModelFolder::open(folder / "sub");
  ASSERT_TRUE(model.ok());
  for (const Name &n : names()) {
    if (n.indexRefuses) {
      EXPECT_FALSE(model->resolve(n.name).ok()) << visibleName(n.name);
    }
  }
  EXPECT_TRUE(model->resolve("m.safetensors").ok());
}

/// Every file a model folder may hold, each replaced by what is no file of the folder.
class FolderFiles : public testing::Test {
protected:
  static constexpr const char *kIndex = "model.safetensors.index.json";

  static std::vector<std::string> files() {
    std::vector<std::string> out = {"config.json",         "model.safetensors",      kIndex, "model-00001-of-00001.safetensors", "tokenizer.json",
                                    "tokenizer_config.json", "generation_config.json", "chat_template.jinja"};
    for (const std::string &name : quantSideFileNames())
      out.push_back(name);
    return out;
  }

  /// A complete folder in which `name` is present.
  static void build(const fs::path &folder, const std::string &name) {
    writeTinyFolder(folder, tinyTensors(), "F32");
    writeBytes(folder / "tokenizer_config.json", "{}");
    writeBytes(folder / "generation_config.json", R"({"eos_token_id":2})");
    writeBytes(folder / "chat_template.jinja", "{{ messages }}");
    if (name == kIndex || name.rfind("model-", 0) == 0) {
      nlohmann::json map;
      for (const TinyTensor &t : tinyTensors())
        map[t.huggingFace] = "model-00001-of-00001.safetensors";
      fs::rename(folder / "model.safetensors", folder / "model-00001-of-00001.safetensors");
      writeBytes(folder / kIndex, nlohmann::json{{"weight_map", map}}.dump());
    }
    if (!fs::exists(folder / name))
      writeBytes(folder / name, "{}");
  }

  static void expectRefused(const fs::path &folder, const std::string &name, const std::string &what) {
    auto checkpoint = openCheckpoint(folder, {});
    ASSERT_FALSE(checkpoint.ok()) << name << " as " << what;
    EXPECT_EQ(checkpoint.error().kind, ErrorKind::BadFile) << checkpoint.error().render();
    EXPECT_NE(checkpoint.error().message.find(name), std::string::npos) << name << " as " << what << ": " << checkpoint.error().message;
  }
};

TEST_F(FolderFiles, LinksThatLeadOutside) {
  for (const std::string &name : files()) {
    TempFolder folder, outside;
    build(folder.path(), name);
    fs::rename(folder / name, outside / "kept"); // the right content, in the wrong place
    for (const fs::path &target : {outside / "kept", fs::relative(outside / "kept", folder.path())}) {
      fs::create_symlink(target, folder / name);
      expectRefused(folder.path(), name, "a link");
      fs::remove(folder / name);
    }
    // Through a folder link inside the folder: the first step stays in, the second does not.
    fs::create_directory_symlink(outside.path(), folder / "inner");
    fs::create_symlink("inner/kept", folder / name);
    expectRefused(folder.path(), name, "a link through a link");
    fs::remove(folder / name);
    fs::create_symlink(name, folder / name);
    expectRefused(folder.path(), name, "a link to itself");
  }
}

TEST_F(FolderFiles, LinksThatStayInsideAreFollowed) {
  for (const std::string &name : {std::string("config.json"), std::string("model.safetensors"), std::string("tokenizer.json")}) {
    TempFolder folder;
    build(folder.path(), name);
    fs::create_directory(folder / "store");
    fs::rename(folder / name, folder / "store/blob");
    fs::create_symlink("store/blob", folder / name);
    auto checkpoint = openCheckpoint(folder.path(), {});
    EXPECT_TRUE(checkpoint.ok()) << name << ": " << checkpoint.error().render();
  }
}

TEST_F(FolderFiles, WhatIsNoRegularFile) {
  for (const std::string &name : files()) {
    TempFolder folder;
    build(folder.path(), name);
    fs::remove(folder / name);
    ASSERT_EQ(mkfifo((folder / name).c_str(), 0600), 0);
    expectRefused(folder.path(), name, "a FIFO"); // and does not wait for a writer
    fs::remove(folder / name);
    fs::create_directory(folder / name);
    expectRefused(folder.path(), name, "a folder");
    fs::remove(folder / name);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (folder / "s").string();
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
    fs::rename(folder / "s", folder / name);
    expectRefused(folder.path(), name, "a socket");
    close(fd);
    fs::remove(folder / name);
    fs::create_symlink("/dev/zero", folder / name);
    expectRefused(folder.path(), name, "a device");
  }
}

/// The same for paths the user names, where links are the user's own.
TEST(NamedPaths, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  TempFolder folder;
  for (const char *name : {"m.gguf", "m.safetensors", "model.safetensors.index.json", "m.ninfer", "m.other"}) {
    ASSERT_EQ(mkfifo((folder / name).c_str(), 0600), 0);
    EXPECT_FALSE(openCheckpoint(folder / name, {}).ok()) << name;
    EXPECT_FALSE(Artifact::open(folder / name).ok()) << name;
    fs::remove(folder / name);
    fs::create_symlink("/dev/zero", folder / name);
    EXPECT_FALSE(openCheckpoint(folder / name, {}).ok()) << name;
    EXPECT_FALSE(Artifact::open(folder / name).ok()) << name;
    fs::remove(folder / name);
  }
}

TEST(Shards, OfTheSameSeriesMustBeListed) {
  TempFolder folder;
  writeTinyFolder(folder.path(), tinyTensors(), "F32");
  nlohmann::json map;
  for (const TinyTensor &t : tinyTensors())
    map[t.huggingFace] = "model-00001-of-00002.safetensors";
  fs::rename(folder / "model.safetensors", folder / "model-00001-of-00002.safetensors");
  writeBytes(folder / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  for (const char *other : {"other-00001-of-00002.safetensors", "model-00001-of-00003.safetensors", "consolidated.safetensors",
                            "model-of-00002.safetensors", "model-x-of-00002.safetensors"})
    writeBytes(folder / other, "not looked at");
  auto fine = openCheckpoint(folder.path(), {});
  EXPECT_TRUE(fine.ok()) << fine.error().render();
  writeBytes(folder / "model-00002-of-00002.safetensors", "not looked at either");
  auto extra = openCheckpoint(folder.path(), {});
  ASSERT_FALSE(extra.ok());
  EXPECT_NE(extra.error().message.find("\"model-00002-of-00002.safetensors\" lies in the folder but is not listed"), std::string::npos)
      << extra.error().message;
}

} // namespace
} // namespace ninfer
