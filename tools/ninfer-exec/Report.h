// Rows of named values printed as an aligned table, Markdown, CSV, JSON or JSON lines.
#ifndef NINFER_TOOLS_NINFER_EXEC_REPORT_H
#define NINFER_TOOLS_NINFER_EXEC_REPORT_H

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ninfer::exec {

/// Row: members in column order; numbers, strings or null. Every row has the same members.
using Row = nlohmann::ordered_json;

enum class ReportFormat { Table, Markdown, Csv, Json, JsonLines };

/// "table", "md", "csv", "json", "jsonl"; the names that --output accepts.
const std::vector<std::string> &reportFormatNames();
ReportFormat reportFormat(const std::string &name);

/// Exact decimal text of a float; JSON has no infinities or NaN, so those are strings.
Row exactNumber(float value);

/// The whole report. Table and Markdown print numbers with two decimals; the others keep full precision.
std::string renderReport(const std::vector<Row> &rows, ReportFormat format);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_REPORT_H
