// Recipes: the built-in table, the TOML grammar, and every way a recipe file can be wrong.
#include "convert/Recipe.h"

#include "SourceBuilders.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

TEST(Recipe, RolesComeFromParameterNames) {
  EXPECT_EQ(roleOfParameter("text/token_embedding"), Role::Embedding);
  EXPECT_EQ(roleOfParameter("text/output_head"), Role::Head);
  EXPECT_EQ(roleOfParameter("text/layers/11/attention/key"), Role::Key);
  EXPECT_EQ(roleOfParameter("text/layers/0/mlp/down"), Role::Down);
  EXPECT_FALSE(roleOfParameter("text/layers/0/attention/key_norm"));
  EXPECT_FALSE(roleOfParameter("text/final_norm"));
  EXPECT_EQ(layerOfParameter("text/layers/11/attention/key"), 11);
  EXPECT_FALSE(layerOfParameter("text/output_head"));
}

TEST(Recipe, BuiltInOnesAssignWhatTheTableSays) {
  for (const std::string &name : Recipe::builtInNames())
    EXPECT_TRUE(Recipe::builtIn(name)) << name;
  EXPECT_FALSE(Recipe::builtIn("q3"));
  EXPECT_EQ(Recipe::builtIn("q5")->formatOf(Role::Up, 3), Format::Q5G64_F16S);
  Recipe mixed = *Recipe::builtIn("mixed");
  for (Role role : {Role::Embedding, Role::Head})
    EXPECT_EQ(mixed.formatOf(role, {}), Format::Q6G64_F16S);
  for (Role role : {Role::Query, Role::Key, Role::Gate, Role::Up})
    EXPECT_EQ(mixed.formatOf(role, 0), Format::Q4G64_F16S);
  for (Role role : {Role::Value, Role::Output, Role::Down})
    EXPECT_EQ(mixed.formatOf(role, 0), Format::Q5G64_F16S);
}

TEST(Recipe, FilesAssignRolesAndLayers) {
  auto recipe = Recipe::parse("name = \"mine\"\n[formats]\ndefault = \"q4\"\nhead = \"w8\"\n"
                              "[[layers]]\nfirst = 0\nlast = 2\ndown = \"q6\"\n[[layers]]\nfirst = "
                              "2\nlast = 2\ndown = \"bf16\"\n",
                              "r.toml");
  ASSERT_TRUE(recipe.ok()) << recipe.error().render();
  EXPECT_EQ(recipe->name(), "mine");
  EXPECT_EQ(recipe->formatOf(Role::Head, {}), Format::W8G32_F16S);
  EXPECT_EQ(recipe->formatOf(Role::Down, 1), Format::Q6G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::Down, 2), Format::BF16); // the later entry wins
  EXPECT_EQ(recipe->formatOf(Role::Down, 3), Format::Q4G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::Up, 1), Format::Q4G64_F16S);
  EXPECT_TRUE(recipe->checkLayers(3).ok());
  EXPECT_FALSE(recipe->checkLayers(2).ok());
  EXPECT_EQ(recipe->toJson()["layers"].size(), 2u);
}

TEST(Recipe, RefusesEverythingNotInTheGrammar) {
  struct Case {
    const char *text, *message;
  };
  const std::string all = "[formats]\ndefault=\"q4\"\n";
  for (const Case &c : std::initializer_list<Case>{
           {"", "[formats] table is required"},
           {"formats = 1", "[formats] table is required"},
           {"[formats]\nembedding = \"q4\"\n", "has no format and there is no default"},
           {"[formats]\ndefault = \"q3\"\n", "r.toml:2: 'default' must be one of"},
           {"[formats]\ndefault = 4\n", "must be one of"},
           {"[formats]\ndefault = \"Q4\"\n", "must be one of"},
           {"[formats]\ndefault = \"nvfp4\"\n", "must be one of"},
           {"[formats]\ndefault = \"q4\"\nmlp = \"q4\"\n", "r.toml:3: unknown role 'mlp'"},
           {"[formats]\ndefault = \"q4\"\nnorm = \"q4\"\n", "unknown role 'norm'"},
           {"[formats]\ndefault = \"q4\"\ndefault = \"q5\"\n", "r.toml:3"},
           {"nmae = \"x\"\n[formats]\ndefault = \"q4\"\n", "r.toml:1: unknown key 'nmae'"},
           {"name = \"\"\n[formats]\ndefault = \"q4\"\n", "name must be a string"},
           {"[formats\n", "r.toml:1"},
           {"[formats]\ndefault = \"q4\"\n[layers]\nfirst = 1\n", "array of tables"},
           {"[formats]\ndefault = \"q4\"\n[[layers]]\nfirst = 1\n", "needs 'last'"},
           {"[formats]\ndefault = \"q4\"\n[[layers]]\nfirst = -1\nlast = 1\n", "needs 'first'"},
           {"[formats]\ndefault = \"q4\"\n[[layers]]\nfirst = 1.0\nlast = 1\n", "needs 'first'"},
           {"[formats]\ndefault = \"q4\"\n[[layers]]\nfirst = 2\nlast = 1\n", "at least 'first'"},
           {"[formats]\ndefault = \"q4\"\n[[layers]]\nfirst = 0\nlast = 1\nhead = \"q4\"\n",
            "lies in no layer"},
           {"[formats]\ndefault = \"q4\"\n[[layers]]\nfirst = 0\nlast = 1\nfoo = \"q4\"\n",
            "unknown role 'foo'"}}) {
    auto recipe = Recipe::parse(c.text, "r.toml");
    ASSERT_FALSE(recipe.ok()) << c.text;
    EXPECT_EQ(recipe.error().code, "NB0318");
    EXPECT_NE(recipe.error().message.find(c.message), std::string::npos) << c.text << "\n"
                                                                         << recipe.error().message;
  }
}

TEST(Recipe, ArgumentIsANameOrAFile) {
  test::TempFolder folder;
  test::writeBytes(folder / "r.toml", "[formats]\ndefault = \"fp8\"\n");
  auto file = Recipe::fromArgument((folder / "r.toml").string());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->formatOf(Role::Query, 0), Format::FP8_E4M3FN_ROW_BF16S);
  auto neither = Recipe::fromArgument("q7");
  ASSERT_FALSE(neither.ok());
  EXPECT_EQ(neither.error().kind, ErrorKind::Usage);
  EXPECT_NE(neither.error().render().find("bf16, w8, q6, q5, q4, mixed"), std::string::npos);
}

} // namespace
} // namespace ninfer
