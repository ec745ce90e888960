#include "convert/Converter.h"

#include "artifact/formats/Encode.h"
#include "models/Decoder.h"
#include "support/Sha256.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <set>
#include <thread>

namespace ninfer {

namespace fs = std::filesystem;

namespace {

const char *const kConverterName =
    "ninfer-convert 1"; ///< changes when equal inputs may give other bytes

class Conversion {
public:
  explicit Conversion(const ConvertOptions &options) : options_(options) {}

  Result<ConvertReport> run() {
    auto start = std::chrono::steady_clock::now();
    NINFER_RETURN_IF_ERROR(checkOutput());
    NINFER_ASSIGN_OR_RETURN(checkpoint_, openCheckpoint(options_.source, {options_.tokenizer}));
    NINFER_RETURN_IF_ERROR(checkSourceIsNotOutput());
    NINFER_RETURN_IF_ERROR(options_.recipe.checkLayers(checkpoint_.config.numLayers));
    NINFER_RETURN_IF_ERROR(planObjects());
    NINFER_RETURN_IF_ERROR(scan());
    NINFER_RETURN_IF_ERROR(fillDirectory());
    NINFER_RETURN_IF_ERROR(selfCheck());
    ConvertReport report = makeReport();
    if (!options_.dryRun) {
      NINFER_ASSIGN_OR_RETURN(report.written, write());
    }
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }

private:
  Status checkOutput() const {
    std::error_code error;
    if (options_.dryRun || options_.force ||
        !fs::exists(fs::symlink_status(options_.output, error)))
      return Status();
    Status status(
        makeError(ErrorKind::Usage, "NB0905", options_.output.string() + ": file exists"));
    status.help("--force replaces it");
    return status;
  }

  Status checkSourceIsNotOutput() const {
    std::error_code error;
    for (const SourceFile &file : checkpoint_.tensors.files)
      if (fs::equivalent(file.path(), options_.output, error))
        return makeError(ErrorKind::Usage, "NB0905",
                         options_.output.string() + ": the output is a source file");
    return Status();
  }

  unsigned threads() const {
    constexpr unsigned kMost = 16;
    unsigned wanted = options_.threads ? options_.threads : std::thread::hardware_concurrency();
    return std::clamp(wanted, 1u, kMost);
  }

  /// Resources, then one object per parameter; a tied head in the embedding's format shares its
  /// object.
  Status planObjects() {
    for (const SourceResource &resource : checkpoint_.resources) {
      NINFER_ASSIGN_OR_RETURN(uint32_t index,
                              plan_.addResource("text/" + resource.role, resource.bytes.size()));
      resourceObjects_.push_back(index);
    }
    std::vector<Status> refused;
    std::map<std::string, size_t> refusedTypes;
    std::map<std::pair<uint32_t, Format>, uint32_t> shared;
    std::set<std::pair<uint32_t, Format>> refusedKeys;
    for (const ParameterSource &source : checkpoint_.parameters) {
      std::optional<Role> role = roleOfParameter(source.parameter);
      Format format =
          role ? options_.recipe.formatOf(*role, layerOfParameter(source.parameter)) : Format::BF16;
      auto key = std::pair(source.tensor, format);
      if (auto it = shared.find(key); it != shared.end()) {
        plan_.bindWhole(source.parameter, it->second);
        continue;
      }
      Result<TensorJob> job = planTensor(checkpoint_, source, format, options_.requantize);
      if (!job.ok()) {
        if (refusedKeys.insert(key).second) {
          refused.push_back(job.takeStatus());
          ++refusedTypes[checkpoint_.tensors.tensors[source.tensor].typeName];
        }
        continue;
      }
      NINFER_ASSIGN_OR_RETURN(uint32_t index, plan_.addTensor(job->object, job->shape, format));
      shared.emplace(key, index);
      plan_.bindWhole(source.parameter, index);
      jobs_.push_back(job.take());
      objectOfJob_.push_back(index);
    }
    return merge(std::move(refused), refusedTypes);
  }

