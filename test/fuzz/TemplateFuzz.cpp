// Chat templates: compiling and rendering end, in bounded time and memory, and give UTF-8 where the input is UTF-8.
#include "runtime/text/ChatTemplate.h"
#include "test/fuzz/Fuzz.h"

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const Json config = {{"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}};
  Result<ChatTemplate> chat = ChatTemplate::compile(textOf(data, size), config, "chat_template.jinja");
  if (!accepted(chat))
    return 0;
  const std::vector<ChatMessage> messages = {
      {"system", "Be brief."}, {"user", "  What's 1 + 1? \xc3\xa9"}, {"assistant", "<think>\nhm\n</think>\n2"}, {"user", ""}};
  const Json extra = {{"enable_thinking", false},
                      {"tools", Json::array({{{"type", "function"}, {"function", {{"name", "f"}, {"n", 1.5}, {"list", {1, 2, 3}}}}}})}};
  for (bool prompt : {true, false})
    (void)accepted(chat->render(messages, prompt, extra));
  return 0;
}
