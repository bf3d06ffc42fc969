"""What commands print with ``--json``: a declared type for each object.

A command names its types where it is declared (``prints`` of `options.command`). A type whose name
ends in ``Output`` is an object that a command prints or a line of a file; the others are parts of
these. A value of `core` or `ops` with the fields of the JSON is its own type (``EventOutput =
Event``), or its fields are `INLINE` in one. The JSON Schemas (`json_schema`) and the reference page
(``make reference``) are derived from the types.
"""
