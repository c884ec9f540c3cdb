"""What an experiment found out, judged and presented: as a page, as Markdown, as JSON, and beside another experiment."""
