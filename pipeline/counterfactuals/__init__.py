"""The sweep of a face: every value decoded, put back inside the mask, written and checked."""
