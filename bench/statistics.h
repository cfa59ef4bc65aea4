// Medians of few noisy rounds, and how sure they are. No distribution is assumed: the interval of a
// median is made of order statistics, by the binomial law.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kmem::bench {

struct Estimate {
  double median = 0;
  double low = 0, high = 0;  // the interval
  double coverage = 0;  // probability that it holds the true median; at least 0.95 from 6 values
  std::size_t rounds = 0;
  double scatter = 0;  // from quartile to quartile, as a part of the median
  double drift = 0;    // from the median of the first half of the rounds to that of the second
};

// Of no values: all zero. values: in the order of the rounds.
Estimate estimate(std::span<const double> values);

// An interval at least 2 % of the median wide on each side, for what was timed: from one start of
// the program to the next the code and the heap lie elsewhere, which rounds of one run do not see.
Estimate widened(Estimate value) noexcept;

// Whether the rounds disagree so much that another run may well find something else: a quarter of
// the median between the quartiles, or 15 % of it between the halves of the run. An interval does
// not see the latter: it takes the rounds for equals. Never of fewer than 8 rounds, which give no
// verdict, or nearly none.
bool too_noisy(const Estimate& value) noexcept;

// b[i] / a[i] for rounds where both were measured.
std::vector<double> ratios(std::span<const double> a, std::span<const double> b);

enum class Verdict { faster, slower, cannot_tell, too_noisy };

// Of a cost ratio "this to that": below one is faster. cannot_tell where the interval holds one, or
// where the rounds are too few for an interval of 95 %.
Verdict verdict(const Estimate& ratio) noexcept;
const char* text(Verdict verdict) noexcept;

enum class Reached { reached, missed, cannot_tell, too_noisy };

// Of a figure that is to be at most target: reached or missed only by its whole interval.
Reached reached(const Estimate& value, double target) noexcept;
const char* text(Reached reached) noexcept;

// Index (from 0) of the order statistic that bounds the 95 % interval of a median of n values from
// below; the upper bound is its mirror image.
std::size_t median_interval_rank(std::size_t n) noexcept;

}  // namespace kmem::bench
