#include <iostream>

#include "conformance/child.hpp"
#include "conformance/cli/commands.hpp"
#include "reference/core/parameters.hpp"

int main(int argc, char** argv) {
  using namespace posproof;
  end_child_on_signals();
  CLI::App app{"Proves positional encodings right.", "posproof"};
  app.set_version_flag("--version", "posproof " POSPROOF_VERSION);
  app.require_subcommand(1);
  app.footer(
      "IMPLEMENTATION is builtin:reference, plain, plain64, optimized, scalar, avx2 or avx512, or\n"
      "cmd:\"python3 mine.py\", a program that speaks the line protocol.\n"
      "Exit status: 0 all is well; 1 something failed or nothing ran; 2 the call or its files are "
      "wrong.");
  const std::vector<std::pair<CLI::App*, Command>> commands = [&app] {
    std::vector<std::pair<CLI::App*, Command>> all;
    const auto add = [&](const char* name, const char* help, Command (*make)(CLI::App&)) {
      CLI::App* command = app.add_subcommand(name, help);
      all.emplace_back(command, make(*command));
    };
    add("verify", "Judge an implementation.", add_verify);
    add("compute", "Print the true value of an operation.", add_compute);
    add("serve", "Speak the line protocol: an oracle for a test in any language.", add_serve);
    add("prove", "Show that the kernels round correctly at every position.", add_prove);
    add("bench", "Time the kernels beside the cheapest programs that move the same bytes, and peers.",
        add_bench);
    add("list", "List schemes, operations and their parameters.", add_list);
    add("fixtures", "Generate or check the stored cases.", add_fixtures);
    return all;
  }();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    for (const auto& [subcommand, command] : commands)
      if (subcommand->parsed()) {
        const int status = command();
        if (std::cout.flush()) return status;
        std::cerr << "posproof: standard output cannot be written\n";
        return 2;
      }
  } catch (const Refused& refused) {
    std::cerr << "posproof: refused: " << refused.what() << "\n";
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr << "posproof: not enough memory for what was asked\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "posproof: " << error.what() << "\n";
    return 2;
  }
  return 2;
}
