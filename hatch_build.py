"""Writes the JSON Schemas of what commands print into a wheel, as redisq_ops/schemas/NAME.json."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JsonSchemas(BuildHookInterface[Any]):
    """Needs no dependency of the package, which a build environment lacks."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # such an install has the sources' folder, without the files
            return
        sys.path.insert(0, self.root)
        from redisq_ops.cli.output_types.json_schema import schema_names, schema_text

        self._folder = TemporaryDirectory(prefix="redisq-schemas-")
        for name in schema_names():
            file = Path(self._folder.name, f"{name}.json")
            file.write_text(schema_text(name) + "\n", encoding="utf-8")
            build_data["force_include"][str(file)] = f"redisq_ops/schemas/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
