// Syntax tree of the Jinja subset that chat templates are written in. Private to runtime/text/jinja.
#ifndef NINFER_RUNTIME_TEXT_JINJA_AST_H
#define NINFER_RUNTIME_TEXT_JINJA_AST_H

#include "support/Json.h"
#include "support/Status.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ninfer::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    Literal,   ///< value
    Name,      ///< name
    List,      ///< items
    Dict,      ///< items: key, value, key, value ...
    Attribute, ///< items[0] . name
    Subscript, ///< items[0] [ items[1] ]
    Slice,     ///< items[0] [ items[1] : items[2] : items[3] ], absent parts are null
    Call,      ///< items[0] ( items[1...], keywords )
    Filter,    ///< items[0] | name ( items[1...], keywords )
    Test,      ///< items[0] is name ( items[1...] )
    Unary,     ///< name items[0]; name is "not", "-" or "+"
    Binary,    ///< items[0] name items[1]
    Ternary,   ///< items[0] if items[1] else items[2] (null: undefined)
  };
  Kind kind = Kind::Literal;
  int line = 0;
  int height = 1; ///< of the tree below; the parser bounds it, because evaluation and destruction recurse
  std::string name;
  Json value;
  std::vector<ExprPtr> items;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
};

struct Node;
using Body = std::vector<std::unique_ptr<Node>>;

struct Node {
  enum class Kind { Text, Output, If, For, Set, SetBlock, Macro, Break, Continue };
  Kind kind = Kind::Text;
  int line = 0;
  std::string text;               ///< Text; Macro: its name
  std::vector<std::string> names; ///< For: loop variables; Set: target, or object and attribute; Macro: parameters
  bool attribute = false;         ///< Set: the target is an attribute of a namespace
  ExprPtr expr;                   ///< Output, Set, For (the sequence)
  ExprPtr condition;              ///< For: `for x in y if condition`
  std::vector<std::pair<ExprPtr, Body>> branches; ///< If: a null condition is `else`
  Body body;                      ///< For, SetBlock, Macro
  Body otherwise;                 ///< For: else
  std::vector<ExprPtr> defaults;  ///< Macro: default of each parameter or null
};

/// Parses a template with trim_blocks and lstrip_blocks on, as chat templates are rendered everywhere.
/// Errors: Unsupported with the line, for syntax outside the subset.
Result<Body> parse(std::string_view source, const std::string &name);

} // namespace ninfer::jinja

#endif // NINFER_RUNTIME_TEXT_JINJA_AST_H
