// What the rest of pages:: needs of the metadata allocator, besides pages.h.
#pragma once

namespace kmem::pages {

void lock_metadata_for_fork() noexcept;
void unlock_metadata_after_fork() noexcept;

}  // namespace kmem::pages
