// Random sequences of all operations against a model: the set of what is in use, and what stands in
// it. Every object is verified when it is freed, every cache validated after every step. A failure
// is shrunk to a short sequence and printed with the RC_PARAMS that repeat it.
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>

#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

enum class Kind : std::uint8_t {
  alloc,
  alloc_node,
  alloc_zeroed,
  free,
  alloc_bulk,
  free_bulk,
  kfree_bulk,
  kmalloc,
  krealloc,
  kfree,
  shrink,
  retune,
  replace,
  look,
  count
};
constexpr const char* kind_names[] = {
    "alloc",   "alloc_node", "alloc_zeroed", "free",   "alloc_bulk", "free_bulk", "kfree_bulk",
    "kmalloc", "krealloc",   "kfree",        "shrink", "retune",     "replace",   "look"};
static_assert(std::size(kind_names) == static_cast<std::size_t>(Kind::count));

// Numbers mean what the state allows (modulo), so that every part of a sequence is a sequence.
struct Operation {
  Kind kind;
  std::uint32_t which, amount;
  std::uint8_t cpu;
};

std::ostream& operator<<(std::ostream& out, const Operation& op) {
  return out << kind_names[static_cast<std::size_t>(op.kind)] << "(" << op.which << ", "
             << op.amount << ", cpu " << unsigned{op.cpu} << ")";
}

rc::Gen<Operation> any_operation() {
  const auto kind = rc::gen::weightedElement<Kind>({{6, Kind::alloc},
                                                    {2, Kind::alloc_node},
                                                    {2, Kind::alloc_zeroed},
                                                    {6, Kind::free},
                                                    {6, Kind::alloc_bulk},
                                                    {6, Kind::free_bulk},
                                                    {4, Kind::kfree_bulk},
                                                    {5, Kind::kmalloc},
                                                    {3, Kind::krealloc},
                                                    {4, Kind::kfree},
                                                    {2, Kind::shrink},
                                                    {1, Kind::retune},
                                                    {1, Kind::replace},
                                                    {1, Kind::look}});
  return rc::gen::build<Operation>(
      rc::gen::set(&Operation::kind, kind),
      rc::gen::set(&Operation::which, rc::gen::inRange<std::uint32_t>(0, 1u << 20)),
      rc::gen::set(&Operation::amount, rc::gen::inRange<std::uint32_t>(0, 1u << 20)),
      rc::gen::set(&Operation::cpu, rc::gen::inRange<std::uint8_t>(0, virtual_cpus)));
}

constexpr std::uint64_t built = 0xb011;
void construct_48(void* object) { fill(object, 48, built); }

class Machine {
 public:
  explicit Machine(const World& world) : world_(world) {
    for (std::size_t i = 0; i < std::size(caches_); ++i) replace_cache(i, i * 3);
  }
  ~Machine() {
    while (!used_.empty()) forget(used_.size() - 1);
  }

  void step(const Operation& op) {
    world_.enter_cpu(op.cpu);
    apply(op);
    for (auto& cache : caches_) {
      const char* broken = cache->validate();
      if (broken != nullptr) RC_FAIL(std::string(cache->name()) + ": " + broken);
    }
  }

  // All goes back, and nothing is left.
  void finish() {
    std::vector<void*> all;
    for (const Used& used : used_) {
      verify(used);
      all.push_back(used.object);
    }
    used_.clear();
    world_.kfree_bulk(all.size(), all.data());
    for (auto& cache : caches_) {
      cache->shrink();
      RC_ASSERT(cache->live_count() == 0u);
      RC_ASSERT((cache->validate() == nullptr));
    }
  }

 private:
  static constexpr std::size_t blocks = ~std::size_t{0};  // "cache" of what kmalloc() gave

  struct Used {
    void* object;
    std::size_t bytes;
    std::size_t cache;
    std::uint64_t tag;
  };

