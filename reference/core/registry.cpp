#include "reference/core/registry.hpp"

namespace posproof {

#define POSPROOF_SCHEME(stem) \
  namespace reference::stem { \
  Scheme scheme();            \
  }
#include "posproof/schemes.inc"
#undef POSPROOF_SCHEME

const std::vector<const Scheme*>& schemes() {
  static const std::vector<Scheme> all{
#define POSPROOF_SCHEME(stem) reference::stem::scheme(),
#include "posproof/schemes.inc"
#undef POSPROOF_SCHEME
  };
  static const std::vector<const Scheme*> pointers = [] {
    std::vector<const Scheme*> list;
    for (const Scheme& scheme : all) list.push_back(&scheme);
    return list;
  }();
  return pointers;
}

const Scheme& find_scheme(const std::string& name) {
  std::string known;
  for (const Scheme* scheme : schemes()) {
    if (scheme->name == name) return *scheme;
    known += (known.empty() ? "" : ", ") + scheme->name;
  }
  throw std::invalid_argument("scheme: '" + name + "' is not one of " + known);
}

const Operation& find_operation(const std::string& name) {
  std::string known;
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations) {
      if (operation.name == name) return operation;
      known += (known.empty() ? "" : ", ") + operation.name;
    }
  throw std::invalid_argument("operation: '" + name + "' is not one of " + known);
}

const Scheme& scheme_of(const Operation& operation) {
  return find_scheme(operation.name.substr(0, operation.name.find('.')));
}

}  // namespace posproof
