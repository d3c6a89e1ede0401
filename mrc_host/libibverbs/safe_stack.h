/* A stack that no application can register, for code that moves the pages of the caller's. */
#ifndef MRC_SAFE_STACK_H
#define MRC_SAFE_STACK_H

/* Allocate it, once. 0 or an errno. */
int safe_stack_open(void);

/* Run a function on it, with all signals blocked, so that nothing is written to the caller's stack meanwhile. One at a
 * time. */
void on_safe_stack(void (*run)(void *), void *argument);

#endif
