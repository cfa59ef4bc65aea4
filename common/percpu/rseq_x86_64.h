// The operations of sequences.h as restartable sequences on x86-64.
//
// 1. Frame, the same for all (KMEM_RSEQ):
//      %fs:8(area) = descriptor       says where the sequence starts, commits, and goes when cut
//      short
//  start:
//      slot = gate + (%fs:0(area) << unit_shift)
//      ... reads, and writes that have no meaning yet ...
//      one store                      the commit
//  post_commit:
//    When the thread is preempted, migrated or has a signal delivered between start and
//    post_commit, the kernel moves it to the descriptor's abort address, which jumps back to the
//    frame's begin.
//
// 2. Why this is right
//    - The gate is loaded inside, so a restarted sequence sees a gate closed meanwhile (README.md).
//    - The CPU's number is cpu_id_start, not cpu_id: always in range, and 0 on a thread that is not
//      registered. Such a thread finds a closed gate, and refuses on the dummy's unit 0.
//    - Nothing is pushed, no red zone is used, no register is changed but outputs and clobbers, and
//      no input is changed before the end.
//    - Every refusal comes before the first write to the slot: the dummy area is read-only.
//    - A refusal jumps to post_commit, or to a stub in the cold section that goes there. Flags tell
//      the caller: nothing between the last comparison and post_commit changes them.
//
// 3. Operands. field: offset of the shape, an immediate. link: a register. Of all rseq fields only
//    rseq_cs is written. Plain asm, not asm goto: GCC 12.2 loses values on the edges of an asm goto
//    that has outputs (PR 113921), and a flag costs one jump that is never taken.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/attributes.h"
#include "common/percpu/current_cpu.h"
#include "common/percpu/sequences.h"

