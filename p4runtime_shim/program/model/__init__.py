"""A v1model program as typed, frozen values: the BMv2 JSON with all names resolved.

References are positions (a field is header position + field position, a table is its position in `Program.tables`), so
the code generator never looks up a name. The loader rejects everything that this switch cannot execute, so code that
walks a Program needs no "else". One file per part of P4: headers, expressions, parser, actions, control flow, externs;
`program` combines them.
"""
