#include "runtime/text/Bpe.h"

#include "support/Utf8.h"

#include <algorithm>
#include <queue>

namespace ninfer {

namespace {

Error bad(const std::string &name, const std::string &why) {
  return makeError(ErrorKind::BadFile, "NB0701", name + ": " + why);
}

/// The byte-level alphabet: printable Latin-1 bytes spell themselves, the other 68 are U+0100 and following.
std::array<int, 512> makeByteOfCodePoint() {
  std::array<int, 512> table;
  table.fill(-1);
  int extra = 256;
  for (int b = 0; b < 256; ++b) {
    bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174);
    table[printable ? b : extra++] = b;
  }
  return table;
}

constexpr int64_t kMaxId = (1 << 24) - 1;

uint64_t pairKey(int32_t a, int32_t b) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
}

} // namespace

std::optional<std::string> fromByteLevel(std::string_view spelling) {
  static const std::array<int, 512> byteOf = makeByteOfCodePoint();
  std::string out;
  for (size_t at = 0; at < spelling.size();) {
    std::optional<char32_t> c = decodeUtf8(spelling, at);
    if (!c || *c >= byteOf.size() || byteOf[*c] < 0)
      return std::nullopt;
    out += static_cast<char>(byteOf[*c]);
  }
  return out;
}

Result<Bpe> Bpe::fromJson(const Json &model, const std::string &name) {
  if (!model.is_object() || !model.contains("vocab") || !model["vocab"].is_object() ||
      !model.contains("merges") || !model["merges"].is_array())
    return bad(name, "model: expected an object with vocab and merges");
  if (model.contains("type") && model["type"] != "BPE")
    return makeError(model["type"].is_string() ? ErrorKind::Unsupported : ErrorKind::BadFile,
                     model["type"].is_string() ? "NB0702" : "NB0701", name + ": model type " + jsonExcerpt(model["type"]) + " is not supported, only BPE");
  for (const char *member : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.contains(member) && model[member].is_string() && !model[member].get_ref<const std::string &>().empty())
      return makeError(ErrorKind::Unsupported, "NB0702",
                       name + ": model." + member + " is not supported in a byte-level tokenizer");
  if (model.contains("byte_fallback") && model["byte_fallback"] == true)
    return makeError(ErrorKind::Unsupported, "NB0702",
                     name + ": byte_fallback vocabularies (SentencePiece style) are not supported, only byte-level BPE");
  if (model.contains("dropout") && model["dropout"].is_number() && model["dropout"] != 0.0)
    return makeError(ErrorKind::Unsupported, "NB0702", name + ": model.dropout is a training feature");

  Bpe bpe;
  bpe.byteToken_.fill(-1);
  // Nothing here may be sized by an id: a file of 100 bytes can name the largest.
  for (const auto &[spelling, value] : model["vocab"].items()) {
    NINFER_ASSIGN_OR_RETURN(uint64_t raw, jsonUnsigned(value, 0, kMaxId, name + ": model.vocab id", "NB0701"));
    auto id = static_cast<int32_t>(raw);
    bpe.maxId_ = std::max(bpe.maxId_, id);
    bpe.idOfSpelling_.emplace(spelling, id);
    // A vocabulary may list its special tokens too; those keep their own spelling and never stand for bytes of a
    // text: " " and the byte-level spelling of a space would be two tokens for one byte.
    std::optional<std::string> bytes = fromByteLevel(spelling);
    if (bytes && bytes->size() == 1)
      bpe.byteToken_[static_cast<unsigned char>((*bytes)[0])] = id;
    if (bytes)
      bpe.idOfBytes_.emplace(*bytes, id);
    bpe.bytesOfId_.emplace_back(id, bytes ? std::move(*bytes) : spelling);
  }
  std::sort(bpe.bytesOfId_.begin(), bpe.bytesOfId_.end());
  for (size_t i = 1; i < bpe.bytesOfId_.size(); ++i)
    if (bpe.bytesOfId_[i].first == bpe.bytesOfId_[i - 1].first)
      return bad(name, "model.vocab: id " + std::to_string(bpe.bytesOfId_[i].first) + " is used twice");
  const auto &idOfSpelling = bpe.idOfSpelling_;
  int32_t rank = 0;
  for (const Json &entry : model["merges"]) {
    std::string left, right;
    if (entry.is_string()) {
      const std::string &text = entry.get_ref<const std::string &>();
      size_t space = text.find(' ');
      if (space == std::string::npos || space == 0 || space + 1 == text.size() || text.find(' ', space + 1) != std::string::npos)
        return bad(name, "model.merges[" + std::to_string(rank) + "]: expected two tokens, got " + jsonExcerpt(entry));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      left = entry[0].get<std::string>();
      right = entry[1].get<std::string>();
    } else {
      return bad(name, "model.merges[" + std::to_string(rank) + "]: expected two tokens, got " + jsonExcerpt(entry));
    }
    auto l = idOfSpelling.find(left), r = idOfSpelling.find(right), m = idOfSpelling.find(left + right);
    if (l == idOfSpelling.end() || r == idOfSpelling.end() || m == idOfSpelling.end())
      return bad(name, "model.merges[" + std::to_string(rank) + "]: '" + left + "' + '" + right +
                           "' names a token that is not in the vocabulary");
    if (!bpe.merges_.emplace(pairKey(l->second, r->second), Merge{rank, m->second}).second)
      return bad(name, "model.merges[" + std::to_string(rank) + "]: duplicate merge '" + left + "' + '" + right + "'");
    ++rank;
  }
  if (model.contains("unk_token") && model["unk_token"].is_string()) {
    auto found = idOfSpelling.find(model["unk_token"].get<std::string>());
    if (found != idOfSpelling.end())
      bpe.unknown_ = found->second;
  }
  bpe.ignoreMerges_ = model.contains("ignore_merges") && model["ignore_merges"] == true;
  return bpe;
}

