#include "reference/core/grade.hpp"

namespace posproof {
namespace {

constexpr double kF64 = 0x1p-53, kF32 = 0x1p-24;

}  // namespace

std::string name(Grade grade, bool has_phase) {
  if (!has_phase) return grade == Grade::P0 ? "exact" : "bound";
  return "P" + std::to_string(static_cast<int>(grade));
}

Grade grade_from(const std::string& name) {
  for (Grade grade : {Grade::P0, Grade::P1, Grade::P2, Grade::P3})
    if (posproof::name(grade, true) == name) return grade;
  throw std::invalid_argument("grade: '" + name + "' is not one of P0, P1, P2, P3");
}

Rounding rounding_of(Grade grade, Dtype dtype, bool has_phase) {
  Rounding rounding;
  rounding.output = format_of(dtype);
  const double own = rounding.output.unit_roundoff();
  rounding.compute = dtype == Dtype::f64 ? kF64 : kF32;
  rounding.underflow = format_of(dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32).smallest();
  if (has_phase) {
    rounding.phase = grade == Grade::P1 ? kF64 : kF32;
    rounding.trig = rounding.phase;
    rounding.stored = grade == Grade::P3 ? own : 0;
  } else {
    rounding.stored = is_16_bit(dtype) ? own : 0;
  }
  return rounding;
}

Rounding rounding_of_recipe(Dtype dtype) {
  Rounding rounding = rounding_of(is_16_bit(dtype) ? Grade::P3 : Grade::P2, dtype, true);
  rounding.phase = 0;
  return rounding;
}

std::vector<Grade> possible_grades(const Operation& operation, const Parameters& parameters,
                                   Dtype dtype) {
  if (!operation.has_phase(parameters))
    return operation.bound ? std::vector{Grade::P0, Grade::P1} : std::vector{Grade::P0};
  std::vector<Grade> grades{Grade::P0, Grade::P1, Grade::P2};
  if (operation.has_float_inputs(parameters) && is_16_bit(dtype)) grades.push_back(Grade::P3);
  return grades;
}

}  // namespace posproof
