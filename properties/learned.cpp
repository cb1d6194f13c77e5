#include <numeric>

#include "properties/core/generators.hpp"
#include "properties/core/law.hpp"

namespace posproof::properties::learned {
namespace {

using nlohmann::json;

struct Reading {
  json parameters;
  std::int64_t first;  ///< the row of position 0
};

Reading drawn_reading() {
  const std::int64_t offset = *between(0, 3), padding_idx = *between(-1, 2);
  Reading reading{json::object(), offset};
  if (offset > 0) reading.parameters["offset"] = offset;
  if (padding_idx >= 0) {
    reading.parameters["padding_idx"] = padding_idx;
    reading.first += padding_idx + 1;
  }
  return reading;
}

std::vector<std::int64_t> drawn_positions(std::size_t count, std::int64_t last) {
  return *rc::gen::container<std::vector<std::int64_t>>(count, between(0, last));
}

/// Row r of a table that holds r is r. Up to 256, exact in every type.
void a_position_reads_its_row(Subject& subject) {
  const Reading reading = drawn_reading();
  const std::size_t rows = *count_between(static_cast<std::size_t>(reading.first) + 1, 256),
                    width = *count_between(1, 3);
  Tensor table(subject.drawn_dtype(), {rows, width});
  for (std::size_t i = 0; i < table.size(); ++i) table.set(i, static_cast<double>(i / width));
  std::vector<std::int64_t> at =
      drawn_positions(4, static_cast<std::int64_t>(rows) - 1 - reading.first);
  at.push_back(static_cast<std::int64_t>(rows) - 1 - reading.first);
  const Measured read = subject
                            .measure("learned.embed", reading.parameters,
                                     {{"table", table}, {"positions", integers(at)}})
                            .at("rows");
  for (std::size_t i = 0; i < read.got.size(); ++i)
    RC_ASSERT(read.got.value(i) == static_cast<double>(at[i / width] + reading.first));
  RC_CLASSIFY(reading.first > 0, "shifted");
}

void rows_keep_their_bits(Subject& subject) {
  const std::size_t rows = *count_between(1, 6), width = *count_between(1, 4);
  const Tensor table = *tensors_of_any_bits(subject.drawn_dtype(), {rows, width});
  const std::vector<std::int64_t> at = drawn_positions(3, static_cast<std::int64_t>(rows) - 1);
  const Measured read =
      subject
          .measure("learned.embed", json::object(), {{"table", table}, {"positions", integers(at)}})
          .at("rows");
  for (std::size_t i = 0; i < read.got.size(); ++i) {
    const std::size_t from = static_cast<std::size_t>(at[i / width]) * width + i % width;
    RC_ASSERT(read.got.bits(i) == table.bits(from) ||
              (std::isnan(read.got.value(i)) && std::isnan(table.value(from))));
  }
}

/// The two absolute encodings differ in where a row comes from, and in nothing else.
void equals_sinusoidal_when_its_table_is(Subject& subject) {
  const Reading reading = drawn_reading();
  const Dtype dtype = subject.drawn_dtype();
  const json sinusoidal{{"d_model", 2 * *count_between(1, 4)}, {"dtype", name(dtype)}};
  const std::int64_t last = *between(0, 40);
  std::vector<std::int64_t> all(static_cast<std::size_t>(reading.first + last + 1));
  std::iota(all.begin(), all.end(), -reading.first);
  const std::vector<std::int64_t> at = drawn_positions(3, last);
  const Measured table =
      subject.measure("sinusoidal.table", sinusoidal, {{"positions", integers(all)}}).at("table");
  const Measured direct =
      subject.measure("sinusoidal.table", sinusoidal, {{"positions", integers(at)}}).at("table");
  const Measured read = subject
                            .measure("learned.embed", reading.parameters,
                                     {{"table", table.got}, {"positions", integers(at)}})
                            .at("rows");
  const std::size_t width = read.got.shape()[1];
  for (std::size_t i = 0; i < read.got.size(); ++i) {
    const auto row = static_cast<std::size_t>(at[i / width] + reading.first);
    RC_ASSERT(read.got.bits(i) == table.got.bits(row * width + i % width));
    require_meet(range_around(read.got.value(i), table.limit[row * width + i % width]),
                 direct.range.data()[i],
                 "learned and sinusoidal row of position " + std::to_string(at[i / width]));
  }
  RC_CLASSIFY(reading.first > 0, "shifted");
}

/// A table has an end; a row is never made up, nor taken from the other end.
void a_position_outside_the_table_is_refused(Subject& subject) {
  const Reading reading = drawn_reading();
  const std::size_t rows = *count_between(static_cast<std::size_t>(reading.first) + 1, 40);
  const std::int64_t end = static_cast<std::int64_t>(rows) - reading.first;
  const bool beyond = *rc::gen::arbitrary<bool>();
  const std::int64_t by = *one_of(std::vector<std::int64_t>{0, 0, 1, 100, 1 << 30});
  const std::int64_t outside = beyond ? end + by : -1 - by;
  std::vector<std::int64_t> at = drawn_positions(2, end - 1);
  at.insert(at.begin() + *between(0, 2), outside);
  const Tensor table = *tensors(subject.drawn_dtype(), {rows, 2});
  const Answer answer = subject.ask("learned.embed", reading.parameters,
                                    {{"table", table}, {"positions", integers(at)}});
  if (answer.kind == Answer::Kind::unsupported) RC_DISCARD(answer.message);
  RC_ASSERT(answer.kind == Answer::Kind::refused || answer.kind == Answer::Kind::error);
  RC_CLASSIFY(beyond && outside == end, "just beyond");
  RC_CLASSIFY(!beyond, "negative");
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<std::string> embed{"learned.embed"};
  return {{"learned/a_position_reads_its_row", embed, a_position_reads_its_row, {"shifted"}},
          {"learned/rows_keep_their_bits", embed, rows_keep_their_bits},
          {"learned/equals_sinusoidal_when_its_table_is",
           {"learned.embed", "sinusoidal.table"},
           equals_sinusoidal_when_its_table_is,
           {"shifted"}},
          {"learned/a_position_outside_the_table_is_refused",
           embed,
           a_position_outside_the_table_is_refused,
           {"just beyond", "negative"}}};
}

}  // namespace posproof::properties::learned
