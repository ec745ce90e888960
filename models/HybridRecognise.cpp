// Recognition of a hybrid model in the directory of a framing 3 artifact: components text and, when
// selected, mtp with the proposal head. Other components are told and left unread.
#include "models/Bind.h"
#include "models/Hybrid.h"
#include "models/Vision.h"
#include "support/Json.h"

#include <set>
#include <span>

namespace ninfer {

namespace {

class Recogniser {
public:
  Recogniser(const Directory &directory, std::string_view fileName, const RecogniseOptions &options)
      : directory_(directory), fileName_(fileName), options_(options) {}

  Result<ModelSpec> run() {
    NINFER_RETURN_IF_ERROR(readConfigs());
    if (const uint64_t need = hybridInventorySize(config());
        need > kMostListed && need > directory_.bindings.size())
      return makeError(ErrorKind::BadFile, "NB0304",
                       fileName_ + ": the config of component text implies " +
                           std::to_string(need) + " parameters, the directory binds " +
                           std::to_string(directory_.bindings.size()));
    NINFER_RETURN_IF_ERROR(bind("text", "text", hybridInventory(config())));
    if (options_.mtp)
      NINFER_RETURN_IF_ERROR(bindMtp());
    if (options_.vision)
      NINFER_RETURN_IF_ERROR(bindVision());
    noteUnread();
    return std::move(spec_);
  }

private:
  /// A config may imply millions of parameters that a directory does not bind; then the count is
  /// the message.
  static constexpr uint64_t kMostListed = 1'000'000;

  const HybridConfig &config() const { return spec_.hybridConfig(); }

  Status readConfigs() {
    NINFER_ASSIGN_OR_RETURN(spec_.config, parseHybridConfig(directory_.components.at("text").config,
                                                            fileName_, options_.mtp));
    const auto mtp = directory_.components.find("mtp");
    if (mtp != directory_.components.end())
      return checkMtpComponent(mtp->second);
    return options_.mtp ? missing("mtp") : Status();
  }

  Status missing(const std::string &component) const {
    Status status(makeError(ErrorKind::Unsupported, "NB0308",
                            fileName_ + ": component " + component +
                                " was selected, but the artifact has none"));
    std::string names;
    for (const auto &[name, unused] : directory_.components)
      names += (names.empty() ? "" : ", ") + name;
    status.note("components: " + names);
    return status;
  }

  Status bindVision() {
    const auto vision = directory_.components.find("vision");
    if (vision == directory_.components.end())
      return missing("vision");
    NINFER_ASSIGN_OR_RETURN(
        spec_.vision,
        parseVisionConfig(vision->second.config, fileName_, config().moe.has_value()));
    return bind("vision", "vision", visionInventory(*spec_.vision, config().hiddenSize));
  }

  /// hybrid_c10
  Status checkMtpComponent(const Component &mtp) const {
    const std::string where = fileName_ + ": components.mtp";
    NINFER_RETURN_IF_ERROR(
        jsonMembers(mtp.config, {"architectures"}, {}, where + ".config", "NB0303"));
    const std::string wanted = mtpArchitecture(config());
    if (mtp.config["architectures"] != Json::array({wanted}))
      return makeError(ErrorKind::BadFile, "NB0303",
                       where + ".config: architectures beside " + config().architecture +
                           " must be [\"" + wanted + "\"], got " +
                           jsonExcerpt(mtp.config["architectures"]));
    if (mtp.target != "text")
      return makeError(ErrorKind::BadFile, "NB0303",
                       where + ": target must be \"text\", got " +
                           (mtp.target ? "\"" + *mtp.target + "\"" : "none"));
    if (!config().attention)
      return makeError(ErrorKind::BadFile, "NB0303",
                       where + ": its attention layer needs num_attention_heads, "
                               "num_key_value_heads, head_dim and rope_parameters in "
                               "components.text.config");
    return Status();
  }

  Status bind(std::string_view component, std::string_view inputs,
              std::vector<ParameterSpec> parameters) {
    NINFER_RETURN_IF_ERROR(bindParameters(directory_, fileName_, component, parameters));
    NINFER_RETURN_IF_ERROR(bindUses(directory_, fileName_, component, inputs, parameters));
    for (ParameterSpec &p : parameters)
      spec_.parameters.push_back(std::move(p));
    return Status();
  }

  Status bindMtp() {
    NINFER_RETURN_IF_ERROR(bind("mtp", "mtp", mtpInventory(config())));
    MtpSpec mtp;
    const auto &proposal = directory_.components.at("text").proposal;
    if (!proposal) {
      mtp.head = "text/output_head";
      mtp.rows = static_cast<uint64_t>(config().vocabSize);
      NINFER_ASSIGN_OR_RETURN(const Use *use,
                              requireUse(directory_, fileName_, mtp.head, "mtp/final_hidden"));
      mtp.headPolicy = *use->policy;
      spec_.mtp = mtp;
      return Status();
    }
    // hybrid_c11
    if (proposal->indexed && proposal->rows > static_cast<uint64_t>(config().vocabSize))
      return makeError(ErrorKind::BadFile, "NB0303",
                       fileName_ + ": components.text.proposal: rows must be at most vocab_size (" +
                           std::to_string(config().vocabSize) + "), got " +
                           std::to_string(proposal->rows));
    NINFER_RETURN_IF_ERROR(bind("proposal", "mtp", proposalInventory(config(), *proposal)));
    const ParameterSpec *head = spec_.find("proposal/head");
    mtp.head = head->name;
    mtp.indexed = proposal->indexed;
    mtp.rows = head->shape[0];
    mtp.headPolicy = head->policy;
    spec_.mtp = mtp;
    return Status();
  }

  void noteUnread() {
    std::set<uint32_t> read;
    for (const ParameterSpec &p : spec_.parameters)
      for (const RangePart &part : p.binding.parts)
        read.insert(part.object);
    auto note = [&](const std::string &what, const std::string &prefix) {
      std::set<uint32_t> unread;
      for (const auto &[name, binding] : directory_.bindings)
        if (isUnder(name, prefix))
          for (const RangePart &part : binding.parts)
            if (!read.count(part.object))
              unread.insert(part.object);
      spec_.notes.push_back(what + " is not selected; " + std::to_string(unread.size()) +
                            " objects left unread");
    };
    for (const auto &[name, component] : directory_.components)
      if (name != "text" && !(name == "mtp" && options_.mtp) &&
          !(name == "vision" && options_.vision))
        note("component " + name, name);
    if (directory_.components.at("text").proposal && !options_.mtp)
      note("the proposal head", "proposal");
  }

  const Directory &directory_;
  std::string fileName_;
  const RecogniseOptions &options_;
  ModelSpec spec_;
};

} // namespace

Result<ModelSpec> recogniseHybrid(const Directory &directory, std::string_view fileName,
                                  const RecogniseOptions &options) {
  return Recogniser(directory, fileName, options).run();
}

} // namespace ninfer
