#include <iostream>

#include "conformance/bugs/core/kill_matrix.hpp"
#include "conformance/bugs/core/kinds.hpp"
#include "fixtures/core/files.hpp"

namespace {

constexpr const char* kUsage =
    "usage: kill_matrix check|write [ROOT]\n"
    "  check  compare conformance/kills.json, docs/kill-matrix.md and docs/bug-kinds.md with what\n"
    "         is so\n"
    "  write  write them anew\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace posproof;
  const std::string command = argc > 1 ? argv[1] : "";
  if (argc > 3 || (command != "check" && command != "write")) {
    std::cerr << kUsage;
    return 2;
  }
  const std::filesystem::path root = argc > 2 ? argv[2] : ".";
  try {
    const bugs::KillMatrix matrix = bugs::kill_matrix();
    std::vector<std::string> faults = matrix.faults();
    const std::pair<std::filesystem::path, std::string> files[]{
        {root / "conformance/kills.json", matrix.json().dump(1) + "\n"},
        {root / "docs/kill-matrix.md", matrix.markdown()},
        {root / "docs/bug-kinds.md", bugs::kinds_markdown()}};
    for (const auto& [file, content] : files)
      if (command == "write")
        write_aside(file, content);
      else if (!std::filesystem::exists(file) || read_file(file) != content)
        faults.push_back(file.string() + ": is not what `kill_matrix write` writes");
    for (const std::string& fault : faults) std::cout << fault << "\n";
    std::cout << matrix.models.size() << " models, " << matrix.right.size() << " right variations, "
              << matrix.cases.size() << " cases: " << faults.size() << " faults\n";
    return faults.empty() && !matrix.models.empty() && !matrix.right.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "kill_matrix: " << error.what() << "\n";
    return 2;
  }
}