  /// The first refusal; all are counted by source type.
  static Status merge(std::vector<Status> refused, const std::map<std::string, size_t> &types) {
    if (refused.empty())
      return Status();
    std::string list;
    for (const auto &[type, count] : types)
      list += (list.empty() ? "" : ", ") + std::to_string(count) + " " + type;
    refused[0].note("tensors that need --requantize: " + list);
    return std::move(refused[0]);
  }

  /// Settles what depends on the data before the directory, which records it, is written.
  Status scan() {
    uint64_t total = 0;
    for (const TensorJob &job : jobs_)
      total += job.scanFirst ? job.tensor->bytes : 0;
    Progress progress("scan", total, options_.progress, Progress::Unit::Bytes);
    RowWork work{threads(), options_.cancelled, [&](uint64_t n) { progress.add(n); }};
    for (TensorJob &job : jobs_) {
      if (!job.scanFirst)
        continue;
      progress.detail(job.tensor->name);
      NINFER_RETURN_IF_ERROR(scanTensor(job, work));
    }
    return Status();
  }

  Status fillDirectory() {
    Directory &directory = plan_.directory();
    Component &text = directory.components["text"];
    text.config = toJson(checkpoint_.config);
    for (size_t i = 0; i < resourceObjects_.size(); ++i)
      text.resources[checkpoint_.resources[i].role] = resourceObjects_[i];
    for (const ParameterSpec &p : decoderInventory(checkpoint_.config)) {
      if (p.input.empty())
        continue;
      Use use;
      use.parameter = p.name;
      use.input = p.input;
      use.policy = options_.policy;
      directory.uses.push_back(std::move(use));
    }
    directory.metadata = Json{{"name", options_.modelName.value_or(checkpoint_.modelName)}};
    NINFER_ASSIGN_OR_RETURN(directory.provenance, provenance());
    return Status();
  }

  Result<Json> provenance() const {
    Json files = Json::array();
    for (const SourceFile &file : checkpoint_.tensors.files) {
      Json entry = {{"name", file.name()}, {"bytes", file.size()}};
      if (options_.sourceDigest) {
        NINFER_ASSIGN_OR_RETURN(std::string digest, digestOf(file));
        entry["sha256"] = std::move(digest);
      }
      files.push_back(std::move(entry));
    }
    // Per object: source type, then what happened to its values.
    Json tensors = Json::object();
    for (const TensorJob &job : jobs_) {
      Json entry = Json::array({job.tensor->typeName, provenanceText(job.provenance)});
      if (!job.profile().empty())
        entry.push_back(job.profile());
      jsonAppend(tensors, job.object, std::move(entry));
    }
    return Json{{"converter", kConverterName},
                {"source", {{"kind", checkpoint_.kind}, {"files", std::move(files)}}},
                {"recipe", options_.recipe.toJson()},
                {"requantize", options_.requantize},
                {"tensors", std::move(tensors)}};
  }

  Result<std::string> digestOf(const SourceFile &file) const {
    constexpr uint64_t kChunk = 4u << 20;
    Progress progress("digest", file.size(), options_.progress, Progress::Unit::Bytes);
    progress.detail(file.name());
    Sha256 hash;
    std::vector<std::byte> chunk;
    for (uint64_t at = 0; at < file.size(); at += chunk.size()) {
      if (options_.cancelled && options_.cancelled())
        return makeError(ErrorKind::Interrupted, "NB0321", "interrupted");
      chunk.resize(std::min(kChunk, file.size() - at));
      NINFER_RETURN_IF_ERROR(file.read(at, chunk));
      hash.update(chunk);
      progress.add(chunk.size());
    }
    return toHex(hash.finish());
  }

  /// The builder's own reading of what is about to be written.
  Status selfCheck() const {
    Result<ModelSpec> spec = recogniseModel(plan_.directory(), options_.output.filename().string());
    return spec.ok() ? Status() : spec.takeStatus();
  }

