"""One file an analysis: what it reads, its options, its tables and its section of the report."""
