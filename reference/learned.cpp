#include "reference/learned.hpp"

namespace posproof::reference::learned {

/// No table has more rows, and row numbers stay far from the end of int64.
constexpr double kLargest = 0x1p31;

Scheme scheme() {
  Operation embed;
  embed.name = "learned.embed";
  embed.summary = "Rows of a learned table, read by position.";
  embed.source = "Gehring et al. 2017, arXiv:1705.03122, section 3.1";
  embed.parameters = {
      integer("offset", 0).must_be_at_least(-kLargest).must_be_at_most(kLargest),
      optional_integer("padding_idx").must_be_at_least(0).must_be_at_most(kLargest)};
  embed.inputs = [](const Parameters&) {
    return std::vector<InputSpec>{{"table", InputSpec::Kind::real, {"N", "d"}},
                                  {"positions", InputSpec::Kind::position, {"T"}, false, "N"}};
  };
  embed.independent = {"T", "d"};
  embed.outputs = {{"rows", {"T", "d"}}};
  embed.has_phase = [](const Parameters&) { return false; };
  embed.formula = in_every_arithmetic(Embed{});
  return {"learned",
          "Learned absolute position embedding",
          "Gehring et al. 2017, arXiv:1705.03122",
          {embed}};
}

}  // namespace posproof::reference::learned
