/* export MODEL.pt OUT.onnx [INPUT]...: exports a TorchScript file, from C. INPUT is "x:float32[batch=2,4]". */
#include <lithify/lithify.h>
#include <stdio.h>

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL.pt OUT.onnx [INPUT]...\n", argv[0]);
    return 2;
  }
  lithify_options* options = lithify_options_new();
  lithify_options_set_opset(options, 18);
  for (int i = 3; i < argc; ++i) lithify_options_add_input(options, argv[i]);

  lithify_result* result = NULL;
  lithify_status status = lithify_export_file(argv[1], argv[2], options, &result);
  if (status != LITHIFY_OK) fprintf(stderr, "%s\n", lithify_status_text(status));
  for (size_t i = 0; i < lithify_result_message_count(result); ++i)
    fprintf(stderr, "%s\n", lithify_result_message(result, i));
  for (size_t i = 0; i < lithify_result_input_count(result); ++i)
    printf("input  %s\n", lithify_result_input(result, i));
  for (size_t i = 0; i < lithify_result_output_count(result); ++i)
    printf("output %s\n", lithify_result_output(result, i));

  lithify_result_free(result);
  lithify_options_free(options);
  return status == LITHIFY_OK ? 0 : 1;
}
