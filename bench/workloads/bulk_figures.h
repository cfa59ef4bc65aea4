// The figures that a run of bulk is to reach, one row each for what was measured: ratios of costs
// within the rounds of one group of competitors.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/runner.h"
#include "bench/workloads/comparison.h"

namespace kmem::bench {

// Who took part in a group, and what it cost by path; null: not measured in this group.
struct BulkCosts {
  std::string name;
  Side side = Side::backend;
  const Measured* generic = nullptr;
  const Measured* optimized = nullptr;
  const Measured* single = nullptr;
  const Measured* stored = nullptr;
};

class BulkFigures {
 public:
  explicit BulkFigures(std::size_t object_bytes) : object_bytes_(object_bytes) {}

  // A group of competitors that shared their rounds, at one batch size.
  void add_group(std::size_t batch, const std::vector<BulkCosts>& group,
                 const Measured& pointer_copy, const Measured* called_floor);
  // One backend at batches that each double the one before, which shared their rounds.
  void add_steps(const std::string& name, const std::vector<std::size_t>& batches,
                 const std::vector<const Measured*>& costs);
  // To the report, with a table. Nothing where there are none.
  void report_to(Report& report) const;

 private:
  void add(std::string name, const Measured& of, const Measured& to, double target);
  void add_singles(const std::vector<BulkCosts>& group);
  void add_c_abi(const std::vector<BulkCosts>& group, const Measured* called_floor);
  void add_bulk_of_64(const std::vector<BulkCosts>& group, const Measured& pointer_copy);
  void add_bulk_of_16(const std::vector<BulkCosts>& group);
  void add_bulk_of_1(const std::vector<BulkCosts>& group);

  std::size_t object_bytes_;
  std::vector<Figure> figures_;
};

// 1, 2, 4, .., 1024.
std::vector<std::size_t> step_batches();

}  // namespace kmem::bench
