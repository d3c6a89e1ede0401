#include "agent.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_TIMEOUT_MS = 30000, SEND_TIMEOUT_MS = 1000, SOCKET_BUFFER = 1 << 20 };

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void lose(struct agent *agent, const char *why) {
    if (agent->lost)
        return;
    agent->lost = 1;
    fprintf(stderr, "libibverbs (MRC): the agent at %s %s; everything this program had on the NIC is gone.\n", agent->path,
            why);
    agent->on_lost(agent->owner);
}

static int exchange(struct agent *agent, uint8_t kind, int fd, char *message, size_t length) {
    struct agent_header header = {.kind = kind, .request = ++agent->requests};
    if (!header.request) /* wrapped: 0 is no request */
        header.request = ++agent->requests;
    memcpy(message, &header, sizeof header);
    agent->answer_to = 0;
    int error = agent_send(agent, message, length, fd);
    int64_t deadline = now_ms() + ANSWER_TIMEOUT_MS;
    while (!error) {
        agent_receive(agent);
        if (agent->answer_to == header.request)
            return 0;
        if (now_ms() >= deadline)
            lose(agent, "does not answer");
        if (agent->lost)
            return EIO;
        agent_wait(agent, 1000);
    }
    return error;
}

int agent_connect(struct agent *agent, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    agent->path = path;
    agent->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (agent->fd < 0)
        return errno;
    int size = SOCKET_BUFFER;
    setsockopt(agent->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    int error = connect(agent->fd, (struct sockaddr *)&address, sizeof address) ? errno : 0;
    if (!error) {
        char hello[128];
        int length = snprintf(hello + AGENT_HEADER, sizeof hello - AGENT_HEADER,
                              "{\"version\":%d,\"client\":\"libibverbs %d\"}", AGENT_VERSION, getpid());
        error = exchange(agent, AGENT_HELLO, -1, hello, AGENT_HEADER + (size_t)length);
    }
    if (!error && agent->answer_kind != AGENT_HELLO)
        error = EPROTO;
    if (error)
        agent_close(agent);
    return error;
}

void agent_close(struct agent *agent) {
    if (agent->fd >= 0)
        close(agent->fd);
    agent->fd = -1;
}

static int errno_of(const char *answer) {
    static const struct {
        const char *name;
        int number;
    } known[] = {
        {"NotFoundError", ENOENT},
        {"ResourceExhaustedError", ENOMEM},
        {"UnknownDestinationError", ENETUNREACH},
    };
    char name[64];
    json_text(answer, "error", name, sizeof name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].number;
    return EINVAL;
}

int agent_request(struct agent *agent, int fd, const char *format, ...) {
    char message[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message + AGENT_HEADER, sizeof message - AGENT_HEADER, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof message - AGENT_HEADER)
        return EMSGSIZE;
    int error = exchange(agent, AGENT_REQUEST, fd, message, AGENT_HEADER + (size_t)length);
    if (error || agent->answer_kind == AGENT_REPLY)
        return error;
    if (getenv("MRC_VERBS_DEBUG"))
        fprintf(stderr, "libibverbs (MRC): %s\n refused: %s\n", message + AGENT_HEADER, agent->answer);
    return errno_of(agent->answer);
}

int agent_send(struct agent *agent, const void *message, size_t length, int fd) {
    struct iovec part = {.iov_base = (void *)message, .iov_len = length};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    if (fd >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *item = CMSG_FIRSTHDR(&header);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(item), &fd, sizeof fd);
    }
    int64_t deadline = 0;
    for (;;) {
        if (agent->lost)
            return EIO;
        if (sendmsg(agent->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN) {
            agent_receive(agent); /* its last messages */
            lose(agent, "is gone");
            return EIO;
        }
        if (!deadline)
            deadline = now_ms() + SEND_TIMEOUT_MS;
        if (now_ms() >= deadline)
            return ENOMEM;
        /* the agent reads nothing of a client that does not read either */
        struct pollfd ready = {.fd = agent->fd, .events = POLLIN | POLLOUT};
        poll(&ready, 1, 10);
        agent_receive(agent);
    }
}

static void handle(struct agent *agent, size_t length) {
    struct agent_header header;
    if (length < sizeof header) {
        lose(agent, "sent a message without a header");
        return;
    }
    memcpy(&header, agent->message, sizeof header);
    const char *body = agent->message + AGENT_HEADER;
    agent->message[length] = 0;
    switch (header.kind) {
    case AGENT_COMPLETIONS:
        if ((length - AGENT_HEADER) % sizeof(struct agent_completion))
            lose(agent, "sent malformed completions");
        for (size_t at = AGENT_HEADER; !agent->lost && at < length; at += sizeof(struct agent_completion)) {
            struct agent_completion entry;
            memcpy(&entry, agent->message + at, sizeof entry);
            agent->on_completion(agent->owner, &entry);
        }
        break;
    case AGENT_COMPLETION:
        agent->on_failure(agent->owner, body);
        break;
    case AGENT_EVENT:
        agent->on_event(agent->owner, body);
        break;
    case AGENT_ERROR:
        if (!header.request) { /* why it is about to disconnect us */
            char why[256];
            json_text(body, "message", why, sizeof why);
            fprintf(stderr, "libibverbs (MRC): the agent: %s\n", why);
            break;
        }
        /* fall through */
    case AGENT_HELLO:
    case AGENT_REPLY:
        if (!header.flags) { /* of an answer in several parts the last is kept: none of those asked for here is so long */
            memcpy(agent->answer, body, length - AGENT_HEADER + 1);
            agent->answer_kind = header.kind;
            agent->answer_to = header.request;
        }
        break;
    default:
        lose(agent, "sent a message of unknown kind");
    }
}

void agent_receive(struct agent *agent) {
    while (!agent->lost) {
        ssize_t length = recv(agent->fd, agent->message, AGENT_MAX_MESSAGE, MSG_DONTWAIT | MSG_TRUNC);
        if (length > AGENT_MAX_MESSAGE)
            lose(agent, "sent a message that is too long");
        else if (length > 0)
            handle(agent, (size_t)length);
        else if (length == 0)
            lose(agent, "is gone");
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR && errno != ECONNRESET) /* a reset is reported once, before the last messages */
            lose(agent, "is gone");
    }
}

void agent_wait(const struct agent *agent, int timeout_ms) {
    struct pollfd ready = {.fd = agent->fd, .events = POLLIN};
    poll(&ready, 1, timeout_ms);
}
