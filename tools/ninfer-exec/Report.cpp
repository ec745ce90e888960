#include "tools/ninfer-exec/Report.h"

#include <algorithm>
#include <cstdio>

namespace ninfer::exec {

namespace {

std::string shortText(const Row &value) {
  if (value.is_null())
    return "-";
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_number_float()) {
    char text[64];
    std::snprintf(text, sizeof(text), "%.2f", value.get<double>());
    return text;
  }
  return value.dump();
}

/// A `|` inside a cell would end it.
std::string markdownText(const Row &value) {
  std::string escaped;
  for (char c : shortText(value))
    escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

/// Columns on a terminal, taking every code point for one.
size_t width(const std::string &text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string csvText(const Row &value) {
  if (value.is_null())
    return {};
  if (!value.is_string())
    return value.dump();
  const std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\n\r") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (char c : text)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string aligned(const std::vector<Row> &rows, bool markdown) {
  std::vector<std::vector<std::string>> cells(1);
  std::vector<bool> numeric;
  for (const auto &[name, value] : rows.front().items()) {
    cells[0].push_back(name);
    numeric.push_back(value.is_number() || value.is_null());
  }
  for (const Row &row : rows) {
    cells.emplace_back();
    for (const auto &[name, value] : row.items())
      cells.back().push_back(markdown ? markdownText(value) : shortText(value));
  }
  std::vector<size_t> widths(cells[0].size(), 0);
  for (const auto &line : cells)
    for (size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], width(line[i]));
  std::string out;
  for (size_t l = 0; l < cells.size(); ++l) {
    std::string line = markdown ? "|" : "";
    for (size_t i = 0; i < cells[l].size(); ++i) {
      const std::string padding(widths[i] - width(cells[l][i]), ' ');
      line += (markdown ? " " : i ? "  " : "") + (numeric[i] ? padding + cells[l][i] : cells[l][i] + padding) +
              (markdown ? " |" : "");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (markdown && l == 0) {
      out += "|";
      for (size_t i = 0; i < widths.size(); ++i)
        out += (numeric[i] ? " " : " :") + std::string(std::max<size_t>(widths[i], 3) - 1, '-') + (numeric[i] ? ": |" : " |");
      out += "\n";
    }
  }
  return out;
}

} // namespace

const std::vector<std::string> &reportFormatNames() {
  static const std::vector<std::string> names = {"table", "md", "csv", "json", "jsonl"};
  return names;
}

ReportFormat reportFormat(const std::string &name) {
  const auto &names = reportFormatNames();
  return ReportFormat(std::find(names.begin(), names.end(), name) - names.begin());
}

Row exactNumber(float value) {
  if (value != value)
    return "nan";
  if (value - value != 0)
    return value > 0 ? "inf" : "-inf";
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", double(value));
  return Row::parse(text);
}

std::string renderReport(const std::vector<Row> &rows, ReportFormat format) {
  std::string out;
  if (rows.empty())
    return format == ReportFormat::Json ? "[]\n" : "";
  switch (format) {
  case ReportFormat::Table:
  case ReportFormat::Markdown:
    return aligned(rows, format == ReportFormat::Markdown);
  case ReportFormat::Csv: {
    const auto line = [&](const Row &row, bool names) {
      std::string text;
      for (const auto &[name, value] : row.items())
        text += (text.empty() ? "" : ",") + csvText(names ? Row(name) : value);
      return text + "\n";
    };
    out = line(rows.front(), true);
    for (const Row &row : rows)
      out += line(row, false);
    return out;
  }
  case ReportFormat::Json:
    return Row(rows).dump(2, ' ', false, Row::error_handler_t::replace) + "\n";
  case ReportFormat::JsonLines:
    for (const Row &row : rows)
      out += row.dump(-1, ' ', false, Row::error_handler_t::replace) + "\n";
    return out;
  }
  return out;
}

} // namespace ninfer::exec
