#include "runtime/text/jinja/Ast.h"
#include "runtime/text/jinja/Lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>

namespace ninfer::jinja {

namespace {

constexpr int kMaxDepth = 200;  // of nested expressions and blocks
constexpr int kMaxHeight = 300; // of an expression tree: a chain such as a ~ b ~ c grows it without nesting

class Parser {
public:
  Parser(std::vector<Token> tokens, const std::string &name) : tokens_(std::move(tokens)), name_(name) {}

  Result<Body> run() {
    Body body;
    NINFER_RETURN_IF_ERROR(block(body, {}));
    return body;
  }

private:
  const Token &peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool isName(const char *text) const { return peek().kind == Token::Kind::Name && peek().text == text; }
  bool isOp(const char *text) const { return peek().kind == Token::Kind::Operator && peek().text == text; }
  bool takeName(const char *text) { return isName(text) && (++at_, true); }
  bool takeOp(const char *text) { return isOp(text) && (++at_, true); }
  Error fail(const std::string &what) const { return syntaxError(name_, peek().line, what); }
  Error expected(const std::string &what) const {
    return fail("expected " + what + (peek().text.empty() ? "" : ", got '" + peek().text + "'"));
  }
  Status needOp(const char *text) { return takeOp(text) ? Status() : Status(expected(std::string("'") + text + "'")); }
  Status needEnd() {
    if (peek().kind != Token::Kind::End)
      return expected("the end of the tag");
    ++at_;
    return {};
  }
  Result<std::string> needName() {
    if (peek().kind != Token::Kind::Name)
      return expected("a name");
    return next().text;
  }

  struct Depth {
    explicit Depth(int &d) : d_(d) { ++d_; }
    ~Depth() { --d_; }
    int &d_;
  };

  /// Nodes up to a block tag whose first word is in `stops`; that tag's begin is consumed, its word is not.
  Status block(Body &out, std::initializer_list<std::string_view> stops) {
    Depth depth(depth_);
    if (depth_ > kMaxDepth)
      return fail("nested too deeply");
    while (peek().kind != Token::Kind::Eof) {
      auto node = std::make_unique<Node>();
      node->line = peek().line;
      if (peek().kind == Token::Kind::Text) {
        node->text = next().text;
        out.push_back(std::move(node));
        continue;
      }
      if (peek().kind == Token::Kind::OutputBegin) {
        ++at_;
        node->kind = Node::Kind::Output;
        NINFER_ASSIGN_OR_RETURN(node->expr, expression());
        NINFER_RETURN_IF_ERROR(needEnd());
        out.push_back(std::move(node));
        continue;
      }
      ++at_; // BlockBegin
      for (std::string_view stop : stops)
        if (peek().kind == Token::Kind::Name && peek().text == stop)
          return {};
      NINFER_RETURN_IF_ERROR(statement(*node));
      if (node->kind != Node::Kind::Text) // {% generation %} leaves nothing behind
        out.push_back(std::move(node));
    }
    if (stops.size() > 0)
      return fail("block is not closed, expected " + std::string(*std::prev(stops.end())));
    return {};
  }

  Status statement(Node &node) {
    NINFER_ASSIGN_OR_RETURN(std::string word, needName());
    if (word == "if")
      return ifStatement(node);
    if (word == "for")
      return forStatement(node);
    if (word == "set")
      return setStatement(node);
    if (word == "macro")
      return macroStatement(node);
    if (word == "break" || word == "continue") {
      node.kind = word == "break" ? Node::Kind::Break : Node::Kind::Continue;
      return needEnd();
    }
    if (word == "generation" || word == "endgeneration") // marks assistant text for training; renders its content
      return needEnd();
    --at_;
    return fail("block '" + word + "' is not supported");
  }

  Status ifStatement(Node &node) {
    node.kind = Node::Kind::If;
    NINFER_ASSIGN_OR_RETURN(ExprPtr condition, expression());
    while (true) {
      NINFER_RETURN_IF_ERROR(needEnd());
      Body body;
      NINFER_RETURN_IF_ERROR(block(body, {"elif", "else", "endif"}));
      bool last = condition == nullptr;
      node.branches.emplace_back(std::move(condition), std::move(body));
      if (takeName("endif"))
        return needEnd();
      if (last)
        return expected("endif");
      if (takeName("elif")) {
        NINFER_ASSIGN_OR_RETURN(condition, expression());
      } else {
        ++at_; // else
        condition = nullptr;
      }
    }
  }

