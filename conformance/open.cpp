#include "conformance/open.hpp"

#include <stdexcept>

#include "conformance/builtin.hpp"
#include "conformance/subprocess.hpp"

namespace posproof {

std::unique_ptr<Implementation> open_implementation(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (colon != std::string::npos && kind == "builtin") return open_builtin(text.substr(colon + 1));
  if (colon != std::string::npos && kind == "cmd")
    return std::make_unique<Subprocess>(text.substr(colon + 1));
  throw std::invalid_argument("implementation: '" + text +
                              "' is neither builtin:NAME nor cmd:\"PROGRAM ARGUMENTS\"");
}

}  // namespace posproof
