"""Question-answering datasets: files and generated news."""
