// membarrier(2), PRIVATE_EXPEDITED_RSEQ: every thread of this process that runs now is interrupted,
// so that its restartable sequence, if it is in one, starts over; and all see what we wrote before.
#pragma once

namespace kmem::percpu {

// Once, before the first use. False: the kernel (before 5.10, or built without) has it not.
bool register_membarrier() noexcept;
void restart_all_sequences() noexcept;

}  // namespace kmem::percpu
