// A contender whose loops run in a process of its own.
#pragma once

#include <memory>
#include <string>

#include "bench/loop.h"
#include "bench/rivals/child.h"

namespace kmem::bench {

// none: a loop of single calls stands for them.
enum class BulkCalls : std::uint8_t { own, none };

class ChildContender final : public Contender {
 public:
  ChildContender(std::shared_ptr<Child> child, Side side, BulkCalls bulk_calls)
      : child_(std::move(child)), side_(side), bulk_calls_(bulk_calls) {}
  std::string name() const override { return child_->name(); }
  Side side() const override { return side_; }
  bool has_bulk() const override { return bulk_calls_ == BulkCalls::own; }
  std::unique_ptr<Loop> loop(const Job& job) const override;

 private:
  std::shared_ptr<Child> child_;
  Side side_;
  BulkCalls bulk_calls_;
};

}  // namespace kmem::bench
