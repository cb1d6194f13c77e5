#include "conformance/bugs/core/attention_steps.hpp"

namespace posproof::bugs::nope {
namespace {

Outputs<double> rotated_anyway(const Call& call) {
  const std::string name =
      call.parameters.value("scheme", nlohmann::json::object()).value("name", "nope");
  const std::size_t width = call.inputs.real("q").shape(2);
  if (name != "nope" || width % 2 != 0) return right(call);
  return right(
      with_parameter(call, "scheme", {{"name", "rope"}, {"parameters", {{"head_dim", width}}}}));
}

}  // namespace

std::vector<BugModel> models() {
  return {model({"K-NP1", "", "layers without positions rotated too",
                 "outputs of those layers depend on absolute places",
                 "leave queries and keys of these layers alone"},
                {"attention"}, rotated_anyway)};
}

}  // namespace posproof::bugs::nope
