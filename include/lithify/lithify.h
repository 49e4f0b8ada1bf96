/* The C ABI of Lithify, for C and for every language that can call C.
 *
 *   lithify_options* options = lithify_options_new();
 *   lithify_options_add_dynamic_axis(options, "x", 0, "batch");
 *   lithify_result* result = NULL;
 *   lithify_status status = lithify_export_file("model.pt", "model.onnx", options, &result);
 *   for (size_t i = 0; i < lithify_result_message_count(result); ++i) puts(lithify_result_message(result, i));
 *   lithify_result_free(result);
 *   lithify_options_free(options);
 *
 * Handles. An options or result handle is a number that looks like a pointer: never an address, and never given out
 * twice. So a handle that is null, was freed, or is of the other kind is told by LITHIFY_ERROR_HANDLE, not by a crash.
 *
 * Text is UTF-8 and ends with a zero. A text that the library returns belongs to the handle it was asked of and lives
 * until that is freed; the caller frees none. Functions that return a text or a count answer NULL or 0 to a bad call.
 *
 * Threads. Every function may be called from any thread at any time, also on a handle that other threads use: an export
 * takes its options as they are when it starts.
 *
 * Stability. The functions are versioned symbols (LITHIFY_1). None changes its meaning or leaves; constants keep their
 * numbers. */
#ifndef LITHIFY_H
#define LITHIFY_H

#include <stddef.h>
#include <stdint.h>

#include "lithify/api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lithify_options lithify_options;
typedef struct lithify_result lithify_result;

/* How a call ended; an int, so that its size is the same in every language. */
typedef int lithify_status;
enum {
  LITHIFY_OK = 0,
  LITHIFY_ERROR_MODEL = 1,    /* the model cannot be read, exported or written: the result's messages say why */
  LITHIFY_ERROR_HANDLE = 2,   /* a handle is null, was freed, or is of another kind */
  LITHIFY_ERROR_ARGUMENT = 3, /* another argument is null, empty, out of range or not of the form described */
  LITHIFY_ERROR_MEMORY = 4,
  LITHIFY_ERROR_INTERNAL = 5 /* a fault of the library */
};

/* One sentence in English; never NULL. */
LITHIFY_API const char* lithify_status_text(lithify_status status);

/* "0.1.0" */
LITHIFY_API const char* lithify_version(void);

/* ---- options: what lithify::ExportOptions of lithify.hpp holds ---- */

/* NULL only when there is no memory. */
LITHIFY_API lithify_options* lithify_options_new(void);
/* Freeing NULL does nothing and is fine. */
LITHIFY_API lithify_status lithify_options_free(lithify_options* options);

LITHIFY_API lithify_status lithify_options_set_opset(lithify_options* options, int opset);
/* Instead of an opset: the newest that a runtime loads, "ort-1.17". */
LITHIFY_API lithify_status lithify_options_set_target(lithify_options* options, const char* runtime);
/* "x:float32[batch,3,224,224]": what the file does not say of an input. A size is a number, a name (then it is
 * dynamic), or "name=2", which gives the size in the sample as well. */
LITHIFY_API lithify_status lithify_options_add_input(lithify_options* options, const char* spec);
/* Axis `axis` of the input or output `value` is dynamic and is called `dimension`. */
LITHIFY_API lithify_status lithify_options_add_dynamic_axis(lithify_options* options, const char* value, int64_t axis,
                                                            const char* dimension);
/* Names in the ONNX file, in order: the first call names the first input. */
LITHIFY_API lithify_status lithify_options_add_input_name(lithify_options* options, const char* name);
LITHIFY_API lithify_status lithify_options_add_output_name(lithify_options* options, const char* name);

/* Declarations of custom operators: the text of a file as docs/custom-operators.md has it. */
LITHIFY_API lithify_status lithify_options_set_custom_operators(lithify_options* options, const char* declarations);
/* Whether an operator that has no rule becomes a node of its namespace's domain; 0 or 1. */
LITHIFY_API lithify_status lithify_options_set_allow_custom(lithify_options* options, int allow);

enum { LITHIFY_EXTERNAL_DATA_AUTO = 0, LITHIFY_EXTERNAL_DATA_ALWAYS = 1, LITHIFY_EXTERNAL_DATA_NEVER = 2 };
/* Whether the weights go to a file of their own; automatically above 2 GB. */
LITHIFY_API lithify_status lithify_options_set_external_data(lithify_options* options, int when);

/* Told in bytes while the file is written, on the thread that exports. NULL: not told. */
typedef void (*lithify_progress)(uint64_t done, uint64_t total, void* user);
LITHIFY_API lithify_status lithify_options_set_progress(lithify_options* options, lithify_progress progress,
                                                        void* user);

/* ---- what can be done ----
 * `options` may be NULL: the defaults. `result` may be NULL: not wanted. Else *result is a handle that the caller frees
 * after LITHIFY_OK and LITHIFY_ERROR_MODEL, and NULL after every other status. */

/* Writes the ONNX file `out`, or leaves nothing behind. Without a name, with NULL, the result holds the bytes. */
LITHIFY_API lithify_status lithify_export_file(const char* model, const char* out, const lithify_options* options,
                                               lithify_result** result);
/* Whether the model can be exported: LITHIFY_OK, or LITHIFY_ERROR_MODEL with every reason why not. */
LITHIFY_API lithify_status lithify_check_file(const char* model, const lithify_options* options,
                                              lithify_result** result);
/* What is in the file. */
LITHIFY_API lithify_status lithify_inspect_file(const char* model, lithify_result** result);

/* The same of a model file that is in memory, which must stay as it is during the call. */
LITHIFY_API lithify_status lithify_export_bytes(const void* data, size_t size, const char* out,
                                                const lithify_options* options, lithify_result** result);
LITHIFY_API lithify_status lithify_check_bytes(const void* data, size_t size, const lithify_options* options,
                                               lithify_result** result);
LITHIFY_API lithify_status lithify_inspect_bytes(const void* data, size_t size, lithify_result** result);

/* The operators that can be exported. */
LITHIFY_API lithify_status lithify_operators(lithify_result** result);

/* ---- results ---- */

LITHIFY_API lithify_status lithify_result_free(lithify_result* result);

/* All of it: the same JSON that `lithify check --json` and its like print; after an error, {"messages": [...]}. */
LITHIFY_API const char* lithify_result_json(const lithify_result* result);

/* Errors, warnings and notes, each as a whole text for people ... */
LITHIFY_API size_t lithify_result_message_count(const lithify_result* result);
LITHIFY_API const char* lithify_result_message(const lithify_result* result, size_t index);
/* ... and its stable code, "LTH040", and severity: "error", "warning" or "note". */
LITHIFY_API const char* lithify_result_message_code(const lithify_result* result, size_t index);
LITHIFY_API const char* lithify_result_message_severity(const lithify_result* result, size_t index);

/* Inputs and outputs of what was exported, inputs of what was inspected: "x: float32[batch, 10]". */
LITHIFY_API size_t lithify_result_input_count(const lithify_result* result);
LITHIFY_API const char* lithify_result_input(const lithify_result* result, size_t index);
LITHIFY_API size_t lithify_result_output_count(const lithify_result* result);
LITHIFY_API const char* lithify_result_output(const lithify_result* result, size_t index);

/* The ONNX file of an export without a name; else NULL, and *size is 0. `size` may not be NULL. */
LITHIFY_API const void* lithify_result_bytes(const lithify_result* result, size_t* size);

#ifdef __cplusplus
}
#endif

#endif
