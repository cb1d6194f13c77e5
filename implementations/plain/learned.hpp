#pragma once

#include "implementations/plain/given.hpp"
#include "implementations/plain/inputs.hpp"

namespace posproof::plain::learned {

/// A row of the table per position; offset 2 is OPT's and BART's, padding_idx RoBERTa's.
inline Tensors embed(const nlohmann::json& parameters, const Tensors& inputs) {
  const Given given(parameters, {"offset", "padding_idx"});
  std::int64_t shift = given.integer("offset", 0);
  if (given.has("padding_idx")) shift += given.integer("padding_idx") + 1;
  const Tensor& table = floats(inputs, "table", 2);
  const std::vector<std::int64_t> at = positions(inputs, "positions");

  const std::size_t width = table.shape()[1];
  const auto count = static_cast<std::int64_t>(table.shape()[0]);
  Tensor rows(table.dtype(), {at.size(), width});
  for (std::size_t t = 0; t < at.size(); ++t) {
    const std::int64_t row = at[t] + shift;
    if (at[t] < 0 || row < 0 || row >= count) {
      throw Refused("positions: " + std::to_string(at[t]) + " needs row " + std::to_string(row) +
                    " of a table of " + std::to_string(count) + " rows");
    }
    copy_elements(rows, t * width, table, static_cast<std::size_t>(row) * width, width);
  }
  return {{"rows", rows}};
}

}  // namespace posproof::plain::learned