  static CacheSpec spec(std::size_t number) {
    static constexpr std::size_t sizes[] = {8, 56, 128, 300, 1024, 2600, 6000};
    CacheSpec spec{.name = "model", .object_bytes = sizes[number % std::size(sizes)]};
    spec.flags = slab_flag::no_merge;
    if (number % 5 == 1) spec.flags |= slab_flag::hwcache_align;
    if (number % 5 == 2) spec.flags |= slab_flag::typesafe_by_rcu;
    if (number % 5 == 3 && spec.object_bytes >= 48) spec.ctor = &construct_48;
    return spec;
  }

  void apply(const Operation& op) {
    const std::size_t index = op.which % std::size(caches_);
    AnyCache& cache = *caches_[index];
    switch (op.kind) {
      case Kind::alloc:
        return keep(cache.alloc(), index, false);
      case Kind::alloc_node:
        return keep(cache.alloc_node(gfp::kernel, static_cast<int>(op.amount) % nodes::count()),
                    index, false);
      case Kind::alloc_zeroed:
        if (ctors_[index] != nullptr) return keep(cache.alloc(), index, false);
        return keep(cache.alloc(gfp::kernel | gfp::zero), index, true);
      case Kind::alloc_bulk:
        return alloc_bulk(cache, index, op.amount % (op.amount % 5 == 0 ? 300 : 40));
      case Kind::free:
      case Kind::kfree:
        return free_one(op);
      case Kind::free_bulk:
      case Kind::kfree_bulk:
        return free_many(op);
      case Kind::kmalloc: {
        const std::size_t bytes = 1 + op.amount % (op.which % 8 == 0 ? 60000 : 700);
        return keep_block(world_.kmalloc(bytes), bytes);
      }
      case Kind::krealloc:
        return reallocate(op);
      case Kind::shrink:
        cache.shrink();
        return check_live(index);
      case Kind::retune:
        cache.retune(
            {.limit = 1 + op.amount % 70, .batchcount = 1 + op.amount % 70 / 2, .shared = -1});
        return;
      case Kind::replace:
        return replace(index, op.amount);
      default:
        return check_live(index);
    }
  }

  void keep(void* object, std::size_t index, bool zeroed) {
    AnyCache& cache = *caches_[index];
    RC_ASSERT((object != nullptr));
    RC_ASSERT(cache.owns(object));
    if (zeroed) RC_ASSERT(all_zero(object, cache.object_bytes()));
    if (ctors_[index] != nullptr) RC_ASSERT(holds(object, 48, built));
    used_.push_back({object, cache.object_bytes(), index, ++tag_});
    fill(object, cache.object_bytes(), tag_);
  }
  void keep_block(void* block, std::size_t bytes) {
    RC_ASSERT((block != nullptr));
    RC_ASSERT(world_.ksize(block) >= bytes);
    used_.push_back({block, bytes, blocks, ++tag_});
    fill(block, bytes, tag_);
  }

  // Contents as written; then a constructed object is made so again, ready to be freed.
  void verify(const Used& used) {
    RC_ASSERT(holds(used.object, used.bytes, used.tag));
    if (used.cache != blocks && ctors_[used.cache] != nullptr) ctors_[used.cache](used.object);
  }
  Used remove(std::size_t number) {
    const Used used = used_[number];
    used_[number] = used_.back();
    used_.pop_back();
    return used;
  }
  void forget(std::size_t number) { world_.kfree(remove(number).object); }

  void alloc_bulk(AnyCache& cache, std::size_t index, std::size_t n) {
    std::vector<void*> objects(n);
    RC_ASSERT(cache.alloc_bulk(gfp::kernel, n, objects.data()));
    for (void* object : objects) keep(object, index, false);
  }

  void free_one(const Operation& op) {
    if (used_.empty()) return;
    const Used used = remove(op.amount % used_.size());
    verify(used);
    if (op.kind == Kind::kfree || used.cache == blocks) return world_.kfree(used.object);
    caches_[used.cache]->free(used.object);
  }

