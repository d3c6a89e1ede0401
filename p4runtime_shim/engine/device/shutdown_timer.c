/* Ends the process some time after SIGTERM or SIGINT, whatever its threads do.
 *
 * Python handles a signal when the main thread comes back to it, which may be never: a thread in here may be busy with a
 * packet, or hold the interpreter's lock. So the handler that Python has set is wrapped: the first signal also starts a
 * timer, and unless the process has ended in good order by then, the timer's signal kills its children (the C compiler) and
 * ends it, from whichever thread the kernel chooses. All of this is async-signal-safe: nothing but system calls. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device/control_plane.h"

#define MAX_DEPTH 4 /* children of children: cc starts cc1 */
#define MAX_PATH 64

static timer_t timer;
static struct itimerspec grace;
static struct sigaction wrapped[2];
static const int signals[2] = {SIGTERM, SIGINT};

static char *add_text(char *at, const char *text) {
    while (*text)
        *at++ = *text++;
    *at = 0;
    return at;
}

static char *add_number(char *at, long number) {
    char digits[24];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n)
        *at++ = digits[--n];
    *at = 0;
    return at;
}

static void kill_children(const char *process, int depth);

/* The children that one thread of a process has started. */
static void kill_children_of_thread(const char *path, int depth) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char block[512];
    long pid = 0;
    for (ssize_t n; fd >= 0 && (n = read(fd, block, sizeof block)) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            if (block[i] >= '0' && block[i] <= '9') {
                pid = pid * 10 + block[i] - '0';
            } else if (pid > 1) {
                char name[MAX_PATH];
                add_number(name, pid);
                kill((pid_t)pid, SIGSTOP); /* so that it starts no more while we look */
                kill_children(name, depth + 1);
                kill((pid_t)pid, SIGKILL);
                pid = 0;
            }
        }
    if (fd >= 0)
        close(fd);
}

struct entry { /* struct linux_dirent64, getdents64(2) */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

static void kill_children(const char *process, int depth) {
    char path[MAX_PATH];
    add_text(add_text(add_text(path, "/proc/"), process), "/task");
    int fd = depth < MAX_DEPTH ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    _Alignas(struct entry) char block[2048];
    for (long n; fd >= 0 && (n = syscall(SYS_getdents64, fd, block, sizeof block)) > 0;)
        for (long at = 0; at < n;) {
            const struct entry *thread = (const struct entry *)(const void *)(block + at);
            at += thread->length;
            if (thread->name[0] < '0' || thread->name[0] > '9')
                continue;
            char children[2 * MAX_PATH];
            add_text(add_text(add_text(add_text(children, path), "/"), thread->name), "/children");
            kill_children_of_thread(children, depth);
        }
    if (fd >= 0)
        close(fd);
}

static void on_deadline(int number) {
    (void)number;
    kill_children("self", 0);
    _exit(128 + SIGTERM);
}

static void on_stop_signal(int number, siginfo_t *info, void *context) {
    int error = errno;
    struct itimerspec running;
    if (!timer_gettime(timer, &running) && !running.it_value.tv_sec && !running.it_value.tv_nsec)
        timer_settime(timer, 0, &grace, NULL);
    const struct sigaction *before = &wrapped[number == SIGINT];
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(number, info, context);
    else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
        before->sa_handler(number);
    errno = error;
}

int sw_exit_within(uint32_t milliseconds) {
    struct sigaction over = {.sa_handler = on_deadline};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    grace.it_value.tv_sec = milliseconds / 1000;
    grace.it_value.tv_nsec = milliseconds % 1000 * 1000000L;
    if (sigaction(SIGALRM, &over, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer))
        return -errno;
    for (int i = 0; i < 2; i++) {
        struct sigaction ask = {.sa_sigaction = on_stop_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
        if (sigaction(signals[i], NULL, &wrapped[i]) || sigaction(signals[i], &ask, NULL))
            return -errno;
    }
    return 0;
}
