#include "implementations/plain/plain.hpp"

#include <map>

#include "implementations/plain/alibi.hpp"
#include "implementations/plain/attention.hpp"
#include "implementations/plain/learned.hpp"
#include "implementations/plain/rope.hpp"
#include "implementations/plain/shaw.hpp"
#include "implementations/plain/sinusoidal.hpp"
#include "implementations/plain/t5.hpp"

namespace posproof::plain {
namespace {

using Function = Tensors (*)(const nlohmann::json&, const Tensors&);

/// Operations that take no Phase have no angle, score or weight.
template <class Phase>
const std::map<std::string, Function>& table() {
  static const std::map<std::string, Function> kTable{
      {"alibi.bias", alibi::bias},
      {"alibi.slopes", alibi::slope_list},
      {"attention", attention::attend<Phase>},
      {"learned.embed", learned::embed},
      {"rope.apply", rope::apply<Phase>},
      {"rope.cos_sin", rope::cos_sin<Phase>},
      {"rope.inv_freq", rope::frequency_list<Phase>},
      {"rope.rotate", rope::rotate<Phase>},
      {"shaw.key_logits", shaw::key_logits<Phase>},
      {"shaw.value_term", shaw::value_term<Phase>},
      {"sinusoidal.table", sinusoidal::table<Phase>},
      {"t5.bias", t5::bias},
      {"t5.bucket", t5::bucket},
  };
  return kTable;
}

}  // namespace

template <class Phase>
Tensors run(const std::string& operation, const nlohmann::json& parameters, const Tensors& inputs) {
  const auto found = table<Phase>().find(operation);
  if (found == table<Phase>().end()) {
    throw std::invalid_argument("plain has no operation " + operation);
  }
  return found->second(parameters, inputs);
}

template Tensors run<float>(const std::string&, const nlohmann::json&, const Tensors&);
template Tensors run<double>(const std::string&, const nlohmann::json&, const Tensors&);

std::vector<std::string> operations() {
  std::vector<std::string> names;
  for (const auto& entry : table<double>()) names.push_back(entry.first);
  return names;
}

}  // namespace posproof::plain
