#include <algorithm>

#include "conformance/bugs/core/attention_steps.hpp"

namespace posproof::bugs::learned {
namespace {

const std::vector<std::string> kEmbed{"learned.embed"};

/// Rows read without a check of their own.
Outputs<double> read(const Call& call,
                     const std::function<std::int64_t(std::int64_t row, std::int64_t rows)>& row) {
  const Parameters p = checked(call);
  const auto& table = call.inputs.real("table");
  const auto& at = call.inputs.integers("positions");
  const std::int64_t first =
      p.integer("offset") + (p.has("padding_idx") ? p.integer("padding_idx") + 1 : 0);
  const std::size_t width = table.shape(1);
  Output<double> rows({at.size(), width});
  for (std::size_t t = 0; t < at.size(); ++t) {
    const std::int64_t of = row(at(t) + first, static_cast<std::int64_t>(table.shape(0)));
    if (of < 0 || of >= static_cast<std::int64_t>(table.shape(0)))
      throw Refused("positions: outside the table");
    for (std::size_t lane = 0; lane < width; ++lane)
      rows.copy(t * width + lane, "table", table, static_cast<std::size_t>(of) * width + lane);
  }
  return {{"rows", rows}};
}

Answering ignoring(const std::string& parameter) {
  return [parameter](const Call& call) {
    checked(call);
    return right(without_parameter(call, parameter));
  };
}

}  // namespace

std::vector<BugModel> models() {
  return {
      model({"K-L1", "", "the fixed offset is left out", "every token reads the vector of another",
             "add offset (2 in OPT and BART) to the position"},
            kEmbed, ignoring("offset")),
      model({"K-L2", "", "padding_idx is left out", "every token reads the vector of another",
             "add padding_idx + 1 to the position"},
            kEmbed, ignoring("padding_idx")),
      model(
          {"K-L4", "", "0, 1, … taken for the positions given",
           "padded and packed inputs read the vectors of other tokens", "use the positions given"},
          kEmbed,
          [](const Call& call) {
            return right(with_integers(call, "positions",
                                       counted(call.inputs.integers("positions").size())));
          }),
      model({"K-L3", "clamped", "positions beyond the table read its last row",
             "long inputs degrade silently", "refuse them"},
            kEmbed,
            [](const Call& call) {
              return read(call, [](std::int64_t row, std::int64_t rows) {
                return std::clamp<std::int64_t>(row, 0, rows - 1);
              });
            }),
      model({"K-L3", "wrapped", "negative positions read from the table's end",
             "a padding position of -1 reads a trained row", "refuse them"},
            kEmbed,
            [](const Call& call) {
              return read(call, [](std::int64_t row, std::int64_t rows) {
                return row < 0 ? row + rows : row;
              });
            }),
  };
}

}  // namespace posproof::bugs::learned