  // A run of what is in use, from any place: all of it, or what is of one cache.
  void free_many(const Operation& op) {
    if (used_.empty()) return;
    const bool any = op.kind == Kind::kfree_bulk;
    const std::size_t start = op.amount % used_.size();
    const std::size_t cache = used_[start].cache;
    std::vector<void*> objects;
    std::size_t n = 1 + op.which % 150;
    for (std::size_t i = start; i < used_.size() && n > 0; --n) {
      if (!any && used_[i].cache != cache) {
        ++i;
        continue;
      }
      const Used used = remove(i);
      verify(used);
      objects.push_back(used.object);
    }
    if (any || cache == blocks) return world_.kfree_bulk(objects.size(), objects.data());
    caches_[cache]->free_bulk(objects.size(), objects.data());
  }

  void reallocate(const Operation& op) {
    if (used_.empty()) return;
    Used used = remove(op.which % used_.size());
    const std::size_t bytes = 1 + op.amount % 3000;
    RC_ASSERT(holds(used.object, used.bytes, used.tag));
    if (used.cache != blocks && bytes > used.bytes && ctors_[used.cache] != nullptr) {
      used_.push_back(used);  // would be freed without its constructor's state
      return;
    }
    void* moved = world_.krealloc(used.object, bytes, gfp::kernel);
    RC_ASSERT((moved != nullptr));
    RC_ASSERT(holds(moved, std::min(bytes, used.bytes), used.tag));
    const bool still_object = moved == used.object && used.cache != blocks;
    if (still_object) {
      fill(moved, used.bytes, used.tag);
      used_.push_back(used);
    } else {
      keep_block(moved, bytes);
    }
  }

  void check_live(std::size_t index) {
    const auto expected = std::count_if(used_.begin(), used_.end(),
                                        [&](const Used& used) { return used.cache == index; });
    RC_ASSERT(caches_[index]->live_count() == static_cast<std::size_t>(expected));
  }

  // Another cache in place of this one, after its objects have gone.
  void replace(std::size_t index, std::size_t number) {
    for (std::size_t i = used_.size(); i-- > 0;) {
      if (used_[i].cache != index) continue;
      verify(used_[i]);
      forget(i);
    }
    replace_cache(index, number);
  }
  void replace_cache(std::size_t index, std::size_t number) {
    CacheSpec wanted = spec(number);
    const std::string name = "model-" + std::to_string(index);
    wanted.name = name.c_str();
    caches_[index].reset();
    caches_[index] = world_.create(wanted);
    ctors_[index] = wanted.ctor;
    RC_ASSERT((caches_[index] != nullptr));
  }

  const World& world_;
  CachePtr caches_[3];
  Constructor ctors_[3] = {};
  std::vector<Used> used_;
  std::uint64_t tag_ = 0;
};

class Model : public WorldTest {};
KMEM_ALL_WORLDS(Model);

TEST_P(Model, AnySequenceOfOperationsKeepsEveryObject) {
  // RC_PARAMS is RapidCheck's own; without it the process's seed, and a number of sequences that
  // takes a few seconds.
  const std::string parameters = "seed=" + std::to_string(process_seed()) +
                                 " max_success=" + std::to_string(scaled(250)) + " max_size=150";
  setenv("RC_PARAMS", parameters.c_str(), 0);
  std::printf("RC_PARAMS=\"%s\"\n", std::getenv("RC_PARAMS"));
  const World& world = this->world();
  const bool held = rc::check(world.name(), [&] {
    const auto sequence = *rc::gen::container<std::vector<Operation>>(any_operation());
    Machine machine(world);
    for (const Operation& op : sequence) machine.step(op);
    machine.finish();
    const auto lines = log_.take();
    if (!lines.empty()) RC_FAIL("the library said:\n" + joined(lines));
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace kmem::test
