// Times ggml's CPU backend as it ships, by a library loaded at run time.
//
//   peers_ggml FOLDER   with libggml-base.so and libggml-cpu-*.so, which `install` fetches
//
// ggml 0.25's C interface is declared here as far as it is used; a known answer at the start would
// show that it has changed. Every work is a graph that is built once, as llama.cpp reuses its
// graphs.

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <random>

#include "child.h"

namespace posproof::peers {
namespace {

struct Context;
struct Tensor;
struct Graph;
struct Backend;

struct InitParams {
  std::size_t mem_size;
  void* mem_buffer;
  bool no_alloc;
};

enum Type { kF32 = 0, kF16 = 1, kI32 = 26 };
enum RopeMode { kInterleaved = 0, kHalf = 2 };

/// The functions of ggml, found by name.
struct Ggml {
  const char* (*version)();
  Context* (*init)(InitParams);
  void (*free)(Context*);
  Tensor* (*new_tensor_1d)(Context*, int type, std::int64_t);
  Tensor* (*new_tensor_2d)(Context*, int type, std::int64_t, std::int64_t);
  Tensor* (*new_tensor_3d)(Context*, int type, std::int64_t, std::int64_t, std::int64_t);
  void* (*get_data)(const Tensor*);
  Tensor* (*rope_ext_inplace)(Context*, Tensor* x, Tensor* positions, Tensor* freq_factors,
                              int n_dims, int mode, int n_ctx_orig, float freq_base,
                              float freq_scale, float ext_factor, float attn_factor,
                              float beta_fast, float beta_slow);
  Tensor* (*get_rows)(Context*, Tensor* table, Tensor* rows);
  Tensor* (*add_inplace)(Context*, Tensor* a, Tensor* b);
  Graph* (*new_graph)(Context*);
  void (*build_forward_expand)(Graph*, Tensor*);
  int (*backend_graph_compute)(Backend*, Graph*);
  Backend* (*backend_cpu_init)();
  void (*backend_cpu_set_n_threads)(Backend*, int);

  Backend* backend;
  std::string variant;
};

Ggml ggml;

void* opened(const std::filesystem::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return library;
}

template <typename F>
void find(F& function, void* library, const char* name) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) throw std::runtime_error(std::string("no function ") + name);
}

void load(const std::filesystem::path& folder) {
  void* base = opened(folder / "libggml-base.so");
  find(ggml.version, base, "ggml_version");
  find(ggml.init, base, "ggml_init");
  find(ggml.free, base, "ggml_free");
  find(ggml.new_tensor_1d, base, "ggml_new_tensor_1d");
  find(ggml.new_tensor_2d, base, "ggml_new_tensor_2d");
  find(ggml.new_tensor_3d, base, "ggml_new_tensor_3d");
  find(ggml.get_data, base, "ggml_get_data");
  find(ggml.rope_ext_inplace, base, "ggml_rope_ext_inplace");
  find(ggml.get_rows, base, "ggml_get_rows");
  find(ggml.add_inplace, base, "ggml_add_inplace");
  find(ggml.new_graph, base, "ggml_new_graph");
  find(ggml.build_forward_expand, base, "ggml_build_forward_expand");
  find(ggml.backend_graph_compute, base, "ggml_backend_graph_compute");

  // As ggml chooses: the variant that this CPU runs and that scores highest.
  void* best = nullptr;
  int best_score = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!name.starts_with("libggml-cpu-") || entry.path().extension() != ".so") continue;
    void* library = opened(entry.path());
    int (*score)();
    find(score, library, "ggml_backend_score");
    if (score() <= best_score) continue;
    best_score = score();
    best = library;
    ggml.variant = name.substr(std::string("libggml-cpu-").size());
  }
  if (!best) throw std::runtime_error("no libggml-cpu-*.so for this CPU in " + folder.string());
  find(ggml.backend_cpu_init, best, "ggml_backend_cpu_init");
  find(ggml.backend_cpu_set_n_threads, best, "ggml_backend_cpu_set_n_threads");
  ggml.backend = ggml.backend_cpu_init();
  ggml.backend_cpu_set_n_threads(ggml.backend, 1);
}

