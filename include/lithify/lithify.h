/** @file
 * The C ABI of Lithify, for C and for every language that can call C.
 *
 *     lithify_options* options = lithify_options_new();
 *     lithify_options_add_dynamic_axis(options, "x", 0, "batch");
 *     lithify_result* result = NULL;
 *     lithify_status status = lithify_export_file("model.pt", "model.onnx", options, &result);
 *     for (size_t i = 0; i < lithify_result_message_count(result); ++i) puts(lithify_result_message(result, i));
 *     lithify_result_free(result);
 *     lithify_options_free(options);
 *
 * Handles. An options or result handle is a number that looks like a pointer: never an address, and never given out
 * twice. So a handle that is null, was freed, or is of the other kind gives LITHIFY_ERROR_HANDLE, not a crash.
 *
 * Text is UTF-8 and ends with a zero. A text that the library returns belongs to the handle it was asked of and lives
 * until that is freed; the caller frees none. Functions that return a text or a count return NULL or 0 for a bad call.
 *
 * Threads. Every function may be called from any thread at any time, also on a handle that other threads use: an export
 * takes its options as they are when it starts.
 *
 * Stability. The functions are versioned symbols (LITHIFY_1). None changes its meaning or is removed; constants keep
 * their numbers. */
#ifndef LITHIFY_H
#define LITHIFY_H

#include <stddef.h>
#include <stdint.h>

#include "lithify/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A handle of the options of an export. */
typedef struct lithify_options lithify_options;
/** A handle of the result of a call. */
typedef struct lithify_result lithify_result;

/** How a call ended; an int, so that its size is the same in every language. */
typedef int lithify_status;
/** The values of lithify_status. */
enum {
  LITHIFY_OK = 0,             /**< success */
  LITHIFY_ERROR_MODEL = 1,    /**< the model cannot be read, exported or written; see the result's messages */
  LITHIFY_ERROR_HANDLE = 2,   /**< a handle is null, was freed, or is of another kind */
  LITHIFY_ERROR_ARGUMENT = 3, /**< another argument is null, empty, out of range or not of the form described */
  LITHIFY_ERROR_MEMORY = 4,   /**< there is not enough memory */
  LITHIFY_ERROR_INTERNAL = 5  /**< a fault of the library */
};

/** A status as one sentence in English; never NULL. */
LITHIFY_API const char* lithify_status_text(lithify_status status);

/** The version of the library: "0.1.0". */
LITHIFY_API const char* lithify_version(void);

/* ---- options: the members of lithify::ExportOptions in lithify.hpp, and their defaults ---- */

/** Makes options; NULL only when there is no memory. */
LITHIFY_API lithify_options* lithify_options_new(void);
/** Frees options; NULL is fine. */
LITHIFY_API lithify_status lithify_options_free(lithify_options* options);

/** The ONNX opset, 9 to 26. Without it, the lowest from 18 on that can express the model. */
LITHIFY_API lithify_status lithify_options_set_opset(lithify_options* options, int opset);
/** Instead of an opset: the newest that a runtime loads, "ort-1.17". Or "ort": operators that only ONNX Runtime has may
 * be used, in any opset. */
LITHIFY_API lithify_status lithify_options_set_target(lithify_options* options, const char* runtime);

/** Type and sizes of an input that the file does not have, or others than it has: "x:float32[batch,3,224,224]". A size
 * is a number, a name (then it is dynamic), or "name=2", which gives the size in the sample as well. */
LITHIFY_API lithify_status lithify_options_add_input(lithify_options* options, const char* spec);
/** Makes axis `axis` of the input or output `value` dynamic, with the name `dimension`. Equal names are equal sizes. */
LITHIFY_API lithify_status lithify_options_add_dynamic_axis(lithify_options* options, const char* value, int64_t axis,
                                                            const char* dimension);
/** Whether every axis becomes dynamic that can be, detected automatically; 0 or 1. */
LITHIFY_API lithify_status lithify_options_set_discover(lithify_options* options, int discover);
/** The name of the next input in the ONNX file: the first call names the first input. */
LITHIFY_API lithify_status lithify_options_add_input_name(lithify_options* options, const char* name);
/** The name of the next output in the ONNX file. */
LITHIFY_API lithify_status lithify_options_add_output_name(lithify_options* options, const char* name);

