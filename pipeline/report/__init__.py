"""The report: tables as text, charts, figures for papers, and the HTML page."""
