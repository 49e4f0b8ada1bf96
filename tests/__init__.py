"""The tests. Every export that they make verifies its graph (src/onnx/verify.hpp): by the command line and in Python."""

import os

os.environ.setdefault("LITHIFY_VERIFY", "1")
