"""The Python door: lithify.export and what belongs to it."""
