// Creating and destroying caches: what is refused, what is warned about, names, alignment, aliases.
#include <cerrno>
#include <cstring>

#include "common/base/log.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

class Create : public WorldTest {
 protected:
  // Refused: NULL, EINVAL and exactly one line, which names the call.
  void expect_refused(const CacheSpec& spec, const char* why) {
    errno = 0;
    auto cache = world().create(spec);
    const int error = errno;
    EXPECT_EQ(cache, nullptr) << why;
    EXPECT_EQ(error, EINVAL) << why;
    const auto lines = log_.take();
    ASSERT_EQ(lines.size(), 1u) << why << "\n" << joined(lines);
    EXPECT_NE(lines[0].find("kmem_cache_create("), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find(why), std::string::npos) << lines[0];
  }
};
KMEM_ALL_WORLDS(Create);

void nothing(void*) {}

TEST_P(Create, BadSizesAreRefused) {
  expect_refused({.name = "zero", .object_bytes = 0}, "object size of 0");
  expect_refused({.name = "over", .object_bytes = pages::max_block_bytes + 1}, "over 4 MiB");
  expect_refused({.name = "far_over", .object_bytes = SIZE_MAX}, "over 4 MiB");
}

TEST_P(Create, BadAlignmentsAreRefused) {
  for (const std::size_t align : {3u, 24u, 4095u}) {
    expect_refused({.name = "align", .object_bytes = 64, .align = align}, "power of two");
  }
  for (const std::size_t align : {std::size_t{8192}, std::size_t{1} << 40}) {
    expect_refused({.name = "align", .object_bytes = 64, .align = align}, "over 4096");
  }
}

TEST_P(Create, UnknownFlagsAreRefused) {
  for (const slab_flags_t flags : {0x1u, 0x2u, 0x40000000u, 0x80000000u, ~0u}) {
    if ((flags & slab_flag::panic) != 0) continue;  // would abort, as asked
    expect_refused({.name = "flags", .object_bytes = 64, .flags = flags}, "unknown flags");
  }
}

TEST_P(Create, NullNameIsRefused) {
  expect_refused({.name = nullptr, .object_bytes = 64}, "name is NULL");
}

TEST_P(Create, FreePointerOffsetMustBeInsideAlignedAndUseful) {
  CacheSpec spec{.name = "freeptr", .object_bytes = 64, .has_freeptr_offset = true};
  expect_refused(spec, "needs SLAB_TYPESAFE_BY_RCU or a constructor");
  spec.flags = slab_flag::typesafe_by_rcu;
  spec.freeptr_offset = 4;
  expect_refused(spec, "not aligned");
  for (const std::size_t offset :
       {std::size_t{64}, std::size_t{4096}, SIZE_MAX & ~std::size_t{7}}) {
    spec.freeptr_offset = offset;
    expect_refused(spec, "outside the object");
  }
  for (const std::size_t offset : {0u, 8u, 56u}) {
    spec.freeptr_offset = offset;
    auto cache = world().create(spec);
    ASSERT_NE(cache, nullptr);
    cache->free(cache->alloc());
    EXPECT_EQ(cache->validate(), nullptr);
  }
}

// A cache whose constructor's state lies elsewhere in the object may lend its free pointer a place.
TEST_P(Create, FreePointerOffsetWithConstructor) {
  CacheSpec spec{.name = "freeptr_ctor",
                 .object_bytes = 64,
                 .ctor = [](void* object) { fill(static_cast<char*>(object) + 8, 56, 5); },
                 .has_freeptr_offset = true};
  auto cache = make(spec);
  void* objects[100];
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 100, objects));
    for (void* object : objects) EXPECT_TRUE(holds(static_cast<char*>(object) + 8, 56, 5));
    cache->free_bulk(100, objects);
  }
}

TEST_P(Create, EveryPermittedFlagIsAccepted) {
  for (unsigned bit = 0; bit < 32; ++bit) {
    const slab_flags_t flag = slab_flags_t{1} << bit;
    if ((slab_flag::permitted & flag) == 0) continue;
    auto cache = world().create({.name = "flag", .object_bytes = 100, .flags = flag});
    ASSERT_NE(cache, nullptr) << "bit " << bit;
    void* object = cache->alloc();
    ASSERT_NE(object, nullptr);
    fill(object, 100, bit);
    cache->free(object);
    EXPECT_EQ(cache->validate(), nullptr);
  }
  auto all = world().create({.name = "all", .object_bytes = 100, .flags = slab_flag::permitted});
  ASSERT_NE(all, nullptr);
  all->free(all->alloc());
}

