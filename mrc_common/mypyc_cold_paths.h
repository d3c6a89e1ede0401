/* Functions of mypyc that are hardly ever called, marked as cold for the compiler.
 *
 * mypyc follows each operation by what happens if it fails: a traceback, and references that are given back. That is two fifths of
 * the machine code, between instructions that each packet takes. A compiler that knows what is cold puts the paths that lead there
 * into a section of their own, so that more of the rest fits the caches. Included before each file that mypyc has written
 * (scripts/compile_transport.py); the others do not see CPy.h. */
#ifndef MYPYC_COLD_PATHS_H
#define MYPYC_COLD_PATHS_H

#if defined(__GNUC__) && defined(__has_include)
#if __has_include("CPy.h")
#define PY_SSIZE_T_CLEAN
#include "CPy.h"

#define COLD(function) __typeof__(function) function __attribute__((cold))

COLD(CPy_AddTraceback);
COLD(CPy_AttributeError);
COLD(CPy_Raise);
COLD(CPy_TypeError);
COLD(CPy_TypeErrorTraceback);
COLD(CPyError_OutOfMemory);
COLD(PyErr_SetString);
/* called where a reference is given back after an error */
static COLD(CPy_DecRef);
static COLD(CPy_XDecRef);
/* integers of more than 62 bits */
COLD(CPyTagged_Add_);
COLD(CPyTagged_Subtract_);
COLD(CPyTagged_IsLt_);
COLD(CPyTagged_IncRef);
COLD(CPyTagged_DecRef);

#endif
#endif
#endif
