/* The plugin asks sysfs where on the PCI bus a device is, which NCCL orders devices by. A NIC here is on none and has no
 * entry in sysfs: this realpath(), which plugins find first, names a place for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

char *realpath(const char *restrict path, char *restrict resolved) {
    static const char devices[] = "/sys/class/infiniband/mrc0"; /* and those of planes */
    if (path && !strncmp(path, devices, sizeof devices - 1) && !resolved)
        return strdup("/sys/devices/pci0000:00/0000:00:01.0");
    char *(*next)(const char *, char *) = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
    return next ? next(path, resolved) : NULL;
}
