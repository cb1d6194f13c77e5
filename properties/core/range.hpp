#pragma once

#include <string>

#include "reference/core/real.hpp"

namespace posproof::properties {

/// Where a true value must lie, given what an implementation answered and how it may round. Laws
/// are statements about true values; computed with ranges they enclose whatever rounding can do to
/// them.
using Range = Real60;

/// [value − limit, value + limit].
Range range_around(double value, double limit);

/// The two can be the same number. False where one is NaN.
bool meet(const Range& a, const Range& b);
/// Every number of a is less than every number of b.
bool certainly_less(const Range& a, const Range& b);

/// Half the distance between the ends, rounded up.
double radius(const Range& range);

/// "0.84147098480789651 ± 1.1e-17"
std::string shown(const Range& range);

/// RC_FAIL with both ranges when they cannot be the same number.
void require_meet(const Range& a, const Range& b, const std::string& what);

}  // namespace posproof::properties
