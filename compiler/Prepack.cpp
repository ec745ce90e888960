#include "compiler/Prepack.h"

#include "codegen/cuda/KernelText.h"
#include "codegen/cuda/PackHost.h"
#include "codegen/cuda/kernels/panel.cuh"
#include "schema/PackedFile.h"
#include "support/Parallel.h"

#include <algorithm>
#include <optional>

namespace ninfer {
namespace {

constexpr uint64_t kAlign = 4096;
uint64_t alignUp(uint64_t value) { return (value + kAlign - 1) / kAlign * kAlign; }

Error unknown(const std::string &target, const std::string &what) {
  return makeError(ErrorKind::Failed, "NB0404", target + ": --prepack: " + what);
}

/// "ni_pack_q4g64_sm89" -> Q4.
std::optional<ni::Format> formatOf(const std::string &symbol) {
  for (auto f : {ni::Format::Bf16, ni::Format::Q4, ni::Format::Q5, ni::Format::Q6, ni::Format::W8, ni::Format::Nvfp4, ni::Format::Fp8})
    if (symbol.substr(0, symbol.rfind("_sm")) == "ni_pack_" + std::string(cuda::shortName(f)))
      return f;
  return std::nullopt;
}

/// One launch of Load on the host, into `out`: the bytes of its last argument.
Status runLoad(const plan::Target &target, const plan::Launch &launch, std::span<const std::byte> payload, unsigned threads,
               std::vector<std::byte> &out) {
  const plan::Kernel &kernel = *target.kernels()->Get(launch.kernel());
  const auto &args = *launch.args();
  const plan::Ref &to = *args.Get(args.size() - 1);
  out.resize(to.bytes());
  if (!kernel.cuda()) { // the built-in `copy`
    if (args.Get(0)->bytes() != to.bytes())
      return unknown(target.name()->str(), "'" + kernel.name()->str() + "' is no copy");
    std::copy_n(payload.data() + args.Get(0)->offset(), to.bytes(), out.data());
    return {};
  }
  const std::optional<ni::Format> format = formatOf(kernel.symbol()->str());
  const auto &params = *kernel.cuda()->params(); // codes, high, scales, divisor, packed, n, k
  constexpr unsigned kN = 5, kK = 6;
  if (!format || params.size() != kK + 1)
    return unknown(target.name()->str(), "no host code for '" + kernel.symbol()->str() + "'");
  const auto plane = [&](unsigned i) -> const std::byte * {
    return params.Get(i)->kind() == plan::CudaParamKind::Pointer ? payload.data() + args.Get(params.Get(i)->arg())->offset() : nullptr;
  };
  const cuda::StoredPlanes planes{plane(0), plane(1), plane(2), plane(3)};
  const uint32_t n = params.Get(kN)->value(), k = params.Get(kK)->value();
  if (ni::packedBytes(*format, n, k) != to.bytes())
    return unknown(target.name()->str(), "'" + kernel.name()->str() + "' has another size than its weight");
  constexpr uint32_t kPiece = 16; // panels that one thread takes at a time
  const uint32_t panels = ni::divideUp(n, ni::kPanelRows);
  return parallelFor(ni::divideUp(panels, kPiece), threads, [&](uint64_t piece) {
    const auto first = uint32_t(piece * kPiece);
    cuda::packPanels(*format, n, k, planes, first, std::min(first + kPiece, panels), out.data());
    return Status();
  });
}

class Writer {
public:
  Writer(AtomicFile &file, const PrepackOptions &options) : file_(file), options_(options) {}

  Status zerosUpTo(uint64_t offset) {
    static const std::vector<std::byte> zeros(1 << 16);
    while (at_ < offset)
      NINFER_RETURN_IF_ERROR(write(std::span(zeros).first(std::min<uint64_t>(offset - at_, zeros.size()))));
    return {};
  }
  Status write(std::span<const std::byte> bytes) {
    at_ += bytes.size();
    hash_.update(bytes);
    return file_.write(bytes);
  }