  Status forStatement(Node &node) {
    node.kind = Node::Kind::For;
    do {
      NINFER_ASSIGN_OR_RETURN(std::string variable, needName());
      node.names.push_back(std::move(variable));
    } while (takeOp(","));
    if (!takeName("in"))
      return expected("'in'");
    NINFER_ASSIGN_OR_RETURN(node.expr, orExpression());
    if (takeName("if")) {
      NINFER_ASSIGN_OR_RETURN(node.condition, expression());
    }
    NINFER_RETURN_IF_ERROR(needEnd());
    NINFER_RETURN_IF_ERROR(block(node.body, {"else", "endfor"}));
    if (takeName("else")) {
      NINFER_RETURN_IF_ERROR(needEnd());
      NINFER_RETURN_IF_ERROR(block(node.otherwise, {"endfor"}));
    }
    ++at_; // endfor
    return needEnd();
  }

  Status setStatement(Node &node) {
    NINFER_ASSIGN_OR_RETURN(std::string target, needName());
    node.names.push_back(std::move(target));
    if (takeOp(".")) {
      NINFER_ASSIGN_OR_RETURN(std::string attribute, needName());
      node.names.push_back(std::move(attribute));
      node.attribute = true;
    }
    if (takeOp("=")) {
      node.kind = Node::Kind::Set;
      NINFER_ASSIGN_OR_RETURN(node.expr, expression());
      return needEnd();
    }
    node.kind = Node::Kind::SetBlock;
    NINFER_RETURN_IF_ERROR(needEnd());
    NINFER_RETURN_IF_ERROR(block(node.body, {"endset"}));
    ++at_;
    return needEnd();
  }

  Status macroStatement(Node &node) {
    node.kind = Node::Kind::Macro;
    NINFER_ASSIGN_OR_RETURN(node.text, needName());
    NINFER_RETURN_IF_ERROR(needOp("("));
    while (!takeOp(")")) {
      NINFER_ASSIGN_OR_RETURN(std::string parameter, needName());
      node.names.push_back(std::move(parameter));
      ExprPtr value;
      if (takeOp("=")) {
        NINFER_ASSIGN_OR_RETURN(value, expression());
      }
      node.defaults.push_back(std::move(value));
      if (!isOp(")"))
        NINFER_RETURN_IF_ERROR(needOp(","));
    }
    NINFER_RETURN_IF_ERROR(needEnd());
    NINFER_RETURN_IF_ERROR(block(node.body, {"endmacro"}));
    ++at_;
    return needEnd();
  }

  ExprPtr make(Expr::Kind kind, std::string name = "") {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = peek().line;
    e->name = std::move(name);
    return e;
  }

  /// `e` with its height, once all children are in place.
  Result<ExprPtr> finish(ExprPtr e) {
    for (const ExprPtr &item : e->items)
      e->height = std::max(e->height, item ? item->height + 1 : 1);
    for (const auto &[key, value] : e->keywords)
      e->height = std::max(e->height, value->height + 1);
    if (e->height > kMaxHeight)
      return fail("nested too deeply");
    return e;
  }

  Result<ExprPtr> binary(std::string op, ExprPtr left, ExprPtr right) {
    ExprPtr e = make(Expr::Kind::Binary, std::move(op));
    e->items.push_back(std::move(left));
    e->items.push_back(std::move(right));
    return finish(std::move(e));
  }

  Result<ExprPtr> expression() {
    Depth depth(depth_);
    if (depth_ > kMaxDepth)
      return fail("nested too deeply");
    NINFER_ASSIGN_OR_RETURN(ExprPtr value, orExpression());
    while (takeName("if")) {
      ExprPtr e = make(Expr::Kind::Ternary);
      NINFER_ASSIGN_OR_RETURN(ExprPtr condition, orExpression());
      ExprPtr otherwise;
      if (takeName("else")) {
        NINFER_ASSIGN_OR_RETURN(otherwise, expression());
      }
      e->items.push_back(std::move(value));
      e->items.push_back(std::move(condition));
      e->items.push_back(std::move(otherwise));
      NINFER_ASSIGN_OR_RETURN(value, finish(std::move(e)));
    }
    return value;
  }

