/* The simulation's event queue, channels, and ports of switches and NICs, as a CPython extension.
 *
 * A frame that leaves a NIC goes from channel to switch to channel here; Python is called where a NIC or an application acts, and for
 * what is rare: channels that reorder, watchers, traces. Events happen in the order of their times, and at the same time in that in
 * which they were scheduled, so a run is a function of its seed. The interpreter lock is held all the time. Times are nanoseconds
 * below MAX_TIME.
 *
 * Here are the clock, as Python sees it, and the module; each header has a part and its type. native.pyi says what Python may call.
 * Objects are tracked by Python's garbage collector, since worlds are full of cycles. */
#include "events.h"
#include "prefetch.h"

static PyObject *clock_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    Clock *clock = (Clock *)PyType_GenericNew(type, args, keywords);
    if (clock)
        clock->least_queued = LEAST_QUEUED;
    return (PyObject *)clock;
}

static PyObject *clock_at(Clock *clock, PyObject *args, PyObject *keywords) {
    static char *names[] = {"when", "handler", "a", "b", NULL};
    PyObject *time, *handler, *a = Py_None, *b = Py_None;
    int64_t when;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|OO:at", names, &time, &handler, &a, &b) || clip(time, -1, MAX_TIME, &when) < 0)
        return NULL;
    if (when < clock->now) {
        raise_simulation_error("It is %lld ns already; nothing can be scheduled for %S ns.", (long long)clock->now, time);
        return NULL;
    }
    return none_or_error(push(clock, when, CALL, handler, a, b, 0));
}

static PyObject *clock_stop(Clock *clock, PyObject *Py_UNUSED(none)) {
    clock->stopped = 1;
    Py_RETURN_NONE;
}

/* 1 when stopped, 0 when no event is left up to and including `limit`, -1 after an error. */
static int run_until(Clock *clock, int64_t limit) {
    while (clock->count) {
        struct first first = find_first(clock);
        if (first.when > limit)
            return 0;
        struct event event = pop(clock, &first);
        clock->events++;
        prefetch_for_next(clock, first.place, &event);
        int done = handle_event(&event);
        forget(&event);
        if (done < 0)
            return -1;
        if (clock->stopped)
            return 1;
        if (clock->events % 1024 == 0 && PyErr_CheckSignals() < 0)
            return -1;
    }
    return 0;
}

static PyObject *clock_run(Clock *clock, PyObject *args, PyObject *keywords) {
    static char *names[] = {"until", NULL};
    PyObject *until = Py_None;
    int64_t limit = MAX_TIME;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:run", names, &until) || (given(until) && clip(until, 0, MAX_TIME, &limit) < 0))
        return NULL;
    if (clock->running) {
        raise_simulation_error("The world is running already: wait inside it with a coroutine, or run it later.");
        return NULL;
    }
    clock->running = 1;
    clock->stopped = 0;
    int done = run_until(clock, limit);
    clock->running = 0;
    if (done < 0)
        return NULL;
    if (!done && given(until) && limit > clock->now)
        clock->now = limit;
    return PyBool_FromLong(done);
}

static PyObject *clock_queued(Clock *clock, PyObject *Py_UNUSED(none)) {
    PyObject *list = PyList_New(0);
    for (uint32_t place = 1; list && place < clock->place_room; place++) {
        const struct event *event = &clock->places[place];
        if (event->kind == NOTHING)
            continue;
        PyObject *who = event->kind == CALL ? event->handler : event->a;
        PyObject *entry = Py_BuildValue("LKO", (long long)event->when, (unsigned long long)event->serial, who);
        if (!entry || PyList_Append(list, entry) < 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    if (list && PyList_Sort(list) < 0)
        Py_CLEAR(list);
    return list;
}

static int clock_traverse(Clock *clock, visitproc visit, void *arg) {
    for (uint32_t place = 1; place < clock->place_room; place++) {
        const struct event *event = &clock->places[place];
        if (event->kind == NOTHING)
            continue;
        Py_VISIT(event->handler);
        Py_VISIT(event->a);
        Py_VISIT(event->b);
    }
    return 0;
}

static int clock_clear(Clock *clock) {
    while (clock->count) {
        struct first first = find_first(clock);
        struct event event = pop(clock, &first);
        forget(&event);
    }
    return 0;
}

static void clock_dealloc(Clock *clock) {
    PyObject_GC_UnTrack(clock);
    clock_clear(clock);
    PyMem_Free(clock->heap);
    free(clock->places);
    Py_TYPE(clock)->tp_free((PyObject *)clock);
}

static PyMethodDef clock_methods[] = {
    {"at", (PyCFunction)(void (*)(void))clock_at, METH_VARARGS | METH_KEYWORDS, NULL},
    {"stop", (PyCFunction)clock_stop, METH_NOARGS, NULL},
    {"run", (PyCFunction)(void (*)(void))clock_run, METH_VARARGS | METH_KEYWORDS, NULL},
    {"queued", (PyCFunction)clock_queued, METH_NOARGS, NULL},
    {0},
};
static PyMemberDef clock_members[] = {
    {"now", T_LONGLONG, offsetof(Clock, now), READONLY, NULL},
    {"events", T_LONGLONG, offsetof(Clock, events), READONLY, NULL},
    {"running", T_BOOL, offsetof(Clock, running), READONLY, NULL},
    {"least_queued", T_PYSSIZET, offsetof(Clock, least_queued), 0, NULL},
    {"foreseen", T_ULONGLONG, offsetof(Clock, foreseen), READONLY, NULL},
    {0},
};
static PyTypeObject ClockType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "simulation.core.native.Clock",
    .tp_basicsize = sizeof(Clock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = clock_new,
    .tp_dealloc = (destructor)clock_dealloc,
    .tp_traverse = (traverseproc)clock_traverse,
    .tp_clear = (inquiry)clock_clear,
    .tp_methods = clock_methods,
    .tp_members = clock_members,
};

/* ---- the module ---- */

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "native", .m_size = -1};

PyMODINIT_FUNC PyInit_native(void) {
    PyTypeObject *types[] = {&ClockType, &ChannelType, &SwitchPortsType, &NicPortsType};
    PyObject *module = PyModule_Create(&definition);
    int done = module ? PyType_Ready(&FrameType) : -1;
    for (size_t i = 0; i < sizeof types / sizeof *types && !done; i++)
        done = PyModule_AddType(module, types[i]);
    PyObject *end = done ? NULL : PyLong_FromLongLong(MAX_TIME);
    if (!end || PyModule_AddObject(module, "END_OF_TIME", end) < 0) {
        Py_XDECREF(end);
        Py_CLEAR(module);
    }
    return module;
}
