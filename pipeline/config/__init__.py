"""Every option and the table of attributes; nothing here reads a photo or a run."""
