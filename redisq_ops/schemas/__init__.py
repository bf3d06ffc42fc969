"""JSON Schemas (draft 2020-12) of what commands print with ``--json`` and of files they write.

An object may have more fields in a later release. A built package also has each schema as a file in
this folder.
"""

from __future__ import annotations

from redisq_ops.cli.output_types.json_schema import schema_names
from redisq_ops.cli.output_types.json_schema import schema_of as schema

__all__ = ["schema", "schema_names"]
