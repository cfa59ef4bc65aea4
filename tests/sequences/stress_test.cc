// Twelve threads move objects between a slot's shapes, a shared pool and their own hands while
// drains empty all slots: every object is always in exactly one place. An object in somebody's
// hands is filled with garbage, so that a link followed out of turn leads nowhere.
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "tests/sequences/fixture.h"

namespace kmem::percpu {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int operations = 8000;
#else
constexpr int operations = 200000;
#endif
constexpr int thread_count = 12;
constexpr std::size_t object_count = 3000;

class Pool {
 public:
  explicit Pool(std::vector<TestObject>& objects) {
    for (auto& object : objects) free_.push_back(&object);
  }
  void* get() {
    std::lock_guard guard(mutex_);
    if (free_.empty()) return nullptr;
    void* const object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(void* object) {
    std::lock_guard guard(mutex_);
    free_.push_back(object);
  }
  std::size_t size() const { return free_.size(); }

 private:
  std::mutex mutex_;
  std::vector<void*> free_;
};

// Who holds what: each object at most once.
class Ledger {
 public:
  explicit Ledger(std::vector<TestObject>& objects)
      : first_(objects.data()), held_(objects.size()) {}
  void receive(void* object) {
    ASSERT_FALSE(held_[index_of(object)].exchange(true)) << "handed out twice";
    std::memset(object, 0xfe, sizeof(TestObject));
  }
  void release(void* object) {
    ASSERT_TRUE(held_[index_of(object)].exchange(false)) << "given back twice";
  }
  bool all_released() const {
    for (const auto& held : held_) {
      if (held) return false;
    }
    return true;
  }

 private:
  std::size_t index_of(void* object) const {
    return static_cast<std::size_t>(static_cast<TestObject*>(object) - first_);
  }
  TestObject* const first_;
  std::vector<std::atomic<bool>> held_;
};

template <class P>
class Stress : public PolicyTest<P> {
 protected:
  std::vector<TestObject> objects = std::vector<TestObject>(object_count);
  Ledger ledger{objects};
  void* const slab = this;  // the owner of every object
};
TYPED_TEST_SUITE(Stress, AllPolicies, PolicyNames);

// One thread's part.
template <class Cpus>
class Worker {
 public:
  Worker(Ledger& ledger, Cpus& cpus, Pool& pool, void* slab, std::uint64_t node, unsigned seed)
      : ledger_(ledger), cpus_(cpus), pool_(pool), slab_(slab), node_(node), random_(seed) {}

  void run() {
    for (int i = 0; i < operations; ++i) {
      if (random_() % 16 == 0) enter_virtual_cpu(static_cast<unsigned>(random_() % 4));
      const bool get = hands_.empty() || (hands_.size() < 100 && random_() % 2 == 0);
      get ? this->get() : give();
    }
    for (void* object : hands_) {
      ledger_.release(object);
      pool_.give(object);
    }
  }

 private:
  void get() {
    void* out[8];
    std::size_t n = 0;
    switch (random_() % 9) {
      case 0:
        n = one(out, cpus_.template pop<owned>(test_link));
        break;
      case 1:
        n = one(out, cpus_.template pop<counted>(test_link));
        break;
      case 2:
        n = one(out, cpus_.template pop<array>());
        break;
      case 3:
        n = cpus_.template take<owned>(out, 1 + random_() % 8, test_link);
        break;
      case 4:
        n = cpus_.template take<counted>(out, 1 + random_() % 8, test_link);
        break;
      case 5:
        n = cpus_.template take<array>(out, 1 + random_() % 8);
        break;
      case 6:
        n = cpus_.template take_oldest<array>(out, 1 + random_() % 8);
        break;
      case 7:
        return take_whole_list();
      default:
        n = one(out, pool_.get());
    }
    for (std::size_t i = 0; i < n; ++i) hold(out[i]);
  }
  void take_whole_list() {
    const Pair pair = cpus_.template read<owned>();
    if (pair.second == nullptr) {
      cpus_.template cas<owned>({nullptr, nullptr}, {nullptr, slab_});
    } else if (cpus_.template cas<owned>(pair, {nullptr, pair.second})) {
      for (void* object = pair.first; object != nullptr;) {
        void* const next = link_of(object);
        hold(object);
        object = next;
      }
    }
  }
  void give() {
    const std::size_t n = std::min<std::size_t>(hands_.size(), 1 + random_() % 6);
    std::vector<void*> run(hands_.end() - static_cast<long>(n), hands_.end());
    hands_.resize(hands_.size() - n);
    for (void* object : run) ledger_.release(object);
    chain(run);
    std::size_t given = 0;
    Push pushed = Push::refused;
    switch (random_() % 5) {
      case 0:
        pushed = cpus_.template push<owned>(run.front(), run.back(), slab_, test_link);
        break;
      case 1:
        pushed = cpus_.template push<counted>(run.front(), run.back(), n, node_, test_link);
        break;
      case 2:
        given = cpus_.template put<array>(run.data(), n, node_);
        if (given < n && cpus_.template make_room<array>()) {
          given += cpus_.template put<array>(run.data() + given, n - given, node_);
        }
        break;
      case 3:
        given = cpus_.template push<array>(run.front(), node_) == Push::done;
        break;
    }
    ASSERT_NE(pushed, Push::duplicate);
    if (pushed == Push::done) given = n;
    for (std::size_t i = given; i < n; ++i) pool_.give(run[i]);
  }
  static std::size_t one(void** out, void* object) {
    out[0] = object;
    return object != nullptr;
  }
  void hold(void* object) {
    ledger_.receive(object);
    hands_.push_back(object);
  }

