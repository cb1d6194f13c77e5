#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reference/core/dtype.hpp"
#include "reference/core/parameters.hpp"

namespace posproof::plain {

using Keys = std::vector<std::string>;

inline Keys joined(Keys first, const Keys& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The parameters of a call as they came. Every reader names its own default and refuses another
/// type; a key that nobody knows is refused at once, so that a misspelt one cannot pass unread.
class Given {
 public:
  Given(nlohmann::json json, const Keys& known) : json_(std::move(json)) {
    if (!json_.is_object()) throw Refused("parameters: an object expected, got " + json_.dump());
    for (const auto& entry : json_.items()) {
      bool is_known = false;
      for (const std::string& key : known) is_known = is_known || key == entry.key();
      if (!is_known) throw Refused("unknown parameter " + entry.key());
    }
  }

  bool has(const std::string& key) const { return json_.contains(key); }

  nlohmann::json object(const std::string& key) const {
    if (!has(key)) return nlohmann::json::object();
    if (!json_[key].is_object()) refuse(key, "an object");
    return json_[key];
  }

  std::int64_t integer(const std::string& key, std::optional<std::int64_t> fallback = {}) const {
    if (!has(key) && fallback) return *fallback;
    if (!has(key) || !json_[key].is_number_integer() ||
        std::abs(json_[key].get<double>()) > kLargestInteger) {
      refuse(key, "an integer within ±2^53");
    }
    return json_[key].get<std::int64_t>();
  }

  std::int64_t integer_at_least(std::int64_t limit, const std::string& key,
                                std::optional<std::int64_t> fallback = {}) const {
    const std::int64_t value = integer(key, fallback);
    if (value < limit) refuse(key, "an integer ≥ " + std::to_string(limit));
    return value;
  }

  double number(const std::string& key, std::optional<double> fallback = {}) const {
    if (!has(key) && fallback) return *fallback;
    if (!has(key) || !json_[key].is_number()) refuse(key, "a number");
    return json_[key].get<double>();
  }

  double positive(const std::string& key, std::optional<double> fallback = {}) const {
    const double value = number(key, fallback);
    if (!(value > 0)) refuse(key, "a number > 0");
    return value;
  }

  bool flag(const std::string& key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_boolean()) refuse(key, "true or false");
    return json_[key].get<bool>();
  }

  std::string text(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_string()) refuse(key, "a string");
    return json_[key].get<std::string>();
  }

  /// The first choice is the default.
  std::string choice(const std::string& key, std::initializer_list<const char*> choices) const {
    const std::string value = text(key, *choices.begin());
    std::string allowed;
    for (const char* name : choices) {
      if (value == name) return value;
      allowed += (allowed.empty() ? "one of " : ", ") + std::string(name);
    }
    refuse(key, allowed);
  }

  Dtype output_dtype() const { return dtype_from(choice("dtype", {"f64", "f32", "f16", "bf16"})); }

 private:
  /// Far above any use, and twice it, or it plus a position, still fits int64.
  static constexpr double kLargestInteger = 9007199254740992.0;

  [[noreturn]] void refuse(const std::string& key, const std::string& allowed) const {
    throw Refused(key + ": " + allowed + " expected, got " +
                  (has(key) ? json_[key].dump() : "nothing"));
  }

  nlohmann::json json_;
};

}  // namespace posproof::plain