Status Bpe::encodePiece(std::string_view bytes, std::vector<int32_t> &out) const {
  if (ignoreMerges_) {
    auto whole = idOfBytes_.find(std::string(bytes));
    if (whole != idOfBytes_.end()) {
      out.push_back(whole->second);
      return {};
    }
  }
  struct Symbol {
    int32_t id;
    int32_t previous, next; // -1: none
  };
  std::vector<Symbol> symbols;
  symbols.reserve(bytes.size());
  for (unsigned char b : bytes) {
    int32_t id = byteToken_[b];
    if (id < 0) {
      if (!unknown_)
        return makeError(ErrorKind::Failed, "NB0703",
                         "the vocabulary has no token for byte " + std::to_string(b) + " and no unknown token");
      id = *unknown_;
    }
    auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  }
  if (symbols.empty())
    return {};
  symbols.back().next = -1;

  struct Candidate {
    int32_t rank, left, leftId, rightId, result;
    bool operator<(const Candidate &o) const { // priority_queue keeps the largest on top
      return rank != o.rank ? rank > o.rank : left > o.left;
    }
  };
  std::priority_queue<Candidate> queue;
  auto offer = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0)
      return;
    int32_t a = symbols[left].id, b = symbols[symbols[left].next].id;
    auto found = merges_.find(pairKey(a, b));
    if (found != merges_.end())
      queue.push({found->second.rank, left, a, b, found->second.result});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    offer(static_cast<int32_t>(i));
  while (!queue.empty()) {
    Candidate top = queue.top();
    queue.pop();
    Symbol &left = symbols[top.left];
    if (left.id != top.leftId || left.next < 0 || symbols[left.next].id != top.rightId)
      continue; // one of the two was merged since
    int32_t gone = left.next;
    left.id = top.result;
    left.next = symbols[gone].next;
    symbols[gone].id = -1;
    if (left.next >= 0)
      symbols[left.next].previous = top.left;
    offer(left.previous);
    offer(top.left);
  }
  for (int32_t at = 0; at >= 0; at = symbols[at].next)
    out.push_back(symbols[at].id);
  return {};
}

const std::string *Bpe::bytes(int32_t id) const {
  auto found = std::lower_bound(bytesOfId_.begin(), bytesOfId_.end(), id,
                                [](const auto &entry, int32_t wanted) { return entry.first < wanted; });
  return found == bytesOfId_.end() || found->first != id ? nullptr : &found->second;
}

std::optional<int32_t> Bpe::findSpelling(std::string_view spelling) const {
  auto found = idOfSpelling_.find(std::string(spelling));
  if (found == idOfSpelling_.end())
    return std::nullopt;
  return found->second;
}

} // namespace ninfer
