"""Statistics of an audit: pure functions over arrays and frames. Nothing here reads a file or loads a network."""
