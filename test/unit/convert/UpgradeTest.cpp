// ninfer-convert upgrade: object bytes through every change of framing, what becomes of names and
// identities, and what is refused.
#include "convert/Upgrade.h"

#include "artifact/container/Reader.h"
#include "artifact/container/Signature.h"
#include "artifact/layouts/Layout.h"
#include "models/Identity.h"
#include "models/ModelSpec.h"
#include "support/Bytes.h"
#include "support/Sha256.h"
#include "test/conformance/FixtureFile.h"
#include "test/unit/container/TempFolder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ninfer;
using namespace ninfer::test;

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

class UpgradeTest : public TempFolder {
protected:
  UpgradeOptions from(const fs::path &source, const std::string &output = "new.ninfer") const {
    UpgradeOptions options;
    options.source = source;
    options.output = folder_ / output;
    return options;
  }
  UpgradeOptions fromV2(const std::string &output = "new.ninfer") {
    UpgradeOptions options = from(fixturePath("v2_nine.ninfer"), output);
    options.config = write("config.json", R"({"architectures":["Any"],"hidden_size":8})");
    return options;
  }

  static std::string errorOf(const Result<UpgradeReport> &report) {
    return report.ok() ? "ok" : report.error().code + " " + report.error().message;
  }

  /// Every object has the name and the SHA-256 of the expectation file.
  static void expectObjects(const fs::path &path, const std::string &json,
                            const std::string &nameMember) {
    const nlohmann::json expected = readJson(json);
    Result<Artifact> artifact = Artifact::open(path);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    ASSERT_EQ(artifact->directory().objects.size(), expected["objects"].size());
    for (size_t i = 0; i < expected["objects"].size(); ++i) {
      const nlohmann::json &want = expected["objects"][i];
      EXPECT_EQ(artifact->directory().objects[i].id, want[nameMember].get<std::string>());
      EXPECT_EQ(artifact->directory().objects[i].offset, want["offset"].get<uint64_t>());
      const auto bytes = artifact->object(i);
      ASSERT_TRUE(bytes.ok());
      EXPECT_EQ(toHex(sha256(*bytes)), want["payload_sha256"].get<std::string>());
    }
  }

  /// The golden framing 2 file as framing 1: another root, and no object of a newer format.
  fs::path framing1() {
    const std::string file = readBytes(fixturePath("v2_nine.ninfer"));
    auto json = nlohmann::ordered_json::parse(file.substr(16, loadLe64(file.data() + 8)));
    nlohmann::ordered_json root = {{"model_id", "toy"}, {"objects", nlohmann::json::array()}};
    uint64_t end = 0;
    for (const auto &object : json["objects"]) {
      if (object.contains("format") &&
          (object["format"] == "NVFP4" || object["format"] == "FP8_E4M3FN_ROW_BF16S"))
        continue;
      root["objects"].push_back(object);
      end = object["offset"].get<uint64_t>() + object["bytes"].get<uint64_t>();
    }
    const std::string text = root.dump();
    std::string bytes("NINFER\0\1", 8);
    bytes.resize(16);
    storeLe64(bytes.data() + 8, text.size());
    bytes += text;
    bytes.resize((bytes.size() + 4095) / 4096 * 4096);
    return write("one.ninfer", bytes + file.substr(8192, end));
  }
};

TEST_F(UpgradeTest, Framing2To3) {
  Result<UpgradeReport> report = upgradeArtifact(fromV2());
  ASSERT_TRUE(report.ok()) << errorOf(report);
  EXPECT_EQ(report->from, 2);
  EXPECT_EQ(report->to, 3);
  EXPECT_EQ(report->objects, 42u);
  expectObjects(folder_ / "new.ninfer", "v2_nine.json", "name");
  Result<Artifact> artifact = Artifact::open(folder_ / "new.ninfer");
  const Directory &directory = artifact->directory();
  EXPECT_EQ(directory.framing, 3);
  EXPECT_TRUE(checkAllObjects(directory, "x").ok());
  EXPECT_EQ(directory.bindings.size(), 40u) << "every tensor, no resource";
  for (const auto &[name, binding] : directory.bindings) {
    ASSERT_EQ(binding.parts.size(), 1u);
    EXPECT_TRUE(binding.whole);
    EXPECT_EQ(directory.objects[binding.parts[0].object].id, name);
  }
  const Component &text = directory.components.at("text");
  EXPECT_EQ(text.config["hidden_size"], 8);
  EXPECT_EQ(text.resources.count("odd_length.bin"), 1u);
  EXPECT_EQ(text.resources.count("note.txt"), 1u);
  const nlohmann::json identity = readJson("v2_nine.json")["identity"];
  EXPECT_EQ(directory.metadata["name"], identity["model_id"]);
  EXPECT_EQ(directory.provenance["upgrade"]["framing"], 2);
  EXPECT_EQ(directory.provenance["upgrade"]["source"], "v2_nine.ninfer");
  EXPECT_EQ(directory.provenance["upgrade"]["weights_id"], identity["weights_id"]);
  EXPECT_FALSE(report->notes.empty());
}

