// The conversion report as text: a summary, a table with one line per tensor, or JSON.
#ifndef NINFER_CONVERT_REPORT_H
#define NINFER_CONVERT_REPORT_H

#include "convert/Converter.h"

#include <string>

namespace ninfer {

/// A few lines: model, sizes, how many tensors were preserved, widened, narrowed, converted.
std::string reportSummary(const ConvertReport &report);
/// One line per tensor, then the summary.
std::string reportTable(const ConvertReport &report);
/// Everything, one JSON object; member names are stable.
Json reportJson(const ConvertReport &report);

} // namespace ninfer

#endif // NINFER_CONVERT_REPORT_H