TEST_P(Create, SizesUpToTheLimitWork) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{8}, std::size_t{9},
        std::size_t{4095}, std::size_t{4096}, std::size_t{4097}, std::size_t{8192},
        std::size_t{12345}, std::size_t{32768}, std::size_t{131072}, std::size_t{131073},
        (std::size_t{1} << 20) + 1, std::size_t{2} << 20, (std::size_t{4} << 20) - 1,
        std::size_t{4} << 20}) {
    auto cache = make(bytes);
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(cache->object_bytes(), bytes);
    void* objects[3];
    for (void*& object : objects) {
      object = cache->alloc();
      ASSERT_NE(object, nullptr) << bytes;
      fill(object, bytes, reinterpret_cast<std::uintptr_t>(object));
    }
    for (void* object : objects) {
      EXPECT_TRUE(holds(object, bytes, reinterpret_cast<std::uintptr_t>(object))) << bytes;
      EXPECT_TRUE(cache->owns(object));
    }
    cache->free_bulk(3, objects);
    EXPECT_EQ(cache->validate(), nullptr) << bytes;
  }
}

// A free pointer behind the object may not fit any more: then that is said, and it is no ENOMEM.
TEST_P(Create, AtTheLimitAConstructorWorksOrIsRefused) {
  for (const slab_flags_t flags : {slab_flags_t{0}, slab_flag::typesafe_by_rcu}) {
    CacheSpec spec{.name = "limit", .object_bytes = pages::max_block_bytes, .flags = flags};
    if (flags == 0) spec.ctor = [](void* object) { fill(object, 4096, 3); };
    errno = 0;
    auto cache = world().create(spec);
    if (cache == nullptr) {
      EXPECT_EQ(errno, EINVAL);
      EXPECT_EQ(log_.take().size(), 1u);
      continue;
    }
    void* object = cache->alloc();
    ASSERT_NE(object, nullptr);
    EXPECT_TRUE(flags != 0 || holds(object, 4096, 3));
    cache->free(object);
    EXPECT_EQ(cache->validate(), nullptr);
  }
}

TEST_P(Create, ObjectsHaveTheAlignmentAskedFor) {
  for (const std::size_t bytes : {1u, 8u, 20u, 24u, 33u, 64u, 100u, 129u, 1000u, 5000u}) {
    for (std::size_t align = 1; align <= pages::page_bytes; align *= 2) {
      const CacheSpec spec{.name = "align", .object_bytes = bytes, .align = align};
      auto cache = make(spec);
      ASSERT_NE(cache, nullptr) << bytes << " " << align;
      void* objects[40];
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 40, objects));
      const std::size_t least = align < 8 ? 8 : align;
      EXPECT_EQ(object_align(spec), least);
      for (void* object : objects) {
        EXPECT_TRUE(aligned(object, least)) << object << " " << bytes << " " << align;
      }
      cache->free_bulk(40, objects);
    }
  }
}

// A line, halved while two objects would fit in it: a 20-byte object gets 32, not 64.
TEST_P(Create, HwcacheAlignHalvesTheLineForSmallObjects) {
  struct Row {
    std::size_t bytes, align;
  };
  for (const Row row : {Row{8, 8}, Row{9, 16}, Row{16, 16}, Row{17, 32}, Row{20, 32}, Row{32, 32},
                        Row{33, 64}, Row{64, 64}, Row{65, 64}, Row{200, 64}}) {
    const CacheSpec spec{
        .name = "line", .object_bytes = row.bytes, .flags = slab_flag::hwcache_align};
    EXPECT_EQ(object_align(spec), row.align) << row.bytes;
    auto cache = make(spec);
    void* objects[40];
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 40, objects));
    for (void* object : objects) EXPECT_TRUE(aligned(object, row.align)) << row.bytes;
    cache->free_bulk(40, objects);
  }
}

TEST_P(Create, NameNeedNotOutliveTheCall) {
  char name[] = "borrowed";
  auto cache = make({.name = name, .object_bytes = 40});
  std::memset(name, 'x', sizeof(name) - 1);
  EXPECT_STREQ(cache->name(), "borrowed");
}

TEST_P(Create, LongNameIsKept) {
  const std::string name(300, 'n');
  auto cache = make({.name = name.c_str(), .object_bytes = 40});
  EXPECT_EQ(cache->name(), name);
}

TEST_P(Create, DuplicateNameIsAllowedWithOneWarning) {
  auto first = make({.name = "twin", .object_bytes = 40});
  ASSERT_TRUE(log_.take().empty());
  auto second = make({.name = "twin", .object_bytes = 400});
  const auto lines = log_.take();
  ASSERT_EQ(lines.size(), 1u) << joined(lines);
  EXPECT_NE(lines[0].find("twin"), std::string::npos);
  ASSERT_NE(second, nullptr);
  second->free(second->alloc());
  first->free(first->alloc());
}

TEST_P(Create, SpaceInTheNameIsAllowedWithOneWarning) {
  auto cache = make({.name = "two words", .object_bytes = 40});
  const auto lines = log_.take();
  ASSERT_EQ(lines.size(), 1u) << joined(lines);
  EXPECT_NE(lines[0].find("space"), std::string::npos);
  ASSERT_NE(cache, nullptr);
}

TEST_P(Create, DestroyOfNullDoesNothing) { world().destroy_null(); }

