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

/// A chain needs no nesting in the text, but gives a tree as deep as it is long.
TEST(ChatTemplate, LongChainsAreAnErrorAndNotACrash) {
  const auto chain = [](const std::string &link) {
    std::string out = "{{ a";
    for (int i = 0; i < 100000; ++i)
      out += link;
    return out + " }}";
  };
  for (const char *link : {" ~ a", " + a", " * a", " or a", " and a", " in a", " == a", "|trim", ".a", "[0]", "[0:1]", "()", " is string",
                           " if a", " if a else a"}) {
    Result<ChatTemplate> t = ChatTemplate::compile(chain(link), Json(), "t");
    ASSERT_FALSE(t.ok()) << link;
    EXPECT_NE(t.error().message.find("nested too deeply"), std::string::npos) << link << t.error().render();
  }
  std::string fine = "{{ 'a'";
  for (int i = 0; i < 250; ++i)
    fine += " ~ 'a'";
  Result<ChatTemplate> t = ChatTemplate::compile(fine + " }}", Json(), "t");
  ASSERT_TRUE(t.ok()) << t.error().render();
  EXPECT_EQ(*t->render({}, false), std::string(251, 'a'));
}

/// A template comes with a downloaded model. Whatever it does, rendering ends, in bounded memory and stack.
TEST(ChatTemplate, AHostileTemplateIsStopped) {
  struct Case {
    const char *source, *says;
  };
  const std::string nested = std::string(60, '[') + "f()" + std::string(60, ']');
  const std::string deepMacro = "{% macro f() %}{{ " + nested + " }}{% endmacro %}{{ f() }}";
  const std::string ns = "{% set n = namespace(x='aaaaaaaa', y=[]) %}";
  const std::string doubled = ns + "{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
  const std::string listed = ns + "{% for i in range(60) %}{% set n.y = [n.y, n.y] %}{% endfor %}";
  const std::string joined = ns + "{% for i in range(20) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
  const std::string replaced = joined + "{{ n.x.replace('a', n.x)|length }}", join = joined + "{{ range(1000)|join(n.x)|length }}",
                    mapped = joined + "{{ range(100)|map('string')|map('replace', '1', n.x)|list|length }}",
                    kept = joined + "{% set n.l = [] %}{% for i in range(1000) %}{% set n.l = n.l + [n.x] %}{% endfor %}",
                    parts = joined + "{{ n.x.split('a')|length }}", letters = joined + "{% for c in n.x %}{% endfor %}",
                    deep = ns + "{% for i in range(5000) %}{% set n.y = [n.y] %}{% endfor %}{{ n.y }}",
                    self = ns + "{% for i in range(5000) %}{% set n.x = n %}{% endfor %}",
                    copies = joined + "{% for i in range(100000) %}{% set y = n.x %}{% endfor %}";
  for (const Case &c :
       {Case{doubled.c_str(), "a value of more than"}, Case{listed.c_str(), "a value of more than"},
        Case{replaced.c_str(), "a value of more than"}, Case{join.c_str(), "a value of more than"},
        Case{mapped.c_str(), "a value of more than"}, Case{kept.c_str(), "bytes"}, Case{parts.c_str(), "a value of more than"},
        Case{letters.c_str(), "a list of more than"}, Case{deep.c_str(), "nested deeper"}, Case{self.c_str(), "nested deeper"},
        Case{copies.c_str(), "bytes of values"}, Case{deepMacro.c_str(), "nested too deeply"},
        Case{"{{ 'abc'.split('') }}", "empty separator"}}) {
    Result<ChatTemplate> t = ChatTemplate::compile(c.source, Json(), "t");
    ASSERT_TRUE(t.ok()) << c.source << t.error().render();
    Result<std::string> out = t->render({}, false);
    ASSERT_FALSE(out.ok()) << c.source;
    EXPECT_NE(out.error().message.find(c.says), std::string::npos) << c.source << "\n" << out.error().render();
  }
}

TEST(ChatTemplate, IntegersAtTheirLimitsStayDefined) {
  for (const auto &[source, text] : std::vector<std::pair<std::string, std::string>>{
           {"{{ range(1, 9223372036854775807, 9223372036854775807) }}", "[1]"},
           {"{{ range(-2, -9223372036854775807, -9223372036854775807) }}", "[-2]"},
           {"{{ [1, 2, 3][1::9223372036854775807] }}", "[2]"},
           {"{{ [1, 2, 3][::-9223372036854775807] }}", "[3]"},
           {"{{ 'nan'|int }} {{ 'inf'|int > 0 }} {{ '1e400'|int > 0 }}", "0 True True"},
           {"{{ 'h\xc3\xa9'[1] }}{{ 'h\xc3\xa9'[-2:] }}", "\xc3\xa9h\xc3\xa9"}}) {
    Result<ChatTemplate> t = ChatTemplate::compile(source, Json(), "t");
    ASSERT_TRUE(t.ok()) << t.error().render();
    Result<std::string> out = t->render({}, false);
    ASSERT_TRUE(out.ok()) << out.error().render();
    EXPECT_EQ(*out, text) << source;
  }
}

/// Long conversations are legal: what a template does per message must not count the whole conversation.
TEST(ChatTemplate, ALongConversationIsFarFromTheLimits) {
  std::vector<ChatMessage> messages;
  for (int i = 0; i < 1000; ++i)
    messages.push_back({i % 2 ? "assistant" : "user", std::string(4000, 'x')});
  Result<ChatTemplate> t = ChatTemplate::compile(
      "{%- for m in messages %}{% if m.content is string and messages[0]['role'] == 'user' and messages|length > 3 %}"
      "<|{{ m.role }}|>{{ m['content']|trim }}{% endif %}{% if 'x' in messages[loop.index0].content %}!{% endif %}{% endfor %}",
      Json(), "t");
  ASSERT_TRUE(t.ok()) << t.error().render();
  Result<std::string> out = t->render(messages, false);
  ASSERT_TRUE(out.ok()) << out.error().render();
  EXPECT_GT(out->size(), 4000000u);
}

} // namespace