/** Adds another capture of the same model at other sizes, by the path of its file: what differs was hard-coded. */
LITHIFY_API lithify_status lithify_options_add_also(lithify_options* options, const char* model);
/** The same of a file in memory, which must stay as it is until the options are freed. */
LITHIFY_API lithify_status lithify_options_add_also_bytes(lithify_options* options, const void* data, size_t size);
/** Which hard-coded sizes become formulas of the dynamic dimensions again. */
enum {
  LITHIFY_RECOVER_NEVER = 0,   /**< none: a contradiction to a dynamic dimension is an error */
  LITHIFY_RECOVER_DECIDED = 1, /**< those whose formula the program decides: the default */
  LITHIFY_RECOVER_GUESS = 2    /**< also those for which the program leaves a choice */
};
/** Sets which hard-coded sizes become formulas again: one of LITHIFY_RECOVER_. */
LITHIFY_API lithify_status lithify_options_set_recover(lithify_options* options, int recover);
/** Whether constants that may be sizes of the sample are refused; 0 or 1. */
LITHIFY_API lithify_status lithify_options_set_strict(lithify_options* options, int strict);

/** What happens to a model whose results depend on what earlier runs left in its buffers. */
enum {
  LITHIFY_STATE_ERROR = 0, /**< the export fails: the default */
  LITHIFY_STATE_IO = 1,    /**< they become further inputs and outputs, "hidden" and "hidden.next" */
  LITHIFY_STATE_FROZEN = 2 /**< every run starts from what the file holds */
};
/** Sets what happens to buffers that the model changes: one of LITHIFY_STATE_. */
LITHIFY_API lithify_status lithify_options_set_state(lithify_options* options, int state);
/** Unrolls loops of at most this many iterations, where that is known; others become Loop. */
LITHIFY_API lithify_status lithify_options_set_unroll(lithify_options* options, int64_t iterations);
/** Allows this many times the default work and memory that a program may take at export, from 1 to 1000. */
LITHIFY_API lithify_status lithify_options_set_budget(lithify_options* options, int64_t times);

/** Declarations of custom operators, the text of a file as docs/custom-operators.md describes it. */
LITHIFY_API lithify_status lithify_options_set_custom_operators(lithify_options* options, const char* declarations);
/** The version of a domain of custom operators, from 1 on; 1 by default. */
LITHIFY_API lithify_status lithify_options_add_custom_opset(lithify_options* options, const char* domain, int version);
/** Whether an unknown operator is kept as a node of the domain that its namespace names; 0 or 1. */
LITHIFY_API lithify_status lithify_options_set_allow_custom(lithify_options* options, int allow);

/** Whether weights go to a separate file. */
enum {
  LITHIFY_EXTERNAL_DATA_AUTO = 0,   /**< above 2 GB: the default */
  LITHIFY_EXTERNAL_DATA_ALWAYS = 1, /**< however small */
  LITHIFY_EXTERNAL_DATA_NEVER = 2   /**< a model above 2 GB is an error */
};
/** Sets whether weights go to a separate file: one of LITHIFY_EXTERNAL_DATA_. */
LITHIFY_API lithify_status lithify_options_set_external_data(lithify_options* options, int when);

/** What large weights of matrix products and tables are stored as. Integers change the results. */
enum {
  LITHIFY_WEIGHTS_UNCHANGED = 0, /**< as the model has them */
  LITHIFY_WEIGHTS_INT8 = 1,      /**< blocks with a scale each */
  LITHIFY_WEIGHTS_UINT8 = 2,     /**< with a zero point as well */
  LITHIFY_WEIGHTS_INT4 = 3,      /**< the same of 4 bits; tables have 8 */
  LITHIFY_WEIGHTS_UINT4 = 4
};
/** Sets what large weights are stored as: one of LITHIFY_WEIGHTS_. */
LITHIFY_API lithify_status lithify_options_set_weights(lithify_options* options, int weights);
/** Sets how many elements of a quantized weight have one scale: 16, 32, 64, 128 or 256. */
LITHIFY_API lithify_status lithify_options_set_weights_block(lithify_options* options, int64_t elements);
/** What weights are stored in and nodes compute in, where float32 is not needed. */
enum {
  LITHIFY_PRECISION_UNCHANGED = 0, /**< as the model has them */
  LITHIFY_PRECISION_FLOAT16 = 1,   /**< up to 65504; what may be larger stays float32 */
  LITHIFY_PRECISION_BFLOAT16 = 2   /**< from opset 13 on */
};
/** Sets the precision of weights and computation: one of LITHIFY_PRECISION_. */
LITHIFY_API lithify_status lithify_options_set_precision(lithify_options* options, int precision);
/** Adds a weight or module that stays as it is, such as "lm_head"; "*" stands for any text. */
LITHIFY_API lithify_status lithify_options_add_keep_weights(lithify_options* options, const char* pattern);
/** Whether a call returns before the output is on the disk; 0 or 1. That is faster, and the output may be incomplete
 * after a power failure. */
LITHIFY_API lithify_status lithify_options_set_skip_sync(lithify_options* options, int skip);
/** Whether every value is compared with the type and sizes that torch.export recorded of it; 0 or 1. A difference is a
 * fault of the exporter and an error. */
LITHIFY_API lithify_status lithify_options_set_self_check(lithify_options* options, int check);

