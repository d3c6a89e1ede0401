/* The caller's registers are kept in `caller`, in this library's own data, and come back from there. */
#define _GNU_SOURCE
#include "safe_stack.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_SIZE = 1 << 18, GUARD_SIZE = 1 << 16 }; /* sanitizers have large frames; pages are of up to 64 KiB */

static char *stack;
static ucontext_t caller, here;
static void (*function)(void *);
static void *its_argument;

int safe_stack_open(void) {
    if (stack)
        return 0;
    char *made = mmap(NULL, STACK_SIZE + GUARD_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return errno;
    mprotect(made, GUARD_SIZE, PROT_NONE);
    stack = made + GUARD_SIZE;
    return 0;
}

static void start(void) {
    function(its_argument);
}

void on_safe_stack(void (*run)(void *), void *argument) {
    function = run;
    its_argument = argument;
    getcontext(&here);
    here.uc_stack.ss_sp = stack;
    here.uc_stack.ss_size = STACK_SIZE;
    here.uc_link = &caller;
    sigfillset(&here.uc_sigmask);
    makecontext(&here, start, 0);
    swapcontext(&caller, &here);
}
