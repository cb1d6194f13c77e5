#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "conformance/serve.hpp"
#include "conformance/subprocess.hpp"
#include "fixtures/core/tensor_json.hpp"

namespace posproof {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Kind = Answer::Kind;
using Texts = std::vector<std::pair<std::string, std::string>>;

constexpr milliseconds kPatience{20000};  // for programs that answer: a loaded machine is slow
constexpr milliseconds kShort{600};       // for programs that never do

/// What every program below begins with. `first_life` is false once it has been started anew.
constexpr char kPrelude[] = R"(#!/usr/bin/python3
import json, os, signal, sys, time
os.chdir(os.path.dirname(os.path.abspath(__file__)))
def note(name, text=""):
    with open(name + ".new", "w") as file: file.write(text)
    os.rename(name + ".new", name)
first_life = not os.path.exists("lived")
note("lived")
def write(text): sys.stdout.write(text); sys.stdout.flush()
def say(answer): write(json.dumps(answer) + "\n")
def start(**more):
    assert json.loads(sys.stdin.readline()) == {"cmd": "start", "protocol": 1}
    say({"protocol": 1, "implementation": {"name": "mini", "version": "1", "language": "python"},
         "operations": {}, **more})
def requests():
    for line in sys.stdin:
        if json.loads(line)["cmd"] == "stop": return note("stopped")
        yield json.loads(line)
def right(r): return {"id": r["id"], "outputs": r["inputs"]}
def tensor(data): return {"y": {"dtype": "f32", "shape": [1], "data": data}}
)";

