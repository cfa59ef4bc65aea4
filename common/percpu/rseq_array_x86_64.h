// The PointerArray operations as restartable sequences; the frame is rseq_x86_64.h's.
#pragma once

#include "common/percpu/rseq_x86_64.h"

namespace kmem::percpu::rseq {

// PointerArray's members, as the bodies name them: top 0, bottom 4, end 8, touched 12, limit 16,
// capacity 20, node 24, entries from 32; so entry[top - 1] is at 24 + 8 * top.
static_assert(offsetof(PointerArray, top) == 0 && offsetof(PointerArray, bottom) == 4 &&
              offsetof(PointerArray, end) == 8 && offsetof(PointerArray, touched) == 12 &&
              offsetof(PointerArray, limit) == 16 && offsetof(PointerArray, capacity) == 20 &&
              offsetof(PointerArray, node) == 24);

// empty (ZF) if top == bottom
// object = entry[top - 1]; touched = 1
// commit top = top - 1
template <std::uint32_t field>
KMEM_FAST void* pop_array(const GateWord& gate) noexcept {
  void *slot, *object, *top;
  bool empty;
  asm volatile(KMEM_RSEQ("movl %c[f](%[slot]), %k[top]\n\t"
                         "cmpl %c[f]+4(%[slot]), %k[top]\n\t"
                         "je 2f\n\t"
                         "movq %c[f]+24(%[slot],%[top],8), %[object]\n\t"
                         "movl $1, %c[f]+12(%[slot])\n\t"
                         "leal -1(%[top]), %k[top]\n\t"
                         "movl %k[top], %c[f](%[slot])")
               : [slot] "=&r"(slot), [object] "=&r"(object), [top] "=&r"(top), "=@ccz"(empty)
               : KMEM_RSEQ_INPUTS
               : "memory");
  return popped(object, empty);
}

// refused (ZF) if slot.node != node or top == end
// duplicate if top != bottom and entry[top - 1] == object
// entry[top] = object
// commit top = top + 1
template <std::uint32_t field>
KMEM_FAST Push push_array(const GateWord& gate, void* object, std::uint64_t node) noexcept {
  std::uint64_t top;
  void* slot;
  bool done;
  asm volatile(KMEM_RSEQ("cmpq %[node], %c[f]+24(%[slot])\n\t"
                         "jne 6f\n\t"
                         "movl %c[f](%[slot]), %k[top]\n\t"
                         "cmpl %c[f]+4(%[slot]), %k[top]\n\t"
                         "je 5f\n\t"
                         "cmpq %[object], %c[f]+24(%[slot],%[top],8)\n\t"
                         "je 7f\n"
                         "5:\tcmpl %c[f]+8(%[slot]), %k[top]\n\t"
                         "je 2f\n\t"
                         "movq %[object], %c[f]+32(%[slot],%[top],8)\n\t"
                         "leal 1(%[top]), %k[top]\n\t"
                         "movl %k[top], %c[f](%[slot])")
                   KMEM_RSEQ_COLD("6:\txorl %k[top], %k[top]\n\t"  // ZF
                                  "jmp 2b\n"
                                  "7:\tmovq $-1, %[top]\n\t"  // says duplicate: no top is as large
                                  "cmpq %[top], %[top]\n\t"   // ZF
                                  "jmp 2b\n\t")
               : [slot] "=&r"(slot), [top] "=&r"(top), "=@ccnz"(done)
               : KMEM_RSEQ_INPUTS, [object] "r"(object), [node] "r"(node)
               : "memory");
  return pushed(done, top == ~std::uint64_t{0});
}

// to[0..k) = from[0..k): four pointers a turn, then two, then one. Uses i and t.
#define KMEM_RSEQ_COPY(from, to) \
  "movq %[k], %[t]\n\t"          \
  "xorl %k[i], %k[i]\n\t"        \
  "andq $-4, %[t]\n\t"           \
  "jz 6f\n"                      \
  "5:\tmovups (" from            \
  ",%[i],8), %%xmm0\n\t"         \
  "movups 16(" from              \
  ",%[i],8), %%xmm1\n\t"         \
  "movups %%xmm0, (" to          \
  ",%[i],8)\n\t"                 \
  "movups %%xmm1, 16(" to        \
  ",%[i],8)\n\t"                 \
  "addq $4, %[i]\n\t"            \
  "cmpq %[t], %[i]\n\t"          \
  "jne 5b\n"                     \
  "6:\ttestb $2, %b[k]\n\t"      \
  "jz 7f\n\t"                    \
  "movups (" from                \
  ",%[i],8), %%xmm0\n\t"         \
  "movups %%xmm0, (" to          \
  ",%[i],8)\n\t"                 \
  "addq $2, %[i]\n"              \
  "7:\ttestb $1, %b[k]\n\t"      \
  "jz 8f\n\t"                    \
  "movq (" from                  \
  ",%[i],8), %[t]\n\t"           \
  "movq %[t], (" to              \
  ",%[i],8)\n"                   \
  "8:\t"

// k = min(n, k), and out to post_commit if that is 0.
#define KMEM_RSEQ_AT_MOST_N \
  "cmpq %[n], %[k]\n\t"     \
  "cmovaq %[n], %[k]\n\t"   \
  "testq %[k], %[k]\n\t"    \
  "jz 2f\n\t"

// k = min(n, top - bottom); nothing if 0
// out[0..k) = entry[top - k..top); touched = 1
// commit top = top - k
template <std::uint32_t field>
inline std::size_t take_array(const GateWord& gate, void** out, std::size_t n) noexcept {
  std::size_t k, i, t, top;
  void *slot, *from;
  asm volatile(
      KMEM_RSEQ("movl %c[f](%[slot]), %k[top]\n\t"
                "movl %k[top], %k[k]\n\t"
                "subl %c[f]+4(%[slot]), %k[k]\n\t" KMEM_RSEQ_AT_MOST_N "subl %k[k], %k[top]\n\t"
                "leaq %c[f]+32(%[slot],%[top],8), %[from]\n\t" KMEM_RSEQ_COPY(
                    "%[from]", "%[out]") "movl $1, %c[f]+12(%[slot])\n\t"
                                         "movl %k[top], %c[f](%[slot])")
      : [slot] "=&r"(slot), [from] "=&r"(from), [k] "=&r"(k), [i] "=&r"(i), [t] "=&r"(t),
        [top] "=&r"(top)
      : KMEM_RSEQ_INPUTS, [out] "r"(out), [n] "r"(n)
      : "xmm0", "xmm1", "memory");
  return k;
}

// nothing if slot.node != node; k = min(n, end - top); nothing if 0
// entry[top..top + k) = in[0..k)
// commit top = top + k
template <std::uint32_t field>
inline std::size_t put_array(const GateWord& gate, void* const* in, std::size_t n,
                             std::uint64_t node) noexcept {
  std::size_t k, i, t, top;
  void *slot, *to;
  asm volatile(KMEM_RSEQ("xorl %k[k], %k[k]\n\t"
                         "cmpq %[node], %c[f]+24(%[slot])\n\t"
                         "jne 2f\n\t"
                         "movl %c[f](%[slot]), %k[top]\n\t"
                         "movl %c[f]+8(%[slot]), %k[k]\n\t"
                         "subl %k[top], %k[k]\n\t" KMEM_RSEQ_AT_MOST_N
                         "leaq %c[f]+32(%[slot],%[top],8), %[to]\n\t" KMEM_RSEQ_COPY(
                             "%[in]", "%[to]") "addl %k[k], %k[top]\n\t"
                                               "movl %k[top], %c[f](%[slot])")
               : [slot] "=&r"(slot), [to] "=&r"(to), [k] "=&r"(k), [i] "=&r"(i), [t] "=&r"(t),
                 [top] "=&r"(top)
               : KMEM_RSEQ_INPUTS, [in] "r"(in), [n] "r"(n), [node] "r"(node)
               : "xmm0", "xmm1", "memory");
  return k;
}

// The last step of a change of the window: from top, bottom and end (in t) to one 16-byte store.
// touched is kept. Uses i; the low halves of top and t stay top and end.
#define KMEM_RSEQ_COMMIT_WINDOW       \
  "shlq $32, %[bottom]\n\t"           \
  "orq %[bottom], %[top]\n\t"         \
  "movq %[top], %%xmm0\n\t"           \
  "movl %c[f]+12(%[slot]), %k[i]\n\t" \
  "shlq $32, %[i]\n\t"                \
  "orq %[i], %[t]\n\t"                \
  "movq %[t], %%xmm1\n\t"             \
  "punpcklqdq %%xmm1, %%xmm0\n\t"     \
  "movaps %%xmm0, %c[f](%[slot])"

// k = min(n, top - bottom); nothing if 0
// out[0..k) = entry[bottom..bottom + k)
// commit (bottom, end) = (bottom + k, min(bottom + k + limit, capacity))
template <std::uint32_t field>
inline std::size_t take_oldest_array(const GateWord& gate, void** out, std::size_t n) noexcept {
  std::size_t k, i, t, top, bottom;
  void* slot;
  asm volatile(
      KMEM_RSEQ(
          "movl %c[f](%[slot]), %k[k]\n\t"
          "movl %c[f]+4(%[slot]), %k[bottom]\n\t"
          "subl %k[bottom], %k[k]\n\t" KMEM_RSEQ_AT_MOST_N
          "leaq %c[f]+32(%[slot],%[bottom],8), %[top]\n\t"  // for now: from where
          KMEM_RSEQ_COPY("%[top]",
                         "%[out]") "movl %c[f](%[slot]), %k[top]\n\t"
                                   "addl %k[k], %k[bottom]\n\t"
                                   "movl %k[bottom], %k[t]\n\t"
                                   "addl %c[f]+16(%[slot]), %k[t]\n\t"
                                   "cmpl %c[f]+20(%[slot]), %k[t]\n\t"
                                   "cmoval %c[f]+20(%[slot]), %k[t]\n\t" KMEM_RSEQ_COMMIT_WINDOW)
      : [slot] "=&r"(slot), [k] "=&r"(k), [i] "=&r"(i), [t] "=&r"(t), [top] "=&r"(top),
        [bottom] "=&r"(bottom)
      : KMEM_RSEQ_INPUTS, [out] "r"(out), [n] "r"(n)
      : "xmm0", "xmm1", "memory");
  return k;
}

// nothing moves if bottom == 0 or top - bottom > bottom
// entry[0..top - bottom) = entry[bottom..top)
// commit (top, bottom, end) = (top - bottom, 0, min(limit, capacity))
template <std::uint32_t field>
inline bool make_room_array(const GateWord& gate) noexcept {
  std::size_t k, i, t, top, bottom;  // t: end
  void* slot;
  asm volatile(
      KMEM_RSEQ(
          "movl %c[f](%[slot]), %k[top]\n\t"
          "movl %c[f]+8(%[slot]), %k[t]\n\t"
          "movl %c[f]+4(%[slot]), %k[bottom]\n\t"
          "testl %k[bottom], %k[bottom]\n\t"
          "jz 2f\n\t"
          "movl %k[top], %k[k]\n\t"
          "subl %k[bottom], %k[k]\n\t"
          "cmpl %k[bottom], %k[k]\n\t"
          "ja 2f\n\t"
          "leaq %c[f]+32(%[slot]), %[top]\n\t"        // for now: where to
          "leaq (%[top],%[bottom],8), %[bottom]\n\t"  // for now: from where
          KMEM_RSEQ_COPY("%[bottom]",
                         "%[top]") "movl %k[k], %k[top]\n\t"
                                   "xorl %k[bottom], %k[bottom]\n\t"
                                   "movl %c[f]+16(%[slot]), %k[t]\n\t"
                                   "cmpl %c[f]+20(%[slot]), %k[t]\n\t"
                                   "cmoval %c[f]+20(%[slot]), %k[t]\n\t" KMEM_RSEQ_COMMIT_WINDOW)
      : [slot] "=&r"(slot), [k] "=&r"(k), [i] "=&r"(i), [t] "=&r"(t), [top] "=&r"(top),
        [bottom] "=&r"(bottom)
      : KMEM_RSEQ_INPUTS
      : "xmm0", "xmm1", "memory");
  return static_cast<std::uint32_t>(top) < static_cast<std::uint32_t>(t);
}

}  // namespace kmem::percpu::rseq
