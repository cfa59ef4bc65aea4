// Interrupts every sequence at every instruction boundary. A breakpoint raises SIGTRAP there, and
// the handler changes the very state that the sequence works on. The kernel must have sent the
// sequence to its abort address, and what comes out must be what the handler's operations followed
// by the sequence's give one after the other. At post_commit the order is the other way round.
//
// Single steps would not do: each is a signal, so a sequence would start over for ever.
#include "tests/sequences/interrupt_fixture.h"

namespace kmem::percpu {
namespace {

struct Result {
  std::vector<void*> objects;
  Push push{};
  Pair pair{};
  bool yes = false;
  bool operator==(const Result&) const = default;
};

TestObject objects[256];
char slabs[2];
void* const slab = &slabs[0];

// In a row but for two in ten that are swapped: take guesses right and wrong on every list.
void* object(std::size_t i) {
  const std::size_t place = i % 10;
  return &objects[place == 3 ? i + 1 : place == 4 ? i - 1 : i];
}

// Objects from first to first + n, linked.
void* linked(std::size_t first, std::size_t n) {
  for (std::size_t i = first; i + 1 < first + n; ++i) {
    exclusive::store_link(object(i), test_link, object(i + 1));
  }
  return object(first);
}

void keep(Result& result, void* const* out, std::size_t n) { result.objects.assign(out, out + n); }

// The operations: the same text for the real slots and for the model.
#define KMEM_OPERATION(Name, ...)                                  \
  struct Name {                                                    \
    static constexpr const char* name = #Name;                     \
    template <class Cpus>                                          \
    static void run(Cpus& cpus, [[maybe_unused]] Result& result) { \
      [[maybe_unused]] void* out[16] = {};                         \
      __VA_ARGS__;                                                 \
    }                                                              \
  }
KMEM_OPERATION(PopOwned, out[0] = cpus.template pop<owned>(test_link); keep(result, out, 1));
KMEM_OPERATION(PushOwned, result.push = cpus.template push<owned>(linked(100, 3), object(102), slab,
                                                                  test_link));
KMEM_OPERATION(TakeOwned,
               keep(result, out, cpus.template take<owned>(out, std::size_t{5}, test_link)));
KMEM_OPERATION(ReadOwned, result.pair = cpus.template read<owned>());
KMEM_OPERATION(CasOwned,
               result.yes = cpus.template cas<owned>({object(0), slab}, {nullptr, &slabs[1]}));
KMEM_OPERATION(PopCounted, out[0] = cpus.template pop<counted>(test_link); keep(result, out, 1));
KMEM_OPERATION(PushCounted, result.push = cpus.template push<counted>(linked(100, 3), object(102),
                                                                      std::uint64_t{3},
                                                                      std::uint64_t{0}, test_link));
KMEM_OPERATION(TakeCounted,
               keep(result, out, cpus.template take<counted>(out, std::size_t{5}, test_link)));
KMEM_OPERATION(ReadCounted, result.pair = cpus.template read<counted>());
KMEM_OPERATION(CasCounted,
               result.yes = cpus.template cas<counted>({object(10), reinterpret_cast<void*>(8)},
                                                       {nullptr, nullptr}));
KMEM_OPERATION(PopArray, out[0] = cpus.template pop<array>(); keep(result, out, 1));
KMEM_OPERATION(PushArray, result.push = cpus.template push<array>(object(100), std::uint64_t{0}));
KMEM_OPERATION(TakeArray, keep(result, out, cpus.template take<array>(out, std::size_t{7})));
KMEM_OPERATION(PutArray, for (std::size_t i = 0; i < 7; ++i) out[i] = object(100 + i);
               result.objects.resize(cpus.template put<array>(out, 7, 0)));
KMEM_OPERATION(TakeOldest, keep(result, out, cpus.template take_oldest<array>(out, 7)));
KMEM_OPERATION(MakeRoom, result.yes = cpus.template make_room<array>());

// What the handler does meanwhile: the same for both, too.
KMEM_OPERATION(PopEach, out[0] = cpus.template pop<owned>(test_link);
               out[1] = cpus.template pop<counted>(test_link); out[2] = cpus.template pop<array>();
               keep(result, out, 3));
KMEM_OPERATION(PushEach, cpus.template push<owned>(object(110), object(110), slab, test_link);
               cpus.template push<counted>(object(111), object(111), std::uint64_t{1},
                                           std::uint64_t{0}, test_link);
               cpus.template push<array>(object(112), std::uint64_t{0}));
KMEM_OPERATION(PopAndPushBack, out[0] = cpus.template pop<owned>(test_link);
               out[1] = cpus.template pop<owned>(test_link);
               cpus.template push<owned>(out[0], out[0], slab, test_link);
               out[2] = cpus.template pop<counted>(test_link);
               out[3] = cpus.template pop<counted>(test_link);
               cpus.template push<counted>(out[2], out[2], std::uint64_t{1}, std::uint64_t{0},
                                           test_link));
KMEM_OPERATION(TakeAll, void* all[64];
               result.objects.resize(cpus.template take<owned>(all, std::size_t{64}, test_link) +
                                     cpus.template take<counted>(all, std::size_t{64}, test_link) +
                                     cpus.template take<array>(all, std::size_t{64})));
KMEM_OPERATION(FillUp, void* many[24];
               for (std::size_t i = 0; i < 24; ++i) many[i] = object(120 + i);
               cpus.template put<array>(many, 24, 0);
               cpus.template push<counted>(linked(150, 16), object(165), std::uint64_t{16},
                                           std::uint64_t{0}, test_link));
KMEM_OPERATION(MoveTheWindow, cpus.template take_oldest<array>(out, 3);
               cpus.template make_room<array>());
KMEM_OPERATION(ReplaceTheSlab, const Pair pair = cpus.template read<owned>();
               result.yes = cpus.template cas<owned>(pair, {nullptr, &slabs[1]}));
KMEM_OPERATION(DrainAllCpus, cpus.drain([](TestState& state, unsigned) {
  Cpus::template detach<owned>(state);
  Cpus::template detach<counted>(state);
  state.array.top = state.array.bottom = 0;
  state.array.end = test_limit;
}));
KMEM_OPERATION(MoveToTheOtherCpu, cpus.move_away());

class RealSlots : public RseqCpus<TestState> {
 public:
  void move_away() {
    cpu_set_t other;
    CPU_ZERO(&other);
    CPU_SET(away, &other);
    EXPECT_EQ(sched_setaffinity(0, sizeof(other), &other), 0);
  }
  TestState& state(unsigned cpu) { return const_cast<TestState&>(peek(cpu)); }
  unsigned here = 0, away = 0;
};

struct Interruption {
  const char* name;
  void (*real)(RealSlots&, Result&);
  void (*model)(Model&, Result&);
};
template <class Op>
constexpr Interruption interruption{Op::name, &Op::template run<RealSlots>,
                                    &Op::template run<Model>};
constexpr Interruption interruptions[] = {
    interruption<PopEach>,        interruption<PushEach>,     interruption<PopAndPushBack>,
    interruption<TakeAll>,        interruption<FillUp>,       interruption<MoveTheWindow>,
    interruption<ReplaceTheSlab>, interruption<DrainAllCpus>, interruption<MoveToTheOtherCpu>};

template <class Op>
class Interrupted : public testing::Test {
 protected:
  void SetUp() override {
    if (!rseq_available()) GTEST_SKIP() << Rseq::running().reason;
    ASSERT_TRUE(cpus.create([](TestState&, unsigned, int) {}));
    cpus.here = cpus.cpu();
    cpus.away = cpus.here;
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    CPU_CLR(cpus.here, &allowed);
    for (unsigned cpu = 0; cpu < cpus.count(); ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus.away = cpu;
    }
    pin_here();
  }
  void TearDown() override {
    if (rseq_available()) cpus.destroy();
  }
  void pin_here() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus.here, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }

  // Eight objects on each list, seven in the window from 10: room to move down, and to grow.
  static void fill(TestState& state, std::size_t first) {
    state = {};
    state.header.live = 1;
    state.owned = {linked(first, 8), slab, nullptr, 0};
    exclusive::store_link(object(first + 7), test_link, nullptr);
    state.counted = {CountedHead(linked(first + 10, 8), 8), 0, test_limit, 0};
    exclusive::store_link(object(first + 17), test_link, nullptr);
    state.array = {17, 10, 10 + test_limit, 0, test_limit, test_capacity, 0};
    for (std::size_t i = 10; i < 17; ++i) state.entries[i] = object(first + 10 + i);
  }
  void fill_both() {
    pin_here();
    std::memset(objects, 0xfe, sizeof(objects));
    fill(cpus.state(cpus.away), 40);
    fill(cpus.state(cpus.here), 0);
  }

  [[gnu::noinline]] void run_real(Result& result) { Op::run(cpus, result); }

  std::vector<std::uint64_t> find_boundaries() {
    for (const Descriptor* found = nullptr;;) {  // ends: the kernel clears it only now and then
      fill_both();
      Result ignored;
      run_real(ignored);
      found = last_descriptor();
      if (found == nullptr) continue;
      descriptor = *found;
      std::uint32_t signature;
      std::memcpy(&signature, reinterpret_cast<const char*>(descriptor.abort) - 4, 4);
      EXPECT_EQ(signature, 0x53053053u);
      return boundaries_of(descriptor);
    }
  }