TEST_P(Create, PanicAbortsInsteadOfReturningNull) {
  EXPECT_DEATH(
      {
        set_log_hook(nullptr, nullptr);
        world().create({.name = "must", .object_bytes = 0, .flags = slab_flag::panic});
      },
      "Failed to create slab 'must'");
}

// ---- Aliases ----

TEST_P(Create, CachesOfOneShapeMergeWhereTheDesignMerges) {
  auto first = world().create({.name = "first", .object_bytes = 200});
  auto second = world().create({.name = "second", .object_bytes = 196});
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(first->identity() == second->identity(), world().merges_caches());
  if (is_slob() || world().backend() == "slqb") {
    EXPECT_NE(first->identity(), second->identity());
  }

  void* object = first->alloc();
  second.reset();  // an alias gone is not the cache gone
  fill(object, 200, 1);
  EXPECT_TRUE(first->owns(object));
  EXPECT_TRUE(holds(object, 200, 1));
  first->free(object);
  EXPECT_EQ(first->validate(), nullptr);
}

TEST_P(Create, AnAliasTakesTheLargerObjectSize) {
  auto small = world().create({.name = "small", .object_bytes = 193});
  auto large = world().create({.name = "large", .object_bytes = 200});
  if (small->identity() == large->identity()) {
    EXPECT_EQ(small->object_bytes(), 200u);
    void* object = small->alloc(gfp::kernel | gfp::zero);
    EXPECT_TRUE(all_zero(object, 200));
    small->free(object);
  }
  EXPECT_EQ(large->object_bytes(), 200u);
}

TEST_P(Create, UnlikeCachesNeverMerge) {
  const CacheSpec plain{.name = "plain", .object_bytes = 72};
  auto base = world().create(plain);
  const auto expect_apart = [&](CacheSpec spec, const CreateOptions& options, const char* why) {
    spec.name = "other";
    auto other = world().create(spec, options);
    ASSERT_NE(other, nullptr) << why;
    EXPECT_NE(other->identity(), base->identity()) << why;
  };
  for (const slab_flags_t flag :
       {slab_flag::no_merge, slab_flag::typesafe_by_rcu, slab_flag::noleaktrace,
        slab_flag::failslab, slab_flag::red_zone, slab_flag::poison, slab_flag::store_user,
        slab_flag::trace, slab_flag::consistency_checks, slab_flag::reclaim_account,
        slab_flag::cache_dma, slab_flag::cache_dma32, slab_flag::account}) {
    CacheSpec spec = plain;
    spec.flags = flag;
    expect_apart(spec, {}, "flag");
  }
  CacheSpec constructed = plain;
  constructed.ctor = &nothing;
  expect_apart(constructed, {}, "constructor");
  expect_apart(plain, {.has_user_region = true, .no_merge = false}, "user region");
  expect_apart(plain, {.has_user_region = false, .no_merge = true}, "no_merge option");
  CacheSpec larger = plain;
  larger.object_bytes = 73;
  expect_apart(larger, {}, "does not fit");
  CacheSpec smaller = plain;
  smaller.object_bytes = 64;
  expect_apart(smaller, {}, "wastes a word");
  CacheSpec coarse = plain;
  coarse.align = 256;
  expect_apart(coarse, {}, "alignment");
}

TEST_P(Create, NoMergeCacheIsNotOfferedToOthers) {
  auto alone = make({.name = "alone", .object_bytes = 72});
  auto other = world().create({.name = "other", .object_bytes = 72});
  EXPECT_NE(alone->identity(), other->identity());
}

// ---- Whole lives ----

TEST_P(Create, CreatingAndDestroyingLeaksNothing) {
  const auto live_once = [&] {
    for (const std::size_t bytes : {24u, 100u, 1000u, 5000u}) {
      auto cache = make(bytes);
      void* objects[50];
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 50, objects));
      cache->free_bulk(50, objects);
    }
  };
  live_once();  // what is made once a process
  const std::size_t before = pages::usage().allocated_bytes;
  for (int i = 0; i < 50; ++i) live_once();
  EXPECT_EQ(pages::usage().allocated_bytes, before);
}

TEST_P(Create, ManyCachesAtOnce) {
  std::vector<CachePtr> caches;
  std::vector<void*> objects;
  const std::size_t count = scaled(300);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "many-" + std::to_string(i);
    caches.push_back(make({.name = name.c_str(), .object_bytes = 8 + i}));
    objects.push_back(caches.back()->alloc());
    ASSERT_NE(objects.back(), nullptr);
    fill(objects.back(), 8 + i, i);
  }
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(holds(objects[i], 8 + i, i));
    EXPECT_EQ(caches[i]->owns(objects[i]), true);
    // SLOB tells the first 123 caches of a process apart.
    if (!is_slob() || i + 1 < 100) {
      EXPECT_FALSE(caches[(i + 1) % count]->owns(objects[i]));
    }
    caches[i]->free(objects[i]);
  }
}

}  // namespace
}  // namespace kmem::test
