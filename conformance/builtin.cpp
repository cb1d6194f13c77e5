#include "conformance/builtin.hpp"

#include <functional>
#include <map>

#include "conformance/kernels.hpp"
#include "implementations/plain/plain.hpp"
#include "reference/core/registry.hpp"
#include "reference/core/truth.hpp"

namespace posproof {
namespace {

using Run = std::function<Tensors(const Request&)>;

using Operations = std::map<std::string, DeclaredOperation>;

/// A function of this process. Exceptions are its `refused`, `unsupported` and `error`.
class Builtin : public Implementation {
 public:
  Builtin(std::string name, Operations operations, Run run) : run_(std::move(run)) {
    description_.name = std::move(name);
    description_.version = POSPROOF_VERSION;
    description_.language = "C++";
    description_.operations = std::move(operations);
  }

  Answer start(std::chrono::milliseconds) override { return {Answer::Kind::outputs, {}, ""}; }
  const Description& description() const override { return description_; }

  Answer run(const Request& request, std::chrono::milliseconds) override {
    try {
      return {Answer::Kind::outputs, run_(request), ""};
    } catch (const Refused& refused) {
      return {Answer::Kind::refused, {}, refused.what()};
    } catch (const Unsupported& unsupported) {
      return {Answer::Kind::unsupported, {}, unsupported.what()};
    } catch (const std::exception& error) {
      return {Answer::Kind::error, {}, error.what()};
    }
  }

 private:
  Run run_;
  Description description_;
};

Tensors reference_outputs(const Request& request) {
  const Operation& operation = find_operation(request.operation);
  Tensors outputs;
  for (auto& [name, truth] :
       truth_of(operation, checked_parameters(operation, request.parameters), request.inputs))
    outputs.emplace(name, std::move(truth.rounded));
  return outputs;
}

template <class Phase>
Tensors plain_outputs(const Request& request) {
  return plain::run<Phase>(request.operation, request.parameters, request.inputs);
}

Operations all_operations() {
  Operations all;
  for (const Scheme* scheme : schemes())
    for (const Operation& operation : scheme->operations) all[operation.name] = {};
  return all;
}

Operations plain_operations() {
  Operations all;
  for (const std::string& name : plain::operations()) all[name] = {};
  return all;
}

std::unique_ptr<Implementation> open_kernels(const std::string& name, optimized::Isa isa) {
  return std::make_unique<Builtin>(
      "builtin:" + name, kernel_operations(),
      [isa](const Request& request) { return run_kernel(isa, request); });
}

}  // namespace

std::vector<std::string> builtin_names() {
  return {"reference", "plain", "plain64", "scalar", "avx2", "avx512", "optimized"};
}

std::unique_ptr<Implementation> open_builtin(const std::string& name) {
  if (name == "reference")
    return std::make_unique<Builtin>("builtin:reference", all_operations(), reference_outputs);
  if (name == "plain")
    return std::make_unique<Builtin>("builtin:plain", plain_operations(), plain_outputs<float>);
  if (name == "plain64")
    return std::make_unique<Builtin>("builtin:plain64", plain_operations(), plain_outputs<double>);
  if (name == "optimized") return open_kernels(name, optimized::default_isa());
  if (name == "scalar" || name == "avx2" || name == "avx512")
    return open_kernels(name, optimized::isa_from(name));
  std::string known;
  for (const std::string& each : builtin_names())
    known += (known.empty() ? "builtin:" : ", builtin:") + each;
  throw std::invalid_argument("implementation: 'builtin:" + name + "' is not one of " + known);
}

}  // namespace posproof
