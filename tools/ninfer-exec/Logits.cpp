// ninfer-exec logits PLAN: the logits of the last position, or of every one, for comparison with other
// implementations.
#include "tools/ninfer-exec/Options.h"

#include "support/File.h"
#include "tools/ninfer-exec/Report.h"
#include "tools/ninfer-exec/Trace.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ninfer::exec {

namespace {

struct LogitsOptions {
  CommonOptions common;
  PromptOptions prompt;
  bool each = false;
  bool oneByOne = false;
  int64_t top = 0;
  std::string format; ///< empty: table with --top, else json
  std::string out;
  std::string trace, traceAgainst; ///< files to write and to compare with
  bool tracing() const { return !trace.empty() || !traceAgainst.empty(); }
  /// Prints a table instead of all logits.
  bool table() const { return top > 0 || !traceAgainst.empty(); }
};

struct PositionLogits {
  size_t position;
  std::vector<float> values;
};

std::string renderAll(const std::vector<int32_t> &tokens, const std::vector<PositionLogits> &all,
                      const std::string &format) {
  if (format == "raw") {
    std::string bytes;
    for (const PositionLogits &logits : all)
      bytes.append(reinterpret_cast<const char *>(logits.values.data()), logits.values.size() * sizeof(float));
    return bytes;
  }
  if (format == "csv") {
    std::string text = "position,token,logit\n";
    char line[64];
    for (const PositionLogits &logits : all)
      for (size_t i = 0; i < logits.values.size(); ++i) {
        std::snprintf(line, sizeof(line), "%zu,%zu,%.9g\n", logits.position, i, double(logits.values[i]));
        text += line;
      }
    return text;
  }
  Row root;
  root["tokens"] = tokens;
  root["positions"] = Row::array();
  for (const PositionLogits &logits : all) {
    Row entry;
    entry["position"] = logits.position;
    entry["logits"] = Row::array();
    for (float value : logits.values)
      entry["logits"].push_back(exactNumber(value));
    root["positions"].push_back(std::move(entry));
  }
  return root.dump() + "\n";
}

std::string renderTop(const std::vector<PositionLogits> &all, int64_t top, const TextModel &text,
                      const std::string &format) {
  std::vector<Row> rows;
  for (const PositionLogits &logits : all) {
    std::vector<int32_t> order(logits.values.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t count = std::min(size_t(top), order.size());
    std::partial_sort(order.begin(), order.begin() + ptrdiff_t(count), order.end(), [&](int32_t a, int32_t b) {
      return logits.values[size_t(a)] != logits.values[size_t(b)] ? logits.values[size_t(a)] > logits.values[size_t(b)]
                                                                  : a < b;
    });
    for (size_t i = 0; i < count; ++i) {
      Row row;
      row["position"] = logits.position;
      row["rank"] = i + 1;
      row["token"] = order[i];
      row["logit"] = exactNumber(logits.values[size_t(order[i])]);
      row["text"] = Row();
      if (text.hasTokenizer()) {
        const Row spelled = (*text.tokenizer())->decode(std::span(&order[i], 1), false);
        // Quoted where blanks and line feeds would not be visible.
        const bool quoted = format != "json" && format != "jsonl";
        row["text"] = quoted ? Row(spelled.dump(-1, ' ', false, Row::error_handler_t::replace)) : spelled;
      }
      rows.push_back(std::move(row));
    }
  }
  return renderReport(rows, reportFormat(format));
}

Result<int> run(LogitsOptions &options) {
  if (options.format.empty())
    options.format = options.table() ? "table" : "json";
  const std::vector<std::string> full = {"json", "csv", "raw"};
  const auto &allowed = options.table() ? reportFormatNames() : full;
  if (std::find(allowed.begin(), allowed.end(), options.format) == allowed.end())
    return makeError(ErrorKind::Usage, "NB0900",
                     "-o " + options.format +
                         (options.table() ? " does not go with --top or --trace-against"
                                          : " needs --top or --trace-against") +
                         "; all logits are written as json, csv or raw");
  if (options.top && !options.traceAgainst.empty())
    return makeError(ErrorKind::Usage, "NB0900", "--top and --trace-against each print a table; give one of them");
  std::optional<Trace> expected;
  if (!options.traceAgainst.empty()) {
    NINFER_ASSIGN_OR_RETURN(expected, Trace::read(options.traceAgainst));
  }
  NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.common));
  for (const std::string &output : {options.out, options.trace})
    NINFER_RETURN_IF_ERROR(checkOutput(output, {options.common.plan, engine.info().weights_path, options.common.prepacked, options.prompt.file,
                                                options.prompt.tokens, options.traceAgainst}));
  // Token ids in, numbers out: no tokenizer is read, so an artifact without a usable one will do.
  TextModel text;
  if (options.top || options.prompt.tokens.empty()) {
    NINFER_ASSIGN_OR_RETURN(text, TextModel::load(engine));
  }
  NINFER_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, readPrompt(options.prompt, text));
  NINFER_RETURN_IF_ERROR(checkLength(engine.info(), tokens.size(), {}));
  NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, options.common, false));

  std::vector<PositionLogits> all;
  Trace trace(tokens);
  // A trace is read after every call, so each submit is one call.
  const size_t step = options.each || options.oneByOne ? 1
                      : options.tracing()              ? engine.info().prefill_chunk
                                                       : tokens.size();
  for (size_t done = 0; done < tokens.size();) {
    const auto next = std::span(tokens).subspan(done, std::min(step, tokens.size() - done));
    NINFER_RETURN_IF_ERROR(context.submitPrompt(next));
    done += next.size();
    if (options.tracing())
      NINFER_RETURN_IF_ERROR(trace.add(context));
    if (!options.each && done < tokens.size())
      continue;
    NINFER_ASSIGN_OR_RETURN(std::span<const float> logits, context.logits());
    all.push_back({done - 1, {logits.begin(), logits.end()}});
  }
  if (!options.trace.empty()) {
    const std::string lines = trace.render();
    NINFER_RETURN_IF_ERROR(writeText(options.trace, lines));
  }
  std::string bytes;
  if (expected) {
    const bool exact = options.format != "table" && options.format != "md";
    NINFER_ASSIGN_OR_RETURN(const std::vector<Row> rows, trace.compare(*expected, options.traceAgainst, exact));
    bytes = renderReport(rows, reportFormat(options.format));
  } else {
    bytes = options.top ? renderTop(all, options.top, text, options.format) : renderAll(tokens, all, options.format);
  }
  NINFER_RETURN_IF_ERROR(writeText(options.out, bytes));
  printAsked(engine, options.common, context, {.loadNs = text.loadNs()});
  return 0;
}

} // namespace