/// A program in a folder of its own.
class Script {
 public:
  explicit Script(const std::string& body) {
    std::string pattern = (std::filesystem::temp_directory_path() / "posproofXXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    std::ofstream(folder_ / "mini.py") << kPrelude << body << "\n";
    std::filesystem::permissions(folder_ / "mini.py", std::filesystem::perms::owner_all);
  }
  ~Script() { std::filesystem::remove_all(folder_); }
  std::string command() const { return "'" + (folder_ / "mini.py").string() + "'"; }
  bool noted(const char* name) const { return std::filesystem::exists(folder_ / name); }
  pid_t noted_pid(const char* name) const {
    for (int i = 0; i < 2000 && !noted(name); ++i) std::this_thread::sleep_for(milliseconds(10));
    pid_t pid = 0;
    std::ifstream(folder_ / name) >> pid;
    return pid;
  }

 private:
  std::filesystem::path folder_;
};

/// Does `first` with every request of its first life, and answers rightly afterwards.
std::string at_first(const std::string& first) {
  return "start()\nfor r in requests():\n  if first_life: " + first + "\n  else: say(right(r))";
}

const Request kRequest{"mine", json::object(), {{"x", Tensor(Dtype::f32, {2}, {0.1, -0.0})}}};

/// The answer to start, then to each request; `timeout` is for the last.
std::vector<Answer> answers(const std::string& command, const std::vector<Request>& requests,
                            milliseconds timeout = kPatience) {
  Subprocess program(command);
  std::vector<Answer> all{program.start(requests.empty() ? timeout : kPatience)};
  for (const Request& request : requests)
    all.push_back(program.run(request, &request == &requests.back() ? timeout : kPatience));
  return all;
}

testing::AssertionResult says(const Answer& answer, Kind kind, const std::string& part) {
  json(answer.message).dump();  // throws when a report could not hold it
  if (answer.kind == kind && answer.message.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << static_cast<int>(answer.kind) << ": " << answer.message;
}

testing::AssertionResult is_right(const Answer& answer) {
  if (answer.outputs.count("x") && answer.outputs.at("x").identical(kRequest.inputs.at("x")))
    return says(answer, Kind::outputs, "");
  return testing::AssertionFailure() << static_cast<int>(answer.kind) << ": " << answer.message;
}

/// Whether the process goes within five seconds; somebody else's zombie has gone.
bool ends(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    if (!(file >> number >> name >> state) || state == "Z" || state == "X") return pid > 0;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

bool has_no_child() { return waitpid(-1, nullptr, WNOHANG) == -1; }

TEST(Protocol, commands_are_split_as_a_shell_does) {
  for (const auto& [command, words] :
       Texts{{" a \t 'b c' \"d e\" f\\ g a'b'\"c\"d it\\'s\n", "a|b c|d e|f g|abcd|it's|"},
             {R"('' "" "a\"b\\c\d$x" 'e\f$y' $z *)", R"(||a"b\c\d$x|e\f$y|$z|*|)"}}) {
    std::string joined;
    for (const std::string& word : split_words(command)) joined += word + "|";
    EXPECT_EQ(joined, words);
  }
  for (const char* command : {"", "  ", "a 'b", "a \"b", R"(a "b\")"})
    EXPECT_THROW(split_words(command), std::invalid_argument) << command;
}

TEST(Protocol, a_program_that_cannot_be_started_is_named_with_the_reason) {
  for (const auto& [program, reason] :
       Texts{{"no-such", "No such file or directory"}, {"/etc/passwd", "Permission denied"}})
    try {
      Subprocess started(program + " --x");
      ADD_FAILURE() << program;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "cmd: " + program + " cannot be started: " + reason);
    }
  EXPECT_TRUE(has_no_child());
}

struct Row {
  std::string first;
  Kind kind;
  std::string message;
};

TEST(Protocol, a_bad_start_gets_the_verdict_for_it) {
  for (const Row& row :
       std::vector<Row>{{"false", Kind::crash, "exit status 1 before an answer, received nothing"},
                        {"true", Kind::crash, "exit status 0"},
                        {"printf half", Kind::crash, "received 'half'"},
                        {"sh -c 'kill -9 $$'", Kind::crash, "signal 9 (Killed)"},
                        {"cat", Kind::broken, R"(received '{"cmd":"start","protocol":1}')"},
                        {"yes", Kind::broken, "no JSON object: 'y'"},
                        {"sleep 1000", Kind::timeout, "no answer in 0.6 s, received nothing"}})
    EXPECT_TRUE(says(answers(row.first, {}, row.kind == Kind::timeout ? kShort : kPatience)[0],
                     row.kind, row.message))
        << row.first;
  EXPECT_TRUE(says(answers(Script("print('hi')\nstart()").command(), {})[0], Kind::broken, "'hi'"));
  for (const auto& [more, message] :
       Texts{{"protocol=2", "protocol: found 2, allowed is 1"},
             {"implementation='mini'", "implementation: found \"mini\""},
             {"implementation={}", "implementation.name: found nothing, allowed is a string"},
             {"implementation={'name': 'a\\x1b[2J'}", "allowed is a string without control"},
             {"base64='yes'", "base64: found \"yes\", allowed is true or false"},
             {"operations=['a']", "operations: found [\"a\"]"},
             {"operations={'a': 3}", "operations.a: found 3"},
             {"operations={'a': {'dtypes': 'f32'}}", "operations.a.dtypes: found \"f32\""},
             {"operations={'a': {'dtypes': ['float']}}", "operations.a.dtypes: found \"float\""},
             {"operations={'a': {'parameters': []}}", "operations.a.parameters: found []"},
             {"operations={'a': {'parameters': {'b': 1}}}", "operations.a.parameters.b: found 1"},
             {"operations={'a': {'parameters': {'~': []}}}", "a.parameters: found \"~\""}})
    EXPECT_TRUE(says(answers(Script("start(" + more + ")\nsys.stdin.read()").command(), {})[0],
                     Kind::broken, message))
        << more;
}

TEST(Protocol, a_broken_answer_gets_the_verdict_for_it_and_the_program_is_started_anew) {
  for (const Row& row : std::vector<Row>{
           {R"(write('{"id":1,"ou'); os._exit(3))", Kind::crash,
            R"(exit status 3 before an answer, received '{"id":1,"ou')"},
           {R"(write('{"id":1,"ou'); time.sleep(99))", Kind::timeout, R"(received '{"id":1,"ou')"},
           {"time.sleep(99)", Kind::timeout, "no answer in 0.6 s, received nothing"},
           {"os.kill(os.getpid(), 11)", Kind::crash, "signal 11 (Segmentation fault)"},
           {"os.close(1); time.sleep(99)", Kind::crash, "its output closed, the program killed"},
           // A grandchild that keeps the pipe open must not make a timeout of the crash.
           {"os.fork() and os._exit(4); time.sleep(99)", Kind::crash, "exit status 4"},
           {R"(write('gar\tbage\n'))", Kind::broken, "no JSON object: 'gar bage'"},
           {R"(os.write(1, b'\xff\x00' + b'\xc3\xa9' * 99 + b'\n'))", Kind::broken, "'\ufffd éé"},
           {"write('[1]\\n')", Kind::broken, "no JSON object: '[1]'"},
           {"say({'id': 1, 'outputs': float('nan')})", Kind::broken, "NaN"},
           {"say({**right(r), 'id': 7})", Kind::broken, R"(asked id 1, received '{"id": 7)"},
           {"say({'error': 'lost'})", Kind::broken,
            R"(asked id 1, received '{"error": "lost"})"}}) {
    const Script script(at_first(row.first));
    Subprocess program(script.command());
    ASSERT_EQ(program.start(kPatience).kind, Kind::outputs);
    const auto timeout = row.kind == Kind::timeout ? kShort : kPatience;
    EXPECT_TRUE(says(program.run(kRequest, timeout), row.kind, row.message)) << row.first;
    EXPECT_TRUE(is_right(program.run(kRequest, kPatience))) << row.first;
  }
}

TEST(Protocol, an_orderly_answer_does_not_start_the_program_anew) {
  for (const Row& row : std::vector<Row>{
           {"'unsupported': 'no yarn'", Kind::unsupported, "no yarn"},
           {"'refused': 'odd\\nrotary_dim'", Kind::refused, "odd rotary_dim"},
           {"'error': {'code': 3}", Kind::error, R"({"code":3})"},
           {"'nothing': 1", Kind::broken, "neither outputs nor"},
           {"'outputs': 3", Kind::broken, "outputs: found 3"},
           {"'outputs': {'y': {'dtype': 'float', 'shape': [1], 'data': [1]}}", Kind::broken,
            R"(outputs.y.dtype: found "float")"},
           {"'outputs': tensor([1, 2])", Kind::broken, "outputs.y.data: found 2 numbers"},
           {"'outputs': tensor('AA?AAA==')", Kind::broken, R"(outputs.y.data: found "AA?AAA==")"},
           {"'outputs': tensor('AACA')", Kind::broken, R"(outputs.y.data: found "AACA")"}}) {
    const Script script(at_first("say({'id': r['id'], " + row.first + "})"));
    const auto got = answers(script.command(), {kRequest, kRequest});
    EXPECT_TRUE(says(got[1], row.kind, row.message)) << row.first;
    EXPECT_TRUE(says(got[2], row.kind, row.message)) << row.first;
  }
}

TEST(Protocol, a_program_that_dies_on_its_third_case_loses_that_case_only) {
  const Script script(
      "start()\nfor n, r in enumerate(requests()): n < 2 or os._exit(1); say(right(r))");
  const auto got = answers(script.command(), std::vector<Request>(7, kRequest));
  for (int n = 1; n <= 7; ++n)
    EXPECT_TRUE(n % 3 ? is_right(got[n]) : says(got[n], Kind::crash, "exit status 1")) << n;
}

TEST(Protocol, a_line_too_many_is_noticed_at_the_next_case) {
  const Script script(at_first("say(right(r)); say(right(r))"));
  const auto got = answers(script.command(), {kRequest, kRequest, kRequest});
  EXPECT_TRUE(is_right(got[1]));
  EXPECT_TRUE(says(got[2], Kind::broken, "asked id 2, received '{\"id\": 1"));
  EXPECT_TRUE(is_right(got[3]));
}

TEST(Protocol, a_program_that_does_not_start_again_gives_the_case_that_failure) {
  const Script dies("first_life or os._exit(4)\n" + at_first("os._exit(3)"));
  EXPECT_TRUE(says(answers(dies.command(), {kRequest, kRequest})[2], Kind::crash,
                   "at its new start: exit status 4"));
  const Script vanishes(at_first("os.unlink('mini.py'); os._exit(3)"));
  EXPECT_TRUE(says(answers(vanishes.command(), {kRequest, kRequest})[2], Kind::crash,
                   "cannot be started: No such file or directory"));
}

TEST(Protocol, large_and_slow_lines_block_neither_side) {
  Request large = kRequest;  // 20 MB of JSON
  large.inputs["x"] = Tensor(Dtype::f32, {1'000'000}, std::vector<double>(1'000'000, 0.1));
  const Script deaf(at_first("say(right(r)); time.sleep(99)"));
  EXPECT_TRUE(says(answers(deaf.command(), {kRequest, large}, kShort)[2], Kind::timeout, "0.6 s"));
  const Script gone(at_first("say(right(r)); os._exit(0)"));  // SIGPIPE would end this test
  EXPECT_TRUE(says(answers(gone.command(), {kRequest, large})[2], Kind::crash, "exit status 0"));
  const Script hasty(  // 16 MB of answer before it reads the request
      "start()\nsay({'id': 1, 'outputs': {'x': {**tensor('AACA' * 4000000)['y'], "
      "'shape': [3000000]}}})\nfor r in requests(): pass");
  const auto got = answers(hasty.command(), {large})[1];
  EXPECT_TRUE(says(got, Kind::outputs, ""));
  EXPECT_EQ(got.outputs.count("x") ? got.outputs.at("x").size() : 0, 3'000'000u);
  const Script slow(
      at_first("[os.write(1, bytes([b])) for b in json.dumps(right(r)).encode() + b'\\n']"));
  EXPECT_TRUE(is_right(answers(slow.command(), {kRequest})[1]));
}

TEST(Protocol, a_program_is_told_to_stop_and_leaves_nothing_behind) {
  const Script good(at_first("say(right(r))"));
  EXPECT_TRUE(is_right(answers(good.command(), {kRequest, kRequest})[2]));
  EXPECT_TRUE(good.noted("stopped"));
  const Script stubborn(
      "signal.signal(15, signal.SIG_IGN)\nstart()\nchild = os.fork()\n"
      "note('parent' if child else 'child', str(os.getpid()))\ntime.sleep(99)");
  pid_t parent = 0, child = 0;
  {
    Subprocess program(stubborn.command());
    EXPECT_TRUE(says(program.start(kPatience), Kind::outputs, ""));
    parent = stubborn.noted_pid("parent");
    child = stubborn.noted_pid("child");
  }
  EXPECT_TRUE(ends(parent) && ends(child));
  EXPECT_TRUE(has_no_child());
  const Script orphan("note('orphan', str(os.getpid()))\ntime.sleep(99)");
  if (const pid_t suite = fork(); suite == 0) {  // a suite that is killed
    const Subprocess program(orphan.command());
    _exit(orphan.noted_pid("orphan") > 0 ? 0 : 1);
  } else {
    waitpid(suite, nullptr, 0);
  }
  EXPECT_TRUE(ends(orphan.noted_pid("orphan")));
}

TEST(Protocol, a_program_is_described_and_asked_as_it_says) {
  const json description = json::parse(
      R"({"protocol":1,"implementation":{"name":"m","version":"2","language":"c"},"base64":true,)"
      R"("operations":{"a":{"dtypes":["f32"],"parameters":{"b.c":[1,null,"d"]}},"e":{}}})");
  EXPECT_EQ(to_json(description_from_json(description)), description);
  for (const auto& [base64, tensor] : Texts{{"True", "'data': 'zczMPQAAAIA=',"},
                                            {"False", "'data': [0.10000000149011612, '-0'],"}}) {
    const Script script("start(base64=" + base64 +
                        ")\nfor r in requests(): say({'id': r['id'], 'error': str(r)})");
    const auto got = answers(script.command(), {kRequest, kRequest});
    EXPECT_TRUE(says(got[1], Kind::error, "{'cmd': 'run', 'id': 1, 'inputs': {'x': {" + tensor));
    EXPECT_TRUE(says(got[2], Kind::error, "'operation': 'mine', 'parameters': {}}"));
    EXPECT_TRUE(says(got[2], Kind::error, "'id': 2,"));
  }
}

TEST(Protocol, a_declaration_excludes_what_it_does_not_list) {
  const Description has = description_from_json(json::parse(
      R"({"protocol":1,"implementation":{"name":"m","version":"2","language":"c"},"operations":{
          "a":{"dtypes":["f32"],"parameters":{"layout":["half"],"scaling.factor":[1,2],"x.y":[]}},
          "b":{}}})"));
  const auto why = [&has](const char* operation, const char* parameters, const char* dtype) {
    return declared_unsupported(has, operation, json::parse(parameters), dtype);
  };
  EXPECT_EQ(why("a", R"({"layout":"half","scaling":{"factor":2.0},"head_dim":4})", "f32"), "");
  EXPECT_EQ(why("a", R"({"scaling":{}})", ""), "");
  EXPECT_EQ(why("a", "{}", "int64"), "");  // dtypes are the float types it takes
  EXPECT_EQ(why("b", R"({"layout":"interleaved"})", "bf16"), "");
  EXPECT_EQ(why("c", "{}", "f32"), "does not declare c");
  EXPECT_EQ(why("a", "{}", "f64"), "does not declare f64 for a");
  EXPECT_EQ(why("a", R"({"layout":"interleaved"})", "f32"),
            "does not declare layout = \"interleaved\" for a");
  EXPECT_EQ(why("a", R"({"scaling":{"factor":3}})", "f32"),
            "does not declare scaling.factor = 3 for a");
  EXPECT_EQ(why("a", R"({"x":{"y":null}})", "f32"), "does not declare x.y = null for a");
  EXPECT_EQ(why("a", R"({"x":[1],"scaling":"none"})", "f32"), "");
}

/// Answers with its inputs, or as the operation's name says.
class Echo : public Implementation {
 public:
  Answer start(milliseconds) override { return {Kind::outputs, {}, ""}; }
  const Description& description() const override { return description_; }
  Answer run(const Request& request, milliseconds timeout) override {
    if (request.operation == "throws") throw std::out_of_range("thrown");
    if (request.operation == "refuses") return {Kind::refused, {}, "refused \xff"};
    if (request.operation == "lacks") return {Kind::unsupported, {}, "lacking"};
    if (request.operation == "hangs")
      return {Kind::timeout, {}, std::to_string(timeout.count()) + " ms"};
    return {Kind::outputs, request.inputs, ""};
  }

 private:
  Description description_{"echo", "1", "C++", false, {{"echo", {}}}};
};

TEST(Serve, answers_each_line_and_ends_at_stop) {
  const std::string begin = R"({"id":7,"cmd":"run","operation":)";
  const Texts lines{
      {R"({"cmd":"start","protocol":1})",
       R"({"base64":true,"implementation":{"language":"C++","name":"echo","version":"1"},)"
       R"("operations":{"echo":{}},"protocol":1})"},
      {begin + R"("echo","inputs":{"x":{"dtype":"f32","shape":[2],"data":[1,"-0"]}}})",
       R"({"id":7,"outputs":{"x":{"data":[1.0,"-0"],"dtype":"f32","shape":[2]}}})"},
      {begin + R"("echo","inputs":{"x":{"dtype":"f32","shape":[1],"data":"AACAPw=="}}})",
       R"({"id":7,"outputs":{"x":{"data":"AACAPw==","dtype":"f32","shape":[1]}}})"},
      {begin + R"("echo"})", R"({"id":7,"outputs":{}})"},
      {begin + R"("lacks"})", R"({"id":7,"unsupported":"lacking"})"},
      {begin + R"("refuses"})", "{\"id\":7,\"refused\":\"refused \ufffd\"}"},
      {begin + R"("throws"})", R"({"error":"thrown","id":7})"},
      {begin + R"("hangs"})", R"({"error":"1500 ms","id":7})"},
      {begin + "3}", R"({"error":"operation: found 3, allowed is a string","id":7})"},
      {begin + R"("echo","inputs":3})",
       R"({"error":"inputs: found 3, allowed is an object of tensors","id":7})"},
      {R"({"id":"a","cmd":"walk"})",
       R"({"error":"allowed is a JSON object with cmd start, run or stop","id":"a"})"},
      {R"({"id":7,"cmd":)",
       R"({"error":"allowed is a JSON object with cmd start, run or stop","id":null})"},
      {"[7]", R"({"error":"allowed is a JSON object with cmd start, run or stop","id":null})"}};
  std::stringstream in, out;
  for (const auto& [line, answer] : lines) in << line << "\n";
  in << "{\"cmd\":\"stop\"}\n" << begin << "\"echo\"}\n";
  Echo echo;
  EXPECT_EQ(serve(echo, in, out, milliseconds(1500)), 0);
  std::string line;
  for (const auto& [asked, answer] : lines) {
    std::getline(out, line);
    EXPECT_EQ(line, answer) << asked;
  }
  EXPECT_FALSE(std::getline(out, line));
}

}  // namespace
}  // namespace posproof
