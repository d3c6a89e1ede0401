/* The connection to a NIC's agent: messages over a UNIX SEQPACKET socket, as mrc_host/verbs/remote/protocol.py describes them.
 *
 * Requests are JSON objects and have an answer; posts, completions and credits are binary records in host byte order.
 * What arrives while a caller waits for its answer is handed to the connection's handlers. An agent that sends anything
 * malformed, or does not answer, is treated as lost. All calls but agent_wait() need the lock of the context that owns
 * the connection. */
#ifndef MRC_AGENT_H
#define MRC_AGENT_H

#include <stddef.h>
#include <stdint.h>

#include "json.h"

enum {
    AGENT_VERSION = 6,
    AGENT_MAX_MESSAGE = 1 << 16,
    AGENT_HEADER = 8,
    AGENT_PENDING_LIMIT = 4096,         /* posts of one queue pair that are not completed ... */
    AGENT_CLIENT_PENDING_LIMIT = 65536, /* ... and of a connection */
};

enum agent_kind {
    AGENT_HELLO = 1,
    AGENT_REQUEST,
    AGENT_REPLY,
    AGENT_ERROR,
    AGENT_POST,
    AGENT_COMPLETIONS,
    AGENT_COMPLETION,
    AGENT_CREDIT,
    AGENT_EVENT,
    AGENT_POST_INLINE,
};

enum { POST_SIGNALED = 1, POST_HAS_IMM = 2, POST_SOLICITED = 4, POST_PIECE = 8 };

struct agent_header {
    uint8_t kind;
    uint8_t flags;
    uint16_t zero;
    uint32_t request;
} __attribute__((packed));

struct agent_post {
    uint64_t wr_id;
    uint32_t qpn;
    uint8_t opcode; /* 0 WRITE, 1 WRITE_WITH_IMM */
    uint8_t flags;
    uint16_t zero;
    uint32_t imm;
    uint64_t local_address;
    uint32_t lkey;
    uint32_t length;
    uint64_t remote_address;
    uint32_t rkey;
} __attribute__((packed));

struct agent_completion {
    uint32_t cq;
    uint64_t wr_id;
    uint32_t qpn;
    uint8_t opcode; /* 0 WRITE, 1 RECV_WRITE_WITH_IMM */
    uint8_t flags;
    uint16_t zero;
    uint32_t imm;
    uint32_t length;
} __attribute__((packed));

_Static_assert(sizeof(struct agent_header) == AGENT_HEADER, "header");
_Static_assert(sizeof(struct agent_post) == 48, "post record");
_Static_assert(sizeof(struct agent_completion) == 28, "completion record");

struct agent {
    int fd;
    int lost; /* the agent is gone, and everything on the NIC with it */
    uint32_t requests;
    const char *path;
    void *owner;
    /* called with what arrives */
    void (*on_completion)(void *owner, const struct agent_completion *entry);
    void (*on_failure)(void *owner, const char *json);
    void (*on_event)(void *owner, const char *json);
    void (*on_lost)(void *owner);
    char answer[AGENT_MAX_MESSAGE + 1]; /* JSON, ends with a zero */
    uint8_t answer_kind;
    uint32_t answer_to;
    char message[AGENT_MAX_MESSAGE + 1];
};

/* Connect to the agent at `path` and greet it; its greeting is then in `answer`. 0 or an errno. */
int agent_connect(struct agent *agent, const char *path);
void agent_close(struct agent *agent);

/* Request a verb, perhaps with a descriptor (or -1), and wait for the answer, which is then in `answer`. 0 or an errno. */
int agent_request(struct agent *agent, int fd, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Send one message; waits for room for at most a second. 0 or an errno: ENOMEM if nothing of it was sent for lack of it. */
int agent_send(struct agent *agent, const void *message, size_t length, int fd);

/* Handle all messages that are there. */
void agent_receive(struct agent *agent);

/* Wait up to `timeout_ms` until there is a message. */
void agent_wait(const struct agent *agent, int timeout_ms);

#endif
