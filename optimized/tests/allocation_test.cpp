#include <hwy/aligned_allocator.h>

#include <atomic>
#include <memory>

#include "optimized/alibi.hpp"
#include "optimized/learned.hpp"
#include "optimized/rope.hpp"
#include "optimized/shaw.hpp"
#include "optimized/sinusoidal.hpp"
#include "optimized/t5.hpp"
#include "optimized/tests/shared.hpp"

namespace {

std::atomic<std::size_t> count_of_allocations{0};

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
/// Of sanitizer/allocator_interface.h, which GCC does not ship.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*,
                                                                  std::size_t),
                                                         void (*)(const volatile void*));

namespace {

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { ++count_of_allocations; }, [](const volatile void*) {});

}  // namespace
#else
/// glibc's own, under the names that its malloc answers to when a program replaces it. operator new
/// and Highway's AllocateAligned call malloc.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  ++count_of_allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++count_of_allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  ++count_of_allocations;
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  ++count_of_allocations;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** to, std::size_t alignment, std::size_t size) {
  *to = memalign(alignment, size);
  return *to == nullptr ? 12 : 0;  // ENOMEM
}
}
#endif

namespace posproof::optimized::tests {

std::size_t allocations() { return count_of_allocations; }

namespace {

template <class Call>
std::size_t allocations_of(const Call& call) {
  const std::size_t before = allocations();
  call();
  return allocations() - before;
}

TEST(Allocation, is_seen_by_every_way_to_allocate) {
  EXPECT_EQ(allocations_of([] {}), 0u);
  EXPECT_GE(allocations_of([] {
              std::vector<float> some(7);
              asm volatile("" ::"r"(some.data()));
            }),
            1u);
  EXPECT_GE(allocations_of([] { (void)hwy::AllocateAligned<float>(7); }), 1u);
  EXPECT_GE(allocations_of([] {
              struct alignas(128) Wide {
                char bytes[128];
              };
              const auto wide = std::make_unique<Wide>();
              asm volatile("" ::"r"(wide.get()));
            }),
            1u);
  EXPECT_GE(allocations_of([] {
              void* volatile some = std::malloc(7);
              some = std::realloc(some, 100000);
              std::free(some);
            }),
            2u);
}

template <class T>
class AllocationOf : public ::testing::Test {};
TYPED_TEST_SUITE(AllocationOf, Types);

TYPED_TEST(AllocationOf, constructors_only) {
  using T = TypeParam;
  Generator random(3);
  const std::size_t tokens = 67, heads = 3, head_dim = 86, pairs = 43;
  const auto list = random.positions(tokens, -2147483647, 2147483647);
  const auto list32 = random.positions<std::int32_t>(tokens, 0, 66);
  std::vector<T> rows(2 * tokens * heads * head_dim), x = random.numbers<T>(rows.size());
  std::vector<float> cos(tokens * pairs), sin(cos.size());

  for (const auto layout : {sinusoidal::Layout::interleaved, sinusoidal::Layout::concat}) {
    const sinusoidal::Table table({head_dim, 10000, layout});
    EXPECT_EQ(allocations_of([&] {
                table.range(1 << 30, tokens, rows.data(), head_dim);
                table.list(list.data(), tokens, rows.data(), head_dim);
                table.list(list32.data(), tokens, rows.data(), head_dim);
              }),
              0u);
  }
  // sin(ω) is so near the midpoint ω/amplitude that only the exact path decides.
  const double midpoint[] = {0x1p-30 + 0x1p-30 * std::ldexp(1, -format<T>().digits)};
  const rope::Angles undecided(midpoint, 0x1p20);
  const rope::Angles angles(2 * pairs, 10000);
  const rope::F32Angles f32_angles(2 * pairs, 10000);
  for (const auto layout : {rope::Layout::half, rope::Layout::interleaved}) {
    const auto packed = rope::Heads<T>::packed(x.data(), rows.data(), tokens, heads, head_dim);
    EXPECT_EQ(allocations_of([&] {
                undecided.cos_sin(1, 1, rows.data(), rows.data() + 1, 1);
                undecided.cos_sin(1, 2, rows.data(), rows.data() + 2, 1);
                angles.cos_sin(5, tokens, cos.data(), sin.data(), pairs);
                f32_angles.cos_sin(1 << 24, tokens, cos.data(), sin.data(), pairs);
                angles.cos_sin(list.data(), tokens, rows.data(), rows.data() + tokens * pairs,
                               pairs);
                rope::rotate(packed, cos.data(), sin.data(), pairs, pairs, layout, false);
                rope::apply(angles, packed, list.data(), layout, true);
              }),
              0u);
  }

  const alibi::Bias alibi({3});
  const t5::Buckets buckets({});
  const auto scores = Scores<T>::packed(rows.data(), tokens, tokens);
  for (const Positions positions : {Positions::run(-3, tokens), Positions::of(list.data(), tokens)})
    EXPECT_EQ(allocations_of([&] {
                for (const auto form :
                     {alibi::Form::causal_distance, alibi::Form::distance, alibi::Form::key}) {
                  alibi.fill(form, positions, positions, scores);
                  alibi.add(form, positions, positions, scores);
                }
                (void)alibi.template slope<T>(0);
                buckets.fill(positions, positions, x.data(), 3, 3, scores);
              }),
              0u);

  const learned::Table<T> table{x.data(), tokens, head_dim, head_dim};
  EXPECT_EQ(allocations_of([&] {
              learned::embed(table, list32.data(), tokens, rows.data(), head_dim);
              learned::embed_and_add(table, list32.data(), tokens, x.data(), head_dim, rows.data(),
                                     head_dim);
            }),
            0u);
}

TEST(Allocation, of_shaw_is_of_its_constructor_only) {
  Generator random(3);
  const std::size_t rows = 19, columns = 77, width = 35, heads = 2, k = 5;
  const auto keys = random.numbers<float>((2 * k + 1) * width);
  const auto q = random.numbers<float>(heads * rows * std::max(columns, width));
  std::vector<float> out(q.size());
  const auto list = random.positions(columns, 0, 40);
  for (const auto sign : {shaw::Sign::key_minus_query, shaw::Sign::query_minus_key}) {
    const shaw::KeyLogits logits(keys.data(), k, width, sign);
    for (const Positions at : {Positions::run(7, columns), Positions::of(list.data(), columns)})
      EXPECT_EQ(
          allocations_of([&] {
            logits(Scores<const float>::packed(q.data(), rows, width), heads,
                   Positions::run(0, rows), at, Scores<float>::packed(out.data(), rows, columns));
            shaw::value_term(
                keys.data(), k, width, sign, Scores<const float>::packed(q.data(), rows, columns),
                heads, Positions::run(0, rows), at, Scores<float>::packed(out.data(), rows, width));
          }),
          0u);
  }
}

}  // namespace
}  // namespace posproof::optimized::tests