/// A context with room for `bytes` of tensors, and one graph in it.
class Session {
 public:
  explicit Session(std::size_t bytes)
      : size_(bytes + (std::size_t{4} << 20)), memory_(buffer<char>(size_)) {
    context = ggml.init({size_, memory_.get(), false});
    if (!context) throw std::runtime_error("ggml_init failed");
  }
  ~Session() { ggml.free(context); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void build(Tensor* result) {
    graph_ = ggml.new_graph(context);
    ggml.build_forward_expand(graph_, result);
  }
  void compute() const {
    if (ggml.backend_graph_compute(ggml.backend, graph_) != 0)
      throw std::runtime_error("ggml_backend_graph_compute failed");
  }

  Context* context;
  Tensor* result = nullptr;

 private:
  std::size_t size_;
  std::shared_ptr<char[]> memory_;
  Graph* graph_ = nullptr;
};

using SharedSession = std::shared_ptr<Session>;

template <typename T>
T* data(const Tensor* tensor) {
  return static_cast<T*>(ggml.get_data(tensor));
}

void draw(float* values, std::int64_t n) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::int64_t i = 0; i < n; ++i) values[i] = uniform(engine);
}

/// Any f16 of magnitude 2^-3 … 1, either sign.
void draw(std::uint16_t* values, std::int64_t n) {
  std::mt19937 engine(1);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint32_t>(engine());
    values[i] = static_cast<std::uint16_t>((bits & 0x8000) | (0x3000 + bits % 0x0c00));
  }
}

double value(float x) { return static_cast<double>(x); }
/// Of a normal f16 or zero.
double value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double magnitude =
      exponent ? std::ldexp(1024 + (bits & 1023), exponent - 25) : std::ldexp(bits & 1023, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kHeads = 32;

/// `repeats` rotations of x [tokens,32,128] in place, one after the other in one graph.
template <typename T>
SharedSession rope(RopeMode mode, std::int64_t tokens, std::int32_t begin, long repeats = 1) {
  const std::int64_t n = tokens * kHeads * kWidth;
  auto session = std::make_shared<Session>(static_cast<std::size_t>(n) * sizeof(T) +
                                           static_cast<std::size_t>(tokens) * 4);
  Context* context = session->context;
  Tensor* x = ggml.new_tensor_3d(context, sizeof(T) == 4 ? kF32 : kF16, kWidth, kHeads, tokens);
  draw(data<T>(x), n);
  Tensor* positions = ggml.new_tensor_1d(context, kI32, tokens);
  for (std::int32_t t = 0; t < tokens; ++t) data<std::int32_t>(positions)[t] = begin + t;
  session->result = x;
  Tensor* y = x;
  for (long i = 0; i < repeats; ++i)
    y = ggml.rope_ext_inplace(context, y, positions, nullptr, kWidth, mode, 0, 10000, 1, 0, 1, 32,
                              1);
  session->build(y);
  return session;
}

constexpr std::int64_t kRows = 4096;

/// Row (a·p) mod rows, with a odd and rows a power of 2: every row once, out of order.
std::int32_t shuffled(std::int64_t p, std::int64_t rows) {
  return static_cast<std::int32_t>(p * 1677 % rows);
}

/// Rows of a table [rows,rows]; with add, x is added to what was gathered, where that lies:
/// llama.cpp's allocator lets a sum take its operand's place.
SharedSession learned(bool add, std::int64_t rows) {
  auto session =
      std::make_shared<Session>(static_cast<std::size_t>(rows * rows) * 4 * (add ? 3 : 2) +
                                static_cast<std::size_t>(rows) * 4);
  Context* context = session->context;
  Tensor* table = ggml.new_tensor_2d(context, kF32, rows, rows);
  draw(data<float>(table), rows * rows);
  Tensor* positions = ggml.new_tensor_1d(context, kI32, rows);
  for (std::int64_t p = 0; p < rows; ++p) data<std::int32_t>(positions)[p] = shuffled(p, rows);
  Tensor* y = ggml.get_rows(context, table, positions);
  if (add) {
    Tensor* x = ggml.new_tensor_2d(context, kF32, rows, rows);
    for (std::int64_t i = 0; i < rows * rows; ++i) data<float>(x)[i] = static_cast<float>(i % 251);
    y = ggml.add_inplace(context, y, x);
  }
  session->result = y;
  session->build(y);
  return session;
}

/// Scores [32,length,length] and a bias per head and key; softmax does not see what a row has in
/// common.
SharedSession alibi(std::int64_t length) {
  const std::int64_t n = kHeads * length * length;
  auto session = std::make_shared<Session>(static_cast<std::size_t>(n + kHeads * length) * 4);
  Context* context = session->context;
  Tensor* scores = ggml.new_tensor_3d(context, kF32, length, length, kHeads);
  Tensor* bias = ggml.new_tensor_3d(context, kF32, length, 1, kHeads);
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t j = 0; j < length; ++j)
      data<float>(bias)[h * length + j] =
          std::exp2(-static_cast<float>(h + 1) / 4) * static_cast<float>(j - length + 1);
  std::fill_n(data<float>(scores), n, 0.0F);
  session->result = ggml.add_inplace(context, scores, bias);
  session->build(session->result);
  return session;
}

