/* Pages of the application that the NIC shares: moved onto a memfd and mapped in their old place. */
#ifndef MRC_SHARED_PAGES_H
#define MRC_SHARED_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* Share the pages that contain a range; its bytes are then those of the memfd *fd from offset *offset on. They stay
 * shared until shared_pages_leave() was called as often for the range. 0 or an errno: EFAULT where nothing is mapped or
 * it must not be read (or, if `writable`, written), EOPNOTSUPP where the kernel or somebody else shares the pages already, ENOMEM. */
int shared_pages_enter(const void *address, size_t length, int writable, int *fd, uint64_t *offset);

void shared_pages_leave(const void *address, size_t length);

/* Around fork(): the child gets private copies of what is shared, and a memfd of its own. */
void shared_pages_before_fork(void);
void shared_pages_after_fork(int in_child);

#endif
