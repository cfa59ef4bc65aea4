#include "common/debug/report.h"

#include <atomic>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "common/base/log.h"
#include "common/pages/misuse.h"
#include "common/pages/page.h"
#include "common/sync/once.h"

namespace kmem::debug {
namespace {

constexpr std::size_t fault_count = static_cast<std::size_t>(Fault::count);
constexpr char double_rule[] =
    "=============================================================================";
constexpr char single_rule[] =
    "-----------------------------------------------------------------------------";
static_assert(sizeof(double_rule) == 78 && sizeof(single_rule) == 78);

struct FaultText {
  const char* name;    // for statistics
  const char* reason;  // of the BUG line
};
constexpr FaultText texts[] = {
    {"foreign_pointer", "Not a valid slab page"},
    {"not_an_object", "Invalid object pointer"},
    {"wrong_cache", "Object of another cache"},
    {"double_free", "Object already free"},
    {"live_objects", "Objects remaining on kmem_cache_destroy()"},
    {"corrupt_link", "Freechain corrupt"},
};
static_assert(sizeof(texts) / sizeof(texts[0]) == fault_count);

constinit std::atomic<std::uint64_t> counts[fault_count];
constinit Once abort_chosen;
constinit bool abort_on_error = false;

bool must_abort() noexcept {
  abort_chosen([] {
    const char* choice = std::getenv("KMEM_ON_ERROR");
    if (choice == nullptr || std::strcmp(choice, "report") == 0) return;
    abort_on_error = std::strcmp(choice, "abort") == 0;
    if (!abort_on_error)
      warn("KMEM_ON_ERROR=%s refused: not report or abort; using report", choice);
  });
  return abort_on_error;
}

// Where the pointer lies, as far as the page array knows: evidence only, nothing is followed.
void print_place(const void* object) noexcept {
  const pages::Page* page = pages::page_of(object);
  if (pages::is_null_page(page)) {
    log_line("Object %p is outside of the arena", object);
    return;
  }
  const pages::Page* head = page->head;
  if (head == nullptr) {
    log_line("Object %p is in a page that is not in use", object);
    return;
  }
  const std::size_t offset =
      static_cast<std::size_t>(static_cast<const char*>(object) - pages::address_of(head));
  log_line("Slab %p order=%u node=%u", static_cast<void*>(pages::address_of(head)),
           unsigned{head->order}, unsigned{head->node});
  log_line("Object %p @offset=%zu", object, offset);
}

}  // namespace

void report(Fault fault, const char* cache, const void* object, const char* detail,
            const char* fix) noexcept {
  if (cache[0] == '\0') cache = "<no cache>";
  const auto index = static_cast<std::size_t>(fault);
  counts[index].fetch_add(1, std::memory_order_relaxed);
  log_line("%s", double_rule);
  if (fault == Fault::not_an_object) {
    log_line("BUG %s (Not tainted): %s %p", cache, texts[index].reason, object);
  } else {
    log_line("BUG %s (Not tainted): %s", cache, texts[index].reason);
  }
  log_line("%s", single_rule);
  log_line("%s", "");
  if (object != nullptr) print_place(object);
  if (detail != nullptr) log_line("%s", detail);
  log_line("FIX %s: %s", cache, fix);
  if (must_abort()) std::abort();
}

std::uint64_t report_count() noexcept {
  std::uint64_t total = 0;
  for (const auto& count : counts) total += count.load(std::memory_order_relaxed);
  return total;
}

std::uint64_t report_count(Fault fault) noexcept {
  return counts[static_cast<std::size_t>(fault)].load(std::memory_order_relaxed);
}

const char* name(Fault fault) noexcept { return texts[static_cast<std::size_t>(fault)].name; }

}  // namespace kmem::debug

namespace kmem::pages {

void on_bad_free(const Page* head, const char* what) noexcept {
  debug::report(debug::Fault::foreign_pointer, "pages",
                is_null_page(head) ? nullptr : address_of(head), what, "Pages not freed");
}

}  // namespace kmem::pages
