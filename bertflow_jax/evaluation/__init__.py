"""STS tasks, metrics, tables and the report."""
