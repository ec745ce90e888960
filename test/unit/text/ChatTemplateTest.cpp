// Chat templates against Jinja2 (test/oracle/chat_template_vectors.py), and what is refused.
#include "runtime/text/ChatTemplate.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace ninfer;

namespace {

TEST(ChatTemplate, EveryRenderingEqualsJinja2) {
  std::ifstream in(std::string(NINFER_SOURCE_DIR) + "/test/vectors/chat_template.json");
  std::ostringstream text;
  text << in.rdbuf();
  Result<Json> file = parseStrictJson(text.str(), "chat_template.json");
  ASSERT_TRUE(file.ok()) << file.error().render();
  ASSERT_GE((*file)["vectors"].size(), 50u);
  Json config = {{"bos_token", "<s>"}};
  for (const Json &v : (*file)["vectors"]) {
    std::string name = v["template"];
    SCOPED_TRACE(name + " " + v["messages"].dump() + v["add_generation_prompt"].dump());
    Result<ChatTemplate> t = ChatTemplate::compile((*file)["templates"][name].get<std::string>(), config, name);
    ASSERT_TRUE(t.ok()) << t.error().render();
    std::vector<ChatMessage> messages;
    for (const Json &m : v["messages"])
      messages.push_back({m["role"], m["content"]});
    Result<std::string> out = t->render(messages, v["add_generation_prompt"], v["extra"]);
    if (v["text"].is_string()) {
      ASSERT_TRUE(out.ok()) << out.error().render();
      EXPECT_EQ(*out, v["text"].get<std::string>());
    } else {
      ASSERT_FALSE(out.ok());
      EXPECT_NE(out.error().message.find(v["error"].get<std::string>()), std::string::npos) << out.error().render();
    }
  }
}

TEST(ChatTemplate, WhatIsNotSupportedIsRefusedWithItsLine) {
  struct Case {
    const char *source, *says;
  };
  for (const Case &c : {Case{"\n{% include 'x' %}", "t:2: block 'include'"}, Case{"{% if true %}", "expected endif"},
                        Case{"{{ 'a }}", "string is not closed"}, Case{"{{ a", "tag is not closed"}, Case{"{# x", "comment is not closed"},
                        Case{"{{ a ? b }}", "unexpected character"}, Case{"{{ [1, }}", "expected"},
                        Case{"{% for x y %}{% endfor %}", "expected 'in'"}}) {
    Result<ChatTemplate> t = ChatTemplate::compile(c.source, Json(), "t");
    ASSERT_FALSE(t.ok()) << c.source;
    EXPECT_EQ(t.error().kind, ErrorKind::Unsupported);
    EXPECT_NE(t.error().message.find(c.says), std::string::npos) << t.error().render();
  }
  for (const Case &c : {Case{"{{ x|nofilter }}", "undefined value"}, Case{"{{ 'x'|nofilter }}", "filter 'nofilter'"},
                        Case{"{{ nofunction() }}", "function 'nofunction'"}, Case{"{{ x.y }}", "undefined value"},
                        Case{"{{ 1 is strange }}", "test 'strange'"}, Case{"{{ 1 / 0 }}", "division by zero"},
                        Case{"{% for i in range(2000) %}{% for j in range(2000) %}x{% endfor %}{% endfor %}", "steps"},
                        Case{"{{ 9223372036854775807 + 1 }}", "overflow"}, Case{"{{ range(1000000000)|length }}", "range is longer"},
                        Case{"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"}}) {
    Result<ChatTemplate> t = ChatTemplate::compile(c.source, Json(), "t");
    ASSERT_TRUE(t.ok()) << c.source << t.error().render();
    Result<std::string> out = t->render({}, false);
    ASSERT_FALSE(out.ok()) << c.source;
    EXPECT_NE(out.error().message.find(c.says), std::string::npos) << out.error().render();
  }
}

TEST(ChatTemplate, DeepNestingIsAnErrorAndNotACrash) {
  std::string open(100000, '('), list(100000, '['), nots;
  for (int i = 0; i < 100000; ++i)
    nots += "not ";
  for (const std::string &s : {"{{ " + open + " }}", "{{ " + list + " }}", "{{ " + nots + "1 }}", "{{ " + std::string(100000, '-') + "1 }}"})
    EXPECT_FALSE(ChatTemplate::compile(s, Json(), "t").ok());
}

} // namespace
