"""Questions to banks, for all who ask them: the terminal, the dashboard, the server and assistants."""
