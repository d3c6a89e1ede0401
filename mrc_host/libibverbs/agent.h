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

#include "agent_records.h" /* agent_records.py writes it */
#include "json.h"

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
