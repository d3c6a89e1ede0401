/* Handlers of signals run later: one that raises an exception, as Ctrl-C does, would end a NIC's work half way.
 *
 * While the gate is shut, what a signal would do is noted, and done when it opens. Python's own handler is called then, which has
 * the interpreter run the function that the program has set. Only signals that programs usually handle are kept, and only
 * those that have such a function. The gate takes the place of Python's handler (sigaction(2)), which Python does not notice; whoever sets
 * another one removes it, so each time that it shuts it looks for those.
 */
#ifndef MRC_SIGNAL_GATE_H
#define MRC_SIGNAL_GATE_H

#include <Python.h>

#include <signal.h>
#include <stdatomic.h>

static const int gated[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGCHLD};
#define GATED (sizeof gated / sizeof *gated)

static void (*behind_gate[GATED])(int); /* Python's handler */
static atomic_int gate_shut;            /* how often, without being opened */
static atomic_int gate_noted[GATED];

/* Any thread may run it. */
static void gate(int number)
{
    for (size_t i = 0; i < GATED; i++)
        if (gated[i] == number) {
            if (atomic_load(&gate_shut))
                atomic_store(&gate_noted[i], 1);
            else
                behind_gate[i](number);
        }
}

/* Whether the program has set a function for a signal; -1 after an exception. */
static int is_handled_by_python(int number)
{
    PyObject *module = PyImport_ImportModule("_signal");
    PyObject *handler = module ? PyObject_CallMethod(module, "getsignal", "i", number) : NULL;
    int handled = handler ? PyCallable_Check(handler) : -1;
    Py_XDECREF(handler);
    Py_XDECREF(module);
    return handled;
}

/* Takes the place of Python's handler of a signal, if it has one; -1 after an exception. */
static int put_gate(size_t i)
{
    struct sigaction now;
    if (sigaction(gated[i], NULL, &now) < 0 || now.sa_handler == gate || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN
        || now.sa_flags & SA_SIGINFO)
        return 0;
    int handled = is_handled_by_python(gated[i]);
    if (handled < 1)
        return handled;
    behind_gate[i] = now.sa_handler;
    now.sa_handler = gate;
    sigaction(gated[i], &now, NULL);
    return 0;
}

static void do_what_was_noted(void)
{
    for (size_t i = 0; i < GATED; i++)
        if (atomic_exchange(&gate_noted[i], 0))
            behind_gate[i](gated[i]);
}

/* Shuts it once more; what has come before is done now. -1 after an exception, which leaves it as it was. */
static int shut_gate(void)
{
    for (size_t i = 0; i < GATED; i++)
        if (put_gate(i) < 0)
            return -1;
    atomic_fetch_add(&gate_shut, 1);
    if (PyErr_CheckSignals() == 0)
        return 0;
    atomic_fetch_sub(&gate_shut, 1);
    return -1;
}

/* Undoes it once; -1 after an exception of a handler. */
static int open_gate(void)
{
    if (atomic_fetch_sub(&gate_shut, 1) > 1)
        return 0;
    do_what_was_noted();
    return PyErr_CheckSignals();
}

/* Opens it for a sleep: how often it was shut, or -1 after an exception, which leaves it as it was. */
static int leave_gate_open(void)
{
    int shut = atomic_exchange(&gate_shut, 0);
    if (!shut)
        return 0;
    do_what_was_noted();
    if (PyErr_CheckSignals() == 0)
        return shut;
    atomic_store(&gate_shut, shut);
    return -1;
}

/* Shuts it as often again; -1 after an exception of a handler. */
static int end_of_sleep(int shut)
{
    if (!shut)
        return 0;
    atomic_store(&gate_shut, shut); /* first, so that nothing comes after those that are done now */
    return PyErr_CheckSignals();
}
#endif