TEST_F(UpgradeTest, Framing1To2And3) {
  const fs::path one = framing1();
  const auto objects = [](const fs::path &path) {
    std::vector<std::string> out;
    Result<Artifact> artifact = Artifact::open(path);
    EXPECT_TRUE(artifact.ok());
    for (size_t i = 0; i < artifact->directory().objects.size(); ++i)
      out.push_back(artifact->directory().objects[i].id + " " +
                    toHex(sha256(*artifact->object(i))));
    return out;
  };
  UpgradeOptions options = from(one, "two.ninfer");
  options.framing = 2;
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0112") << "no weights id";
  options.weightsId = "groupwise-int";
  ASSERT_EQ(errorOf(upgradeArtifact(options)), "ok");
  // Framing 2 says which weights these are.
  UpgradeOptions other = from(folder_ / "two.ninfer", "other.ninfer");
  other.framing = 2;
  other.weightsId = "zz";
  EXPECT_EQ(errorOf(upgradeArtifact(other)).substr(0, 6), "NB0112");
  EXPECT_FALSE(fs::exists(folder_ / "other.ninfer"));
  other.weightsId = "groupwise-int";
  EXPECT_EQ(errorOf(upgradeArtifact(other)), "ok");
  fs::remove(folder_ / "other.ninfer");
  EXPECT_EQ(objects(folder_ / "two.ninfer"), objects(one));
  Result<Artifact> two = Artifact::open(folder_ / "two.ninfer");
  EXPECT_EQ(two->directory().framing, 2);
  EXPECT_EQ(two->directory().identity->modelId, "toy");
  EXPECT_EQ(two->directory().identity->weightsId, "groupwise-int");
  for (const fs::path &source : {one, folder_ / "two.ninfer"}) {
    options = from(source, "three.ninfer");
    options.config = write("config.json", "{}");
    options.force = true;
    options.modelName = "public";
    ASSERT_EQ(errorOf(upgradeArtifact(options)), "ok");
    EXPECT_EQ(objects(folder_ / "three.ninfer"), objects(one));
    Result<Artifact> three = Artifact::open(folder_ / "three.ninfer");
    EXPECT_EQ(three->directory().metadata["name"], "public");
  }
}

TEST_F(UpgradeTest, SplitAndJoin) {
  const fs::path golden = fixturePath("v3_single.ninfer");
  UpgradeOptions split = from(golden, "split.ninfer");
  split.maxFileBytes = 40'000;
  Result<UpgradeReport> report = upgradeArtifact(split);
  ASSERT_TRUE(report.ok()) << errorOf(report);
  EXPECT_GT(report->written.files.size(), 5u);
  expectObjects(folder_ / "split.ninfer", "v3_single.json", "id");
  UpgradeOptions join = from(folder_ / "split.ninfer", "joined.ninfer");
  ASSERT_EQ(errorOf(upgradeArtifact(join)), "ok");
  Result<Artifact> first = Artifact::open(golden),
                   second = Artifact::open(folder_ / "split.ninfer"),
                   third = Artifact::open(folder_ / "joined.ninfer");
  EXPECT_EQ(third->directory().files.size(), 1u);
  for (Result<Artifact> *other : {&second, &third}) {
    EXPECT_EQ(storageSignatureText((*other)->directory()), storageSignatureText(first->directory()))
        << "a plan for one serves the others";
    EXPECT_EQ((*other)->payloadBytes(), first->payloadBytes());
    EXPECT_EQ(asText(*(*other)->payload()), asText(*first->payload()));
    EXPECT_EQ((*other)->directory().metadata, first->directory().metadata);
  }
  // Another cut of an artifact in parts.
  UpgradeOptions again = from(folder_ / "split.ninfer", "again.ninfer");
  again.maxFileBytes = 100'000;
  ASSERT_EQ(errorOf(upgradeArtifact(again)), "ok");
  expectObjects(folder_ / "again.ninfer", "v3_single.json", "id");
}

