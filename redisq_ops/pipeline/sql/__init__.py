"""Questions in SQL: what a query reads, and DuckDB's answer."""
