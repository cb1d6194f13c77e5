#include "conformance/waivers.hpp"

#include <stdexcept>

#include "fixtures/core/files.hpp"
#include "fixtures/core/tensor_json.hpp"

namespace posproof {

std::vector<Waiver> read_waivers(const std::filesystem::path& file) {
  using nlohmann::json;
  const json list = parse_json(read_file(file));
  const auto wrong = [&](const std::string& what) {
    return std::invalid_argument(file.string() + ": " + what);
  };
  if (!list.is_array()) throw wrong("allowed is a JSON array of waivers");
  std::vector<Waiver> waivers;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = "waiver " + std::to_string(i) + ": ";
    if (!list[i].is_object())
      throw wrong(where + "found " + list[i].dump() + ", allowed is an object");
    Waiver waiver;
    for (const auto& [key, value] : list[i].items()) {
      std::string* field = key == "case"     ? &waiver.case_id
                           : key == "kind"   ? &waiver.kind
                           : key == "reason" ? &waiver.reason
                           : key == "link"   ? &waiver.link
                                             : nullptr;
      if (!field)
        throw wrong(where + "unknown key " + key + "; known are case, kind, reason, link");
      if (!value.is_string())
        throw wrong(where + key + ": found " + value.dump() + ", allowed is a string");
      *field = value.get<std::string>();
    }
    if (waiver.case_id.empty() == waiver.kind.empty())
      throw wrong(where + "allowed is one of case and kind");
    if (waiver.reason.empty()) throw wrong(where + "reason is missing");
    waivers.push_back(waiver);
  }
  return waivers;
}

}  // namespace posproof
