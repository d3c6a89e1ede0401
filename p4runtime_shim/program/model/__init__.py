"""A v1model program as typed, frozen values: the BMv2 JSON with names resolved and nothing left to interpret.

References are positions (a field is header position + field position, a table its position in `Program.tables`), so
the code generator never looks a name up. Everything that this switch does not execute is refused by the loader, so
code that walks a Program needs no "else". One file a part of P4: headers, expressions, parser, actions, control,
externs; `program` holds them all.
"""
