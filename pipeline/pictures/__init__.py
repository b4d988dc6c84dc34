"""Small pictures of a run's faces, and what was said of them, for the report."""