  Ledger& ledger_;
  Cpus& cpus_;
  Pool& pool_;
  void* const slab_;
  const std::uint64_t node_;
  std::mt19937 random_;
  std::vector<void*> hands_;
};

// Empties every slot into the pool.
template <class Cpus>
void drain_into(Cpus& cpus, Pool& pool) {
  cpus.drain([&](TestState& state, unsigned) {
    for (void* head :
         {cpus.template detach<owned>(state).first, cpus.template detach<counted>(state).first}) {
      while (head != nullptr) {
        void* const next = link_of(head);
        pool.give(head);
        head = next;
      }
    }
    void* out[test_capacity];
    const std::size_t n = exclusive::take(state.array, out, test_capacity);
    for (std::size_t i = 0; i < n; ++i) pool.give(out[i]);
    state.array.top = state.array.bottom = 0;
    state.array.end = test_limit;
  });
}

TYPED_TEST(Stress, EveryObjectIsAccountedForUnderDrains) {
  Pool pool(this->objects);
  std::atomic<int> running = thread_count;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      cpu_set_t all;
      std::memset(&all, 0xff, sizeof(all));  // the test's own thread is pinned, and we inherit it
      sched_setaffinity(0, sizeof(all), &all);
      Worker(this->ledger, this->cpus, pool, this->slab, this->node, 1000 + i).run();
      --running;
    });
  }
  int drains = 0;
  for (; running > 0; ++drains) drain_into(this->cpus, pool);
  for (auto& thread : threads) thread.join();
  drain_into(this->cpus, pool);
  EXPECT_EQ(pool.size(), object_count) << "after " << drains << " drains";
  EXPECT_TRUE(this->ledger.all_released());
  std::printf("%s: %d operations, %d drains\n", TypeParam::name, operations * thread_count, drains);
}

// What the signal handler works on, and what it could not give back.
struct InHandler {
  void (*body)();
  void* stash[object_count];
  std::size_t stashed;
  std::size_t calls;
};
InHandler in_handler;
void* handler_cpus;

template <class Cpus>
void handler_body() {
  auto& cpus = *static_cast<Cpus*>(handler_cpus);
  ++in_handler.calls;
  if (in_handler.stashed + 2 > object_count) return;
  void* const a = cpus.template pop<counted>(test_link);
  void* const b = cpus.template pop<array>();
  const auto node = static_cast<std::uint64_t>(cpus.node());
  if (b != nullptr && cpus.template push<counted>(b, b, 1, node, test_link) != Push::done) {
    in_handler.stash[in_handler.stashed++] = b;
  }
  if (a != nullptr && cpus.template push<array>(a, node) != Push::done) {
    in_handler.stash[in_handler.stashed++] = a;
  }
}

// A handler that swaps objects between the shapes, wherever it interrupts this thread.
TYPED_TEST(Stress, SignalHandlersMayUseTheSameState) {
  using Cpus = typename TestFixture::Cpus;
  Pool pool(this->objects);
  in_handler = {&handler_body<Cpus>, {}, 0, 0};
  handler_cpus = &this->cpus;
  struct sigaction action = {}, old_action;
  action.sa_handler = [](int) { in_handler.body(); };
  sigaction(SIGALRM, &action, &old_action);
  const itimerval often = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, nullptr);
  std::mt19937 random(77);
  std::size_t mine = 0;
  void* hands[64];
  for (int i = 0; i < operations * 6; ++i) {
    if (mine < 32 && random() % 2 == 0) {
      void* object = random() % 2 == 0 ? this->cpus.template pop<counted>(test_link)
                                       : this->cpus.template pop<array>();
      if (object == nullptr) object = pool.get();
      if (object != nullptr) hands[mine++] = object;
    } else if (mine > 0) {
      void* const object = hands[--mine];
      const Push pushed = random() % 2 == 0 ? this->cpus.template push<counted>(
                                                  object, object, 1, this->node, test_link)
                                            : this->cpus.template push<array>(object, this->node);
      if (pushed != Push::done) pool.give(object);
    }
  }
  const itimerval never = {};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old_action, nullptr);
  for (std::size_t i = 0; i < mine; ++i) pool.give(hands[i]);
  for (std::size_t i = 0; i < in_handler.stashed; ++i) pool.give(in_handler.stash[i]);
  drain_into(this->cpus, pool);
  EXPECT_EQ(pool.size(), object_count);
  EXPECT_GT(in_handler.calls, 0u);
}

}  // namespace
}  // namespace kmem::percpu
