// The optimized bulk paths against the generic loops: two caches of one shape, one sequence of
// random operations; whatever a caller can observe must be equal, step by step.
#include <algorithm>

#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

constexpr std::uint64_t built = 0xc0de;  // tag of the constructor's pattern

void construct_64(void* object) { fill(object, 64, built); }

// One of the two caches, and what is live in it, in the order of allocation.
struct Side {
  CachePtr cache;
  bool optimized;
  std::vector<void*> live;

  bool alloc(gfp_t gfp, std::size_t n) {
    std::vector<void*> objects(n, nullptr);
    const bool done = optimized ? cache->alloc_bulk(gfp, n, objects.data())
                                : cache->alloc_bulk_generic(gfp, n, objects.data());
    if (done) live.insert(live.end(), objects.begin(), objects.end());
    return done;
  }

  // Frees the live objects of those numbers (sorted), as an array of any cache or of this one.
  void free(const World& world, const std::vector<std::size_t>& numbers, bool any_cache) {
    std::vector<void*> objects;
    for (const std::size_t number : numbers) objects.push_back(live[number]);
    for (std::size_t i = numbers.size(); i-- > 0;) {
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(numbers[i]));
    }
    if (optimized && any_cache) {
      world.kfree_bulk(objects.size(), objects.data());
    } else if (optimized) {
      cache->free_bulk(objects.size(), objects.data());
    } else if (any_cache) {
      for (void* object : objects) world.kfree(object);
    } else {
      cache->free_bulk_generic(objects.size(), objects.data());
    }
  }
};

class Differential : public WorldTest {
 protected:
  CacheSpec random_spec(Random& random) {
    static constexpr std::size_t sizes[] = {1,   8,   16,   24,   40,   64,   100,  192,
                                            256, 700, 1024, 2048, 4096, 5000, 9000, 33000};
    static constexpr std::size_t aligns[] = {0, 0, 0, 8, 16, 64, 128, 512, 4096};
    static constexpr slab_flags_t flags[] = {0,
                                             0,
                                             0,
                                             slab_flag::hwcache_align,
                                             slab_flag::reclaim_account,
                                             slab_flag::typesafe_by_rcu,
                                             slab_flag::poison | slab_flag::red_zone,
                                             slab_flag::noleaktrace};
    CacheSpec spec;
    spec.object_bytes = sizes[random.below(std::size(sizes))];
    spec.align = aligns[random.below(std::size(aligns))];
    spec.flags = flags[random.below(std::size(flags))];
    if (spec.object_bytes >= 64 && random.chance(25)) spec.ctor = &construct_64;
    return spec;
  }

  Side side(CacheSpec spec, bool optimized) {
    spec.name = optimized ? "optimized" : "generic";
    return {make(spec), optimized, {}};
  }

  // What must hold of the n newest objects of side, which have just been allocated.
  void check_new(Side& side, std::size_t n, bool zeroed) {
    const CacheSpec& spec = spec_;
    for (std::size_t i = side.live.size() - n; i < side.live.size(); ++i) {
      void* object = side.live[i];
      ASSERT_TRUE(side.cache->owns(object));
      ASSERT_TRUE(aligned(object, object_align(spec)));
      if (zeroed) {
        ASSERT_TRUE(all_zero(object, spec.object_bytes));
      } else if (spec.ctor != nullptr) {
        ASSERT_TRUE(holds(object, 64, built));
      }
      fill(object, spec.object_bytes, tag_of(object));
    }
  }

  // Contents as written, and back to the constructor's state.
  void check_before_free(Side& side, const std::vector<std::size_t>& numbers) {
    for (const std::size_t number : numbers) {
      void* object = side.live[number];
      ASSERT_TRUE(holds(object, spec_.object_bytes, tag_of(object)));
      if (spec_.ctor != nullptr) spec_.ctor(object);
    }
  }

  static std::uint64_t tag_of(const void* object) {
    return reinterpret_cast<std::uintptr_t>(object);
  }

  void compare_counts(Side& one, Side& other, bool exactly) {
    ASSERT_EQ(one.live.size(), other.live.size());
    ASSERT_EQ(one.cache->validate(), nullptr);
    ASSERT_EQ(other.cache->validate(), nullptr);
    if (!exactly) return;
    ASSERT_EQ(one.cache->shrink(), other.cache->shrink());
    ASSERT_EQ(one.cache->live_count(), one.live.size());
    ASSERT_EQ(other.cache->live_count(), other.live.size());
    ASSERT_EQ(one.cache->usage().active_objects, other.cache->usage().active_objects);
  }

  // One pair of caches through steps operations.
  void run(Random& random, std::size_t steps) {
    spec_ = random_spec(random);
    SCOPED_TRACE(testing::Message()
                 << "size " << spec_.object_bytes << " align " << spec_.align << " flags "
                 << spec_.flags << " ctor " << (spec_.ctor != nullptr)
                 << ", KMEM_TEST_SEED=" << process_seed());
    Side one = side(spec_, true);
    Side other = side(spec_, false);
    const std::size_t most =
        std::min<std::size_t>(3000, (std::size_t{1} << 20) / spec_.object_bytes + 40);
    for (std::size_t step = 0; step < steps && !HasFatalFailure(); ++step) {
      world().enter_cpu(static_cast<unsigned>(random.below(virtual_cpus)));
      const std::size_t action = random.below(100);
      if (action < 50 && one.live.size() < most) {
        allocate(one, other, random);
      } else if (action < 96) {
        release(one, other, random);
      } else {
        compare_counts(one, other, true);
      }
    }
    finish(one, other);
  }

  void allocate(Side& one, Side& other, Random& random) {
    const std::size_t n = random.chance(80) ? random.below(40) : random.below(400);
    const bool zeroed = spec_.ctor == nullptr && random.chance(30);
    const gfp_t gfp = gfp::kernel | (zeroed ? gfp::zero : 0);
    ASSERT_EQ(one.alloc(gfp, n), other.alloc(gfp, n));
    check_new(one, n, zeroed);
    check_new(other, n, zeroed);
  }

  void release(Side& one, Side& other, Random& random) {
    if (one.live.empty()) return;
    const unsigned share = static_cast<unsigned>(random.between(1, 100));
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < one.live.size(); ++i) {
      if (random.chance(share)) numbers.push_back(i);
    }
    check_before_free(one, numbers);
    check_before_free(other, numbers);
    const bool any_cache = random.chance(40);
    one.free(world(), numbers, any_cache);
    other.free(world(), numbers, any_cache);
    compare_counts(one, other, false);
  }

  void finish(Side& one, Side& other) {
    for (Side* side : {&one, &other}) {
      std::vector<std::size_t> all(side->live.size());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
      check_before_free(*side, all);
      side->free(world(), all, false);
    }
    compare_counts(one, other, true);
  }

  CacheSpec spec_;
};
KMEM_ALL_WORLDS(Differential);

TEST_P(Differential, OptimizedAndGenericBulkAreAlike) {
  const std::size_t pairs = scaled(60);
  for (std::size_t pair = 0; pair < pairs && !HasFatalFailure(); ++pair) {
    Random random("differential", pair);
    run(random, 40);
  }
}

TEST_P(Differential, NothingIsLeftBehind) {
  const std::size_t before = [&] {
    Random random("left behind");
    run(random, 5);
    return pages::usage().allocated_bytes;
  }();
  for (std::size_t pair = 0; pair < scaled(10); ++pair) {
    Random random("left behind", pair);
    run(random, 20);
  }
  EXPECT_EQ(pages::usage().allocated_bytes, before);
}

}  // namespace
}  // namespace kmem::test
