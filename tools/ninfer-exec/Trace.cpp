#include "tools/ninfer-exec/Trace.h"

#include "support/File.h"
#include "support/Json.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ninfer::exec {

namespace {

Error badTrace(const std::string &path, size_t line, const std::string &text) {
  return makeError(ErrorKind::BadFile, "NB0671", path + ": line " + std::to_string(line) + ": " + text);
}

/// A number, or one of the texts that exactNumber() writes for what JSON does not have.
std::optional<float> valueOf(const Json &json) {
  if (json.is_number())
    return json.get<float>();
  if (json == "nan")
    return std::numeric_limits<float>::quiet_NaN();
  if (json == "inf" || json == "-inf")
    return json == "inf" ? HUGE_VALF : -HUGE_VALF;
  return std::nullopt;
}

struct Distance {
  double worst = -1, rms = 0; ///< largest difference, infinite where one side is not a number
  size_t element = 0;
  double relative() const { return worst == 0 || std::isinf(worst) ? worst : worst / rms; }
};

Distance distance(const std::vector<float> &actual, const std::vector<float> &expected) {
  Distance d;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = actual[i] == expected[i] ? 0 : std::abs(double(actual[i]) - double(expected[i]));
    const double counted = std::isnan(difference) ? HUGE_VAL : difference;
    if (counted > d.worst) {
      d.worst = counted;
      d.element = i;
    }
    d.rms += double(expected[i]) * double(expected[i]);
  }
  d.rms = std::sqrt(d.rms / double(expected.size()));
  return d;
}

Row difference(double value, bool exact) {
  if (exact)
    return exactNumber(float(value));
  char text[32];
  std::snprintf(text, sizeof(text), "%.2e", value);
  return text;
}

} // namespace

Trace::Output &Trace::output(const std::string &name) {
  const auto found = std::find_if(outputs_.begin(), outputs_.end(), [&](const Output &o) { return o.name == name; });
  return found != outputs_.end() ? *found : outputs_.emplace_back(Output{name, {}});
}

Status Trace::add(const Context &context) {
  NINFER_ASSIGN_OR_RETURN(std::vector<ninfer_output> outputs, context.outputs());
  bool any = false;
  for (const ninfer_output &from : outputs) {
    if (from.element != NINFER_ELEMENT_F32)
      continue;
    any = true;
    Output &to = output(from.name);
    const auto *values = static_cast<const float *>(from.data);
    for (uint32_t row = 0; row < from.rows; ++row, values += from.width)
      to.rows[from.position + row] = Values(values, values + from.width);
  }
  if (any)
    return {};
  Status status = makeError(ErrorKind::Unsupported, "NB0670", "the plan keeps no trace of its layers");
  status.help("build it with ninfer-build --trace-layers");
  return status;
}

std::string Trace::render() const {
  std::string text = Row{{"tokens", tokens_}}.dump() + "\n";
  for (const Output &output : outputs_)
    for (const auto &[position, values] : output.rows) {
      Row row;
      row["output"] = output.name;
      row["position"] = position;
      row["values"] = Row::array();
      for (float value : values)
        row["values"].push_back(exactNumber(value));
      text += row.dump() + "\n";
    }
  return text;
}

Result<Trace> Trace::read(const std::string &path) {
  NINFER_ASSIGN_OR_RETURN(std::string text, readFile(path));
  Trace trace({});
  size_t number = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string where = path + ": line " + std::to_string(number + 1);
    NINFER_ASSIGN_OR_RETURN(Json json, parseStrictJson(std::string_view(text).substr(at, end - at), where, "NB0671"));
    at = end + 1;
    if (number == 0) {
      NINFER_RETURN_IF_ERROR(jsonMembers(json, {"tokens"}, {}, where, "NB0671"));
      if (!json["tokens"].is_array())
        return badTrace(path, 1, "tokens: expected an array");
      for (const Json &token : json["tokens"]) {
        NINFER_ASSIGN_OR_RETURN(const uint64_t id, jsonUnsigned(token, 0, INT32_MAX, where + ": tokens", "NB0671"));
        trace.tokens_.push_back(int32_t(id));
      }
      continue;
    }
    NINFER_RETURN_IF_ERROR(jsonMembers(json, {"output", "position", "values"}, {}, where, "NB0671"));
    NINFER_ASSIGN_OR_RETURN(const std::string name, jsonIdentifier(json["output"], where + ": output", "NB0671"));
    NINFER_ASSIGN_OR_RETURN(const uint64_t position,
                            jsonUnsigned(json["position"], 0, INT32_MAX, where + ": position", "NB0671"));
    if (!json["values"].is_array() || json["values"].empty())
      return badTrace(path, number + 1, "values: expected an array that is not empty");
    Values values;
    for (const Json &entry : json["values"]) {
      const std::optional<float> value = valueOf(entry);
      if (!value)
        return badTrace(path, number + 1, "values: expected a number, \"nan\", \"inf\" or \"-inf\", got " + jsonExcerpt(entry));
      values.push_back(*value);
    }
    if (!trace.output(name).rows.try_emplace(uint32_t(position), std::move(values)).second)
      return badTrace(path, number + 1, "position " + std::to_string(position) + " of '" + name + "' is there twice");
  }
  if (number == 0)
    return makeError(ErrorKind::BadFile, "NB0671", path + ": empty, expected a trace of ninfer-exec logits --trace");
  return trace;
}

Result<std::vector<Row>> Trace::compare(const Trace &expected, const std::string &path, bool exact) const {
  if (tokens_ != expected.tokens_)
    return makeError(ErrorKind::BadFile, "NB0671",
                     path + ": is the trace of " + std::to_string(expected.tokens_.size()) +
                         " other tokens; a comparison needs equal prompts");
  std::vector<Row> report;
  size_t common = 0;
  for (const Output &output : outputs_) {
    const auto other = std::find_if(expected.outputs_.begin(), expected.outputs_.end(),
                                    [&](const Output &o) { return o.name == output.name; });
    size_t rows = 0;
    uint32_t position = 0;
    Distance worst;
    if (other != expected.outputs_.end())
      for (const auto &[at, values] : output.rows) {
        const auto found = other->rows.find(at);
        if (found == other->rows.end())
          continue;
        if (found->second.size() != values.size())
          return makeError(ErrorKind::BadFile, "NB0671",
                           path + ": '" + output.name + "' at position " + std::to_string(at) + " has " +
                               std::to_string(found->second.size()) + " values, the plan's has " +
                               std::to_string(values.size()));
        const Distance here = distance(values, found->second);
        if (rows++ == 0 || here.relative() > worst.relative()) {
          worst = here;
          position = at;
        }
      }
    common += rows;
    Row row;
    row["output"] = output.name;
    row["rows"] = rows;
    row["worst"] = rows ? difference(worst.relative(), exact) : Row();
    row["position"] = rows ? Row(position) : Row();
    row["element"] = rows ? Row(worst.element) : Row();
    row["rms"] = rows ? difference(worst.rms, exact) : Row();
    report.push_back(std::move(row));
  }
  if (common == 0)
    return makeError(ErrorKind::BadFile, "NB0671", path + ": has no output and position in common with this plan's trace");
  return report;
}

} // namespace ninfer::exec
