#include "reference/core/operation.hpp"

namespace posproof {

std::string_view name(Recipe recipe) {
  switch (recipe) {
    case Recipe::hf_f32:
      return "hf_f32";
    case Recipe::ggml_f32_chain:
      return "ggml_f32_chain";
    default:
      return "exact";
  }
}

Recipe recipe_from(std::string_view text) {
  for (Recipe recipe : {Recipe::exact, Recipe::hf_f32, Recipe::ggml_f32_chain})
    if (name(recipe) == text) return recipe;
  throw std::invalid_argument("recipe: '" + std::string(text) +
                              "' is not one of exact, hf_f32, ggml_f32_chain");
}

bool Operation::has_float_inputs(const Parameters& parameters) const {
  for (const InputSpec& spec : inputs(parameters))
    if (spec.kind == InputSpec::Kind::real) return true;
  return false;
}

std::vector<InputSpec> no_inputs(const Parameters&) { return {}; }

}  // namespace posproof
