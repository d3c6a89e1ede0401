/*
 * The bytes of data in each queue: a register, increased when ingress decides to queue a packet and decreased when the packet
 * leaves the queue. Each change is one action, hence atomic.
 *
 * A packet that the traffic manager drops itself (its queue or buffer is full) never leaves. To correct for that, the last packet
 * to leave a queue sets the register to zero, and the subtraction saturates at zero.
 */
#ifndef QUEUE_BYTES_P4
#define QUEUE_BYTES_P4

register<bit<32>>(QUEUES) queue_bytes;

/* Add a packet; `before` is the number of bytes queued ahead of it. */
action add_to_queue(in bit<12> queue, in bit<32> bytes, out bit<32> before) {
    queue_bytes.read(before, (bit<32>) queue);
    queue_bytes.write((bit<32>) queue, before + bytes);
}

action remove_from_queue(in bit<12> queue, in bit<32> bytes) {
    bit<32> queued;
    queue_bytes.read(queued, (bit<32>) queue);
    queue_bytes.write((bit<32>) queue, queued |-| bytes);
}

action empty_queue(in bit<12> queue) {
    queue_bytes.write((bit<32>) queue, 32w0);
}

#endif
