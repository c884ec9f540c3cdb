"""What an experiment found out, judged and shown: as a page, as Markdown, as JSON, and beside another experiment."""
