#include "inspect/Show.h"

#include "inspect/List.h"
#include "inspect/Names.h"
#include "schema/TextTable.h"
#include "support/Bytes.h"
#include "support/Sha256.h"

#include <cmath>

namespace ninfer {

namespace {

/// Whole numbers without ".0"; finite values only.
Json numberJson(double value) {
  if (value == std::floor(value) && std::fabs(value) < 9e15)
    return int64_t(value);
  return floatJson(float(value));
}

Json rangeJson(const ObjectStatistics::Range &range) {
  if (range.empty())
    return nullptr;
  return Json::array({numberJson(range.least), numberJson(range.largest)});
}

Json geometryJson(const EncodedGeometry &geometry) {
  Json planes = Json::array();
  uint64_t used = 0;
  for (const PlaneInfo &plane : geometry.planes) {
    planes.push_back({{"name", plane.name},
                      {"offset", plane.offset},
                      {"bytes", plane.bytes},
                      {"row_bytes", plane.rowBytes}});
    used += plane.bytes;
  }
  return {{"rows", geometry.rows},
          {"columns", geometry.k},
          {"stored_columns", geometry.paddedK},
          {"group_size", geometry.groupSize},
          {"groups_per_row", geometry.logicalGroupsPerRow()},
          {"stored_groups_per_row", geometry.groupsPerRow},
          {"padding_lanes", geometry.rows * (geometry.paddedK - geometry.k)},
          {"bytes_between_planes", geometry.totalBytes - used},
          {"planes", std::move(planes)}};
}

Json statisticsJson(const ObjectWords &words, const ObjectStatistics &s) {
  Json out = {{"elements", s.elements},
              {"values", rangeJson(s.values)},
              {"zero_codes", s.zeroCodes},
              {"nan", s.nan},
              {"infinite", s.infinite}};
  if (!s.codes.empty())
    out["codes"] = rangeJson(s.codes);
  if (s.scales) {
    out["scales"] = rangeJson(s.scaleValues);
    out["scale_words"] = s.scales;
    out["zero_scales"] = s.zeroScales;
  }
  if (const auto divisor = words.divisor())
    out["divisor"] = {{"word", hexText(*divisor, 8)},
                      {"value", floatJson(floatFromBits(*divisor))}};
  return out;
}

/// Parameters whose parts lie in the object, each with its ranges there.
Json parametersJson(const Directory &directory, size_t index) {
  Json out = Json::array();
  for (const auto &[name, binding] : directory.bindings) {
    Json ranges = Json::array();
    for (const RangePart &part : binding.parts)
      if (part.object == index)
        ranges.push_back(Json::array({part.begin, part.end}));
    if (!ranges.empty())
      out.push_back({{"parameter", name},
                     {"ranges", std::move(ranges)},
                     {"whole", binding.whole && binding.parts.size() == 1}});
  }
  return out;
}

bool reads(const Binding &binding, size_t index) {
  for (const RangePart &part : binding.parts)
    if (part.object == index)
      return true;
  return false;
}

Json usesJson(const Directory &directory, size_t index) {
  Json out = Json::array();
  for (const Use &use : directory.uses) {
    Json entry = {{"parameter", use.parameter}, {"input", use.input}};
    if (use.policy)
      entry["activation_policy"] = canonicalName(*use.policy);
    const auto bound = directory.bindings.find(use.parameter);
    if (bound != directory.bindings.end() && reads(bound->second, index))
      out.push_back(entry);
    for (const auto &[role, binding] : use.auxiliaries)
      if (reads(binding, index)) {
        entry["auxiliary"] = role;
        out.push_back(entry);
      }
  }
  return out;
}

/// Where the object lies: one entry per file it touches.
Json placesJson(const Artifact &artifact, const ObjectEntry &object) {
  const Directory &directory = artifact.directory();
  Json out = Json::array();
  uint64_t start = 0;
  for (const FileEntry &file : directory.files) {
    const uint64_t end = start + file.payloadBytes;
    const uint64_t first = std::max(start, object.offset),
                   last = std::min(end, object.offset + object.bytes);
    if (first < last)
      out.push_back({{"file", file.path.value_or(artifact.path().filename().string())},
                     {"offset", (file.path ? 4096 : artifact.payloadOffset()) + first - start},
                     {"bytes", last - first}});
    start = end;
  }
  return out;
}

/// The directory's provenance of the object, or null.
Json provenanceOf(const Directory &directory, const std::string &id) {
  if (!directory.provenance.is_object() || !directory.provenance.contains("tensors"))
    return nullptr;
  const Json &tensors = directory.provenance["tensors"];
  return tensors.is_object() && tensors.contains(id) ? tensors[id] : Json(nullptr);
}

std::string wordsOf(const Json &value) {
  if (value.is_string())
    return value.get<std::string>();
  if (!value.is_array())
    return value.dump();
  std::string out;
  for (const Json &item : value)
    out += (out.empty() ? "" : ", ") + wordsOf(item);
  return out;
}

std::string rangeWords(const Json &range) {
  return range.is_array() ? range[0].dump() + " .. " + range[1].dump() : std::string("none finite");
}

std::string percent(uint64_t part, uint64_t whole) {
  return whole ? fixedText(100.0 * double(part) / double(whole), 2) + " %" : "-";
}

} // namespace

Result<Json> showJson(const Artifact &artifact, size_t index, unsigned threads) {
  const Directory &directory = artifact.directory();
  const ObjectEntry &object = directory.objects.at(index);
  NINFER_ASSIGN_OR_RETURN(const auto bytes, artifact.object(index));
  Json out = {{"artifact", artifact.path().string()},
              {"id", object.id},
              {"kind", object.isTensor ? "tensor" : "resource"}};
  if (object.isTensor) {
    out["shape"] = object.shape;
    out["format"] = formatText(object);
    out["layout"] = layoutText(object);
  } else {
    out["encoding"] = object.encoding;
  }
  out["offset"] = object.offset;
  out["bytes"] = object.bytes;
  out["files"] = placesJson(artifact, object);
  out["sha256"] = toHex(sha256(bytes));
  if (!object.isTensor) {
    Json roles = Json::array();
    for (const auto &[name, component] : directory.components)
      for (const auto &[role, resource] : component.resources)
        if (resource == index)
          roles.push_back({{"component", name}, {"role", role}});
    out["roles"] = std::move(roles);
    return out;
  }
  NINFER_ASSIGN_OR_RETURN(const ObjectWords words, ObjectWords::open(artifact, index));
  NINFER_ASSIGN_OR_RETURN(const ObjectStatistics statistics, objectStatistics(words, threads));
  out["geometry"] = geometryJson(words.geometry());
  out["parameters"] = parametersJson(directory, index);
  out["uses"] = usesJson(directory, index);
  out["provenance"] = provenanceOf(directory, object.id);
  out["statistics"] = statisticsJson(words, statistics);
  return out;
}

std::string showText(const Json &object) {
  std::string out;
  const auto line = [&](std::string key, const std::string &text) {
    key.resize(12, ' ');
    out += key + text + "\n";
  };
  const bool tensor = object["kind"] == "tensor";
  line("object", object["id"].get<std::string>());
  if (tensor)
    line("tensor", dimensionsText(object["shape"].get<std::vector<uint64_t>>()) + ", " +
                       object["format"].get<std::string>() + ", " +
                       object["layout"].get<std::string>());
  else
    line("resource", object["encoding"].get<std::string>());
  line("payload", object["bytes"].dump() + " bytes at offset " + object["offset"].dump());
  for (const Json &place : object["files"])
    line("file", place["file"].get<std::string>() + ": " + place["bytes"].dump() +
                     " bytes at file offset " + place["offset"].dump());
  line("sha256", object["sha256"].get<std::string>());
  if (!tensor) {
    for (const Json &role : object["roles"])
      line("role", role["component"].get<std::string>() + ": " + role["role"].get<std::string>());
    return out;
  }
  const Json &geometry = object["geometry"];
  std::string rows = geometry["rows"].dump() + " of " + geometry["columns"].dump();
  if (geometry["stored_columns"] != geometry["columns"])
    rows += ", stored as " + geometry["stored_columns"].dump();
  if (geometry["group_size"] != 0)
    rows += ", groups of " + geometry["group_size"].dump() + ": " +
            geometry["groups_per_row"].dump() + " per row, " +
            geometry["stored_groups_per_row"].dump() + " stored";
  line("rows", rows);
  line("padding", geometry["padding_lanes"].dump() + " lanes, " +
                      geometry["bytes_between_planes"].dump() + " bytes between planes");
  TextTable planes("  ");
  planes.row({"plane", "offset", "bytes", "bytes per row"});
  for (const Json &plane : geometry["planes"])
    planes.row({plane["name"].get<std::string>(), plane["offset"].dump(), plane["bytes"].dump(),
                plane["row_bytes"] == 0 ? "-" : plane["row_bytes"].dump()});
  out += planes.render();
  for (const Json &parameter : object["parameters"]) {
    std::string text = parameter["parameter"].get<std::string>();
    if (!parameter["whole"].get<bool>())
      for (const Json &range : parameter["ranges"])
        text += " [" + range[0].dump() + "," + range[1].dump() + ")";
    line("parameter", text);
  }
  for (const Json &use : object["uses"]) {
    std::string text =
        use["parameter"].get<std::string>() + " x " + use["input"].get<std::string>();
    if (use.contains("activation_policy"))
      text += ", " + use["activation_policy"].get<std::string>();
    if (use.contains("auxiliary"))
      text += ", as " + use["auxiliary"].get<std::string>();
    line("use", text);
  }
  line("provenance",
       object["provenance"].is_null() ? "not recorded" : wordsOf(object["provenance"]));
  const Json &s = object["statistics"];
  const uint64_t elements = s["elements"].get<uint64_t>();
  line("values", rangeWords(s["values"]) + " in " + std::to_string(elements) + " elements" +
                     (s["nan"] != 0 ? ", " + s["nan"].dump() + " NaN" : "") +
                     (s["infinite"] != 0 ? ", " + s["infinite"].dump() + " infinite" : ""));
  line("codes", (s.contains("codes") ? rangeWords(s["codes"]) + ", " : "") +
                    s["zero_codes"].dump() + " zero (" +
                    percent(s["zero_codes"].get<uint64_t>(), elements) + ")");
  if (s.contains("scales"))
    line("scales", rangeWords(s["scales"]) + " in " + s["scale_words"].dump() + " words, " +
                       s["zero_scales"].dump() + " zero");
  if (s.contains("divisor"))
    line("divisor",
         wordsOf(s["divisor"]["value"]) + " (" + s["divisor"]["word"].get<std::string>() + ")");
  return out;
}

} // namespace ninfer
