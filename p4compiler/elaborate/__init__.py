"""Elaboration: runs the program at compile time and leaves lowered code.

A value is a scalar expression, a header, a struct of values, a stack, a table, an instance. Applying a control binds
its parameters to the caller's values and elaborates its body, so inlining, specialisation, flattening and constant
folding are all one walk over the checked tree. Types, names and implicit conversions come from the checker.
"""
