/* The commands of quire, one table each. */
#ifndef QUIRE_TOOL_COMMANDS_H
#define QUIRE_TOOL_COMMANDS_H

#include "arguments.h"

extern const quire_command quire_command_run;
extern const quire_command quire_command_check;
extern const quire_command quire_command_explain;
extern const quire_command quire_command_render;
extern const quire_command quire_command_lint;
extern const quire_command quire_command_tune;
extern const quire_command quire_command_ops;
extern const quire_command quire_command_devices;
extern const quire_command quire_command_version;
extern const quire_command quire_command_bench;
extern const quire_command quire_command_bench_plan;
extern const quire_command quire_command_bench_serving; /* with QUIRE_WITH_SERVING */
extern const quire_command quire_command_same_bits;

#endif
