/* The simulation's event queue, channels and hops through embedded switches, as a CPython extension.
 *
 * Clock, Channel, SwitchHop, NicNode and PacketEngine do what simulation/clock.py, channel.py, the nodes of nodes.py and
 * packet_engine.py do, event for event: every event gets the serial that it gets there, so both have the same order and the
 * same traces. A frame that leaves a NIC goes from channel to switch to channel here; Python is called where a NIC or application
 * acts, and for all that is rare: channels that corrupt, delay or reorder, watchers, traces. The interpreter lock is held all
 * the time. Times are int64 nanoseconds below 2^62.
 * Here and in nic_types.h are the types as Python sees them; event_queue.h, frame.h, packet_engine.h, nic_node.h, frame_path.h,
 * prefetch.h, huge_pages.h and free_memory.h have what they do.
 *
 * Objects are tracked by Python's garbage collector, since worlds are full of cycles. */
#include "free_memory.h"
#include "huge_pages.h"
#include "nic_types.h"
#include "prefetch.h"

/* ---- Clock for Python ---- */

static PyObject *error(const char *name) {
    PyObject *module = PyImport_ImportModule("simulation.errors");
    PyObject *class = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return class;
}

static PyObject *raise_simulation_error(const char *text, long long first, long long second) {
    PyObject *class = error("SimulationError");
    if (class)
        PyErr_Format(class, text, first, second);
    Py_XDECREF(class);
    return NULL;
}

static PyObject *clock_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    Clock *clock = (Clock *)PyType_GenericNew(type, args, keywords);
    if (clock)
        clock->least_queued = LEAST_QUEUED;
    return (PyObject *)clock;
}

