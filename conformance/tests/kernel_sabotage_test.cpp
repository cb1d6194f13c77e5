#include <gtest/gtest.h>

#include "conformance/tests/bent.hpp"
#include "optimized/core/isa.hpp"

namespace posproof {
namespace {

using nlohmann::json;

struct Table {
  std::string operation, output;
  json parameters;
  Tensors inputs;
};

const std::vector<Table>& tables() {
  const Tensor list = positions({0, 1, -3, 4096, 2147483647}), run = positions({5, 6, 7, 8});
  static const std::vector<Table> kTables{
      {"sinusoidal.table", "table", {{"d_model", 6}}, {{"positions", list}}},
      {"sinusoidal.table", "table", {{"d_model", 6}, {"layout", "concat"}}, {{"positions", run}}},
      {"rope.cos_sin", "cos", {{"head_dim", 6}}, {{"positions", list}}},
      {"rope.cos_sin", "sin", {{"head_dim", 6}}, {{"positions", run}}},
      {"alibi.slopes", "slopes", {{"num_heads", 12}}, {}},
      {"alibi.bias", "bias", {{"num_heads", 3}},
       {{"q_positions", positions({3})}, {"k_positions", run}}}};
  return kTables;
}

/// The neighbour of an element, one place further from 0.
void nudge(Tensor& tensor, std::size_t index) {
  if (tensor.dtype() == Dtype::f32)
    ++static_cast<std::uint32_t*>(tensor.bytes())[index];
  else
    ++static_cast<std::uint16_t*>(tensor.bytes())[index];
}

Case asked(const Table& table, Dtype dtype) {
  json parameters = table.parameters;
  parameters["dtype"] = std::string(name(dtype));
  return make_case(table.operation, parameters, table.inputs, "");
}

TEST(KernelSabotage, one_place_in_any_one_value_of_a_table_is_not_P0) {
  VerifyOptions demanding;
  demanding.demanded_grade = Grade::P0;
  for (const optimized::Isa isa : optimized::available_isas())
    for (const Table& table : tables())
      for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        const std::string inner(optimized::name(isa));
        const Case question = asked(table, dtype);
        std::size_t size = 0;
        Bent honest(
            [&](const Request&, Answer answer) {
              size = answer.outputs.at(table.output).size();
              return answer;
            },
            inner);
        const Report report = judged(honest, {question}, demanding);
        ASSERT_EQ(report.results[0].verdict, Verdict::pass) << table.operation << name(dtype);
        ASSERT_EQ(report.results[0].grade, Grade::P0) << table.operation << name(dtype);
        ASSERT_GT(size, 0u);
        for (std::size_t index = 0; index < size; ++index) {
          Bent bent(
              [&](const Request&, Answer answer) {
                nudge(answer.outputs.at(table.output), index);
                return answer;
              },
              inner);
          const Result result = judged(bent, {question}, demanding).results[0];
          EXPECT_NE(result.verdict, Verdict::pass)
              << inner << " " << table.operation << " " << name(dtype) << " " << index;
          EXPECT_NE(result.grade, Grade::P0)
              << inner << " " << table.operation << " " << name(dtype) << " " << index;
        }
      }
}

}  // namespace
}  // namespace posproof
