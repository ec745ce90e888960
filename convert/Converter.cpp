#include "convert/Converter.h"

#include "artifact/formats/Encode.h"
#include "convert/quantized/PackedWeight.h"
#include "models/Decoder.h"
#include "support/Bytes.h"
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
    NINFER_ASSIGN_OR_RETURN(
        checkpoint_, openCheckpoint(options_.source, {options_.tokenizer, options_.imports}));
    NINFER_RETURN_IF_ERROR(checkSourceIsNotOutput());
    chooseRecipe();
    NINFER_RETURN_IF_ERROR(recipe_->checkLayers(checkpoint_.config.numLayers));
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

  void chooseRecipe() {
    bool keep = !checkpoint_.quantMethod.empty() && !options_.requantize;
    recipe_ = options_.recipe ? options_.recipe : Recipe::builtIn(keep ? "keep" : "w8");
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
    std::map<std::pair<uint32_t, Format>, uint32_t> shared; // by the recipe's format
    std::set<std::pair<uint32_t, Format>> refusedKeys;
    for (const ParameterSource &source : checkpoint_.parameters) {
      std::optional<Role> role = roleOfParameter(source.parameter);
      Format format =
          role ? recipe_->formatOf(*role, layerOfParameter(source.parameter)) : Format::BF16;
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
      NINFER_ASSIGN_OR_RETURN(uint32_t index, plan_.addTensor(job->object, job->shape, job->format));
      shared.emplace(key, index);
      plan_.bindWhole(source.parameter, index);
      jobs_.push_back(job.take());
      objectOfJob_.push_back(index);
    }
    if (refused.empty())
      return planActivationDivisors();
    std::string list;
    for (const auto &[type, count] : refusedTypes)
      list += (list.empty() ? "" : ", ") + std::to_string(count) + " " + type;
    refused[0].note("tensors that need --requantize: " + list);
    return merge(std::move(refused));
  }

  /// The first of the gravest kind, with the messages of the others as notes.
  static Status merge(std::vector<Status> refused) {
    constexpr size_t kMostListed = 24;
    auto first = std::find_if(refused.begin(), refused.end(), [](const Status &s) {
      return s.error().kind == ErrorKind::BadFile;
    });
    if (first == refused.end())
      first = refused.begin();
    Status out = std::move(*first);
    refused.erase(first);
    for (size_t i = 0; i < std::min(refused.size(), kMostListed); ++i)
      out.note(refused[i].error().message);
    if (refused.size() > kMostListed)
      out.note("and " + std::to_string(refused.size() - kMostListed) + " more");
    return out;
  }

  /// One FP32 vector holds the calibrated divisors of all NVFP4 weights; each Use names its element.
  Status planActivationDivisors() {
    for (const TensorJob &job : jobs_)
      if (const ActivationDivisor *divisor = activationDivisorOf(job)) {
        divisorOf_[job.object] = divisors_.size();
        divisors_.push_back(divisor->word);
      }
    if (divisors_.empty())
      return Status();
    NINFER_ASSIGN_OR_RETURN(divisorObject_, plan_.addTensor("text/activation_input_divisors",
                                                            {divisors_.size()}, Format::FP32));
    return Status();
  }

  static const ActivationDivisor *activationDivisorOf(const TensorJob &job) {
    if (job.format != Format::NVFP4 || !job.tensor->packed->activationDivisor())
      return nullptr;
    return &*job.tensor->packed->activationDivisor();
  }

  /// Settles what depends on the data before the directory, which records it, is written.
  Status scan() {
    uint64_t total = 0;
    for (const TensorJob &job : jobs_)
      total += job.scanFirst ? job.tensor->bytes : 0;
    Progress progress("scan", total, options_.progress, Progress::Unit::Bytes);
    RowWork work{threads(), options_.cancelled, [&](uint64_t n) { progress.add(n); }};
    std::vector<Status> refused;
    for (TensorJob &job : jobs_) {
      if (!job.scanFirst)
        continue;
      progress.detail(job.tensor->name);
      Status status = scanTensor(job, work);
      if (status.ok())
        continue;
      // Every tensor at fault is told, unless the run cannot go on.
      ErrorKind kind = status.error().kind;
      if (kind != ErrorKind::BadFile && kind != ErrorKind::Unsupported)
        return status;
      refused.push_back(std::move(status));
    }
    return refused.empty() ? Status() : merge(std::move(refused));
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
      if (auto it = divisorOf_.find(p.name); it != divisorOf_.end()) {
        Binding divisor;
        divisor.whole = false;
        divisor.parts.push_back({divisorObject_, it->second, it->second + 1});
        use.auxiliaries.emplace("activation_input_divisor", std::move(divisor));
      } else if (options_.policy == ActivationPolicy::AllowA4) {
        use.policy = ActivationPolicy::AllowA8;
      }
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
      for (const std::string &remark : remarksOf(job))
        entry.push_back(remark);
      jsonAppend(tensors, job.object, std::move(entry));
    }
    return Json{{"converter", kConverterName},
                {"source", {{"kind", checkpoint_.kind}, {"files", std::move(files)}}},
                {"recipe", recipe_->toJson()},
                {"requantize", options_.requantize},
                {"tensors", std::move(tensors)}};
  }

  static std::vector<std::string> remarksOf(const TensorJob &job) {
    return job.tensor->packed ? job.tensor->packed->notes() : std::vector<std::string>();
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
    report.recipe = recipe_->name();
    report.quantMethod = checkpoint_.quantMethod;
    report.config = checkpoint_.config;
    report.notes = checkpoint_.notes;
    report.payloadBytes = plan_.payloadBytes();
    for (const SourceResource &resource : checkpoint_.resources)
      report.resources.emplace_back(resource.role, resource.bytes.size());
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const TensorJob &job = jobs_[i];
      const uint64_t bytes = plan_.directory().objects[objectOfJob_[i]].bytes;
      report.tensors.push_back({job.object, job.tensor->name, job.tensor->typeName, job.shape,
                                job.format, job.provenance, job.profile(), remarksOf(job),
                                job.tensor->bytes, bytes,
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
    writerOptions.maxFileBytes = options_.maxFileBytes;
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
    if (!divisors_.empty()) {
      std::vector<std::byte> words(4 * divisors_.size());
      for (size_t i = 0; i < divisors_.size(); ++i)
        storeLe32(words.data() + 4 * i, divisors_[i]);
      NINFER_RETURN_IF_ERROR(writer.append(divisorObject_, words));
    }
    return writer.finish();
  }

  const ConvertOptions &options_;
  Checkpoint checkpoint_;
  ArtifactPlan plan_;
  std::vector<uint32_t> resourceObjects_;
  std::vector<TensorJob> jobs_;
  std::vector<uint32_t> objectOfJob_;
  std::optional<Recipe> recipe_;
  std::vector<uint32_t> divisors_;            ///< binary32 words, in job order
  std::map<std::string, uint64_t> divisorOf_; ///< parameter -> index into divisors_
  uint32_t divisorObject_ = 0;
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
