"""Human review of faces and edits: the questions, the local page that shows them, the answers and their statistics."""