TEST_F(UpgradeTest, SplitAndJoinedGivesTheFirstBytesAndRenamingKeepsTheHistory) {
  ASSERT_EQ(errorOf(upgradeArtifact(fromV2("first.ninfer"))), "ok");
  UpgradeOptions split = from(folder_ / "first.ninfer", "split.ninfer");
  split.maxFileBytes = 40'000;
  ASSERT_EQ(errorOf(upgradeArtifact(split)), "ok");
  ASSERT_EQ(errorOf(upgradeArtifact(from(folder_ / "split.ninfer", "joined.ninfer"))), "ok");
  EXPECT_TRUE(readBytes(folder_ / "joined.ninfer") == readBytes(folder_ / "first.ninfer"));
  const auto record = [&](const std::string &name) {
    return Artifact::open(folder_ / name)->directory().provenance["upgrade"];
  };
  const Json first = record("first.ninfer");
  EXPECT_EQ(record("split.ninfer"), first);
  UpgradeOptions rename = from(folder_ / "first.ninfer", "second.ninfer");
  rename.modelName = "another";
  ASSERT_EQ(errorOf(upgradeArtifact(rename)), "ok");
  Json second = record("second.ninfer");
  EXPECT_EQ(second["source"], "first.ninfer");
  EXPECT_EQ(second["previous"], Json::array({first}));
  rename = from(folder_ / "second.ninfer", "third.ninfer");
  rename.modelName = "a third";
  ASSERT_EQ(errorOf(upgradeArtifact(rename)), "ok");
  Json third = record("third.ninfer");
  second.erase("previous");
  EXPECT_EQ(third["previous"], Json::array({second, first}));
  // The name it has already is no change.
  rename = from(folder_ / "third.ninfer", "same.ninfer");
  rename.modelName = "a third";
  ASSERT_EQ(errorOf(upgradeArtifact(rename)), "ok");
  EXPECT_TRUE(readBytes(folder_ / "same.ninfer") == readBytes(folder_ / "third.ninfer"));
}

TEST_F(UpgradeTest, ForceReplacesNoConfigAndNoPart) {
  UpgradeOptions options = fromV2("config.json");
  options.force = true;
  const std::string before = readBytes(folder_ / "config.json");
  const std::string got = errorOf(upgradeArtifact(options));
  EXPECT_NE(got.find("NB0905"), std::string::npos) << got;
  EXPECT_NE(got.find("only a .ninfer artifact or an empty file is replaced"), std::string::npos)
      << got;
  EXPECT_EQ(readBytes(folder_ / "config.json"), before);
  options = fromV2(std::string(256, 'n'));
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0904");
  options = fromV2(std::string(229, 'n'));
  EXPECT_EQ(errorOf(upgradeArtifact(options)), "ok") << "one file";
  options = fromV2(std::string(229, 'p'));
  options.maxFileBytes = 40'000;
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0904");
}

