/* Calls of Python objects, and errors, in few words. */
#ifndef PYTHON_CALLS_H
#define PYTHON_CALLS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#define MAX_TIME (1LL << 62) /* ns, 146 years: no clock shows it */

/* For tp_traverse and tp_clear of a type whose objects are listed by a macro. Its clock is not cleared, so that it is always there;
 * cycles are broken where the clock clears its events. */
#define VISIT_OBJECT(field) Py_VISIT(self->field);
#define CLEAR_OBJECT(field) Py_CLEAR(self->field);

/* An optional object that Python may have set to None. */
static PyObject *given(PyObject *object) { return object == Py_None ? NULL : object; }

static int discard(PyObject *result) {
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static PyObject *none_or_error(int done) {
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* `callable`, which others may replace meanwhile, with up to two arguments; the first of NULL ends them. */
static PyObject *call(PyObject *callable, PyObject *first, PyObject *second) {
    PyObject *arguments[] = {first, second};
    Py_INCREF(callable);
    PyObject *result = PyObject_Vectorcall(callable, arguments, second ? 2 : first ? 1 : 0, NULL);
    Py_DECREF(callable);
    return result;
}

/* Raises SimulationError with a text as of PyErr_Format. */
static void raise_simulation_error(const char *text, ...) {
    PyObject *module = PyImport_ImportModule("simulation.errors");
    PyObject *class = module ? PyObject_GetAttrString(module, "SimulationError") : NULL;
    va_list values;
    va_start(values, text);
    if (class)
        PyErr_FormatV(class, text, values);
    va_end(values);
    Py_XDECREF(class);
    Py_XDECREF(module);
}

/* A whole number of Python's as *to, or what is nearest to it of `least` to `most`; -1 after an error. */
static int clip(PyObject *number, int64_t least, int64_t most, int64_t *to) {
    int overflow;
    long long found = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (found == -1 && !overflow && PyErr_Occurred())
        return -1;
    *to = overflow > 0 || found > most ? most : overflow < 0 || found < least ? least : found;
    return 0;
}

#endif
