/*
 * The bytes of data that wait in each queue: a register, counted up when ingress decides to queue a packet and down when the
 * packet leaves the queue. Each change is one action, hence atomic.
 *
 * What the traffic manager drops on its own (a queue or buffer that is full nevertheless) never leaves. So that this is not
 * remembered for ever, the last packet to leave a queue sets it to zero, and a subtraction stops there.
 */
#ifndef QUEUE_BYTES_P4
#define QUEUE_BYTES_P4

register<bit<32>>(QUEUES) queue_bytes;

/* Add a packet; `before` is what waited without it. */
action add_to_queue(in bit<12> queue, in bit<32> bytes, out bit<32> before) {
    queue_bytes.read(before, (bit<32>) queue);
    queue_bytes.write((bit<32>) queue, before + bytes);
}

action remove_from_queue(in bit<12> queue, in bit<32> bytes) {
    bit<32> waiting;
    queue_bytes.read(waiting, (bit<32>) queue);
    queue_bytes.write((bit<32>) queue, waiting |-| bytes);
}

action empty_queue(in bit<12> queue) {
    queue_bytes.write((bit<32>) queue, 32w0);
}

#endif