int logitsCommand(int argc, char **argv) {
  LogitsOptions options;
  CLI::App app("Print the logits after a prompt.", "ninfer-exec logits");
  addCommonOptions(app, options.common);
  addPromptOptions(app, options.prompt);
  app.add_flag("--each", options.each, "Logits of every position, evaluated one token at a time");
  app.add_flag("--one-by-one", options.oneByOne, "Evaluate through the decode phase only");
  app.add_option("--top", options.top, "Print the K largest logits with their texts instead of all")
      ->type_name("K")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  app.add_option("--trace", options.trace,
                 "Write what the plan keeps of its layers (ninfer-build --trace-layers) as JSON lines")
      ->type_name("FILE");
  app.add_option("--trace-against", options.traceAgainst,
                 "Print, instead of logits, how far every layer is from this trace of the same tokens")
      ->type_name("FILE");
  app.add_option("-o,--output", options.format,
                 "json (default), csv, raw (float32, little-endian, position by position); with --top or "
                 "--trace-against: table (default), md, csv, json, jsonl")
      ->type_name("FORMAT");
  app.add_option("--out", options.out, "Write to this file instead of stdout")->type_name("FILE");
  if (int code = parse(app, argc, argv); code >= 0)
    return code;
  return report(run(options));
}

} // namespace ninfer::exec
