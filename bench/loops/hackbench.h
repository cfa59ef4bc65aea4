// The timed loop of hackbench: groups of senders and receivers. Each sender of a group sends to
// each receiver of it, again and again; a message is a head from a cache and a block from kmalloc,
// as a network buffer is, which the receiver frees.
#pragma once

#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/loop.h"
#include "bench/mailbox.h"
#include "bench/threads.h"
#include "bench/world.h"

namespace kmem::bench {

// Of the size of Linux 6's skbuff_head_cache: 224 bytes, 256 with its alignment.
struct MessageHead {
  std::uint64_t number;
  unsigned char* block;
  std::uint64_t bytes;
  unsigned char rest[200];
};
static_assert(sizeof(MessageHead) == 224);

// Behind the bytes of each block the kernel keeps 320 of its own (skb_shared_info): a message of
// 100 takes a block of 512.
inline constexpr std::size_t block_tail_bytes = 320;

template <KmallocWorld W>
class HackbenchLoop final : public Loop {
 public:
  // Turn::objects: the messages from each sender to each receiver (the original's loops).
  explicit HackbenchLoop(const Job& job)
      : groups_(job.groups),
        pairs_(job.pairs),
        bytes_(job.message_bytes),
        transport_(job.transport) {
    CacheSpec spec;
    spec.name = "skbuff_head_cache";
    spec.object_bytes = sizeof(MessageHead);
    spec.flags = slab_flag::hwcache_align;
    heads_ = W::create(spec);
    if (heads_ == nullptr)
      throw std::runtime_error("the cache of the hackbench run cannot be created");
  }
  ~HackbenchLoop() override { W::destroy(heads_); }
  HackbenchLoop(const HackbenchLoop&) = delete;
  HackbenchLoop& operator=(const HackbenchLoop&) = delete;

  // The cost of a message: the time in which all are sent and received, shared out among them.
  // values: that time in seconds; messages.
  Outcome run(const Turn& turn) override {
    return transport_ == Transport::socket ? exchange<SocketMailbox>(turn.objects)
                                           : exchange<RingMailbox>(turn.objects);
  }

 private:
  template <class Mailbox>
  using Mailboxes = std::vector<std::unique_ptr<Mailbox>>;  // of group 0, then of group 1, ..

  struct Received {
    std::uint64_t messages = 0, numbers = 0;  // the sum of the numbers
    bool is_damaged = false;
  };

  template <class Mailbox>
  Outcome exchange(std::uint64_t loops) {
    Mailboxes<Mailbox> boxes;
    for (unsigned i = 0; i < groups_ * pairs_; ++i)
      boxes.push_back(std::make_unique<Mailbox>(pairs_));
    std::vector<Received> received(boxes.size());
    const std::uint64_t messages = boxes.size() * pairs_ * loops;
    try {
      const Sample cost =
          total_on_threads(2 * groups_ * pairs_, static_cast<double>(messages),
                           [&](unsigned i) { run_role(i, boxes, received, loops); });
      check(received, messages);
      return {cost,
              {cost.ns * 1e-9 * static_cast<double>(messages), static_cast<double>(messages)}};
    } catch (...) {
      for (auto& box : boxes)
        while (void* left = box->poll()) discard(static_cast<MessageHead*>(left));
      throw;
    }
  }

  // Who fails stops all: nobody waits for a message that will never come.
  template <class Mailbox>
  void run_role(unsigned i, Mailboxes<Mailbox>& boxes, std::vector<Received>& received,
                std::uint64_t loops) {
    const unsigned group = i / (2 * pairs_), member = i % (2 * pairs_);
    try {
      if (member < pairs_)
        send_all(boxes, group * pairs_ + member, loops);
      else
        receive_all(boxes, group * pairs_ + member - pairs_, received, loops);
    } catch (...) {
      for (auto& box : boxes) box->stop();
      throw;
    }
  }

  template <class Mailbox>
  [[gnu::noinline]] void send_all(Mailboxes<Mailbox>& boxes, unsigned sender, std::uint64_t loops) {
    const unsigned first = sender / pairs_ * pairs_;
    std::uint64_t number = std::uint64_t{sender} * pairs_ * loops;
    for (std::uint64_t loop = 0; loop < loops; ++loop) {
      for (unsigned i = 0; i < pairs_; ++i) {
        MessageHead* head = compose(number++);
        if (boxes[first + i]->send(sender - first, head)) continue;
        discard(head);
        return;
      }
    }
  }

  template <class Mailbox>
  [[gnu::noinline]] void receive_all(Mailboxes<Mailbox>& boxes, unsigned receiver,
                                     std::vector<Received>& received, std::uint64_t loops) {
    std::vector<unsigned char> buffer(bytes_);
    Received sum;
    for (; sum.messages < loops * pairs_; ++sum.messages) {
      auto* head = static_cast<MessageHead*>(boxes[receiver]->receive());
      if (head == nullptr) break;
      std::memcpy(buffer.data(), head->block, head->bytes);
      asm volatile("" : : "r"(buffer.data()) : "memory");
      sum.is_damaged |= buffer[bytes_ - 1] != static_cast<unsigned char>(head->number);
      sum.numbers += head->number;
      discard(head);
    }
    received[receiver] = sum;
  }

  MessageHead* compose(std::uint64_t number) {
    auto* head = static_cast<MessageHead*>(W::alloc(heads_, gfp::kernel));
    if (head == nullptr) [[unlikely]]
      no_memory();
    auto* block =
        static_cast<unsigned char*>(W::kmalloc(bytes_ + block_tail_bytes, gfp::kernel, no_node));
    if (block == nullptr) [[unlikely]] {
      W::free(heads_, head);
      no_memory();
    }
    *head = {number, block, bytes_, {}};
    std::memset(block, static_cast<int>(number & 0xff), bytes_);
    return head;
  }

  void discard(MessageHead* head) {
    W::kfree(head->block);
    W::free(heads_, head);
  }

  static void check(const std::vector<Received>& received, std::uint64_t messages) {
    Received all;
    for (const Received& one : received) {
      all.messages += one.messages;
      all.numbers += one.numbers;
      all.is_damaged |= one.is_damaged;
    }
    if (all.messages != messages || all.numbers != messages * (messages - 1) / 2 || all.is_damaged)
      throw std::runtime_error("hackbench: a message was lost, doubled or damaged");
  }

  [[noreturn]] static void no_memory() { throw std::runtime_error("no memory in hackbench"); }

  unsigned groups_, pairs_;
  std::size_t bytes_;
  Transport transport_;
  typename W::Cache* heads_;
};

}  // namespace kmem::bench
