"""How likely an answer is right: a logistic regression of what the search and the reader say of it."""