  /// Bytes of an object that hold the elements the layout adds to each row; rounded down.
  static uint64_t paddingBytes(const TensorJob &job, uint64_t bytes) {
    auto geometry = encodedGeometry(job.format, layoutOf(job.format), job.shape);
    if (!geometry.ok() || geometry->paddedK == geometry->k)
      return 0;
    return static_cast<uint64_t>(static_cast<double>(bytes) *
                                 static_cast<double>(geometry->paddedK - geometry->k) /
                                 static_cast<double>(geometry->paddedK));
  }

  ConvertReport makeReport() const {
    ConvertReport report;
    report.sourceKind = checkpoint_.kind;
    report.modelName = options_.modelName.value_or(checkpoint_.modelName);
    report.recipe = options_.recipe.name();
    report.config = checkpoint_.config;
    report.notes = checkpoint_.notes;
    report.payloadBytes = plan_.payloadBytes();
    for (const SourceResource &resource : checkpoint_.resources)
      report.resources.emplace_back(resource.role, resource.bytes.size());
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const TensorJob &job = jobs_[i];
      const uint64_t bytes = plan_.directory().objects[objectOfJob_[i]].bytes;
      report.tensors.push_back({job.object, job.tensor->name, job.tensor->typeName, job.shape,
                                job.format, job.provenance, job.profile(), job.tensor->bytes, bytes,
                                paddingBytes(job, bytes)});
    }
    return report;
  }

  Result<WriteReport> write() {
    uint64_t total = 0;
    for (const TensorJob &job : jobs_)
      total += job.tensor->bytes;
    WriterOptions writerOptions;
    writerOptions.existing =
        options_.force ? AtomicFile::Existing::Replace : AtomicFile::Existing::Refuse;
    std::optional<Progress> verify;
    writerOptions.onVerified = [&](uint64_t n) {
      if (!verify)
        verify.emplace("verify", plan_.payloadBytes(), options_.progress, Progress::Unit::Bytes);
      verify->add(n);
    };
    NINFER_ASSIGN_OR_RETURN(
        ArtifactWriter writer,
        ArtifactWriter::create(options_.output, plan_, std::move(writerOptions)));
    for (size_t i = 0; i < resourceObjects_.size(); ++i)
      NINFER_RETURN_IF_ERROR(writer.append(
          resourceObjects_[i], std::as_bytes(std::span(checkpoint_.resources[i].bytes))));
    {
      Progress progress("convert", total, options_.progress, Progress::Unit::Bytes);
      RowWork work{threads(), options_.cancelled, [&](uint64_t n) { progress.add(n); }};
      for (size_t i = 0; i < jobs_.size(); ++i) {
        const TensorJob &job = jobs_[i];
        progress.detail(job.object);
        NINFER_ASSIGN_OR_RETURN(EncodedGeometry geometry,
                                encodedGeometry(job.format, layoutOf(job.format), job.shape));
        // One encoded tensor at a time is the converter's memory.
        std::vector<std::byte> encoded(geometry.totalBytes);
        NINFER_RETURN_IF_ERROR(encodeTensor(job, geometry, work, encoded));
        NINFER_RETURN_IF_ERROR(writer.append(objectOfJob_[i], encoded));
      }
    }
    return writer.finish();
  }

  const ConvertOptions &options_;
  Checkpoint checkpoint_;
  ArtifactPlan plan_;
  std::vector<uint32_t> resourceObjects_;
  std::vector<TensorJob> jobs_;
  std::vector<uint32_t> objectOfJob_;
};

} // namespace

size_t ConvertReport::count(Provenance provenance) const {
  return static_cast<size_t>(
      std::count_if(tensors.begin(), tensors.end(),
                    [&](const TensorReport &t) { return t.provenance == provenance; }));
}

Result<ConvertReport> convertCheckpoint(const ConvertOptions &options) {
  try {
    return Conversion(options).run();
  } catch (const std::bad_alloc &) {
    return makeError(ErrorKind::OutOfMemory, "NB0322",
                     options.source.string() + ": not enough memory to convert");
  }
}

} // namespace ninfer
