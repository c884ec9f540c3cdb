"""The user's config: options that are not typed each time."""