TEST_F(UpgradeTest, Refusals) {
  UpgradeOptions options = fromV2();
  options.config.reset();
  std::string got = errorOf(upgradeArtifact(options));
  EXPECT_EQ(got.substr(0, 6), "NB0112") << got;
  EXPECT_NE(got.find("no config is known"), std::string::npos) << got;
  options = from(fixturePath("v3_single.ninfer"));
  options.framing = 2;
  EXPECT_NE(errorOf(upgradeArtifact(options)).find("no place for the components"),
            std::string::npos);
  options.framing = 1;
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0112");
  options = from(fixturePath("v3_single.ninfer"));
  options.config = folder_ / "config.json";
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0112");
  options = fromV2();
  write("config.json", R"({"a":1,"a":2})");
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0910");
  write("config.json", "[]");
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0911");
  fs::remove(folder_ / "config.json");
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0901");
  EXPECT_EQ(entries(), 0u);
  options = fromV2();
  options.framing = 2;
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0112") << "framing 2 has no config";
  // Existing output, output is the source, interrupted.
  write("new.ninfer", "precious");
  EXPECT_EQ(errorOf(upgradeArtifact(fromV2())).substr(0, 6), "NB0905");
  EXPECT_EQ(readBytes(folder_ / "new.ninfer"), "precious");
  fs::copy_file(fixturePath("v2_nine.ninfer"), folder_ / "same.ninfer");
  options = from(folder_ / "same.ninfer", "./same.ninfer");
  options.framing = 2;
  options.force = true;
  EXPECT_NE(errorOf(upgradeArtifact(options)).find("a file of the source"), std::string::npos);
  options = fromV2("other.ninfer");
  options.cancelled = [] { return true; };
  EXPECT_EQ(errorOf(upgradeArtifact(options)).substr(0, 6), "NB0321");
  EXPECT_FALSE(fs::exists(folder_ / "other.ninfer"));
  // A part of the source is no output either.
  options = from(fixturePath("v3_single.ninfer"), "split.ninfer");
  options.maxFileBytes = 100'000;
  Result<UpgradeReport> report = upgradeArtifact(options);
  ASSERT_TRUE(report.ok());
  options = from(folder_ / "split.ninfer", report->written.files[1].first);
  options.force = true;
  EXPECT_NE(errorOf(upgradeArtifact(options)).find("a file of the source"), std::string::npos);
}

TEST_F(UpgradeTest, BrokenContentIsNotTakenOver) {
  std::string bytes = readBytes(fixturePath("v2_nine.ninfer"));
  const nlohmann::json expected = readJson("v2_nine.json");
  for (const nlohmann::json &object : expected["objects"])
    if (object["name"] == "q8/n2_k31")
      bytes[8192 + object["offset"].get<size_t>()] = char(0x80);
  UpgradeOptions options = fromV2();
  options.source = write("broken.ninfer", bytes);
  const std::string got = errorOf(upgradeArtifact(options));
  EXPECT_EQ(got.substr(0, 6), "NB0109") << got;
  EXPECT_NE(got.find("broken.ninfer: "), std::string::npos) << got;
  EXPECT_EQ(got.find("new.ninfer"), std::string::npos) << got;
  EXPECT_FALSE(fs::exists(folder_ / "new.ninfer"));
}

/// A format no registry knows is the source's fault, not that of a file that never came to be.
TEST_F(UpgradeTest, UnknownFormatsAreReportedOfTheSource) {
  std::string bytes = readBytes(fixturePath("v3_single.ninfer"));
  const std::string from1 = "\"q8_g32_fp16\"", to = "\"q8_g32_fp17\"";
  const size_t at = bytes.find(from1);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, to.size(), to);
  UpgradeOptions options = from(write("odd.ninfer", bytes));
  const std::string got = errorOf(upgradeArtifact(options));
  EXPECT_NE(got.find("odd.ninfer: "), std::string::npos) << got;
  EXPECT_EQ(got.find("new.ninfer"), std::string::npos) << got;
  EXPECT_FALSE(fs::exists(folder_ / "new.ninfer"));
}

/// A directory with exactly the objects of a known identity.
Directory storedDirectory(const StoredModel &model, int framing) {
  Directory directory;
  directory.framing = framing;
  directory.identity = Identity{model.modelId, framing == 1 ? "" : model.weightsId};
  uint64_t cursor = 0;
  const auto add = [&](ObjectEntry object) {
    cursor = object.offset + object.bytes;
    directory.objects.push_back(std::move(object));
  };
  for (const std::string &id : model.resources) {
    ObjectEntry object;
    object.id = id;
    object.isTensor = false;
    object.encoding = "raw-bytes-v1";
    object.offset = cursor;
    object.bytes = 10;
    add(std::move(object));
  }
  for (const StoredTensor &tensor : model.tensors) {
    ObjectEntry object;
    object.id = tensor.name;
    object.shape = tensor.shape;
    object.format = tensor.format;
    object.layout = layoutOf(tensor.format);
    object.formatName = canonicalName(tensor.format);
    object.layoutName = canonicalName(*object.layout);
    object.offset = (cursor + 255) / 256 * 256;
    object.bytes = encodedGeometry(tensor.format, *object.layout, tensor.shape)->totalBytes;
    add(std::move(object));
  }
  directory.files = {FileEntry{std::nullopt, cursor}};
  return directory;
}

