#include "bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace kmem::bench {

namespace {

// P(X <= k) of a fair coin thrown n times.
double binomial_cdf(std::size_t n, std::size_t k) noexcept {
  const double log_half = static_cast<double>(n) * std::log(0.5);
  const double log_n_factorial = std::lgamma(static_cast<double>(n) + 1);
  double sum = 0;
  for (std::size_t i = 0; i <= k; ++i)
    sum += std::exp(log_n_factorial - std::lgamma(static_cast<double>(i) + 1) -
                    std::lgamma(static_cast<double>(n - i) + 1) + log_half);
  return sum;
}

constexpr double tail_max = 0.025;  // on each side
constexpr double scatter_max = 0.25, drift_max = 0.15;
constexpr std::size_t rounds_to_judge = 8;

double middle_of(std::span<const double> sorted) noexcept {
  const std::size_t n = sorted.size();
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return middle_of(sorted);
}

// How far the rounds disagree. They are two at least, and the median is above zero.
void add_disagreement(Estimate& result, std::span<const double> values,
                      std::span<const double> sorted) {
  const std::size_t half = values.size() / 2;
  const double low = middle_of(sorted.first(half)), high = middle_of(sorted.last(half));
  result.scatter = (high - low) / result.median;
  const double before = median_of(values.first(half)), after = median_of(values.last(half));
  result.drift = std::abs(after - before) / result.median;
}

}  // namespace

std::size_t median_interval_rank(std::size_t n) noexcept {
  // The median is below the value of rank r (from 0) with probability P(X <= r).
  std::size_t rank = 0;
  while (rank + 1 < n / 2 && binomial_cdf(n, rank + 1) <= tail_max) ++rank;
  return rank;
}

Estimate estimate(std::span<const double> values) {
  Estimate result;
  result.rounds = values.size();
  if (values.empty()) return result;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  result.median = middle_of(sorted);
  if (n >= 2 && result.median > 0) add_disagreement(result, values, sorted);
  const std::size_t rank = median_interval_rank(n);
  result.low = sorted[rank];
  result.high = sorted[n - 1 - rank];
  result.coverage = n == 1 ? 0 : 1 - 2 * binomial_cdf(n, rank);
  return result;
}

Estimate widened(Estimate value) noexcept {
  constexpr double between_runs = 0.02;
  value.low = std::min(value.low, value.median * (1 - between_runs));
  value.high = std::max(value.high, value.median * (1 + between_runs));
  return value;
}

std::vector<double> ratios(std::span<const double> a, std::span<const double> b) {
  std::vector<double> result;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] > 0) result.push_back(b[i] / a[i]);
  return result;
}

bool too_noisy(const Estimate& value) noexcept {
  return value.rounds >= rounds_to_judge &&
         (value.scatter > scatter_max || value.drift > drift_max);
}

Verdict verdict(const Estimate& ratio) noexcept {
  if (too_noisy(ratio)) return Verdict::too_noisy;
  if (ratio.coverage < 1 - 2 * tail_max) return Verdict::cannot_tell;
  if (ratio.high < 1) return Verdict::faster;
  if (ratio.low > 1) return Verdict::slower;
  return Verdict::cannot_tell;
}

const char* text(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::too_noisy:
      return "too noisy";
    case Verdict::cannot_tell:
      break;
  }
  return "cannot tell";
}

Reached reached(const Estimate& value, double target) noexcept {
  if (too_noisy(value)) return Reached::too_noisy;
  if (value.coverage < 1 - 2 * tail_max) return Reached::cannot_tell;
  if (value.high <= target) return Reached::reached;
  if (value.low > target) return Reached::missed;
  return Reached::cannot_tell;
}

const char* text(Reached reached) noexcept {
  switch (reached) {
    case Reached::reached:
      return "reached";
    case Reached::missed:
      return "missed";
    case Reached::too_noisy:
      return "too noisy";
    case Reached::cannot_tell:
      break;
  }
  return "cannot tell";
}

}  // namespace kmem::bench