namespace kmem::percpu::rseq {

using GateWord = std::atomic<char*>;

// Both sections join the group of the function (flag ?), so that the linker drops copies of an
// inline function together with their descriptors. The four bytes before the abort address are the
// signature that glibc registered; in front of them the opcode of ud1, which makes them an operand.
#define KMEM_RSEQ(body) \
  ".pushsection __rseq_cs, \"aw?\", @progbits\n\t"        \
  ".balign 32\n"                                          \
  "3:\t.long 0, 0\n\t"                                    \
  ".quad 1f, 2f - 1f, 4f\n\t"                             \
  ".popsection\n\t"                                       \
  KMEM_RSEQ_COLD(".byte 0x0f, 0xb9, 0x3d\n\t"             \
                 ".long 0x53053053\n"                     \
                 "4:\tjmp 0f\n\t")                        \
  "0:\tleaq 3b(%%rip), %[slot]\n\t"                       \
  "movq %[slot], %%fs:8(%[area])\n"                       \
  "1:\tmovl %%fs:0(%[area]), %k[slot]\n\t"                \
  "shlq %[shift], %[slot]\n\t"                            \
  "addq %[gate], %[slot]\n\t" body "\n"                   \
  "2:\n"

// Code outside the sequence and out of the way: where an abort or a rare refusal goes.
#define KMEM_RSEQ_COLD(code) \
  ".pushsection .text.unlikely, \"ax?\", @progbits\n\t" code ".popsection\n\t"

// The operands that the frame and every body need.
#define KMEM_RSEQ_INPUTS \
  [area] "r"(rseq_area), [gate] "m"(gate), [shift] "i"(unit_shift), [f] "i"(field)

// A flag and a value say the same of a pop; the caller's test of the value is then for free.
KMEM_FAST void* popped(void* object, bool empty) noexcept {
  if (empty) return nullptr;
  if (object == nullptr) __builtin_unreachable();
  return object;
}
KMEM_FAST Push pushed(bool done, bool duplicate) noexcept {
  if (done) [[likely]]
    return Push::done;
  return duplicate ? Push::duplicate : Push::refused;
}

// head = slot.head; empty (ZF) if 0
// commit slot.head = *(head + link)
template <std::uint32_t field>
KMEM_FAST void* pop_owned(const GateWord& gate, std::size_t link) noexcept {
  void *head, *slot, *next;
  bool empty;
  asm volatile(KMEM_RSEQ("movq %c[f](%[slot]), %[head]\n\t"
                         "testq %[head], %[head]\n\t"
                         "jz 2f\n\t"
                         "movq (%[head],%[link]), %[next]\n\t"
                         "movq %[next], %c[f](%[slot])")
               : [head] "=&r"(head), [slot] "=&r"(slot), [next] "=&r"(next), "=@ccz"(empty)
               : KMEM_RSEQ_INPUTS, [link] "r"(link)
               : "memory");
  return popped(head, empty);
}

// duplicate if slot.head == first; refused (not ZF) if slot.owner != owner
// *(last + link) = slot.head
// commit slot.head = first
template <std::uint32_t field>
KMEM_FAST Push push_owned(const GateWord& gate, void* first, void* last, void* owner,
                          std::size_t link) noexcept {
  void *slot, *head;
  bool done;
  asm volatile(
      KMEM_RSEQ("movq %c[f](%[slot]), %[head]\n\t"
                "cmpq %[first], %[head]\n\t"
                "je 5f\n\t"
                "cmpq %[owner], %c[f]+8(%[slot])\n\t"
                "jne 2f\n\t"
                "movq %[head], (%[last],%[link])\n\t"
                "movq %[first], %c[f](%[slot])")
          KMEM_RSEQ_COLD("5:\ttestq %%rsp, %%rsp\n\t"  // not ZF
                         "jmp 2b\n\t")
      : [slot] "=&r"(slot), [head] "=&r"(head), "=@ccz"(done)
      : KMEM_RSEQ_INPUTS, [first] "r"(first), [last] "r"(last), [owner] "r"(owner), [link] "r"(link)
      : "memory");
  return pushed(done, head == first);
}

// word = slot.word; head = word >> 16; empty (ZF) if 0
// commit slot.word = *(head + link) << 16 | (word & 0xffff) - 1
template <std::uint32_t field>
KMEM_FAST void* pop_counted(const GateWord& gate, std::size_t link) noexcept {
  void *head, *slot, *next, *count;
  bool empty;
  asm volatile(KMEM_RSEQ("movq %c[f](%[slot]), %[head]\n\t"
                         "movzwl %w[head], %k[count]\n\t"
                         "shrq $16, %[head]\n\t"
                         "jz 2f\n\t"
                         "movq (%[head],%[link]), %[next]\n\t"
                         "shlq $16, %[next]\n\t"
                         "testq %[head], %[head]\n\t"  // not ZF: the shift may have set it
                         "leaq -1(%[next],%[count]), %[next]\n\t"
                         "movq %[next], %c[f](%[slot])")
               : [head] "=&r"(head), [slot] "=&r"(slot), [next] "=&r"(next), [count] "=&r"(count),
                 "=@ccz"(empty)
               : KMEM_RSEQ_INPUTS, [link] "r"(link)
               : "memory");
  return popped(head, empty);
}

// head = slot.word >> 16; duplicate if head == first
// refused if slot.node != node or count + n > slot.limit, which is at most 0xffff
// *(last + link) = head
// commit slot.word = first << 16 | count + n
template <std::uint32_t field>
KMEM_FAST Push push_counted(const GateWord& gate, void* first, void* last, std::uint64_t n,
                            std::uint64_t node, std::size_t link) noexcept {
  void *slot, *head, *count, *word;
  bool done;  // not above the limit: CF or ZF
  asm volatile(KMEM_RSEQ("movq %c[f](%[slot]), %[head]\n\t"
                         "movzwl %w[head], %k[count]\n\t"
                         "shrq $16, %[head]\n\t"
                         "cmpq %[first], %[head]\n\t"
                         "je 5f\n\t"
                         "cmpq %[node], %c[f]+24(%[slot])\n\t"
                         "jne 5f\n\t"
                         "addq %[n], %[count]\n\t"
                         "movq %[first], %[word]\n\t"
                         "shlq $16, %[word]\n\t"
                         "orq %[count], %[word]\n\t"
                         "cmpq %c[f]+16(%[slot]), %[count]\n\t"
                         "ja 2f\n\t"
                         "movq %[head], (%[last],%[link])\n\t"
                         "movq %[word], %c[f](%[slot])")
                   KMEM_RSEQ_COLD("5:\ttestq %%rsp, %%rsp\n\t"  // neither CF nor ZF
                                  "jmp 2b\n\t")
               : [slot] "=&r"(slot), [head] "=&r"(head), [count] "=&r"(count), [word] "=&r"(word),
                 "=@ccbe"(done)
               : KMEM_RSEQ_INPUTS, [first] "r"(first), [last] "r"(last), [n] "er"(n),
                 [node] "er"(node), [link] "r"(link)
               : "memory");
  return pushed(done, head == first);
}

// The walk of take: from the head, each object to out[k], until n or the end of the list. Nothing
// is written if there is none. load sets ZF if the head is 0.
// From the second on, where an object's next one lies is guessed, as far off as the last time, and
// then compared with the link: where objects lie in a row, the CPU runs ahead instead of waiting
// for one link after the other. A stub in the cold section, as refusals have, would not be
// restarted.
#define KMEM_RSEQ_WALK(load)            \
  "xorl %k[k], %k[k]\n\t" load          \
  "jz 2f\n\t"                           \
  "xorl %k[step], %k[step]\n\t"         \
  "movq %[head], (%[out])\n\t"          \
  "movq (%[head],%[link]), %[next]\n\t" \
  "incq %[k]\n"                         \
  "7:\tsubq %[head], %[step]\n\t"       \
  "addq %[next], %[step]\n\t"           \
  "movq %[next], %[head]\n"             \
  "8:\ttestq %[head], %[head]\n\t"      \
  "jz 6f\n\t"                           \
  "cmpq %[n], %[k]\n\t"                 \
  "jae 6f\n\t"                          \
  "movq %[head], (%[out],%[k],8)\n\t"   \
  "movq (%[head],%[link]), %[next]\n\t" \
  "incq %[k]\n\t"                       \
  "addq %[step], %[head]\n\t"           \
  "cmpq %[next], %[head]\n\t"           \
  "je 8b\n\t"                           \
  "jmp 7b\n"                            \
  "6:\t"

// k objects off the head, k <= n; nothing if there is none
// commit slot.head = the link of the last
template <std::uint32_t field>
inline std::size_t take_owned(const GateWord& gate, void** out, std::size_t n,
                              std::size_t link) noexcept {
  void *slot, *head, *next, *step;
  std::size_t k;
  if (n == 0) return 0;
  asm volatile(
      KMEM_RSEQ(KMEM_RSEQ_WALK("movq %c[f](%[slot]), %[head]\n\t"
                               "testq %[head], %[head]\n\t") "movq %[head], %c[f](%[slot])")
      : [slot] "=&r"(slot), [head] "=&r"(head), [next] "=&r"(next), [step] "=&r"(step), [k] "=&r"(k)
      : KMEM_RSEQ_INPUTS, [out] "r"(out), [n] "r"(n), [link] "r"(link)
      : "memory");
  return k;
}

// k objects off the head, k <= n; nothing if there is none
// commit slot.word = (the link of the last) << 16 | count - k
template <std::uint32_t field>
inline std::size_t take_counted(const GateWord& gate, void** out, std::size_t n,
                                std::size_t link) noexcept {
  void *slot, *head, *next, *step, *count;
  std::size_t k;
  if (n == 0) return 0;
  asm volatile(
      KMEM_RSEQ(KMEM_RSEQ_WALK("movq %c[f](%[slot]), %[head]\n\t"
                               "movzwl %w[head], %k[count]\n\t"
                               "shrq $16, %[head]\n\t") "shlq $16, %[head]\n\t"
                                                        "subq %[k], %[count]\n\t"
                                                        "orq %[count], %[head]\n\t"
                                                        "movq %[head], %c[f](%[slot])")
      : [slot] "=&r"(slot), [head] "=&r"(head), [next] "=&r"(next), [step] "=&r"(step),
        [count] "=&r"(count), [k] "=&r"(k)
      : KMEM_RSEQ_INPUTS, [out] "r"(out), [n] "r"(n), [link] "r"(link)
      : "memory");
  return k;
}

// Both words by one load, which is the "commit": only this CPU writes them.
template <std::uint32_t field>
inline Pair read_pair(const GateWord& gate) noexcept {
  using TwoWords [[gnu::vector_size(16)]] = long long;
  void* slot;
  TwoWords words;
  asm volatile(KMEM_RSEQ("movaps %c[f](%[slot]), %[words]")
               : [slot] "=&r"(slot), [words] "=&x"(words)
               : KMEM_RSEQ_INPUTS
               : "memory");
  return std::bit_cast<Pair>(words);
}

// differs (not ZF) if the slot is not live (the dummy), or pair != expected
// commit pair = desired
template <std::uint32_t field>
inline bool cas_pair(const GateWord& gate, Pair expected, Pair desired) noexcept {
  static_assert(offsetof(SlotHeader, live) == 4);
  void* slot;
  bool equal;
  asm volatile(KMEM_RSEQ("cmpl $1, 4(%[slot])\n\t"
                         "jne 2f\n\t"
                         "cmpq %[first], %c[f](%[slot])\n\t"
                         "jne 2f\n\t"
                         "cmpq %[second], %c[f]+8(%[slot])\n\t"
                         "jne 2f\n\t"
                         "movq %[new_first], %%xmm0\n\t"
                         "movq %[new_second], %%xmm1\n\t"
                         "punpcklqdq %%xmm1, %%xmm0\n\t"
                         "movaps %%xmm0, %c[f](%[slot])")
               : [slot] "=&r"(slot), "=@ccz"(equal)
               : KMEM_RSEQ_INPUTS, [first] "r"(expected.first), [second] "r"(expected.second),
                 [new_first] "r"(desired.first), [new_second] "r"(desired.second)
               : "xmm0", "xmm1", "memory");
  return equal;
}

// Both by one load, which is the "commit".
template <std::uint32_t field>
inline CountedHead read_counted(const GateWord& gate) noexcept {
  void* slot;
  std::uint64_t word;
  asm volatile(KMEM_RSEQ("movq %c[f](%[slot]), %[word]")
               : [slot] "=&r"(slot), [word] "=&r"(word)
               : KMEM_RSEQ_INPUTS
               : "memory");
  return CountedHead(word);
}

// differs (not ZF) if the slot is not live (the dummy), or word != expected
// commit word = desired
template <std::uint32_t field>
inline bool cas_counted(const GateWord& gate, CountedHead expected, CountedHead desired) noexcept {
  void* slot;
  bool equal;
  asm volatile(KMEM_RSEQ("cmpl $1, 4(%[slot])\n\t"
                         "jne 2f\n\t"
                         "cmpq %[expected], %c[f](%[slot])\n\t"
                         "jne 2f\n\t"
                         "movq %[desired], %c[f](%[slot])")
               : [slot] "=&r"(slot), "=@ccz"(equal)
               : KMEM_RSEQ_INPUTS, [expected] "r"(expected), [desired] "r"(desired)
               : "memory");
  return equal;
}

}  // namespace kmem::percpu::rseq
