/* Handlers of signals that run later, as held_signals.py has them, in a fraction of the time: an application's NIC holds them
 * in each of its verbs.
 *
 * In place of Python's own handler of a signal, which has functions of Python run at once, stands one that notes the signal
 * and rings a bell, which ends the sleep of a loop, whichever thread gets the signal. When handlers are back, signals that
 * came are raised again. Those that another handler was set for meanwhile are given to the one that was held.
 *
 * All of this is the main thread's, in which handlers run, but for the note. A thread may be late to write it, when handlers
 * are back already: both first write and then read (`holding`, `came`), so at least one of them sees it. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct held {
    PyObject *handler; /* NULL: not held */
    bool known;
    struct sigaction action;
    int came; /* atomic */
};

static struct held held[NSIG];
static int known[NSIG]; /* signals that were ever held: only these have notes */
static int known_count;
static unsigned depth; /* holders within holders */
static int holding; /* atomic: signals are noted */
static long notes;  /* atomic: how many there were */
static int bell;    /* an eventfd that is never closed or read, waited for edge-triggered */
static PyObject *getsignal; /* of the module _signal */
static PyCFunction getsignal_function; /* the same without a call of Python's around it; NULL: there is none */

/* Takes the note of a signal, if there is one; of several callers one gets it. A plain load mostly shows that there is none. */
static bool take_note(int number)
{
    return __atomic_load_n(&held[number].came, __ATOMIC_SEQ_CST) &&
           __atomic_exchange_n(&held[number].came, 0, __ATOMIC_SEQ_CST);
}

static void note(int number)
{
    int before = errno;
    uint64_t one = 1;
    __atomic_store_n(&held[number].came, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&notes, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&holding, __ATOMIC_SEQ_CST))
        (void)!write(bell, &one, sizeof one);
    else if (take_note(number))
        PyErr_SetInterruptEx(number); /* Python's handler is back; or somebody has kept this one, to call it in turn */
    errno = before;
}

/* What Python does when a signal comes; a new reference. */
static PyObject *handler_of(PyObject *number)
{
    if (getsignal_function)
        return getsignal_function(PyCFunction_GET_SELF(getsignal), number);
    return PyObject_CallOneArg(getsignal, number);
}

static int hold_one(PyObject *number_object)
{
    long number = PyLong_AsLong(number_object);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (number < 1 || number >= NSIG) {
        PyErr_SetString(PyExc_ValueError, "There is no such signal.");
        return -1;
    }
    struct held *one = &held[number];
    PyObject *handler = one->handler ? NULL : handler_of(number_object);
    if (!handler || !PyCallable_Check(handler)) { /* one is held already, or is no function of Python */
        Py_XDECREF(handler);
        return PyErr_Occurred() ? -1 : 0;
    }
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_ONSTACK};
    if (sigaction((int)number, &action, &one->action)) {
        Py_DECREF(handler);
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    one->handler = handler;
    if (!one->known)
        known[known_count++] = (int)number;
    one->known = true;
    return 0;
}

/* A handler is back, unless somebody has set another one; whether that was its place. */
static int back(int number)
{
    struct sigaction present;
    if (!sigaction(number, &held[number].action, &present) && present.sa_handler == note)
        return 1;
    sigaction(number, &present, NULL);
    return 0;
}

static int call_handler(PyObject *handler, int number)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    PyObject *result = PyObject_CallFunction(handler, "iO", number, frame ? frame : Py_None);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* As if the signal came now. A thread that blocks it, which another one got it for, would not get it if it were raised. */
static void deliver(int number)
{
    sigset_t blocked;
    if (!pthread_sigmask(SIG_BLOCK, NULL, &blocked) && sigismember(&blocked, number) == 1)
        PyErr_SetInterruptEx(number);
    else
        raise(number);
}

/* All handlers are back; signals that came have their effect, unless they are to be forgotten. */
static int end(int forget)
{
    PyObject *handlers[NSIG];
    bool own[NSIG];
    int count = known_count; /* a handler may use a NIC, and have more held */
    for (int i = 0; i < count; i++) {
        struct held *one = &held[known[i]];
        handlers[i] = one->handler;
        one->handler = NULL;
        own[i] = handlers[i] && back(known[i]);
    }
    __atomic_store_n(&holding, 0, __ATOMIC_SEQ_CST);
    int failed = 0;
    for (int i = 0; i < count; i++) {
        bool came = take_note(known[i]) && !forget;
        if (came && own[i])
            deliver(known[i]);
        if (came && handlers[i] && !own[i] && !failed)
            failed = call_handler(handlers[i], known[i]);
    }
    if (!failed)
        failed = PyErr_CheckSignals();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (int i = 0; i < count; i++) /* last, since what is destroyed may use a NIC */
        Py_XDECREF(handlers[i]);
    PyErr_Restore(type, value, traceback);
    return failed;
}

/* Whether a note is there from before, by a thread that was late. */
static bool late_note(void)
{
    for (int i = 0; i < known_count; i++)
        if (__atomic_load_n(&held[known[i]].came, __ATOMIC_SEQ_CST))
            return true;
    return false;
}

static PyObject *holder_hold(PyObject *module, PyObject *numbers)
{
    (void)module;
    if (!PyTuple_Check(numbers))
        return PyErr_Format(PyExc_TypeError, "hold takes a tuple of signals.");
    if (depth++)
        return PyLong_FromLong(__atomic_load_n(&notes, __ATOMIC_SEQ_CST));
    __atomic_store_n(&holding, 1, __ATOMIC_SEQ_CST);
    long since = __atomic_load_n(&notes, __ATOMIC_SEQ_CST);
    if (late_note())
        since--;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        if (hold_one(PyTuple_GET_ITEM(numbers, i))) {
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            depth = 0;
            if (end(0))
                PyErr_Clear();
            PyErr_Restore(type, value, traceback);
            return NULL;
        }
    }
    return PyLong_FromLong(since);
}

static PyObject *holder_release(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    if (depth && --depth)
        Py_RETURN_NONE;
    if (end(0))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *holder_forget(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    depth = 0;
    if (end(1))
        return NULL;
    Py_RETURN_NONE;
}

/* noted(since): whether a signal came since `hold` returned that. */
static PyObject *holder_noted(PyObject *module, PyObject *since)
{
    (void)module;
    long before = PyLong_AsLong(since);
    if (before == -1 && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(__atomic_load_n(&notes, __ATOMIC_SEQ_CST) != before);
}

static PyObject *holder_fileno(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyLong_FromLong(bell);
}

static PyMethodDef methods[] = {
    {"hold", holder_hold, METH_O, "Hold the handlers of signals."},
    {"release", holder_release, METH_NOARGS, "Undo hold."},
    {"forget", holder_forget, METH_NOARGS, "Hold nothing, and forget what came."},
    {"noted", holder_noted, METH_O, "Whether something came."},
    {"fileno", holder_fileno, METH_NOARGS, "The bell."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "signal_holder", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_signal_holder(void);

PyMODINIT_FUNC PyInit_signal_holder(void)
{
    PyObject *signals = PyImport_ImportModule("_signal");
    if (!signals)
        return NULL;
    getsignal = PyObject_GetAttrString(signals, "getsignal");
    Py_DECREF(signals);
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (!getsignal)
        return NULL;
    if (PyCFunction_Check(getsignal) && PyCFunction_GET_FLAGS(getsignal) == METH_O)
        getsignal_function = PyCFunction_GET_FUNCTION(getsignal);
    return PyModule_Create(&definition);
}
