// A contender whose loops run in a process of its own.
#pragma once

#include <memory>
#include <string>

#include "bench/loop.h"
#include "bench/rivals/child.h"

namespace kmem::bench {

class ChildContender final : public Contender {
 public:
  // kind: static text.
  ChildContender(std::shared_ptr<Child> child, const char* kind, bool through_c_abi)
      : child_(std::move(child)), kind_(kind), through_c_abi_(through_c_abi) {}
  std::string name() const override { return child_->name(); }
  const char* kind() const override { return kind_; }
  bool through_c_abi() const override { return through_c_abi_; }
  std::unique_ptr<Loop> loop(const Job& job) const override;

 private:
  std::shared_ptr<Child> child_;
  const char* kind_;
  bool through_c_abi_;
};

}  // namespace kmem::bench