  /// Fills in section.content.
  Status section(const plan::Target &target, PackedSection &section, const Artifact &artifact, std::span<const std::byte> payload) {
    NINFER_RETURN_IF_ERROR(zerosUpTo(section.offset));
    hash_ = Sha256();
    constexpr uint64_t kResident = uint64_t(256) << 20; // of the payload; memory does not grow with the weights
    uint64_t read = 0;
    const plan::Phase &load = *PlanView::findPhase(target, plan::PhaseKind::Load);
    std::vector<const plan::Launch *> launches(load.launches()->begin(), load.launches()->end());
    const auto placeOf = [](const plan::Launch *launch) { return launch->args()->Get(launch->args()->size() - 1)->offset(); };
    std::sort(launches.begin(), launches.end(), [&](const plan::Launch *a, const plan::Launch *b) { return placeOf(a) < placeOf(b); });
    uint64_t total = 0;
    for (const plan::Launch *launch : launches)
      total += launch->args()->Get(launch->args()->size() - 1)->bytes();
    Progress progress("prepack " + target.name()->str(), total, options_.progress, Progress::Unit::Bytes);
    std::vector<std::byte> out;
    for (const plan::Launch *launch : launches) {
      if (options_.checkCancelled)
        NINFER_RETURN_IF_ERROR(options_.checkCancelled());
      if (section.offset + placeOf(launch) < at_)
        return unknown(target.name()->str(), "two weights share a place");
      NINFER_RETURN_IF_ERROR(runLoad(target, *launch, payload, options_.threads, out));
      NINFER_RETURN_IF_ERROR(zerosUpTo(section.offset + placeOf(launch)));
      NINFER_RETURN_IF_ERROR(write(out));
      progress.add(out.size());
      if ((read += out.size()) >= kResident) {
        artifact.release();
        read = 0;
      }
    }
    NINFER_RETURN_IF_ERROR(zerosUpTo(section.offset + section.bytes));
    section.content = hash_.finish();
    return {};
  }

private:
  AtomicFile &file_;
  const PrepackOptions &options_;
  uint64_t at_ = 0;
  Sha256 hash_; ///< of what was written since the section began
};

} // namespace

Result<PrepackSize> writePacked(AtomicFile &file, const PlanView &plan, const Artifact &artifact, const Sha256Digest &signature,
                                const PrepackOptions &options) {
  NINFER_ASSIGN_OR_RETURN(const std::span<const std::byte> payload, artifact.payload());
  PackedHeader header;
  header.payloadBytes = payload.size();
  header.storageSignature = signature;
  header.payloadSample = payloadSample(payload);
  std::vector<const plan::Target *> targets; // one per section
  uint64_t end = kPackedHeaderBytes;
  for (const plan::Target *target : *plan->targets()) {
    if (!target->cuda() || !PlanView::findPhase(*target, plan::PhaseKind::Load))
      continue;
    const PackedSection section{packingDigest(*target), end, target->cuda()->packed_bytes(), {}};
    if (std::any_of(header.sections.begin(), header.sections.end(), [&](const PackedSection &s) { return s.packing == section.packing; }))
      continue;
    if (header.sections.size() == kPackedSections)
      return unknown(target->name()->str(), "more than " + std::to_string(kPackedSections) + " kinds of packing");
    header.sections.push_back(section);
    targets.push_back(target);
    header.fileBytes = section.offset + section.bytes;
    end = alignUp(header.fileBytes);
  }
  Writer writer(file, options);
  NINFER_RETURN_IF_ERROR(writer.zerosUpTo(kPackedHeaderBytes));
  for (size_t i = 0; i < targets.size(); ++i)
    NINFER_RETURN_IF_ERROR(writer.section(*targets[i], header.sections[i], artifact, payload));
  NINFER_RETURN_IF_ERROR(file.writeAt(0, encodePackedHeader(header)));
  return PrepackSize{header.fileBytes, header.sections.size()};
}

} // namespace ninfer
