// The side manifest: what it records, that it is reproducible, strict, and names what differs.
#include "artifact/container/Manifest.h"
#include "support/Sha256.h"
#include "test/unit/inspect/TestModel.h"

#include <functional>

using namespace ninfer;
using namespace ninfer::test;

namespace {

class Manifest : public InspectTest {
protected:
  void SetUp() override {
    InspectTest::SetUp();
    model_ = modelOfAllFormats();
    model_.provenance = {{"converter", "c 1"},
                         {"source", {{"files", {{{"name", "s"}, {"sha256", "00"}}}}}},
                         {"tensors", {{"q4", {"F32", "converted", "ENCODER_V1"}}}}};
    path_ = folder_ / "m.ninfer";
    model_.write(path_, {4096});
    manifest_ = folder_ / "m.ninfer.manifest.json";
  }
  Artifact open() {
    Result<Artifact> artifact = Artifact::open(path_);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    return artifact.take();
  }
  void write() {
    const Status status = writeManifest(open(), "1.2.3");
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  /// Id and text of the failure, notes behind the message; "ok".
  std::string check() {
    const Status status = checkManifest(open());
    if (status.ok())
      return "ok";
    std::string out = status.error().code + " " + status.error().message;
    for (const std::string &note : status.error().notes)
      out += " | " + note;
    return out;
  }
  void edit(const std::function<void(nlohmann::ordered_json &)> &change) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(readAll(manifest_));
    change(json);
    Model::put(manifest_, json.dump());
  }
  void flip(const std::filesystem::path &file, uint64_t at) {
    std::string bytes = readAll(file);
    bytes[at] = char(bytes[at] ^ 1);
    Model::put(file, bytes);
  }

