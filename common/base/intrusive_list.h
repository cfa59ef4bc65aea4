// A circular doubly linked list through a node inside the element. Whoever owns the list's lock may
// relink; a node that is on no list has next == nullptr.
#pragma once

#include <cstddef>

#include "common/base/assert.h"

namespace kmem {

struct ListNode {
  ListNode* next = nullptr;
  ListNode* prev = nullptr;
  bool linked() const noexcept { return next != nullptr; }
};

class List {
 public:
  constexpr List() noexcept { reset(); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  constexpr void reset() noexcept { head_.next = head_.prev = &head_; }
  bool empty() const noexcept { return head_.next == &head_; }
  ListNode* front() const noexcept { return empty() ? nullptr : head_.next; }
  ListNode* back() const noexcept { return empty() ? nullptr : head_.prev; }
  // Iteration: for (n = list.front(); n != nullptr; n = list.after(n))
  ListNode* after(const ListNode* node) const noexcept {
    return node->next == &head_ ? nullptr : node->next;
  }
  void push_front(ListNode* node) noexcept { insert(node, &head_, head_.next); }
  void push_back(ListNode* node) noexcept { insert(node, head_.prev, &head_); }
  ListNode* pop_front() noexcept {
    ListNode* node = front();
    if (node != nullptr) remove(node);
    return node;
  }
  static void remove(ListNode* node) noexcept {
    KMEM_ASSERT(node->linked());
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = nullptr;
  }
  // Makes node the first element, keeping the circular order (SLOB's next fit).
  void rotate_to_front(ListNode* node) noexcept {
    ListNode* head = &head_;
    head->prev->next = head->next;
    head->next->prev = head->prev;
    insert(head, node->prev, node);
  }

 private:
  static void insert(ListNode* node, ListNode* before, ListNode* after) noexcept {
    node->prev = before;
    node->next = after;
    before->next = node;
    after->prev = node;
  }
  ListNode head_;
};

}  // namespace kmem
