// A child sees no half of any operation: forked amid traffic, it finds whole lists, each object at
// most once, and can use and drain them.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/sequences/fixture.h"

namespace kmem::percpu {
namespace {

template <class P>
class Fork : public PolicyTest<P> {};
// Not Atomic: its single operations are not waited for (common/percpu/README.md).
using Policies = testing::Types<Rseq, Locked, Virtual>;
TYPED_TEST_SUITE(Fork, Policies, PolicyNames);

// Takes everything out of all slots; -1 if an object is found twice or a list has no end.
template <class Cpus>
int count_objects(Cpus& cpus, std::vector<TestObject>& objects) {
  std::vector<bool> seen(objects.size());
  int found = 0;
  bool broken = false;
  const auto meet = [&](void* object) {
    const auto index = static_cast<std::size_t>(static_cast<TestObject*>(object) - objects.data());
    if (index >= objects.size() || seen[index]) return broken = true, false;
    ++found;
    return static_cast<bool>(seen[index] = true);
  };
  cpus.drain([&](TestState& state, unsigned) {
    std::uint64_t listed = 0;
    const std::uint64_t count = state.counted.list.count();
    for (void* head = cpus.template detach<counted>(state).first; head != nullptr && meet(head);
         head = link_of(head)) {
      ++listed;
    }
    if (listed != count) broken = true;
    for (auto i = state.array.bottom; i < state.array.top; ++i) meet(state.entries[i]);
    state.array.top = state.array.bottom = 0;
  });
  return broken ? -1 : found;
}

TYPED_TEST(Fork, AChildFindsWholeListsAndUsesThem) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      std::vector<void*> hands = this->some(i * 40, 40);
      while (!stop) {
        void* object = random() % 2 == 0 ? this->cpus.template pop<counted>(test_link)
                                         : this->cpus.template pop<array>();
        if (object != nullptr) hands.push_back(object);
        if (hands.empty()) continue;
        object = hands.back();
        const Push pushed = random() % 2 == 0 ? this->cpus.template push<counted>(
                                                    object, object, 1, this->node, test_link)
                                              : this->cpus.template push<array>(object, this->node);
        if (pushed == Push::done) hands.pop_back();
      }
    });
  }
  for (int i = 0; i < 40; ++i) {
    prepare_fork();
    const pid_t child = fork();
    after_fork();
    if (child == 0) {
      const int found = count_objects(this->cpus, this->objects);
      void* const one = this->object(255);
      const bool usable = this->cpus.template push<array>(one, this->node) == Push::done &&
                          this->cpus.template pop<array>() == one &&
                          count_objects(this->cpus, this->objects) == 0;
      _exit(found < 0 ? 1 : usable ? 0 : 2);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "fork " << i << " ended by signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0) << "fork " << i;
    sched_yield();
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GE(count_objects(this->cpus, this->objects), 0);
}

}  // namespace
}  // namespace kmem::percpu
