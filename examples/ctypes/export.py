"""export.py LIBLITHIFY.so MODEL.pt OUT.onnx [INPUT]...: exports a TorchScript file through the C ABI.

Any language that can call C does the same; nothing but the standard library is used here. INPUT is "x:float32[batch=2,4]".
"""

from __future__ import annotations

import ctypes
import json
import sys

Handle = ctypes.c_void_p
Text = ctypes.c_char_p


def load(path: str) -> ctypes.CDLL:
    """The library, with the types of the functions that are used."""
    lib = ctypes.CDLL(path)
    lib.lithify_options_new.restype = Handle
    lib.lithify_options_add_input.argtypes = [Handle, Text]
    lib.lithify_options_free.argtypes = [Handle]
    lib.lithify_export_file.argtypes = [Text, Text, Handle, ctypes.POINTER(Handle)]
    lib.lithify_result_json.argtypes = [Handle]
    lib.lithify_result_json.restype = Text
    lib.lithify_result_free.argtypes = [Handle]
    return lib


def main(library: str, model: str, out: str, *inputs: str) -> int:
    lib = load(library)
    options = lib.lithify_options_new()
    for spec in inputs:
        lib.lithify_options_add_input(options, spec.encode())
    result = Handle()
    status = lib.lithify_export_file(model.encode(), out.encode(), options, ctypes.byref(result))
    report = json.loads(lib.lithify_result_json(result))
    lib.lithify_result_free(result)
    lib.lithify_options_free(options)
    print(json.dumps(report, indent=2))
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
