/* Waiting for descriptors and a time at once, to the nanosecond (epoll_pwait2(2), Linux 5.11). */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST 64 /* events at a time; the kernel has the others ready for the next */

/* The kernel's 64-bit times, whatever those of the C library are. */
struct kernel_timespec {
    long long seconds, nanoseconds;
};

static long epoll_wait_ns(int epoll, struct epoll_event *events, long long wait_ns)
{
#ifdef SYS_epoll_pwait2
    struct kernel_timespec time = {wait_ns / 1000000000, wait_ns % 1000000000};
    return syscall(SYS_epoll_pwait2, epoll, events, MOST, wait_ns < 0 ? NULL : &time, NULL, 0);
#else
    (void)epoll, (void)events, (void)wait_ns;
    errno = ENOSYS;
    return -1;
#endif
}

/* wait(epoll, wait_ns) */
static PyObject *event_wait(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "wait takes a descriptor and a time.");
    long epoll = PyLong_AsLong(arguments[0]);
    if (epoll == -1 && PyErr_Occurred())
        return NULL;
    long long wait_ns = PyLong_AsLongLong(arguments[1]);
    if (wait_ns == -1 && PyErr_Occurred())
        return NULL;
    if (epoll < 0 || epoll > INT_MAX) {
        errno = EBADF;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    struct epoll_event events[MOST];
    long found;
    Py_BEGIN_ALLOW_THREADS
    found = epoll_wait_ns((int)epoll, events, wait_ns);
    Py_END_ALLOW_THREADS
    if (found < 0) {
        if (errno != EINTR)
            return PyErr_SetFromErrno(PyExc_OSError);
        if (PyErr_CheckSignals() < 0)
            return NULL;
        found = 0;
    }
    PyObject *list = PyList_New(found);
    for (long i = 0; list && i < found; i++) {
        PyObject *event = Py_BuildValue("iI", events[i].data.fd, events[i].events);
        if (event)
            PyList_SET_ITEM(list, i, event);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"wait", (PyCFunction)(void (*)(void))event_wait, METH_FASTCALL, "Wait for events of an epoll instance."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "event_wait", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_event_wait(void);

PyMODINIT_FUNC PyInit_event_wait(void) { return PyModule_Create(&definition); }
