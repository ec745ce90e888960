#include "convert/Output.h"

#include "artifact/container/PartFiles.h"
#include "support/File.h"
#include "support/FileKind.h"

#include <array>
#include <fstream>
#include <string_view>

namespace ninfer {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEntryMagic("NINFER\0", 7), kPartMagic("NINPRT\0", 7);

bool beginsWith(const fs::path &path, std::string_view magic) {
  std::array<char, 7> head{};
  std::ifstream in(path, std::ios::binary);
  return in.read(head.data(), head.size()) && std::string_view(head.data(), head.size()) == magic;
}

} // namespace

Status checkOutputName(const fs::path &output, bool inParts) {
  NINFER_RETURN_IF_ERROR(checkFileName(output));
  const size_t part = partFileName(output.filename().string(), partToken(ArtifactId{}), 1).size();
  if (const size_t most = longestFileName(folderOf(output)); inParts && part > most)
    return makeError(ErrorKind::Usage, "NB0904",
                     output.string() + ": the names of the parts would have " + std::to_string(part) +
                         " bytes, the file system holds names of at most " + std::to_string(most));
  return {};
}

Status checkOutputReplaceable(const fs::path &output, bool force) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(output, ignored)))
    return {};
  if (!force) {
    Status status(makeError(ErrorKind::Usage, "NB0905", output.string() + ": file exists"));
    status.help("--force replaces it");
    return status;
  }
  if (!fs::is_regular_file(output, ignored))
    return {}; // a link to nothing is replaced; AtomicFile refuses the rest
  if ((fs::file_size(output, ignored) == 0 && !ignored) || beginsWith(output, kEntryMagic))
    return {};
  const std::string kind =
      beginsWith(output, kPartMagic) ? "a part of a .ninfer artifact" : describeFileKind(output);
  Status status(makeError(ErrorKind::Usage, "NB0905",
                          output.string() + ": exists and is " + kind +
                              "; only a .ninfer artifact or an empty file is replaced"));
  status.help("give another output, or remove the file first");
  return status;
}

} // namespace ninfer
