#include "runtime/text/jinja/Template.h"

#include "runtime/text/jinja/Ast.h"
#include "runtime/text/jinja/Value.h"

#include <unordered_map>

namespace ninfer::jinja {

namespace {

constexpr int64_t kMaxSteps = 1'000'000;
constexpr size_t kMaxOutput = 16u << 20;
constexpr size_t kMaxWork = 512u << 20; // bytes of all values made, so also of those alive
constexpr int kMaxNesting = 500;        // blocks and expressions being evaluated: bounds the stack
constexpr int kMaxCalls = 64;
constexpr int64_t kMaxRange = 100'000;

class Interpreter {
public:
  Interpreter(const std::string &name, const Json &variables) : name_(name) {
    scopes_.emplace_back();
    for (const auto &[key, value] : variables.items())
      scopes_[0][key] = value;
  }

  Result<std::string> run(const Body &body) {
    NINFER_RETURN_IF_ERROR(execute(body));
    return std::move(out_);
  }

private:
  enum class Flow { Normal, Break, Continue };

  std::string where(int line) const { return name_ + ":" + std::to_string(line); }

  Status step(int line) {
    if (++steps_ > kMaxSteps)
      return evaluationError(where(line), "more than " + std::to_string(kMaxSteps) + " steps");
    if (out_.size() > kMaxOutput)
      return evaluationError(where(line), "more than " + std::to_string(kMaxOutput) + " bytes of output");
    return {};
  }

  /// Counts `bytes` against what one rendering may make.
  Status spend(size_t bytes, int line) {
    if (bytes > kMaxValueBytes)
      return evaluationError(where(line), "a value of more than " + std::to_string(kMaxValueBytes) + " bytes");
    if ((work_ += bytes) > kMaxWork)
      return evaluationError(where(line), "more than " + std::to_string(kMaxWork) + " bytes of values");
    return {};
  }

  struct Nesting {
    explicit Nesting(int &n) : n_(n) { ++n_; }
    ~Nesting() { --n_; }
    int &n_;
  };

  Value *lookup(const std::string &variable) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto found = scope->find(variable); found != scope->end())
        return &found->second;
    return nullptr;
  }

  Status execute(const Body &body) {
    for (const auto &node : body) {
      NINFER_RETURN_IF_ERROR(step(node->line));
      NINFER_RETURN_IF_ERROR(execute(*node));
      if (flow_ != Flow::Normal)
        break;
    }
    return {};
  }

