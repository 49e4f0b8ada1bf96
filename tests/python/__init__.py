"""The Python package: lithify.export and what belongs to it."""
