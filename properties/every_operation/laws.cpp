#include "properties/core/law.hpp"

namespace posproof::properties::every_operation {

std::vector<Law> laws() { return {}; }

}  // namespace posproof::properties::every_operation
