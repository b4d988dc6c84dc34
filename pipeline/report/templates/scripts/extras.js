// Runs alone in a function of its own, in strict mode (page.py). No style attribute in the HTML takes effect (CSP): set styles here.
