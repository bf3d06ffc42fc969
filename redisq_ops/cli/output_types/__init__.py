"""What commands print with ``--json``: a declared type for each object.

A command names its types where it is declared (``prints`` of `options.add`). The reference page and
the JSON Schemas in `redisq_ops.schemas` are generated from them: ``make reference``.
"""
