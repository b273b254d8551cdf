/*
 * Put before every source of the command line: its own allocations, and what jansson allocates for
 * it, are counted and fail on order. Not those of the library, which fault_test makes fail.
 *
 * QUIRE_FAULT_AT=N: allocation N fails, and with QUIRE_FAULT_ALL=1 all that follow.
 * QUIRE_FAULT_LOG: a file for one line each: "FILE:LINE", as they come.
 */
#ifndef QUIRE_TESTS_FAULT_TOOL_H
#define QUIRE_TESTS_FAULT_TOOL_H

#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>

void *fault_tool_malloc(size_t bytes, const char *file, int line);
void *fault_tool_calloc(size_t count, size_t size, const char *file, int line);
void *fault_tool_realloc(void *memory, size_t bytes, const char *file, int line);
void *fault_tool_aligned_alloc(size_t alignment, size_t bytes, const char *file, int line);
/* What jansson allocates between these is the command line's. */
int fault_tool_enter(const char *file, int line);
json_t *fault_tool_leave(json_t *made);
int fault_tool_leave_code(int code);
char *fault_tool_leave_text(char *text);
size_t fault_tool_leave_size(size_t size);

#define malloc(bytes) fault_tool_malloc(bytes, __FILE__, __LINE__)
#define calloc(count, size) fault_tool_calloc(count, size, __FILE__, __LINE__)
#define realloc(memory, bytes) fault_tool_realloc(memory, bytes, __FILE__, __LINE__)
#define aligned_alloc(alignment, bytes) \
  fault_tool_aligned_alloc(alignment, bytes, __FILE__, __LINE__)

/* A macro's own name in it is the function. */
#define FAULT_TOOL(leave, call) ((void)fault_tool_enter(__FILE__, __LINE__), leave(call))
#define json_array() FAULT_TOOL(fault_tool_leave, json_array())
#define json_deep_copy(...) FAULT_TOOL(fault_tool_leave, json_deep_copy(__VA_ARGS__))
#define json_integer(...) FAULT_TOOL(fault_tool_leave, json_integer(__VA_ARGS__))
#define json_loadb(...) FAULT_TOOL(fault_tool_leave, json_loadb(__VA_ARGS__))
#define json_loads(...) FAULT_TOOL(fault_tool_leave, json_loads(__VA_ARGS__))
#define json_object() FAULT_TOOL(fault_tool_leave, json_object())
#define json_pack(...) FAULT_TOOL(fault_tool_leave, json_pack(__VA_ARGS__))
#define json_real(...) FAULT_TOOL(fault_tool_leave, json_real(__VA_ARGS__))
#define json_string(...) FAULT_TOOL(fault_tool_leave, json_string(__VA_ARGS__))
#define json_array_append_new(...) \
  FAULT_TOOL(fault_tool_leave_code, json_array_append_new(__VA_ARGS__))
#define json_dumpf(...) FAULT_TOOL(fault_tool_leave_code, json_dumpf(__VA_ARGS__))
#define json_object_set(...) FAULT_TOOL(fault_tool_leave_code, json_object_set(__VA_ARGS__))
#define json_object_set_new(...) FAULT_TOOL(fault_tool_leave_code, json_object_set_new(__VA_ARGS__))
#define json_object_update(...) FAULT_TOOL(fault_tool_leave_code, json_object_update(__VA_ARGS__))
#define json_dumps(...) FAULT_TOOL(fault_tool_leave_text, json_dumps(__VA_ARGS__))
#define json_dumpb(...) FAULT_TOOL(fault_tool_leave_size, json_dumpb(__VA_ARGS__))

#endif