/** Called with the bytes written so far and in all, on the thread that exports. */
typedef void (*lithify_progress)(uint64_t done, uint64_t total, void* user);
/** Sets what is called while the file is written, and `user`, which it gets as well. NULL: nothing is called. */
LITHIFY_API lithify_status lithify_options_set_progress(lithify_options* options, lithify_progress progress,
                                                        void* user);

/* ---- calls ----
 * `options` may be NULL: the defaults. `result` may be NULL: not wanted. Otherwise *result is a handle that the caller
 * frees after LITHIFY_OK and LITHIFY_ERROR_MODEL, and NULL after every other status. */

/** Exports the file `model` to the ONNX file `out`, or leaves no file behind. Without `out` the result has the bytes.
 */
LITHIFY_API lithify_status lithify_export_file(const char* model, const char* out, const lithify_options* options,
                                               lithify_result** result);
/** Checks whether the model can be exported: LITHIFY_OK, or LITHIFY_ERROR_MODEL with every reason why not. */
LITHIFY_API lithify_status lithify_check_file(const char* model, const lithify_options* options,
                                              lithify_result** result);
/** Reads a model file without exporting it. */
LITHIFY_API lithify_status lithify_inspect_file(const char* model, lithify_result** result);

/** lithify_export_file of a file in memory, which must stay as it is during the call. */
LITHIFY_API lithify_status lithify_export_bytes(const void* data, size_t size, const char* out,
                                                const lithify_options* options, lithify_result** result);
/** lithify_check_file of a file in memory. */
LITHIFY_API lithify_status lithify_check_bytes(const void* data, size_t size, const lithify_options* options,
                                               lithify_result** result);
/** lithify_inspect_file of a file in memory. */
LITHIFY_API lithify_status lithify_inspect_bytes(const void* data, size_t size, lithify_result** result);

/** Reads what the ONNX file `model` claims: at which sizes its results are those of the PyTorch model. The result's
 * JSON has all of it. LITHIFY_ERROR_MODEL for a file that Lithify did not write. */
LITHIFY_API lithify_status lithify_claims_file(const char* model, lithify_result** result);
/** lithify_claims_file of a file in memory. */
LITHIFY_API lithify_status lithify_claims_bytes(const void* data, size_t size, lithify_result** result);

/** Whether a file is claimed to be right at some sizes. */
enum {
  LITHIFY_CLAIM_EXCLUDED = 0, /**< no: a constraint excludes them */
  LITHIFY_CLAIM_HOLDS = 1,    /**< yes */
  LITHIFY_CLAIM_UNKNOWN = 2   /**< not known: the model was not recorded or checked so */
};
/** Sets *answer to one of LITHIFY_CLAIM_. `claimed` is the result of lithify_claims_file or of an export; `names` and
 * `sizes` have the `count` dynamic dimensions. The new result's JSON has the reason. LITHIFY_ERROR_MODEL for names that
 * are not those of the dimensions; its message lists them. */
LITHIFY_API lithify_status lithify_claims_holds(const lithify_result* claimed, const char* const* names,
                                                const int64_t* sizes, size_t count, int* answer,
                                                lithify_result** result);

/** Lists the operators that can be exported. */
LITHIFY_API lithify_status lithify_operators(lithify_result** result);

/* ---- results ---- */

/** Frees a result; NULL is fine. */
LITHIFY_API lithify_status lithify_result_free(lithify_result* result);

/** All of it as JSON, as `lithify check --json` and its like print it; after an error, {"messages": [...]}. */
LITHIFY_API const char* lithify_result_json(const lithify_result* result);

/** The number of errors, warnings and notes. */
LITHIFY_API size_t lithify_result_message_count(const lithify_result* result);
/** A message as a whole text for people. */
LITHIFY_API const char* lithify_result_message(const lithify_result* result, size_t index);
/** The stable code of a message, "LTH040". */
LITHIFY_API const char* lithify_result_message_code(const lithify_result* result, size_t index);
/** The severity of a message: "error", "warning" or "note". */
LITHIFY_API const char* lithify_result_message_severity(const lithify_result* result, size_t index);

/** The number of inputs of a model that was exported or inspected. */
LITHIFY_API size_t lithify_result_input_count(const lithify_result* result);
/** An input: "x: float32[batch, 10]". */
LITHIFY_API const char* lithify_result_input(const lithify_result* result, size_t index);
/** The number of outputs of a model that was exported. */
LITHIFY_API size_t lithify_result_output_count(const lithify_result* result);
/** An output: "y: float32[batch, 5]". */
LITHIFY_API const char* lithify_result_output(const lithify_result* result, size_t index);

/** The ONNX file of an export without `out`; else NULL, and *size is 0. `size` may not be NULL. */
LITHIFY_API const void* lithify_result_bytes(const lithify_result* result, size_t* size);

#ifdef __cplusplus
}
#endif

#endif
