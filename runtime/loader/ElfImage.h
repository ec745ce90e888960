// Machine code of a plan: one ELF shared object without relocations, dependencies or writable data, mapped
// executable. Two ways: the segments straight from the plan file (shares the page cache, no copy), or a sealed
// memory file and the system's dynamic loader. The rules are checked before either of them.
#ifndef NINFER_RUNTIME_LOADER_ELFIMAGE_H
#define NINFER_RUNTIME_LOADER_ELFIMAGE_H

#include "support/Status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace ninfer {

class ElfImage {
public:
  enum class Mapping { Direct, Memory };

  /// Maps `image`, which is the file range of `fd` that starts at `fileOffset` (a multiple of 4096). With
  /// `Direct`, `fd` must stay valid only during the call. `name` is for messages.
  /// Errors: NB0610 the ELF breaks a rule (BadFile), NB0611 other machine (TargetMismatch), NB0612 the system
  /// refused the mapping (Failed).
  static Result<ElfImage> map(Mapping mapping, int fd, uint64_t fileOffset, std::span<const std::byte> image,
                              std::string_view name);
  /// The rules alone: NB0610, NB0611.
  static Status check(std::span<const std::byte> image, std::string_view name);

  ElfImage() = default;
  ElfImage(ElfImage &&other) noexcept;
  ElfImage &operator=(ElfImage &&other) noexcept;
  ~ElfImage();

  /// Address of an exported function, or null.
  const void *function(const std::string &symbol) const;
  Mapping mapping() const { return mapping_; }
  /// Address space taken by the segments.
  uint64_t mappedBytes() const { return mappedBytes_; }

private:
  void reset();

  Mapping mapping_ = Mapping::Direct;
  void *base_ = nullptr; ///< reserved range, or the handle of the dynamic loader
  uint64_t mappedBytes_ = 0;
  std::map<std::string, uint64_t, std::less<>> functions_; ///< name -> address in the image
  uint64_t bias_ = 0;                                      ///< run-time address of image address 0
};

} // namespace ninfer

#endif // NINFER_RUNTIME_LOADER_ELFIMAGE_H