Work work(const std::string& name, std::function<SharedSession()> make, long repeats = 1) {
  return {name,
          [=]() -> std::function<void()> { return [session = make()] { session->compute(); }; },
          repeats};
}

void near(const std::string& what, double got, double expected, double tolerance) {
  if (std::abs(got - expected) <= tolerance) return;
  throw std::runtime_error(what + ": got " + std::to_string(got) + ", expected " +
                           std::to_string(expected));
}

template <typename T>
void check_rope(RopeMode mode, std::int64_t tokens, std::int32_t begin, double tolerance) {
  const SharedSession session = rope<T>(mode, tokens, begin);
  const T* y = data<T>(session->result);
  const std::vector<T> x(y, y + tokens * kHeads * kWidth);
  session->compute();
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t i = 0; i < kWidth / 2; ++i) {
        const std::int64_t row = (t * kHeads + h) * kWidth;
        const std::int64_t a = row + (mode == kHalf ? i : 2 * i);
        const std::int64_t b = row + (mode == kHalf ? i + kWidth / 2 : 2 * i + 1);
        const double angle = static_cast<double>(begin + t) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / kWidth);
        const double u = value(x[static_cast<std::size_t>(a)]);
        const double v = value(x[static_cast<std::size_t>(b)]);
        near("rope", value(y[a]), u * std::cos(angle) - v * std::sin(angle), tolerance);
        near("rope", value(y[b]), v * std::cos(angle) + u * std::sin(angle), tolerance);
      }
}

void check() {
  for (const RopeMode mode : {kHalf, kInterleaved}) {
    check_rope<float>(mode, 64, 0, 1e-4);
    check_rope<float>(mode, 1, 4000, 2e-3);
    check_rope<std::uint16_t>(mode, 64, 0, 2e-3);
  }
  constexpr std::int64_t kFew = 64;
  for (const bool add : {false, true}) {
    const SharedSession session = learned(add, kFew);
    std::vector<float> table(kFew * kFew);
    draw(table.data(), kFew * kFew);
    session->compute();
    for (std::int64_t i = 0; i < kFew * kFew; ++i) {
      const std::int64_t k = shuffled(i / kFew, kFew) * kFew + i % kFew;
      const double x = add ? static_cast<double>(i % 251) : 0;
      near("rows", value(data<float>(session->result)[i]),
           value(table[static_cast<std::size_t>(k)]) + x, 2e-5);
    }
  }
  const SharedSession session = alibi(kFew);
  session->compute();
  for (std::int64_t i = 0; i < kHeads * kFew * kFew; ++i)
    near("alibi", value(data<float>(session->result)[i]),
         std::exp2(-static_cast<double>(i / (kFew * kFew) + 1) / 4) *
             static_cast<double>(i % kFew - kFew + 1),
         1e-4);
}

std::vector<Work> works() {
  std::vector<Work> result;
  for (const RopeMode mode : {kHalf, kInterleaved})
    for (const std::int64_t tokens : {4096, 64}) {
      const std::string tail = std::string(mode == kHalf ? "half_" : "interleaved_") +
                               (tokens == 4096 ? "memory" : "cache");
      result.push_back(work("rope_f32_" + tail, [=] { return rope<float>(mode, tokens, 0); }));
      result.push_back(
          work("rope_f16_" + tail, [=] { return rope<std::uint16_t>(mode, tokens, 0); }));
    }
  // A model's graph has many nodes: 64 in one graph hide what starting a graph costs.
  constexpr long kNodes = 64;
  result.push_back(work(
      "rope_f32_half_decode", [] { return rope<float>(kHalf, 1, 4000, kNodes); }, kNodes));
  result.push_back(work("alibi_add_f32", [] { return alibi(2048); }));
  result.push_back(work("learned_gather_f32", [] { return learned(false, kRows); }));
  result.push_back(work("learned_add_f32", [] { return learned(true, kRows); }));
  return result;
}

}  // namespace
}  // namespace posproof::peers

int main(int argc, char** argv) {
  using namespace posproof::peers;
  if (argc != 2) {
    std::cerr << "usage: peers_ggml FOLDER, with libggml-base.so and libggml-cpu-*.so\n";
    return 2;
  }
  // Its abort would start a debugger.
  setenv("GGML_NO_BACKTRACE", "1", 1);
  try {
    load(argv[1]);
    check();
    return serve("ggml", std::string(ggml.version()) + ", " + ggml.variant, works());
  } catch (const std::exception& why) {
    std::cerr << "ggml: " << why.what() << '\n';
    return 1;
  }
}