  Model model_;
  std::filesystem::path path_, manifest_;
};

TEST_F(Manifest, RecordsDigestsSizesAndOrigin) {
  write();
  const nlohmann::json json = nlohmann::json::parse(readAll(manifest_));
  EXPECT_EQ(json["manifest"], "ninfer-side-manifest-1");
  EXPECT_EQ(json["tool"]["version"], "1.2.3");
  EXPECT_EQ(json["container"]["framing"], 3);
  ASSERT_EQ(json["objects"].size(), model_.items.size());
  for (size_t i = 0; i < model_.items.size(); ++i) {
    EXPECT_EQ(json["objects"][i]["id"], model_.items[i].id);
    EXPECT_EQ(json["objects"][i]["bytes"], model_.items[i].bytes.size());
    EXPECT_EQ(json["objects"][i]["sha256"], toHex(sha256(model_.items[i].bytes)));
  }
  EXPECT_EQ(json["objects"][1]["provenance"][2], "ENCODER_V1");
  EXPECT_EQ(json["versions"]["encoders"], nlohmann::json::array({"ENCODER_V1"}));
  EXPECT_EQ(json["versions"]["formats"].size(), 9u);
  EXPECT_EQ(json["versions"]["layouts"].size(), 4u);
  EXPECT_EQ(json["provenance"]["source"]["files"][0]["sha256"], "00");
  EXPECT_FALSE(json["provenance"].contains("tensors"));
  EXPECT_TRUE(json["files"][0]["path"].is_null());
  EXPECT_EQ(json["files"][0]["sha256"], toHex(sha256(readAll(path_))));
  EXPECT_EQ(json["files"][1]["path"], "part-1");
  EXPECT_EQ(json["files"][1]["sha256"], toHex(sha256(readAll(folder_ / "part-1"))));
  std::string text = readAll(path_).substr(32);
  text = text.substr(0, text.rfind('}', 4096 * 3) + 1);
  text = text.substr(0, json["container"]["directory_bytes"].get<size_t>());
  EXPECT_EQ(json["container"]["directory_sha256"], toHex(sha256(text)));
}

TEST_F(Manifest, IsReproducibleAndAgrees) {
  write();
  const std::string first = readAll(manifest_);
  EXPECT_EQ(check(), "ok");
  ManifestOptions options;
  options.threads = 4;
  uint64_t bytes = 0;
  EXPECT_EQ(*buildManifest(open(), "1.2.3", options), first);
  options.threads = 1;
  options.onBytes = [&](uint64_t count) { bytes += count; };
  EXPECT_EQ(*buildManifest(open(), "1.2.3", options), first);
  EXPECT_EQ(bytes, manifestWork(open()));
  write();
  EXPECT_EQ(readAll(manifest_), first);
  // The entry may be renamed together with its manifest.
  std::filesystem::rename(path_, folder_ / "n.ninfer");
  std::filesystem::rename(manifest_, folder_ / "n.ninfer.manifest.json");
  path_ = folder_ / "n.ninfer";
  EXPECT_EQ(check(), "ok");
  for (int framing : {1, 2}) {
    Model old;
    old.items = {tensor("q4", "q4", 3, 70, 1), resource("r", "x")};
    path_ = folder_ / ("old" + std::to_string(framing) + ".ninfer");
    old.writeOld(path_, framing);
    write();
    EXPECT_EQ(check(), "ok");
  }
}

TEST_F(Manifest, NamesWhatDiffersWithBothDigests) {
  write();
  const uint64_t header =
      readAll(path_).size() - 4096; // payload offset: the entry holds 4096 bytes
  const std::string before = toHex(sha256(model_["q4"].bytes));
  flip(path_, header + model_.offsets()[1] + 3);
  std::string changed = model_["q4"].bytes;
  changed[3] = char(changed[3] ^ 1);
  const std::string message = check();
  EXPECT_EQ(message.find("NB0124 " + path_.string() + ": object 'q4': SHA-256 is " +
                         toHex(sha256(changed)) + ", the manifest has " + before),
            0u)
      << message;
  EXPECT_NE(message.find("file 'm.ninfer': SHA-256"), std::string::npos);
  EXPECT_EQ(message.find("part-1"), std::string::npos);
  flip(path_, header + model_.offsets()[1] + 3);
  EXPECT_EQ(check(), "ok");
  // A byte no object owns, and the white space behind the directory: only the file's digest tells.
  flip(path_, header + 100);
  EXPECT_EQ(check().find("NB0124 " + path_.string() + ": file 'm.ninfer': SHA-256"), 0u);
  flip(path_, header + 100);
  flip(folder_ / "part-1", 40); // the page before a part's payload
  EXPECT_NE(check().find("file 'part-1': SHA-256"), std::string::npos);
  flip(folder_ / "part-1", 40);
  EXPECT_EQ(check(), "ok");
}

TEST_F(Manifest, ADifferentArtifactIsNotHashed) {
  write();
  model_.items.pop_back();
  model_.items[2].id = "renamed";
  model_.write(path_, {4096});
  const std::string message = check();
  for (const char *part :
       {"object 'q5' is recorded but not there", "object 'renamed' is not recorded",
        "object 'template' is recorded but not there", "directory: SHA-256 is"})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
}

TEST_F(Manifest, IsReadStrictly) {
  EXPECT_EQ(check().substr(0, 6), "NB0122") << "missing";
  write();
  const std::string good = readAll(manifest_);
  const auto refused = [&](const char *id,
                           const std::function<void(nlohmann::ordered_json &)> &change) {
    Model::put(manifest_, good);
    edit(change);
    const std::string message = check();
    EXPECT_EQ(message.substr(0, 6), id) << message;
    EXPECT_NE(message.find("m.ninfer"), std::string::npos) << message;
  };
  refused("NB0123", [](auto &json) { json["manifest"] = "ninfer-side-manifest-2"; });
  refused("NB0123", [](auto &json) { json["extra"] = 1; });
  refused("NB0123", [](auto &json) { json.erase("files"); });
  refused("NB0123", [](auto &json) { json["container"]["more"] = 1; });
  refused("NB0123", [](auto &json) { json["container"]["framing"] = "3"; });
  refused("NB0123", [](auto &json) { json["container"]["artifact_id"] = "00"; });
  refused("NB0123", [](auto &json) { json["objects"][0]["sha256"] = std::string(64, 'G'); });
  refused("NB0123", [](auto &json) { json["objects"][0]["sha256"] = std::string(63, '0'); });
  refused("NB0123", [](auto &json) { json["objects"][0]["bytes"] = 1.5; });
  refused("NB0123", [](auto &json) { json["objects"][0]["bytes"] = -1; });
  refused("NB0123", [](auto &json) { json["objects"][0].erase("id"); });
  refused("NB0123", [](auto &json) { json["objects"] = 3; });
  refused("NB0123", [](auto &json) { json["files"][0]["path"] = 3; });
  refused("NB0124", [](auto &json) { json["container"]["framing"] = 2; });
  refused("NB0124", [](auto &json) { json["container"]["artifact_id"] = std::string(32, '0'); });
  refused("NB0124", [](auto &json) { json["container"]["directory_bytes"] = 7; });
  refused("NB0124",
          [](auto &json) { json["container"]["directory_sha256"] = std::string(64, '0'); });
  refused("NB0124", [](auto &json) { json["objects"][3]["sha256"] = std::string(64, '0'); });
  refused("NB0124", [](auto &json) { json["objects"][3]["bytes"] = 7; });
  refused("NB0124", [](auto &json) { json["objects"][3]["offset"] = 7; });
  refused("NB0124", [](auto &json) { json["objects"].push_back(json["objects"][3]); });
  refused("NB0124", [](auto &json) { std::swap(json["objects"][3], json["objects"][4]); });
  refused("NB0124", [](auto &json) { json["objects"].erase(4); });
  refused("NB0124", [](auto &json) { json["files"].erase(1); });
  refused("NB0124", [](auto &json) { json["files"][1]["bytes"] = 7; });
  refused("NB0124", [](auto &json) { json["files"][1]["sha256"] = std::string(64, '0'); });
  for (const std::string &text :
       {std::string(), std::string("{"), good + "x", std::string("{\"manifest\":1,\"manifest\":2}"),
        std::string("[1e999]")}) {
    Model::put(manifest_, text);
    EXPECT_EQ(check().substr(0, 6), "NB0122") << text.substr(0, 40);
  }
  for (const char *text : {"[]", "3", "null", "{}"}) {
    Model::put(manifest_, text);
    EXPECT_EQ(check().substr(0, 6), "NB0123") << text;
  }
  Model::put(manifest_, good);
  EXPECT_EQ(check(), "ok");
}

TEST_F(Manifest, EveryStatementIsCompared) {
  write();
  const std::string good = readAll(manifest_);
  const auto told = [&](const std::string &text,
                        const std::function<void(nlohmann::ordered_json &)> &change) {
    Model::put(manifest_, good);
    edit(change);
    const std::string message = check();
    EXPECT_NE(message.find(text), std::string::npos) << text << "\n" << message;
  };
  const std::string differs = "NB0124 " + path_.string() + ": ";
  // objects[1] is q4 (5x131), objects[0] a resource.
  told(differs + "object 'q4': shape[1] is 131, the manifest has 132",
       [](auto &json) { json["objects"][1]["shape"][1] = 132; });
  told(differs + "object 'q4': shape[2] is nothing, the manifest has 1",
       [](auto &json) { json["objects"][1]["shape"].push_back(1); });
  told(differs + "object 'q4': shape is an array, the manifest has nothing",
       [](auto &json) { json["objects"][1].erase("shape"); });
  told(differs + "object 'q4': format is \"Q4G64_F16S\", the manifest has \"Q5G64_F16S\"",
       [](auto &json) { json["objects"][1]["format"] = "Q5G64_F16S"; });
  told(differs + "object 'q4': layout is \"row-split-k128-v1\", the manifest has \"x\"",
       [](auto &json) { json["objects"][1]["layout"] = "x"; });
  told(differs + "object 'q4': provenance[0] is \"F32\", the manifest has \"BF16\"",
       [](auto &json) { json["objects"][1]["provenance"][0] = "BF16"; });
  told(differs + "object 'q5': provenance is nothing, the manifest has an array",
       [](auto &json) { json["objects"][2]["provenance"] = {1}; });
  told(differs + "object 'tokenizer': format is nothing, the manifest has \"BF16\"",
       [](auto &json) { json["objects"][0]["format"] = "BF16"; });
  told(differs + "provenance.converter is \"c 1\", the manifest has \"c 2\"",
       [](auto &json) { json["provenance"]["converter"] = "c 2"; });
  told(differs + "provenance.source.files[0].sha256 is \"00\", the manifest has \"01\"",
       [](auto &json) { json["provenance"]["source"]["files"][0]["sha256"] = "01"; });
  told(differs + "provenance.more is nothing, the manifest has true",
       [](auto &json) { json["provenance"]["more"] = true; });
  told(differs + "provenance is an object, the manifest has null",
       [](auto &json) { json["provenance"] = nullptr; });
  told(differs + "versions.encoders[0] is \"ENCODER_V1\", the manifest has nothing",
       [](auto &json) { json["versions"]["encoders"].clear(); });
  told(differs + "versions.formats[9] is nothing, the manifest has \"Z\"",
       [](auto &json) { json["versions"]["formats"].push_back("Z"); });
  told(differs + "storage signature is ",
       [](auto &json) { json["container"]["storage_signature"] = std::string(64, '0'); });
  told("NB0123", [](auto &json) { json["versions"] = nlohmann::ordered_json::object(); });
  told("NB0123", [](auto &json) { json["versions"]["more"] = {"x"}; });
  told("NB0123", [](auto &json) { json["versions"]["layouts"] = "x"; });
  told("NB0123", [](auto &json) { json["versions"]["layouts"][0] = 1; });
  told("NB0123", [](auto &json) { json["objects"][1]["shape"][0] = -1; });
  told("NB0123", [](auto &json) { json["objects"][1]["shape"] = "5x131"; });
  told("NB0123", [](auto &json) { json["objects"][1]["layout"] = ""; });
  told("NB0123", [](auto &json) { json["tool"]["version"] = ""; });
  told("NB0123", [](auto &json) { json["tool"]["version"] = 1; });
  told("NB0123", [](auto &json) { json["tool"]["name"] = "other"; });
  told("NB0123", [](auto &json) { json["tool"]["more"] = 1; });
  told("NB0123", [](auto &json) { json["tool"] = "ninfer"; });
  told("ok", [](auto &json) { json["tool"]["version"] = "0.0.1"; });
  told("ok", [](auto &json) { // the order of members states nothing
    json = nlohmann::ordered_json(nlohmann::json(json));
  });
}

TEST_F(Manifest, NamesTheEntryFile) {
  write();
  edit([](auto &json) { json["files"][0]["path"] = "other"; });
  const std::string message = check();
  EXPECT_NE(message.find("file 'other' is recorded but not there"), std::string::npos) << message;
  EXPECT_NE(message.find("entry file 'm.ninfer' is not recorded"), std::string::npos) << message;
  EXPECT_EQ(message.find("''"), std::string::npos) << message;
}

TEST_F(Manifest, StopsWhenInterruptedOrAPartIsMissing) {
  ManifestOptions options;
  options.cancelled = [] { return true; };
  Status status = writeManifest(open(), "1", options);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "NB0125");
  EXPECT_FALSE(std::filesystem::exists(manifest_));
  std::filesystem::remove(folder_ / "part-1");
  status = writeManifest(open(), "1");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("part-1"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(manifest_));
}

} // namespace
