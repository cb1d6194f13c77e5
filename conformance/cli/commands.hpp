#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace posproof {

/// A mistake in the call or its files: printed as it is, exit status 2.
class CallError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a subcommand does once its line is parsed: the exit status.
using Command = std::function<int()>;

Command add_verify(CLI::App& app);
Command add_compute(CLI::App& app);
Command add_serve(CLI::App& app);
Command add_prove(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_list(CLI::App& app);
Command add_fixtures(CLI::App& app);

}  // namespace posproof
