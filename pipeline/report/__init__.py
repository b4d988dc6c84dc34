"""What people read: tables, charts and the HTML page. Frames in, text out; nothing here reads or writes a file."""
