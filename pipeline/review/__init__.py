"""Labels and edits checked by people: the questions, a local page that asks them, the answers, and what these say."""
