#include <fmt/format.h>

#include <iostream>

#include "conformance/builtin.hpp"
#include "conformance/cli/commands.hpp"
#include "conformance/laws.hpp"
#include "fixtures/core/files.hpp"
#include "fixtures/core/fixture_file.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

std::string shape_text(const std::vector<std::string>& symbols) {
  std::string text = "[";
  for (const std::string& symbol : symbols) text += (text.size() > 1 ? "," : "") + symbol;
  return text + "]";
}

void list_operation(const Operation& operation) {
  std::cout << fmt::format("  {}: {}\n    {}\n", operation.name, operation.summary,
                           operation.source);
  for (const ParameterSpec& spec : operation.parameters)
    std::cout << fmt::format(
        "    {}: {}{}{}\n", spec.name, spec.allowed(),
        spec.required             ? ", required"
        : spec.fallback.is_null() ? ""
                                  : ", default " + spec.fallback.dump(),
        spec.convention_kind.empty() ? "" : ", convention " + spec.convention_kind);
  std::string line = "    ";
  // The specification of inputs may need parameters; those of attention without a scheme are shown.
  const nlohmann::json none = nlohmann::json::object();
  const bool needs_none = std::none_of(operation.parameters.begin(), operation.parameters.end(),
                                       [](const ParameterSpec& spec) { return spec.required; });
  for (const InputSpec& spec :
       operation.inputs(needs_none ? Parameters(operation.parameters, none) : Parameters()))
    line += spec.name + " " + shape_text(spec.shape) + (spec.optional ? "?" : "") + "  ";
  line += "->";
  for (const OutputSpec& spec : operation.outputs)
    line += "  " + spec.name + " " + shape_text(spec.shape);
  std::cout << line << "\n";
  for (Recipe recipe : operation.recipes) std::cout << "    recipe " << name(recipe) << "\n";
}

}  // namespace

Command add_list(CLI::App&) {
  return [] {
    for (const Scheme* scheme : schemes()) {
      std::cout << fmt::format("{}: {} ({})\n", scheme->name, scheme->title, scheme->source);
      for (const Operation& operation : scheme->operations) list_operation(operation);
    }
    for (const std::string& law : law_names()) std::cout << "law " << law << "\n";
    std::cout << "implementations:";
    for (const std::string& name : builtin_names()) std::cout << " builtin:" << name;
    std::cout << " cmd:PROGRAM\n";
    return 0;
  };
}

Command add_fixtures(CLI::App& app) {
  app.require_subcommand(1);
  auto folder = std::make_shared<std::string>("fixtures");
  CLI::App* generate = app.add_subcommand("generate", "Compute the stored cases anew.");
  CLI::App* check = app.add_subcommand("check", "Compare the stored cases with what is true.");
  for (CLI::App* each : {generate, check})
    each->add_option("FOLDER", *folder, "Where the files are")->capture_default_str();
  return [folder, generate] {
    if (generate->parsed()) {
      if (!std::filesystem::is_directory(*folder)) throw CallError(*folder + ": is not a folder");
      for (const auto& [name, content] : generated_files())
        write_aside(std::filesystem::path(*folder) / name, content);
      return 0;
    }
    const std::vector<std::string> differences = check_fixtures(*folder);
    for (const std::string& difference : differences) std::cout << difference << "\n";
    if (differences.empty()) std::cout << generated_files().size() << " files are what is true\n";
    return differences.empty() ? 0 : 1;
  };
}

}  // namespace posproof
