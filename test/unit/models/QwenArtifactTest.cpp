// make_qwen_artifact writes what it says: every artifact opens, passes the gates of all objects,
// and is recognised with its draft layer; random words pass the scan of the content.
#include "artifact/container/Reader.h"
#include "models/Bind.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

namespace ninfer {
namespace {

class QwenArtifact : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("qwen-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
               std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path make(const std::string &options) {
    const std::filesystem::path out = folder_ / ("m" + std::to_string(count_++) + ".ninfer");
    const std::string command =
        std::string(NINFER_MAKE_QWEN_ARTIFACT) + " " + out.string() + " " + options;
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return out;
  }

  std::filesystem::path folder_;
  int count_ = 0;
};

TEST_F(QwenArtifact, SparseShapesAreRecognised) {
  struct Case {
    const char *options;
    size_t parameters; ///< of text
    int64_t hidden;
  };
  for (const Case &c :
       std::vector<Case>{{"--preset 0.8B", 3 + 18 * 16 + 6 * 12, 1024},
                         {"--preset 2B --recipe q4", 3 + 18 * 16 + 6 * 12, 2048},
                         {"--preset 4B --recipe w8", 3 + 24 * 16 + 8 * 12, 2560},
                         {"--preset 9B --separate", 3 + 24 * 16 + 8 * 12, 4096},
                         {"--preset 35B-A3B", 3 + 30 * 786 + 10 * 782, 2048},
                         {"--preset tiny-moe --recipe bf16", 3 + 3 * 42 + 38, 128}}) {
    for (const char *proposal : {"", " --proposal 131"}) {
      const auto path = make(c.options + std::string(proposal));
      auto artifact = Artifact::open(path);
      ASSERT_TRUE(artifact.ok()) << artifact.error().render();
      EXPECT_TRUE(checkAllObjects(artifact->directory(), "m").ok());
      auto spec = recogniseModel(artifact->directory(), "m", {.mtp = true});
      ASSERT_TRUE(spec.ok()) << spec.error().render();
      EXPECT_EQ(spec->hiddenSize(), c.hidden);
      EXPECT_EQ(spec->mtp->rows, *proposal ? 131u : static_cast<uint64_t>(spec->vocabSize()));
      size_t text = 0;
      for (const ParameterSpec &p : spec->parameters)
        text += isUnder(p.name, "text");
      EXPECT_EQ(text, c.parameters) << c.options;
      std::filesystem::remove(path);
    }
  }
}

TEST_F(QwenArtifact, IdentitiesAreRecognisedInFraming2) {
  for (const char *identity :
       {"qwen3.6-27b/groupwise-int", "qwen3.6-27b/nvfp4", "qwen3.8-27b/groupwise-int",
        "qwen3.8-27b/nvfp4", "qwen3.6-35b-a3b/groupwise-int"}) {
    const auto path = make(std::string("--identity ") + identity);
    auto artifact = Artifact::open(path);
    ASSERT_TRUE(artifact.ok()) << artifact.error().render();
    EXPECT_EQ(artifact->directory().framing, 2);
    auto spec = recogniseModel(artifact->directory(), "m", {.mtp = true});
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    EXPECT_EQ(spec->mtp->rows, 131072u);
  }
}

TEST_F(QwenArtifact, RandomWordsAreLegalAndPlausible) {
  for (const char *options :
       {"--recipe mixed", "--recipe q4 --proposal 32", "--recipe w8 --separate", "--recipe bf16",
        "--preset tiny-moe", "--layer-types llf --tied --no-mtp --heads 2 --kv-heads 1"}) {
    const auto path = make(std::string("--random 5 ") + options);
    auto artifact = Artifact::open(path);
    ASSERT_TRUE(artifact.ok()) << artifact.error().render();
    auto spec = recogniseModel(artifact->directory(), "m",
                               {.mtp = std::string(options).find("--no-mtp") == std::string::npos});
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    for (const ParameterSpec &p : spec->parameters) {
      const RangePart &part = p.binding.parts[0];
      auto geometry = artifact->geometry(part.object);
      auto object = artifact->object(part.object);
      ASSERT_TRUE(geometry.ok() && object.ok());
      std::vector<float> values(part.end - part.begin);
      decodeElements(*geometry, *object, part.begin, part.end, values);
      double squares = 0;
      for (float value : values) {
        ASSERT_TRUE(std::isfinite(value)) << p.name;
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
      if (!p.direct) { // a row keeps the variance of its input
        const double perRow = squares / static_cast<double>(p.shape[0]);
        EXPECT_GT(perRow, 0.5) << p.name << " " << options;
        EXPECT_LT(perRow, 2.0) << p.name << " " << options;
      }
      if (p.name == "proposal/token_ids") {
        std::set<float> distinct(values.begin(), values.end());
        EXPECT_EQ(distinct.size(), values.size());
        EXPECT_LT(*distinct.rbegin(), static_cast<float>(spec->vocabSize()));
      }
      if (p.name.ends_with("gdn/norm"))
        EXPECT_GT(values[0], 0.7f);
    }
  }
}

} // namespace
} // namespace ninfer