  Result<ExprPtr> orExpression() {
    NINFER_ASSIGN_OR_RETURN(ExprPtr left, andExpression());
    while (takeName("or")) {
      NINFER_ASSIGN_OR_RETURN(ExprPtr right, andExpression());
      NINFER_ASSIGN_OR_RETURN(left, binary("or", std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> andExpression() {
    NINFER_ASSIGN_OR_RETURN(ExprPtr left, notExpression());
    while (takeName("and")) {
      NINFER_ASSIGN_OR_RETURN(ExprPtr right, notExpression());
      NINFER_ASSIGN_OR_RETURN(left, binary("and", std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> notExpression() {
    Depth depth(depth_);
    if (depth_ > kMaxDepth)
      return fail("nested too deeply");
    if (!isName("not"))
      return comparison();
    ExprPtr e = make(Expr::Kind::Unary, "not");
    ++at_;
    NINFER_ASSIGN_OR_RETURN(ExprPtr operand, notExpression());
    e->items.push_back(std::move(operand));
    return finish(std::move(e));
  }

  Result<ExprPtr> comparison() {
    NINFER_ASSIGN_OR_RETURN(ExprPtr left, sum());
    while (true) {
      std::string op;
      for (const char *candidate : {"==", "!=", "<=", ">=", "<", ">"})
        if (isOp(candidate))
          op = candidate;
      bool notIn = isName("not") && peek(1).kind == Token::Kind::Name && peek(1).text == "in";
      if (isName("in"))
        op = "in";
      if (op.empty() && !notIn)
        return left;
      at_ += notIn ? 2 : 1;
      NINFER_ASSIGN_OR_RETURN(ExprPtr right, sum());
      NINFER_ASSIGN_OR_RETURN(left, binary(notIn ? "not in" : op, std::move(left), std::move(right)));
    }
  }

  Result<ExprPtr> sum() {
    NINFER_ASSIGN_OR_RETURN(ExprPtr left, concatenation());
    while (isOp("+") || isOp("-")) {
      std::string op = next().text;
      NINFER_ASSIGN_OR_RETURN(ExprPtr right, concatenation());
      NINFER_ASSIGN_OR_RETURN(left, binary(op, std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> concatenation() { // ~ binds tighter than + and -
    NINFER_ASSIGN_OR_RETURN(ExprPtr left, product());
    while (takeOp("~")) {
      NINFER_ASSIGN_OR_RETURN(ExprPtr right, product());
      NINFER_ASSIGN_OR_RETURN(left, binary("~", std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> product() {
    NINFER_ASSIGN_OR_RETURN(ExprPtr left, unary());
    while (isOp("*") || isOp("/") || isOp("//") || isOp("%")) {
      std::string op = next().text;
      NINFER_ASSIGN_OR_RETURN(ExprPtr right, unary());
      NINFER_ASSIGN_OR_RETURN(left, binary(op, std::move(left), std::move(right)));
    }
    return left;
  }

  Result<ExprPtr> unary() {
    Depth depth(depth_);
    if (depth_ > kMaxDepth)
      return fail("nested too deeply");
    if (isOp("-") || isOp("+")) {
      ExprPtr e = make(Expr::Kind::Unary, peek().text);
      ++at_;
      NINFER_ASSIGN_OR_RETURN(ExprPtr operand, unary());
      e->items.push_back(std::move(operand));
      return finish(std::move(e));
    }
    NINFER_ASSIGN_OR_RETURN(ExprPtr value, primary());
    return postfix(std::move(value));
  }

  Result<ExprPtr> postfix(ExprPtr value) {
    while (true) {
      if (takeOp(".")) {
        ExprPtr e = make(Expr::Kind::Attribute);
        NINFER_ASSIGN_OR_RETURN(e->name, needName());
        e->items.push_back(std::move(value));
        NINFER_ASSIGN_OR_RETURN(value, finish(std::move(e)));
      } else if (takeOp("[")) {
        NINFER_ASSIGN_OR_RETURN(value, subscript(std::move(value)));
      } else if (isOp("(")) {
        ExprPtr e = make(Expr::Kind::Call);
        e->items.push_back(std::move(value));
        NINFER_RETURN_IF_ERROR(arguments(*e));
        NINFER_ASSIGN_OR_RETURN(value, finish(std::move(e)));
      } else if (takeOp("|")) {
        ExprPtr e = make(Expr::Kind::Filter);
        NINFER_ASSIGN_OR_RETURN(e->name, needName());
        e->items.push_back(std::move(value));
        if (isOp("("))
          NINFER_RETURN_IF_ERROR(arguments(*e));
        NINFER_ASSIGN_OR_RETURN(value, finish(std::move(e)));
      } else if (takeName("is")) {
        bool negated = takeName("not");
        ExprPtr e = make(Expr::Kind::Test);
        NINFER_ASSIGN_OR_RETURN(e->name, needName());
        e->items.push_back(std::move(value));
        if (isOp("("))
          NINFER_RETURN_IF_ERROR(arguments(*e));
        if (negated) {
          ExprPtr n = make(Expr::Kind::Unary, "not");
          NINFER_ASSIGN_OR_RETURN(e, finish(std::move(e)));
          n->items.push_back(std::move(e));
          e = std::move(n);
        }
        NINFER_ASSIGN_OR_RETURN(value, finish(std::move(e)));
      } else {
        return value;
      }
    }
  }

  Result<ExprPtr> subscript(ExprPtr value) {
    ExprPtr parts[3];
    bool slice = false;
    for (int i = 0; i < 3; ++i) {
      if (!isOp(":") && !isOp("]")) {
        NINFER_ASSIGN_OR_RETURN(parts[i], expression());
      }
      if (!takeOp(":"))
        break;
      slice = true;
    }
    NINFER_RETURN_IF_ERROR(needOp("]"));
    ExprPtr e = make(slice ? Expr::Kind::Slice : Expr::Kind::Subscript);
    e->items.push_back(std::move(value));
    if (!slice && !parts[0])
      return expected("an index");
    for (int i = 0; i < (slice ? 3 : 1); ++i)
      e->items.push_back(std::move(parts[i]));
    return finish(std::move(e));
  }

  Status arguments(Expr &call) {
    NINFER_RETURN_IF_ERROR(needOp("("));
    while (!takeOp(")")) {
      if (peek().kind == Token::Kind::Name && peek(1).kind == Token::Kind::Operator && peek(1).text == "=") {
        std::string keyword = next().text;
        ++at_;
        NINFER_ASSIGN_OR_RETURN(ExprPtr value, expression());
        call.keywords.emplace_back(std::move(keyword), std::move(value));
      } else {
        NINFER_ASSIGN_OR_RETURN(ExprPtr value, expression());
        call.items.push_back(std::move(value));
      }
      if (!isOp(")"))
        NINFER_RETURN_IF_ERROR(needOp(","));
    }
    return {};
  }

  Result<ExprPtr> primary() {
    const Token &token = peek();
    ExprPtr e = make(Expr::Kind::Literal);
    switch (token.kind) {
    case Token::Kind::String:
      while (peek().kind == Token::Kind::String) { // adjacent strings join
        e->name += next().text;
      }
      e->value = e->name;
      return e;
    case Token::Kind::Integer: {
      int64_t value = 0;
      auto [end, code] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (code != std::errc() || end != token.text.data() + token.text.size())
        return fail("integer out of range");
      e->value = value;
      ++at_;
      return e;
    }
    case Token::Kind::Float:
      e->value = std::strtod(token.text.c_str(), nullptr);
      ++at_;
      return e;
    case Token::Kind::Name: {
      std::string word = next().text;
      if (word == "true" || word == "True" || word == "false" || word == "False")
        e->value = word == "true" || word == "True";
      else if (word != "none" && word != "None") {
        e->kind = Expr::Kind::Name;
        e->name = word;
      }
      return e;
    }
    default:
      break;
    }
    if (takeOp("(")) {
      NINFER_ASSIGN_OR_RETURN(ExprPtr value, expression());
      if (isOp(",")) { // a tuple is a list here
        ExprPtr list = make(Expr::Kind::List);
        list->items.push_back(std::move(value));
        while (takeOp(",") && !isOp(")")) {
          NINFER_ASSIGN_OR_RETURN(ExprPtr item, expression());
          list->items.push_back(std::move(item));
        }
        NINFER_ASSIGN_OR_RETURN(value, finish(std::move(list)));
      }
      NINFER_RETURN_IF_ERROR(needOp(")"));
      return value;
    }
    if (takeOp("[")) {
      e->kind = Expr::Kind::List;
      while (!takeOp("]")) {
        NINFER_ASSIGN_OR_RETURN(ExprPtr item, expression());
        e->items.push_back(std::move(item));
        if (!isOp("]"))
          NINFER_RETURN_IF_ERROR(needOp(","));
      }
      return finish(std::move(e));
    }
    if (takeOp("{")) {
      e->kind = Expr::Kind::Dict;
      while (!takeOp("}")) {
        NINFER_ASSIGN_OR_RETURN(ExprPtr key, expression());
        NINFER_RETURN_IF_ERROR(needOp(":"));
        NINFER_ASSIGN_OR_RETURN(ExprPtr item, expression());
        e->items.push_back(std::move(key));
        e->items.push_back(std::move(item));
        if (!isOp("}"))
          NINFER_RETURN_IF_ERROR(needOp(","));
      }
      return finish(std::move(e));
    }
    return expected("an expression");
  }

  std::vector<Token> tokens_;
  const std::string &name_;
  size_t at_ = 0;
  int depth_ = 0;
};

} // namespace

Result<Body> parse(std::string_view source, const std::string &name) {
  NINFER_ASSIGN_OR_RETURN(std::vector<Token> tokens, lex(source, name));
  return Parser(std::move(tokens), name).run();
}

} // namespace ninfer::jinja
