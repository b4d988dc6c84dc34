"""Photos by keyword: what is searched where, what is downloaded and how safely, and the manifest of it."""
