#include <algorithm>
#include <set>

#include "conformance/verify.hpp"
#include "reference/core/registry.hpp"

namespace posproof {
namespace {

/// A parameter on which right implementations differ, as a case declares it.
struct Convention {
  std::string parameter, kind, declared;
  std::vector<std::string> others;
  bool operator<(const Convention& other) const {
    return std::tie(parameter, declared) < std::tie(other.parameter, other.declared);
  }
};

void add_conventions(const Operation& operation, const Parameters& parameters,
                     const std::string& prefix, std::set<Convention>& all) {
  for (const ParameterSpec& spec : operation.parameters) {
    if (spec.convention_kind.empty()) continue;
    Convention convention{prefix + spec.name, spec.convention_kind, parameters.text(spec.name), {}};
    for (const std::string& choice : spec.choices)
      if (choice != convention.declared) convention.others.push_back(choice);
    all.insert(convention);
  }
}

std::set<Convention> conventions_of(const Case& asked) {
  const Operation& operation = find_operation(asked.operation);
  const Parameters parameters = checked_parameters(operation, asked.parameters);
  std::set<Convention> all;
  add_conventions(operation, parameters, "", all);
  if (operation.calls)
    for (const auto& [place, called] : operation.calls(parameters)) {
      const Operation& inner = find_operation(called);
      const auto pointer = pointer_to(place);
      const nlohmann::json given = asked.parameters.contains(pointer) ? asked.parameters.at(pointer)
                                                                      : nlohmann::json::object();
      add_conventions(inner, checked_parameters(inner, given), place + ".", all);
    }
  return all;
}

/// Is the answer right, had the case declared `value`?
bool right_under(const Case& asked, const Answer& answer, const std::string& parameter,
                 const std::string& value) {
  nlohmann::json parameters = asked.parameters;
  parameters[pointer_to(parameter)] = value;
  try {
    const Expectation expectation = expectation_of(asked.operation, parameters, asked.inputs);
    return malformed(expectation, answer.outputs).empty() &&
           judge(expectation, asked.inputs, answer.outputs).pass;
  } catch (const Refused&) {
    return false;
  }
}

}  // namespace

void recognise_conventions(const std::vector<Case>& cases, const std::vector<Answer>& answers,
                           Report& report) {
  std::map<std::string, std::vector<std::size_t>> failing;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (report.results[i].verdict == Verdict::fail && !cases[i].must_be_refused &&
        answers[i].kind == Answer::Kind::outputs && report.results[i].message.empty())
      failing[cases[i].operation].push_back(i);

  for (const auto& [operation, all] : failing) {
    std::size_t total = 0, unrefused = 0;
    for (std::size_t i = 0; i < cases.size(); ++i)
      if (cases[i].operation == operation && report.results[i].verdict == Verdict::fail)
        ++(cases[i].must_be_refused ? unrefused : total);
    if (total != all.size()) continue;  // something no convention explains
    // Per parameter: the cases by the value that they declare.
    std::map<std::string, std::map<Convention, std::vector<std::size_t>>> by_parameter;
    for (std::size_t i : all)
      for (const Convention& convention : conventions_of(cases[i]))
        by_parameter[convention.parameter][convention].push_back(i);
    for (const auto& [parameter, declared] : by_parameter) {
      std::size_t covered = 0;
      std::vector<Diagnosis> found;
      for (const auto& [convention, members] : declared) {
        for (const std::string& other : convention.others)
          if (std::all_of(members.begin(), members.end(),
                          [&, &parameter = parameter](std::size_t i) {
                            return right_under(cases[i], answers[i], parameter, other);
                          })) {
            covered += members.size();
            found.push_back(
                {convention.kind,
                 other + " " + parameter + " where " + convention.declared + " was declared",
                 parameter, convention.declared, other,
                 "right in every failing case that declared " + convention.declared +
                     ", if you meant " + other,
                 operation, members.size(), all.size() + unrefused});
            break;
          }
      }
      if (covered != all.size()) continue;
      for (const Diagnosis& diagnosis : found)
        for (std::size_t i : declared.at({diagnosis.parameter, "", diagnosis.declared, {}})) {
          report.results[i].verdict = Verdict::convention;
          report.results[i].kind = diagnosis.kind;
          report.results[i].message = "right, if you meant " + parameter + " = " + diagnosis.actual;
        }
      report.diagnosis.insert(report.diagnosis.end(), found.begin(), found.end());
      break;
    }
  }
}

void recognise_recipes(const std::vector<Case>& cases, const std::vector<Answer>& answers,
                       const std::vector<std::optional<Expectation>>& expectations,
                       Report& report) {
  std::map<std::string, std::vector<std::size_t>> answered;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (expectations[i] && !expectations[i]->operation->recipes.empty() &&
        report.results[i].verdict == Verdict::pass)
      answered[cases[i].operation].push_back(i);

  for (const auto& [operation, members] : answered) {
    std::vector<Recipe> recipes{Recipe::exact};
    for (Recipe recipe : find_operation(operation).recipes) recipes.push_back(recipe);
    std::optional<Followed> best;
    for (Recipe recipe : recipes) {
      std::vector<std::uint8_t> follows(members.size());
      in_parallel(members.size(), [&, &members = members](std::size_t m) {
        const std::size_t i = members[m];
        if (recipe == Recipe::exact) {
          follows[m] = judge_by_recipe(*expectations[i], cases[i].inputs, answers[i].outputs).pass;
          return;
        }
        follows[m] = judge_by_recipe(expectation_of(cases[i].operation, cases[i].parameters,
                                                    cases[i].inputs, recipe),
                                     cases[i].inputs, answers[i].outputs)
                         .pass;
      });
      Followed followed{recipe, 0, {}};
      for (std::size_t m = 0; m < members.size(); ++m)
        if (follows[m])
          ++followed.cases;
        else
          followed.exceptions.push_back(cases[members[m]].id);
      if (2 * followed.cases > members.size() && (!best || followed.cases > best->cases))
        best = followed;
      if (best && best->exceptions.empty()) break;
    }
    if (best) report.recipes.emplace(operation, *best);
  }
}

}  // namespace posproof
