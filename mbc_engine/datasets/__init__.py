"""Questions about texts: files, and generated news."""
