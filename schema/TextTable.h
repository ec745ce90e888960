// Aligned columns of text for pages people read.
#ifndef NINFER_SCHEMA_TEXTTABLE_H
#define NINFER_SCHEMA_TEXTTABLE_H

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ninfer {

/// Columns padded to their widest cell, two spaces between; numbers (cells that start with a digit)
/// to the right.
class TextTable {
public:
  explicit TextTable(std::string indent = "") : indent_(std::move(indent)) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string render() const {
    std::vector<size_t> widths;
    for (const auto &row : rows_)
      for (size_t i = 0; i < row.size(); ++i) {
        if (i >= widths.size())
          widths.push_back(0);
        widths[i] = std::max(widths[i], row[i].size());
      }
    std::string out;
    for (const auto &row : rows_) {
      std::string line = indent_;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string pad(widths[i] - row[i].size(), ' ');
        const bool number = !row[i].empty() && row[i][0] >= '0' && row[i][0] <= '9';
        line += (i ? "  " : "") + (number ? pad + row[i] : row[i] + pad);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

private:
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace ninfer

#endif // NINFER_SCHEMA_TEXTTABLE_H
