/* Handlers of signals that run later, as held_signals.py has them, in a fraction of the time: an application's NIC holds them
 * in each of its verbs.
 *
 * In place of Python's own handler of a signal, which has functions of Python run at once, stands one that notes the signal
 * and rings a bell, which ends the sleep of a loop, whichever thread gets the signal. When handlers are back, signals that
 * came are raised again. Those that another handler was set for meanwhile are given to the one that was held.
 *
 * All of this is the main thread's, in which handlers run, but for the note. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

struct held {
    PyObject *handler; /* NULL: not held */
    struct sigaction action;
    volatile sig_atomic_t came; /* perhaps later than it was held, if another thread was late to note it */
};

static struct held held[NSIG];
static unsigned depth;              /* holders within holders */
static volatile sig_atomic_t noted; /* something came */
static volatile sig_atomic_t bell = -1;
static PyObject *getsignal; /* of the module _signal */

static void note(int number)
{
    int before = errno;
    uint64_t one = 1;
    held[number].came = 1;
    noted = 1;
    if (bell >= 0)
        (void)!write(bell, &one, sizeof one);
    errno = before;
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
    PyObject *handler = one->handler ? NULL : PyObject_CallOneArg(getsignal, number_object);
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

/* All handlers are back; signals that came have their effect, unless they are to be forgotten. */
static int end(int forget)
{
    struct {
        PyObject *handler;
        int number;
    } other[NSIG];
    int others = 0, came[NSIG], count = 0;
    noted = 0;
    for (int number = 1; number < NSIG; number++) {
        struct held *one = &held[number];
        if (!one->handler)
            continue;
        int own = back(number), due = one->came && !forget;
        one->came = 0;
        if (due && own)
            came[count++] = number;
        if (due && !own) {
            other[others].number = number;
            other[others++].handler = one->handler;
        } else {
            Py_DECREF(one->handler);
        }
        one->handler = NULL;
    }
    bell = -1;
    for (int i = 0; i < count; i++)
        raise(came[i]);
    int failed = 0;
    for (int i = 0; i < others; i++) {
        if (!failed)
            failed = call_handler(other[i].handler, other[i].number);
        Py_DECREF(other[i].handler);
    }
    return failed ? failed : PyErr_CheckSignals();
}

/* hold(numbers, bell) */
static PyObject *holder_hold(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyTuple_Check(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "hold takes a tuple of signals and a descriptor.");
    long ring = PyLong_AsLong(arguments[1]);
    if (ring == -1 && PyErr_Occurred())
        return NULL;
    if (depth++)
        Py_RETURN_NONE;
    bell = (sig_atomic_t)ring;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments[0]); i++) {
        if (hold_one(PyTuple_GET_ITEM(arguments[0], i))) {
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            depth = 0;
            if (end(0))
                PyErr_Clear();
            PyErr_Restore(type, value, traceback);
            return NULL;
        }
    }
    Py_RETURN_NONE;
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

static PyObject *holder_noted(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(noted);
}

/* silence(bell): the descriptor is about to be closed, and may be somebody else's then. */
static PyObject *holder_silence(PyObject *module, PyObject *descriptor)
{
    (void)module;
    long ring = PyLong_AsLong(descriptor);
    if (ring == -1 && PyErr_Occurred())
        return NULL;
    if (bell == ring)
        bell = -1;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"hold", (PyCFunction)(void (*)(void))holder_hold, METH_FASTCALL, "Hold the handlers of signals."},
    {"release", holder_release, METH_NOARGS, "Undo hold."},
    {"forget", holder_forget, METH_NOARGS, "Hold nothing, and forget what came."},
    {"noted", holder_noted, METH_NOARGS, "Whether something came."},
    {"silence", holder_silence, METH_O, "Ring this bell no more."},
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
    return getsignal ? PyModule_Create(&definition) : NULL;
}
