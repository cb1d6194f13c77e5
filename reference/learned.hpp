#pragma once

#include "reference/core/operation.hpp"

namespace posproof::reference::learned {

/// The row that a position reads: position + offset (OPT and BART have offset 2), and
/// + padding_idx + 1 when padding_idx is given (RoBERTa). Outside the table: refused.
inline std::size_t row_of(const Parameters& p, std::int64_t position, std::size_t rows) {
  const std::int64_t row =
      position + p.integer("offset") + (p.has("padding_idx") ? p.integer("padding_idx") + 1 : 0);
  if (position < 0)
    throw Refused("positions: found " + std::to_string(position) + ", allowed is >= 0");
  if (row < 0 || row >= static_cast<std::int64_t>(rows))
    throw Refused("positions: found " + std::to_string(position) + ", which reads row " +
                  std::to_string(row) + "; allowed are rows 0 to " + std::to_string(rows - 1));
  return static_cast<std::size_t>(row);
}

/// rows[t] = table[row_of(positions[t])], bit for bit (Gehring et al. 2017; Devlin et al. 2018).
struct Embed {
  template <class R>
  Outputs<R> operator()(const Parameters& p, const Inputs<R>& in, Recipe) const {
    const auto& table = in.real("table");
    const auto& positions = in.integers("positions");
    const std::size_t width = table.shape(1);
    Output<R> rows({positions.size(), width});
    for (std::size_t t = 0; t < positions.size(); ++t) {
      const std::size_t row = row_of(p, positions(t), table.shape(0));
      for (std::size_t lane = 0; lane < width; ++lane)
        rows.copy(t * width + lane, "table", table, row * width + lane);
    }
    return {{"rows", rows}};
  }
};

}  // namespace posproof::reference::learned
