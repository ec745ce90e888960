#include "convert/Converter.h"

#include "artifact/formats/Encode.h"
#include "convert/Output.h"
#include "convert/Vision.h"
#include "convert/quantized/PackedWeight.h"
#include "models/Hybrid.h"
#include "support/Bytes.h"
#include "support/Sha256.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <set>
#include <span>
#include <thread>
#include <tuple>

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
    if (!options_.dryRun) {
      NINFER_RETURN_IF_ERROR(
          checkOutputName(options_.output, options_.maxFileBytes.has_value()));
      if (!options_.force)
        NINFER_RETURN_IF_ERROR(checkOutputReplaceable(options_.output, false));
    }
    NINFER_ASSIGN_OR_RETURN(
        checkpoint_, openCheckpoint(options_.source, {options_.tokenizer, options_.imports, options_.vision}));
    NINFER_RETURN_IF_ERROR(checkSourceIsNotOutput());
    if (!options_.dryRun && options_.force)
      NINFER_RETURN_IF_ERROR(checkOutputReplaceable(options_.output, true));
    chooseRecipe();
    NINFER_RETURN_IF_ERROR(recipe_->checkLayers(numLayersOf(checkpoint_.config)));
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

  /// Resources, then one object per parameter or bank; a tied head in the embedding's format shares its
  /// object.
  Status planObjects() {
    for (const SourceResource &resource : checkpoint_.resources) {
      NINFER_ASSIGN_OR_RETURN(uint32_t index,
                              plan_.addResource(resource.component + "/" + resource.role,
                                                 resource.bytes.size()));
      resourceObjects_.push_back(index);
    }
    std::vector<Status> refused;
    std::map<std::string, size_t> refusedTypes;
    using Key = std::tuple<uint32_t, RowSelection, Format>; // the recipe's format
    std::map<Key, uint32_t> shared;
    std::set<Key> refusedKeys;
    const auto &parameters = checkpoint_.parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const ParameterSource &source = parameters[i];
      if (!source.bank.empty()) {
        size_t end = i;
        while (end < parameters.size() && parameters[end].bank == source.bank)
          ++end;
        NINFER_RETURN_IF_ERROR(planBank(std::span(parameters).subspan(i, end - i)));
        i = end - 1;
        continue;
      }
      const Format format = formatOf(source);
      const Key key(source.tensor, source.rows, format);
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

  /// The recipe's format; a direct parameter has its own.
  Format formatOf(const ParameterSource &source) const {
    std::optional<Role> role = roleOfParameter(source.parameter);
    if (source.direct || !role)
      return source.directFormat;
    return recipe_->formatOf(*role, layerOfParameter(source.parameter));
  }

  /// One object for all of `sources`. Neighbours that are neighbours in their tensor too are read
  /// together.
  Status planBank(std::span<const ParameterSource> sources) {
    const Format format = formatOf(sources[0]);
    if (sources[0].shape.size() == 1)
      return planVector(sources);
    std::vector<TensorJob> jobs;
    uint64_t rows = 0;
    for (const ParameterSource &source : sources) {
      if (formatOf(source) != format)
        return makeError(ErrorKind::Usage, "NB0318",
                         "recipe '" + recipe_->name() + "': " + sources[0].parameter + " (" +
                             std::string(recipeFormatName(format)) + ") and " + source.parameter +
                             " (" + std::string(recipeFormatName(formatOf(source))) +
                             ") lie in one object and need one format");
      NINFER_ASSIGN_OR_RETURN(TensorJob job,
                              planTensor(checkpoint_, source, format, options_.requantize));
      job.object = source.bank;
      job.firstRow = rows;
      rows += job.shape[0];
      if (!jobs.empty() && continues(jobs.back(), job)) {
        jobs.back().rows.run += job.rows.run;
        jobs.back().rows.stride += job.rows.run;
        jobs.back().shape[0] += job.shape[0];
      } else {
        jobs.push_back(std::move(job));
      }
    }
    const uint64_t columns = sources[0].shape.back();
    NINFER_ASSIGN_OR_RETURN(uint32_t index,
                            plan_.addTensor(sources[0].bank, {rows, columns}, format));
    uint64_t row = 0;
    for (const ParameterSource &source : sources) {
      const uint64_t end = row + source.shape[0];
      plan_.bindRange(source.parameter, index, row * columns, end * columns);
      row = end;
    }
    for (TensorJob &job : jobs) {
      jobs_.push_back(std::move(job));
      objectOfJob_.push_back(index);
    }
    return Status();
  }

  /// A bank of vectors is one tensor, cut into equal parts.
  Status planVector(std::span<const ParameterSource> sources) {
    NINFER_ASSIGN_OR_RETURN(TensorJob job, planTensor(checkpoint_, sources[0],
                                                      sources[0].directFormat,
                                                      options_.requantize));
    job.object = sources[0].bank;
    job.shape = job.tensor->shape;
    NINFER_ASSIGN_OR_RETURN(uint32_t index, plan_.addTensor(job.object, job.shape, job.format));
    const uint64_t part = sources[0].shape[0];
    for (size_t i = 0; i < sources.size(); ++i)
      plan_.bindRange(sources[i].parameter, index, i * part, (i + 1) * part);
    jobs_.push_back(std::move(job));
    objectOfJob_.push_back(index);
    return Status();
  }

  /// True when `next` reads the rows behind those of `job`, both without gaps.
  static bool continues(const TensorJob &job, const TensorJob &next) {
    auto oneRun = [](const TensorJob &j) { return j.rows.run == j.shape[0]; };
    return job.tensor == next.tensor && oneRun(job) && oneRun(next) &&
           job.rows.first + job.rows.run == next.rows.first;
  }

  /// The jobs that fill one object.
  struct Group {
    size_t first, last; ///< [first, last) in jobs_
  };
  std::vector<Group> groups() const {
    std::vector<Group> out;
    for (size_t i = 0; i < jobs_.size(); ++i)
      if (i == 0 || objectOfJob_[i] != objectOfJob_[i - 1])
        out.push_back({i, i + 1});
      else
        out.back().last = i + 1;
    return out;
  }

  /// The job of a group whose values changed most: its provenance is that of the object.
  const TensorJob &worstOf(const Group &group) const {
    return *std::max_element(jobs_.begin() + static_cast<std::ptrdiff_t>(group.first),
                             jobs_.begin() + static_cast<std::ptrdiff_t>(group.last),
                             [](const TensorJob &a, const TensorJob &b) {
                               return a.provenance < b.provenance;
                             });
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
      total += job.scanFirst ? job.sourceBytes() : 0;
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
    text.config = configToJson(checkpoint_.config);
    if (checkpoint_.vision) {
      directory.components["vision"].config = toJson(*checkpoint_.vision);
      directory.components["vision"].target = "text";
    }
    for (size_t i = 0; i < resourceObjects_.size(); ++i) {
      const SourceResource &resource = checkpoint_.resources[i];
      directory.components[resource.component].resources[resource.role] = resourceObjects_[i];
    }
    if (checkpoint_.mtp) {
      Component &mtp = directory.components["mtp"];
      const auto &hybrid = std::get<HybridConfig>(checkpoint_.config);
      mtp.config = Json{{"architectures", Json::array({mtpArchitecture(hybrid)})}};
      mtp.target = "text";
    }
    for (const ParameterSource &source : checkpoint_.parameters) {
      if (!source.input.empty())
        directory.uses.push_back(useOf(source.parameter, source.input));
      // Without a proposal head the draft layer reads the head of the text model.
      if (checkpoint_.mtp && source.parameter == "text/output_head")
        directory.uses.push_back(useOf(source.parameter, "mtp/final_hidden"));
    }
    directory.metadata = Json{{"name", options_.modelName.value_or(checkpoint_.modelName)}};
    NINFER_ASSIGN_OR_RETURN(directory.provenance, provenance());
    return Status();
  }

  Use useOf(const std::string &parameter, const std::string &input) const {
    Use use;
    use.parameter = parameter;
    use.input = input;
    use.policy = options_.policy;
    if (auto it = divisorOf_.find(parameter); it != divisorOf_.end()) {
      Binding divisor;
      divisor.whole = false;
      divisor.parts.push_back({divisorObject_, it->second, it->second + 1});
      use.auxiliaries.emplace("activation_input_divisor", std::move(divisor));
    } else if (options_.policy == ActivationPolicy::AllowA4) {
      use.policy = ActivationPolicy::AllowA8;
    }
    return use;
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
    for (const Group &group : groups()) {
      const TensorJob &job = worstOf(group);
      Json entry = Json::array({job.tensor->typeName, provenanceText(job.provenance)});
      if (!job.profile().empty())
        entry.push_back(job.profile());
      for (const std::string &remark : remarksOf(job))
        entry.push_back(remark);
      jsonAppend(tensors, job.object, std::move(entry));
    }
    return Json{{"converter", kConverterName},
                {"source", {{"kind", checkpoint_.kind}, {"files", std::move(files)}}},
                {"recipe", recipe_->toJson(std::holds_alternative<HybridConfig>(checkpoint_.config))},
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
    RecogniseOptions options;
    options.mtp = checkpoint_.mtp;
    Result<ModelSpec> spec =
        recogniseModel(plan_.directory(), options_.output.filename().string(), options);
    return spec.ok() ? Status() : spec.takeStatus();
  }

  /// Bytes of an object that hold the elements the layout adds to each row; rounded down.
  static uint64_t paddingBytes(const ObjectEntry &object) {
    auto geometry = encodedGeometry(*object.format, layoutOf(*object.format), object.shape);
    if (!geometry.ok() || geometry->paddedK == geometry->k)
      return 0;
    return static_cast<uint64_t>(static_cast<double>(object.bytes) *
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
    report.mtp = checkpoint_.mtp;
    report.vision = checkpoint_.vision.has_value();
    report.notes = checkpoint_.notes;
    report.payloadBytes = plan_.payloadBytes();
    for (const SourceResource &resource : checkpoint_.resources)
      report.resources.emplace_back(resource.role, resource.bytes.size());
    for (const Group &group : groups()) {
      const TensorJob &job = worstOf(group);
      const ObjectEntry &object = plan_.directory().objects[objectOfJob_[group.first]];
      std::string source = job.tensor->name;
      if (group.last - group.first > 1)
        source += " and " + std::to_string(group.last - group.first - 1) + " more";
      uint64_t sourceBytes = 0;
      for (size_t i = group.first; i < group.last; ++i)
        sourceBytes += jobs_[i].sourceBytes();
      report.tensors.push_back({job.object, source, job.tensor->typeName, object.shape, job.format,
                                job.provenance, job.profile(), remarksOf(job), sourceBytes,
                                object.bytes, paddingBytes(object)});
    }
    return report;
  }

  Result<WriteReport> write() {
    uint64_t total = 0;
    for (const TensorJob &job : jobs_)
      total += job.sourceBytes();
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
      for (const Group &group : groups()) {
        const TensorJob &job = jobs_[group.first];
        const uint32_t object = objectOfJob_[group.first];
        progress.detail(job.object);
        NINFER_ASSIGN_OR_RETURN(EncodedGeometry geometry,
                                encodedGeometry(job.format, layoutOf(job.format),
                                                plan_.directory().objects[object].shape));
        // One encoded object at a time is the converter's memory.
        std::vector<std::byte> encoded(geometry.totalBytes);
        for (size_t i = group.first; i < group.last; ++i)
          NINFER_RETURN_IF_ERROR(encodeTensor(jobs_[i], geometry, work, encoded));
        NINFER_RETURN_IF_ERROR(writer.append(object, encoded));
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