/// What the model package reads from the old artifact, it reads from the new one.
TEST_F(UpgradeTest, KnownIdentitiesKeepTheirMeaning) {
  ASSERT_FALSE(knownIdentities().empty());
  for (const Identity &identity : knownIdentities()) {
    SCOPED_TRACE(identity.modelId + " " + identity.weightsId);
    const StoredModel model = *storedModel(identity);
    const Directory old = storedDirectory(model, 2);
    const Result<ModelSpec> before = recogniseModel(old, "old.ninfer", RecogniseOptions{true});
    ASSERT_TRUE(before.ok()) << before.error().message;
    const Result<UpgradePlan> plan =
        planUpgrade(old, old.files[0].payloadBytes, from("old.ninfer"));
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    Directory now = plan->artifact.directory();
    now.framing = 3;
    now.files = {FileEntry{std::nullopt, plan->artifact.payloadBytes()}};
    // Through the text, as a reader meets it.
    const Result<std::string> text = encodeDirectory(now);
    ASSERT_TRUE(text.ok());
    const Result<Directory> parsed = parseDirectory(*text, "new.ninfer");
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_TRUE(checkAllObjects(*parsed, "new.ninfer").ok());
    const Result<ModelSpec> after = recogniseModel(*parsed, "new.ninfer", RecogniseOptions{true});
    ASSERT_TRUE(after.ok()) << after.error().message;
    ASSERT_EQ(after->parameters.size(), before->parameters.size());
    for (size_t i = 0; i < before->parameters.size(); ++i) {
      const ParameterSpec &a = before->parameters[i], &b = after->parameters[i];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.shape, b.shape);
      EXPECT_EQ(a.input, b.input);
      EXPECT_EQ(a.policy, b.policy) << a.name;
      EXPECT_EQ(a.activationInputDivisor.has_value(), b.activationInputDivisor.has_value())
          << a.name;
      ASSERT_EQ(a.binding.parts.size(), b.binding.parts.size());
      for (size_t p = 0; p < a.binding.parts.size(); ++p) {
        EXPECT_EQ(a.binding.parts[p].object, b.binding.parts[p].object);
        EXPECT_EQ(a.binding.parts[p].begin, b.binding.parts[p].begin);
        EXPECT_EQ(a.binding.parts[p].end, b.binding.parts[p].end);
      }
    }
    EXPECT_EQ(after->resources, before->resources);
    ASSERT_TRUE(after->mtp && before->mtp);
    EXPECT_EQ(after->mtp->head, before->mtp->head);
    EXPECT_EQ(after->mtp->rows, before->mtp->rows);
  }
}

TEST_F(UpgradeTest, Tool) {
  const auto run = [&](const std::string &arguments) {
    const int status =
        std::system((std::string(NINFER_BIN_DIR) + "/ninfer-convert upgrade " + arguments + " >" +
                     (folder_ / "out").string() + " 2>" + (folder_ / "err").string())
                        .c_str());
    return WEXITSTATUS(status);
  };
  const std::string source = fixturePath("v2_nine.ninfer"),
                    target = (folder_ / "new.ninfer").string(),
                    config = write("config.json", "{}").string();
  EXPECT_EQ(run("--help"), 0);
  EXPECT_EQ(run(source), 2);
  EXPECT_EQ(run(source + " " + target), 2) << "no config";
  EXPECT_NE(readBytes(folder_ / "err").find("--config"), std::string::npos);
  EXPECT_EQ(run(source + " " + target + " --to 1"), 2);
  EXPECT_EQ(run(source + " " + target + " --max-file-bytes 0 --config " + config), 2);
  EXPECT_EQ(run("missing.ninfer " + target), 3);
  EXPECT_FALSE(fs::exists(target));
  EXPECT_EQ(run(source + " " + target + " --report json --max-file-bytes 40000 --config " + config),
            0);
  const nlohmann::json report = nlohmann::json::parse(readBytes(folder_ / "out"));
  EXPECT_EQ(report["objects"], 42);
  EXPECT_GT(report["files"].size(), 1u);
  for (const auto &file : report["files"])
    EXPECT_EQ(fs::file_size(folder_ / file["name"].get<std::string>()), file["bytes"]);
  expectObjects(target, "v2_nine.json", "name");
  EXPECT_EQ(run(source + " " + target + " --config " + config), 2) << "exists";
  EXPECT_EQ(run(source + " " + target + " --force --config " + config), 0);
  expectObjects(target, "v2_nine.json", "name");
}

} // namespace