  Status execute(const Node &node) {
    Nesting nesting(nesting_);
    if (nesting_ > kMaxNesting)
      return evaluationError(where(node.line), "blocks nested too deeply");
    switch (node.kind) {
    case Node::Kind::Text:
      out_ += node.text;
      return {};
    case Node::Kind::Output: {
      NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*node.expr));
      std::string text = toText(v);
      NINFER_RETURN_IF_ERROR(spend(text.size(), node.line));
      out_ += text;
      return {};
    }
    case Node::Kind::If:
      for (const auto &[condition, body] : node.branches) {
        if (condition) {
          NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*condition));
          if (!truth(v))
            continue;
        }
        return execute(body);
      }
      return {};
    case Node::Kind::For:
      return executeFor(node);
    case Node::Kind::Set: {
      NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*node.expr));
      return assign(node, std::move(v));
    }
    case Node::Kind::SetBlock: {
      std::string saved = std::move(out_);
      out_.clear();
      NINFER_RETURN_IF_ERROR(execute(node.body));
      std::swap(saved, out_);
      return assign(node, saved);
    }
    case Node::Kind::Macro:
      macros_[node.text] = &node;
      return {};
    case Node::Kind::Break:
      flow_ = Flow::Break;
      return {};
    case Node::Kind::Continue:
      flow_ = Flow::Continue;
      return {};
    }
    return {};
  }

  Status assign(const Node &node, Value v) {
    if (!node.attribute) {
      scopes_.back()[node.names[0]] = std::move(v);
      return {};
    }
    Value *object = lookup(node.names[0]);
    if (!object || !object->is_object())
      return evaluationError(where(node.line), "'" + node.names[0] + "' is not a namespace");
    (*object)[node.names[1]] = std::move(v);
    return {};
  }

  Status executeFor(const Node &node) {
    NINFER_ASSIGN_OR_RETURN(Value sequence, evaluate(*node.expr));
    if (sequence.is_object()) {
      NINFER_ASSIGN_OR_RETURN(sequence, applyFilter("list", sequence, {}, where(node.line)));
    } else if (sequence.is_string()) {
      NINFER_ASSIGN_OR_RETURN(sequence, codePointList(sequence.get<std::string>(), where(node.line)));
    } else if (isUndefined(sequence)) {
      sequence = Value::array();
    }
    if (!sequence.is_array())
      return evaluationError(where(node.line), "can't loop over this value");
    scopes_.emplace_back();
    Status status = runLoop(node, sequence);
    scopes_.pop_back();
    return status;
  }

  Status bind(const Node &node, const Value &item) {
    if (node.names.size() == 1) {
      scopes_.back()[node.names[0]] = item;
      return {};
    }
    if (!item.is_array() || item.size() != node.names.size())
      return evaluationError(where(node.line), "can't unpack a loop item into " + std::to_string(node.names.size()) + " names");
    for (size_t i = 0; i < node.names.size(); ++i)
      scopes_.back()[node.names[i]] = item[i];
    return {};
  }

  Status runLoop(const Node &node, const Value &sequence) {
    Value kept = Value::array();
    if (node.condition) {
      for (const Value &item : sequence) {
        NINFER_RETURN_IF_ERROR(step(node.line));
        NINFER_RETURN_IF_ERROR(bind(node, item));
        NINFER_ASSIGN_OR_RETURN(Value keep, evaluate(*node.condition));
        if (truth(keep))
          kept.push_back(item);
      }
    }
    const Value &list = node.condition ? kept : sequence;
    if (list.empty())
      return execute(node.otherwise);
    auto size = static_cast<int64_t>(list.size());
    for (int64_t i = 0; i < size; ++i) {
      NINFER_RETURN_IF_ERROR(step(node.line));
      scopes_.back().clear(); // `set` inside the body lasts one turn
      auto at = static_cast<size_t>(i);
      NINFER_RETURN_IF_ERROR(bind(node, list[at]));
      Value loop = {{"index", i + 1}, {"index0", i}, {"revindex", size - i}, {"revindex0", size - i - 1},
                    {"first", i == 0}, {"last", i + 1 == size}, {"length", size}};
      if (i > 0)
        loop["previtem"] = list[at - 1];
      if (i + 1 < size)
        loop["nextitem"] = list[at + 1];
      scopes_.back()["loop"] = std::move(loop);
      NINFER_RETURN_IF_ERROR(execute(node.body));
      Flow flow = flow_;
      flow_ = Flow::Normal;
      if (flow == Flow::Break)
        break;
    }
    return {};
  }

  Result<Arguments> arguments(const Expr &e) {
    Arguments args;
    for (size_t i = 1; i < e.items.size(); ++i) {
      NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*e.items[i]));
      args.positional.push_back(std::move(v));
    }
    for (const auto &[key, value] : e.keywords) {
      NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*value));
      args.keywords.emplace_back(key, std::move(v));
    }
    return args;
  }

  Result<Value> call(const Expr &e) {
    const Expr &target = *e.items[0];
    NINFER_ASSIGN_OR_RETURN(Arguments args, arguments(e));
    if (target.kind == Expr::Kind::Attribute) {
      if (const Value *self = reference(*target.items[0]))
        return callMethod(target.name, *self, args, where(e.line));
      NINFER_ASSIGN_OR_RETURN(Value self, evaluate(*target.items[0]));
      return callMethod(target.name, self, args, where(e.line));
    }
    if (target.kind != Expr::Kind::Name)
      return evaluationError(where(e.line), "this value can't be called");
    if (auto macro = macros_.find(target.name); macro != macros_.end())
      return callMacro(*macro->second, args, e.line);
    if (target.name == "raise_exception")
      return evaluationError(where(e.line), toText(args.get(0, "message", "")));
    if (target.name == "namespace" || target.name == "dict") {
      Value object = args.positional.empty() ? Value::object() : args.positional[0];
      if (!object.is_object())
        return evaluationError(where(e.line), target.name + " takes keywords or an object");
      for (auto &[key, value] : args.keywords)
        object[key] = value;
      return object;
    }
    if (target.name == "range") {
      int64_t bounds[3] = {0, 0, 1};
      size_t n = args.positional.size();
      for (size_t i = 0; i < n; ++i) {
        if (i > 2 || !args.positional[i].is_number_integer())
          return evaluationError(where(e.line), "range takes one to three integers");
        bounds[n == 1 ? 1 : i] = args.positional[i].get<int64_t>();
      }
      if (bounds[2] == 0)
        return evaluationError(where(e.line), "range step is zero");
      Value list = Value::array();
      for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
        if (static_cast<int64_t>(list.size()) >= kMaxRange)
          return evaluationError(where(e.line), "range is longer than " + std::to_string(kMaxRange));
        list.push_back(i);
        if (__builtin_add_overflow(i, bounds[2], &i))
          break; // beyond every bound
      }
      return list;
    }
    return evaluationError(where(e.line), "function '" + target.name + "' is not supported");
  }

  Result<Value> callMacro(const Node &macro, const Arguments &args, int line) {
    if (++calls_ > kMaxCalls)
      return evaluationError(where(line), "macros nested too deeply");
    if (args.positional.size() > macro.names.size())
      return evaluationError(where(line), "macro '" + macro.text + "' takes " + std::to_string(macro.names.size()) + " arguments");
    std::unordered_map<std::string, Value> scope;
    for (size_t i = 0; i < macro.names.size(); ++i) {
      Value v = args.get(i, macro.names[i].c_str(), undefined());
      if (isUndefined(v) && macro.defaults[i]) {
        NINFER_ASSIGN_OR_RETURN(v, evaluate(*macro.defaults[i]));
      }
      scope[macro.names[i]] = std::move(v);
    }
    std::string saved = std::move(out_);
    out_.clear();
    scopes_.push_back(std::move(scope));
    Status status = execute(macro.body);
    scopes_.pop_back();
    --calls_;
    std::swap(saved, out_);
    NINFER_RETURN_IF_ERROR(std::move(status));
    return Value(saved);
  }

  /// The value of a name, a member or an item where it lies, without a copy; null when `e` is something else, is
  /// undefined, or its evaluation is an error. Valid until the next evaluation.
  const Value *reference(const Expr &e) {
    Nesting nesting(nesting_);
    if (nesting_ > kMaxNesting || ++steps_ > kMaxSteps)
      return nullptr;
    if (e.kind == Expr::Kind::Name)
      return lookup(e.name);
    Value key;
    if (e.kind == Expr::Kind::Attribute) {
      key = e.name;
    } else if (e.kind == Expr::Kind::Subscript) {
      Result<Value> found = evaluate(*e.items[1]); // first: it may change what the reference points to
      if (!found.ok())
        return nullptr;
      key = found.take();
    } else {
      return nullptr;
    }
    const Value *self = reference(*e.items[0]);
    if (self && self->is_object() && key.is_string()) {
      auto found = self->find(key.get_ref<const std::string &>());
      return found == self->end() ? nullptr : &*found;
    }
    if (self && self->is_array() && key.is_number_integer()) {
      const auto size = static_cast<int64_t>(self->size());
      int64_t i = key.get<int64_t>();
      i += i < 0 ? size : 0;
      return i < 0 || i >= size ? nullptr : &(*self)[static_cast<size_t>(i)];
    }
    return nullptr;
  }

  Result<Value> evaluate(const Expr &e) {
    NINFER_RETURN_IF_ERROR(step(e.line));
    Nesting nesting(nesting_);
    if (nesting_ > kMaxNesting)
      return evaluationError(where(e.line), "expressions nested too deeply");
    Result<Value> value = compute(e);
    if (!value.ok())
      return value;
    const Extent extent = measure(*value);
    if (extent.depth > kMaxValueDepth)
      return evaluationError(where(e.line), "a value nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
    NINFER_RETURN_IF_ERROR(spend(extent.bytes, e.line));
    return value;
  }

  Result<Value> compute(const Expr &e) {
    switch (e.kind) {
    case Expr::Kind::Literal:
      return e.value;
    case Expr::Kind::Name: {
      Value *found = lookup(e.name);
      return found ? *found : undefined();
    }
    case Expr::Kind::List: {
      Value list = Value::array();
      for (const ExprPtr &item : e.items) {
        NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*item));
        list.push_back(std::move(v));
      }
      return list;
    }
    case Expr::Kind::Dict: {
      Value object = Value::object();
      for (size_t i = 0; i < e.items.size(); i += 2) {
        NINFER_ASSIGN_OR_RETURN(Value key, evaluate(*e.items[i]));
        NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*e.items[i + 1]));
        object[toText(key)] = std::move(v);
      }
      return object;
    }
    case Expr::Kind::Attribute: {
      if (const Value *found = reference(e))
        return *found;
      NINFER_ASSIGN_OR_RETURN(Value self, evaluate(*e.items[0]));
      if (isUndefined(self))
        return evaluationError(where(e.line), "attribute '" + e.name + "' of an undefined value");
      return subscript(self, e.name);
    }
    case Expr::Kind::Subscript: {
      if (const Value *found = reference(e))
        return *found;
      NINFER_ASSIGN_OR_RETURN(Value self, evaluate(*e.items[0]));
      NINFER_ASSIGN_OR_RETURN(Value key, evaluate(*e.items[1]));
      if (isUndefined(self))
        return evaluationError(where(e.line), "subscript of an undefined value");
      return subscript(self, key);
    }
    case Expr::Kind::Slice: {
      Value part[4];
      for (size_t i = 0; i < 4; ++i)
        if (e.items[i]) {
          NINFER_ASSIGN_OR_RETURN(part[i], evaluate(*e.items[i]));
        }
      return slice(part[0], part[1], part[2], part[3], where(e.line));
    }
    case Expr::Kind::Call:
      return call(e);
    case Expr::Kind::Filter: {
      if (e.items.size() == 1 && e.keywords.empty())
        if (const Value *found = reference(*e.items[0]))
          return applyFilter(e.name, *found, {}, where(e.line));
      NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*e.items[0]));
      NINFER_ASSIGN_OR_RETURN(Arguments args, arguments(e));
      return applyFilter(e.name, v, args, where(e.line));
    }
    case Expr::Kind::Test: {
      // A macro or a built-in function is not a value, but templates ask whether it is defined.
      if ((e.name == "defined" || e.name == "undefined") && e.items[0]->kind == Expr::Kind::Name) {
        const std::string &n = e.items[0]->name;
        if (macros_.count(n) || n == "raise_exception" || n == "namespace" || n == "range" || n == "dict")
          return Value(e.name == "defined");
      }
      if (e.items.size() == 1 && e.keywords.empty())
        if (const Value *found = reference(*e.items[0])) {
          NINFER_ASSIGN_OR_RETURN(bool holds, applyTest(e.name, *found, {}, where(e.line)));
          return Value(holds);
        }
      NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*e.items[0]));
      NINFER_ASSIGN_OR_RETURN(Arguments args, arguments(e));
      NINFER_ASSIGN_OR_RETURN(bool holds, applyTest(e.name, v, args, where(e.line)));
      return Value(holds);
    }
    case Expr::Kind::Unary: {
      NINFER_ASSIGN_OR_RETURN(Value v, evaluate(*e.items[0]));
      if (e.name == "not")
        return Value(!truth(v));
      if (!v.is_number())
        return evaluationError(where(e.line), "operator '" + e.name + "' needs a number");
      return e.name == "+" ? v : applyBinary("-", 0, v, where(e.line));
    }
    case Expr::Kind::Binary: {
      NINFER_ASSIGN_OR_RETURN(Value left, evaluate(*e.items[0]));
      if (e.name == "and" || e.name == "or") { // the value that decides, as in Python
        if (truth(left) == (e.name == "or"))
          return left;
        return evaluate(*e.items[1]);
      }
      NINFER_ASSIGN_OR_RETURN(Value right, evaluate(*e.items[1]));
      return applyBinary(e.name, left, right, where(e.line));
    }
    case Expr::Kind::Ternary: {
      NINFER_ASSIGN_OR_RETURN(Value condition, evaluate(*e.items[1]));
      if (truth(condition))
        return evaluate(*e.items[0]);
      return e.items[2] ? evaluate(*e.items[2]) : Result<Value>(undefined());
    }
    }
    return undefined();
  }

  const std::string &name_;
  std::vector<std::unordered_map<std::string, Value>> scopes_;
  std::unordered_map<std::string, const Node *> macros_;
  std::string out_;
  Flow flow_ = Flow::Normal;
  int64_t steps_ = 0;
  size_t work_ = 0;
  int calls_ = 0, nesting_ = 0;
};

} // namespace

struct Template::Impl {
  std::string name;
  Body body;
};

Template::Template(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Template::Template(Template &&) noexcept = default;
Template &Template::operator=(Template &&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::compile(std::string_view source, const std::string &name) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  NINFER_ASSIGN_OR_RETURN(impl->body, parse(source, name));
  return Template(std::move(impl));
}

Result<std::string> Template::render(const Json &variables) const {
  return Interpreter(impl_->name, variables).run(impl_->body);
}

} // namespace ninfer::jinja
