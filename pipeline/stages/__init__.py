"""The stages of an audit, one file each, and what runs them; what a stage computes is in the room of its name."""
