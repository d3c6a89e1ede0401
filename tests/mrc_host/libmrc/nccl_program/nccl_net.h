/* NCCL's interface for network plugins, version 11 of its table of functions, as far as a program calls it that moves host
 * memory: declared here again, as names, numbers and layouts are facts. A plugin exports it as ncclNetPlugin_v11. */
#ifndef NCCL_NET_H
#define NCCL_NET_H

#include <stddef.h>
#include <stdint.h>

enum { NCCL_SUCCESS = 0 };
enum { NCCL_HANDLE_BYTES = 128, NCCL_HOST_MEMORY = 1, NCCL_MAX_REQUESTS = 8, NCCL_MAX_DEVICES = 4 };

struct nccl_properties {
    char *name;
    char *pci_path;
    uint64_t guid;
    int memory_kinds;
    int registration_is_global;
    int force_flush;
    int speed; /* Mb/s */
    int port;
    float latency;
    int max_comms;
    int max_receives;
    int device_type;
    int device_version;
    struct {
        int count;
        int numbers[NCCL_MAX_DEVICES];
    } devices;
    size_t max_p2p_bytes;
    size_t max_collective_bytes;
    int max_multi_request;
};

struct nccl_config {
    int traffic_class;
};

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct nccl_net {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, struct nccl_config *config, nccl_logger logger, void *profiler);
    int (*devices)(int *count);
    int (*get_properties)(int device, struct nccl_properties *properties);
    int (*listen)(void *context, int device, void *handle, void **listener);
    int (*connect)(void *context, int device, void *handle, void **sender, void **offload);
    int (*accept)(void *listener, void **receiver, void **offload);
    int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mr);
    int (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd, void **mr);
    int (*dereg_mr)(void *comm, void *mr);
    int (*isend)(void *sender, void *data, size_t size, int tag, void *mr, void *profiler, void **request);
    int (*irecv)(void *receiver, int count, void **data, size_t *sizes, int *tags, void **mrs, void **profilers,
                 void **request);
    int (*iflush)(void *receiver, int count, void **data, int *sizes, void **mrs, void **request);
    int (*test)(void *request, int *done, int *sizes);
    int (*close_send)(void *sender);
    int (*close_recv)(void *receiver);
    int (*close_listen)(void *listener);
    int (*get_device_mr)(void *comm, void *mr, void **device_mr);
    int (*irecv_consumed)(void *receiver, int count, void *request);
    int (*make_virtual_device)(int *device, void *properties);
    int (*finalize)(void *context);
    int (*set_attributes)(void *context, void *attributes);
};

#endif
