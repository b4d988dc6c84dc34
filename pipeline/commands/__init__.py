"""Commands of the command line, one file each; ``pipeline.cli`` registers them."""
