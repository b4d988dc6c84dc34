"""A run's folder, record, tables and storage, and the engines that execute its jobs."""
