#include <gtest/gtest.h>

#include <set>

#include "conformance/bugs/core/kill_matrix.hpp"
#include "conformance/bugs/core/kinds.hpp"
#include "conformance/bugs/core/right.hpp"

namespace posproof::bugs {
namespace {

const BugModel& model_named(const std::string& kind) {
  for (const BugModel& model : all_models())
    if (model.kind == kind) return model;
  throw std::logic_error("no model " + kind);
}

TEST(Kinds, are_135_each_modelled_waiting_or_not_expressible) {
  std::set<std::string> ids, modelled;
  for (const BugModel& model : all_models()) modelled.insert(model.kind);
  for (const Kind& kind : kinds()) {
    EXPECT_TRUE(ids.insert(kind.id).second) << kind.id;
    const int ways = static_cast<int>(modelled.count(kind.id)) + (*kind.waits_for != 0) +
                     (*kind.not_expressible != 0);
    EXPECT_EQ(ways, 1) << kind.id;
  }
  EXPECT_EQ(ids.size(), 135u);
  for (const std::string& kind : modelled) EXPECT_TRUE(ids.count(kind)) << kind;
}

/// A matrix that proves nothing is found out.
TEST(KillMatrix, finds_survivors_idle_cases_and_what_kills_the_right) {
  Case useful, idle, kept;
  useful.id = "useful";
  idle.id = "idle";
  kept.id = "kept";
  kept.flags = {"Boundary"};
  for (Case* each : {&useful, &idle, &kept}) each->operation = "rope.apply";
  KillMatrix matrix;
  matrix.cases = {useful, idle, kept};
  matrix.models = {{"K-RL1", {"useful"}, {"rope/law"}, false}};
  matrix.right = {{"f32", {}, {}, false}};
  EXPECT_EQ(matrix.faults().size(), 1u);
  EXPECT_NE(matrix.faults()[0].find("case idle kills nothing"), std::string::npos);
  matrix.models.push_back({"K-RL6", {}, {"rope/law"}, false});
  EXPECT_EQ(matrix.faults().size(), 2u);
  matrix.models.push_back({"K-RL9", {}, {}, false});
  EXPECT_EQ(matrix.faults().size(), 4u);
  matrix.right = {{"f32", {"kept"}, {"rope/law"}, false}};
  EXPECT_EQ(matrix.faults().size(), 6u);
}

TEST(LlamaCpp, s_check_passes_what_is_right_and_misses_the_layout) {
  const RightVariation unbent{"right", {"rope.apply"}, right};
  EXPECT_TRUE(passes_llama_cpp(*implementation_of(unbent)));
  EXPECT_TRUE(passes_llama_cpp(*implementation_of(model_named("K-RL1"))));
  EXPECT_FALSE(passes_llama_cpp(*implementation_of(model_named("K-RL5"))));
}

}  // namespace
}  // namespace posproof::bugs