static PyObject *clock_at(Clock *clock, PyObject *args, PyObject *keywords) {
    static char *names[] = {"when", "handler", "a", "b", NULL};
    long long when;
    PyObject *handler, *a = Py_None, *b = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LO|OO:at", names, &when, &handler, &a, &b))
        return NULL;
    if (when < clock->now)
        return raise_simulation_error("It is %lld ns already; nothing can be scheduled for %lld ns.", clock->now, when);
    if (push(clock, when, CALL, handler, a, b, 0) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *clock_stop(Clock *clock, PyObject *Py_UNUSED(none)) {
    clock->stopped = 1;
    Py_RETURN_NONE;
}

static int run_until(Clock *clock, int64_t limit) {
    while (clock->count) {
        struct first first = find_first(clock);
        if (first.when > limit)
            return 0;
        struct event event = pop(clock, &first);
        clock->events++;
        prefetch_for_next(clock, first.place, &event);
        int done = handle_event(clock, &event);
        forget(&event);
        if (done < 0)
            return -1;
        if (clock->events % EVENTS_BETWEEN == 0)
            give_back_free_memory();
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
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:run", names, &until))
        return NULL;
    int64_t limit = until == Py_None ? MAX_TIME : PyLong_AsLongLong(until);
    if (limit == -1 && PyErr_Occurred())
        return NULL;
    if (clock->running)
        return raise_simulation_error(
            "The world is running already: wait inside it with a coroutine, or run it later.", 0, 0);
    clock->running = 1;
    clock->stopped = 0;
    int done = run_until(clock, limit);
    clock->running = 0;
    if (done < 0)
        return NULL;
    if (!done && until != Py_None && limit > clock->now)
        clock->now = limit;
    return PyBool_FromLong(done);
}

/* A copy of the queue, as clock.py has it, but in any order; for checks, not for changes. */
static PyObject *clock_heap(Clock *clock, void *Py_UNUSED(closure)) {
    PyObject *list = PyList_New(0);
    for (uint32_t place = 1; list && place < clock->place_room; place++) {
        const struct event *event = &clock->places[place];
        if (event->kind == NOTHING)
            continue;
        PyObject *handler = event->kind == CALL ? event->handler : Py_None;
        PyObject *b = event->b ? event->b : Py_None;
        PyObject *entry =
            Py_BuildValue("LKOOO", (long long)event->when, (unsigned long long)event->serial, handler, event->a, b);
        if (!entry || PyList_Append(list, entry) < 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
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
    {"at", (PyCFunction)(void (*)(void))clock_at, METH_VARARGS | METH_KEYWORDS, "Schedule handler(a, b)."},
    {"stop", (PyCFunction)clock_stop, METH_NOARGS, "Make run() return after this event."},
    {"run", (PyCFunction)(void (*)(void))clock_run, METH_VARARGS | METH_KEYWORDS, "Handle events."},
    {0},
};
static PyMemberDef clock_members[] = {
    {"now", T_LONGLONG, offsetof(Clock, now), READONLY, NULL},
    {"events", T_LONGLONG, offsetof(Clock, events), READONLY, NULL},
    {"serial", T_ULONGLONG, offsetof(Clock, serial), READONLY, NULL},
    {"running", T_BOOL, offsetof(Clock, running), READONLY, NULL},
    {"least_queued", T_PYSSIZET, offsetof(Clock, least_queued), 0, NULL},
    {"foreseen", T_ULONGLONG, offsetof(Clock, foreseen), READONLY, NULL},
    {0},
};
static PyGetSetDef clock_getset[] = {{"heap", (getter)clock_heap, NULL, NULL, NULL}, {0}};
static PyTypeObject ClockType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "native_core.Clock",
    .tp_basicsize = sizeof(Clock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = clock_new,
    .tp_dealloc = (destructor)clock_dealloc,
    .tp_traverse = (traverseproc)clock_traverse,
    .tp_clear = (inquiry)clock_clear,
    .tp_methods = clock_methods,
    .tp_members = clock_members,
    .tp_getset = clock_getset,
};

/* ---- Channel for Python: the hot part of simulation/channel.py's state, by the names that it has there ---- */

static PyObject *py_send(Channel *channel, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "send(frame, now)");
        return NULL;
    }
    long long now = PyLong_AsLongLong(args[1]);
    if ((now == -1 && PyErr_Occurred()) || channel_send(channel, args[0], now) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_schedule_arrival(Channel *channel, PyObject *args) {
    long long when;
    PyObject *frame;
    Clock *clock = clock_of(channel->clock);
    if (!clock || !PyArg_ParseTuple(args, "LO", &when, &frame))
        return NULL;
    if (push(clock, when, ARRIVE, NULL, (PyObject *)channel, frame, channel->epoch) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Where an event of a channel is, the first that is found or the one with a serial; 0 if there is none. */
static uint32_t place_of(const Clock *clock, enum kind kind, const Channel *channel, const uint64_t *serial) {
    for (uint32_t place = 1; place < clock->place_room; place++) {
        const struct event *event = &clock->places[place];
        if (event->kind == kind && event->a == (PyObject *)channel && (!serial || event->serial == *serial))
            return place;
    }
    return 0;
}

/* The frame on the channel ends `saved` ns earlier, arriving not before a time or as it would have: when it arrives, -1 if
 * it was lost; None when there is no frame. */
static PyObject *py_bring_forward(Channel *channel, PyObject *args) {
    long long saved, not_before, arrival = -1;
    Clock *clock = clock_of(channel->clock);
    if (!clock || !PyArg_ParseTuple(args, "LL", &saved, &not_before))
        return NULL;
    uint32_t free_place = place_of(clock, FREE, channel, NULL);
    if (!free_place)
        Py_RETURN_NONE;
    if (saved < 0 || saved > clock->places[free_place].when - clock->now)
        return PyErr_Format(PyExc_ValueError, "a frame ends after now, and not later than it would have");
    uint64_t next = clock->places[free_place].serial + 1;
    bring_forward(clock, free_place, clock->places[free_place].when - saved);
    uint32_t place = place_of(clock, ARRIVE, channel, &next);
    if (place) {
        int64_t when = clock->places[place].when, latest = when < not_before ? when : not_before;
        arrival = when - saved > latest ? when - saved : latest;
        bring_forward(clock, place, arrival);
    }
    channel->free_at -= saved;
    return PyLong_FromLongLong(arrival);
}

#define EACH_OBJECT(DO)                                                                                                \
    DO(clock) DO(pull) DO(receive) DO(trace) DO(watcher) DO(sender) DO(receiver)

static int channel_traverse(Channel *self, visitproc visit, void *arg) {
    EACH_OBJECT(VISIT_PART)
    return 0;
}

static int channel_clear(Channel *self) {
    EACH_OBJECT(CLEAR_PART)
    return 0;
}

static void channel_dealloc(Channel *channel) {
    PyObject_GC_UnTrack(channel);
    channel_clear(channel);
    Py_TYPE(channel)->tp_free((PyObject *)channel);
}

static PyMethodDef channel_methods[] = {
    {"send", (PyCFunction)(void (*)(void))py_send, METH_FASTCALL, "Start a frame; the channel must be free."},
    {"_schedule_arrival", (PyCFunction)py_schedule_arrival, METH_VARARGS, NULL},
    {"_bring_forward", (PyCFunction)py_bring_forward, METH_VARARGS, NULL},
    {0},
};
#define NUMBER(name, field) {name, T_LONGLONG, offsetof(Channel, field), 0, NULL}
#define FLAG(name, field) {name, T_BOOL, offsetof(Channel, field), 0, NULL}
#define OBJECT(name, field) {name, T_OBJECT_EX, offsetof(Channel, field), 0, NULL}
static PyMemberDef channel_members[] = {
    OBJECT("_clock", clock), OBJECT("_pull", pull), OBJECT("_receive", receive), OBJECT("_trace", trace),
    OBJECT("_watcher", watcher), OBJECT("_sender_end", sender), OBJECT("_receiver_end", receiver),
    NUMBER("_rate", rate), NUMBER("_delay", delay), NUMBER("_remainder", remainder), NUMBER("_free_at", free_at),
    NUMBER("_epoch", epoch), NUMBER("_to_port", to_port), NUMBER("_to_number", to_number), NUMBER("port", port),
    NUMBER("frames", frames), NUMBER("bytes", bytes), NUMBER("lost", lost), NUMBER("reordered", reordered), NUMBER("_last_arrival", last_arrival), NUMBER("_not_before", not_before),
    FLAG("idle", idle), FLAG("_impaired", impaired), {0},
};
static PyTypeObject ChannelType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "native_core.Channel",
    .tp_basicsize = sizeof(Channel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)channel_dealloc,
    .tp_traverse = (traverseproc)channel_traverse,
    .tp_clear = (inquiry)channel_clear,
    .tp_methods = channel_methods,
    .tp_members = channel_members,
};

/* ---- SwitchHop for Python ---- */

static int hop_init(SwitchHop *hop, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    unsigned long long handle, receive, transmit, take_ready, set_owners, prefetch, next_wakeup, tick;
    Py_ssize_t size;
    PyObject *clock, *channels, *port, *channel, *wake, *go_on;
    if (!PyArg_ParseTuple(args, "O!O!(KKKKKKKK)nppOO:SwitchHop", &ClockType, &clock, &PyDict_Type, &channels, &handle,
                          &receive, &transmit, &take_ready, &set_owners, &prefetch, &next_wakeup, &tick, &size,
                          &hop->copies, &hop->pauses, &wake, &go_on))
        return -1;
    if (hop->clock || size < 1) {
        PyErr_SetString(PyExc_ValueError, "a hop is initialised once, for frames of at least one byte");
        return -1;
    }
    hop->clock = (Clock *)Py_NewRef(clock);
    hop->wake = Py_NewRef(wake);
    hop->go_on = Py_NewRef(go_on);
    hop->wake_at = MAX_TIME;
    for (Py_ssize_t at = 0; PyDict_Next(channels, &at, &port, &channel);) {
        long number = PyLong_AsLong(port);
        if (number < 0 || number >= MAX_PORTS || !PyObject_TypeCheck(channel, &ChannelType)) {
            PyErr_SetString(PyExc_ValueError, "a hop's channels are native, at ports 0 to 511");
            return -1;
        }
        Py_XSETREF(hop->channels[number], Py_NewRef(channel));
    }
    hop->size = (size_t)size;
    hop->receive = (__typeof__(hop->receive))(uintptr_t)receive;
    hop->transmit = (__typeof__(hop->transmit))(uintptr_t)transmit;
    hop->take_ready = (__typeof__(hop->take_ready))(uintptr_t)take_ready;
    hop->prefetch = (__typeof__(hop->prefetch))(uintptr_t)prefetch;
    hop->next_wakeup = (__typeof__(hop->next_wakeup))(uintptr_t)next_wakeup;
    hop->tick = (__typeof__(hop->tick))(uintptr_t)tick;
    hop->handle = (struct sw *)(uintptr_t)handle;
    ((void (*)(struct sw *, sw_release_owner, sw_copy_rest))(uintptr_t)set_owners)(hop->handle, release_owner, copy_for_switch);
    return 0;
}

static PyObject *hop_close(SwitchHop *hop, PyObject *Py_UNUSED(none)) {
    hop->handle = NULL;
    Py_RETURN_NONE;
}

/* serve(): as SwitchNode._serve; False once the hop is closed. */
static PyObject *py_hop_serve(SwitchHop *hop, PyObject *Py_UNUSED(none)) {
    int open = hop->handle != NULL;
    return open && hop_serve(hop) < 0 ? NULL : PyBool_FromLong(open);
}

static int hop_traverse(SwitchHop *hop, visitproc visit, void *arg) {
    Py_VISIT(hop->clock);
    Py_VISIT(hop->wake);
    Py_VISIT(hop->go_on);
    for (int port = 0; port < MAX_PORTS; port++)
        Py_VISIT(hop->channels[port]);
    return 0;
}

static int hop_clear(SwitchHop *hop) {
    hop->handle = NULL;
    Py_CLEAR(hop->clock);
    Py_CLEAR(hop->wake);
    Py_CLEAR(hop->go_on);
    for (int port = 0; port < MAX_PORTS; port++)
        Py_CLEAR(hop->channels[port]);
    return 0;
}

static void hop_dealloc(SwitchHop *hop) {
    PyObject_GC_UnTrack(hop);
    hop_clear(hop);
    Py_TYPE(hop)->tp_free((PyObject *)hop);
}

static PyMethodDef hop_methods[] = {
    {"close", (PyCFunction)hop_close, METH_NOARGS, "From now on channels call the node in Python."},
    {"serve", (PyCFunction)py_hop_serve, METH_NOARGS, "Start what can start; whether the hop is open."},
    {0},
};
static PyMemberDef hop_members[] = {{"wake_at", T_LONGLONG, offsetof(SwitchHop, wake_at), READONLY, NULL}, {0}};
static PyTypeObject SwitchHopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "native_core.SwitchHop",
    .tp_basicsize = sizeof(SwitchHop),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)hop_init,
    .tp_dealloc = (destructor)hop_dealloc,
    .tp_traverse = (traverseproc)hop_traverse,
    .tp_clear = (inquiry)hop_clear,
    .tp_methods = hop_methods,
    .tp_members = hop_members,
};

static PyObject *keep_memory(PyObject *Py_UNUSED(module), PyObject *keep) {
    int on = PyObject_IsTrue(keep);
    if (on < 0)
        return NULL;
    memory_is_kept += on ? 1 : -1;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"keep_memory", keep_memory, METH_O, "One more, or less, who keeps what is free."}, {0}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "native_core", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_native_core(void) {
    name_send_impaired = PyUnicode_InternFromString("_send_impaired");
    name_lose = PyUnicode_InternFromString("_lose");
    name_frame = PyUnicode_InternFromString("frame");
    name_arrived = PyUnicode_InternFromString("arrived");
    text_link_down = PyUnicode_InternFromString("on its way when the link went down");
    PyObject *module = PyModule_Create(&definition);
    if (!module || !text_link_down || PyModule_AddType(module, &ClockType) < 0 || PyModule_AddType(module, &ChannelType) < 0 ||
        PyModule_AddType(module, &SwitchHopType) < 0 || PyModule_AddType(module, &NicNodeType) < 0 ||
        PyModule_AddType(module, &PacketEngineType) < 0 || PyType_Ready(&FrameType) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    take_arenas_from_huge_pages();
    return module;
}