  struct Handler {
    Interrupted& test;
    const Interruption& what;
    Result result;
  };

  // Whether the boundary was reached.
  bool interrupt(std::uint64_t at, const Interruption& what) {
    fill_both();
    Handler handler{*this, what, {}};
    Result result;
    bool hit;
    {
      Breakpoint breakpoint(
          at,
          [](void* context) {
            auto& self = *static_cast<Handler*>(context);
            self.what.real(self.test.cpus, self.result);
          },
          &handler);
      run_real(result);
      hit = breakpoint.hit();
      if (hit) {
        const bool inside = at >= descriptor.start && at < descriptor.post_commit();
        EXPECT_EQ(breakpoint.resumed_at(), inside ? descriptor.abort : at + 1);
      }
    }
    if (hit) compare(result, handler, at == descriptor.post_commit());
    return hit;
  }

  void compare(const Result& result, const Handler& handler, bool after) {
    const Contents here(cpus.state(cpus.here)), away(cpus.state(cpus.away));
    fill_both();
    Model model{{cpus.state(cpus.here), cpus.state(cpus.away)}};
    Result expected, handler_expected;
    if (after) Op::run(model, expected);
    handler.what.model(model, handler_expected);
    if (!after) Op::run(model, expected);
    EXPECT_TRUE(result == expected);
    EXPECT_TRUE(handler.result == handler_expected);
    EXPECT_TRUE(here == Contents(model.states[0]));
    EXPECT_TRUE(cpus.here == cpus.away || away == Contents(model.states[1]));
  }

  RealSlots cpus;
  Descriptor descriptor{};
};

using Operations = testing::Types<PopOwned, PushOwned, TakeOwned, ReadOwned, CasOwned, PopCounted,
                                  PushCounted, TakeCounted, ReadCounted, CasCounted, PopArray,
                                  PushArray, TakeArray, PutArray, TakeOldest, MakeRoom>;
struct OperationNames {
  template <class Op>
  static std::string GetName(int) {
    return Op::name;
  }
};
TYPED_TEST_SUITE(Interrupted, Operations, OperationNames);

TYPED_TEST(Interrupted, AtEveryInstructionStartsOverOrHasCommitted) {
  const auto boundaries = this->find_boundaries();
  ASSERT_GE(boundaries.size(), 6u);
  for (const std::uint64_t at : boundaries) {
    bool reached = true;
    for (const Interruption& what : interruptions) {
      if (this->cpus.here == this->cpus.away && what.real == interruptions[8].real) continue;
      SCOPED_TRACE(std::string(what.name) + " at byte " + std::to_string(at - boundaries[0]));
      reached &= this->interrupt(at, what);
      if (this->HasFailure()) return;
    }
    EXPECT_TRUE(reached) << "byte " << at - boundaries[0] << " was never executed";
  }
  std::printf("%s: %zu boundaries\n", TypeParam::name, boundaries.size());
}

}  // namespace
}  // namespace kmem::percpu
