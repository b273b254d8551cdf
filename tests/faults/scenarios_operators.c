/* Typed calls. The device has no plan for them, the workspace no memory. */
#include <string.h>

#include "fault_forms.h"

static const int64_t query_shape[] = {3, 64}, row_shape[] = {3, 32}, cache_shape[] = {8, 4, 2, 16};
static const int64_t offset_shape[] = {4}, length_shape[] = {3}, table_shape[] = {3, 3};
static const int64_t heads_shape[] = {3, 4};

static void make_room(fault_world *world, quire_workspace **workspace) {
  quire_error error;
  fault_must(quire_workspace_create(world->device, NULL, &world->workspace, &error), &error);
  fault_forget_plan(world);
  *workspace = world->workspace;
}

/* ---- attention ---- */

static void make_paged(fault_world *world) {
  quire_paged_attention_args *args = &world->args.paged;
  quire_paged_attention_args_init(args);
  args->query = fault_floats(world, 2, query_shape);
  args->key = fault_floats(world, 2, row_shape);
  args->value = fault_floats(world, 2, row_shape);
  args->key_cache = fault_floats(world, 4, cache_shape);
  args->value_cache = fault_floats(world, 4, cache_shape);
  args->cumulative_sequence_length = fault_ints(world, 1, offset_shape, fault_offsets);
  args->past_seqlens = fault_ints(world, 1, length_shape, fault_past);
  args->block_table = fault_ints(world, 2, table_shape, fault_table);
  args->output = fault_floats(world, 2, query_shape);
  args->softmax_lse = fault_floats(world, 2, heads_shape);
  args->num_heads = 4;
  args->kv_num_heads = 2;
  make_room(world, &args->workspace);
}

static quire_status call_paged(fault_world *world, quire_error *error) {
  return quire_paged_attention(world->device, &world->args.paged, error);
}

/* On a device that has never done anything, with a workspace of its own. */
static void make_first(fault_world *world) {
  quire_error error;
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = 1;
  make_paged(world);
  world->args.paged.workspace = NULL;
  if (strcmp(world->device_name, "cpu") == 0) {
    fault_must(quire_device_open(world->context, "cpu", &options, &world->own_device, &error),
               &error);
  }
}

static quire_status call_first(fault_world *world, quire_error *error) {
  return quire_paged_attention(world->own_device != NULL ? world->own_device : world->device,
                               &world->args.paged, error);
}

static void make_refused(fault_world *world) {
  make_paged(world);
  world->args.paged.num_heads = 3;
}

static void make_decode(fault_world *world) {
  static const int64_t wide[] = {3, 4, 16}, pages[] = {2, 8, 4, 16};
  quire_paged_decode_args *args = &world->args.decode;
  quire_paged_decode_args_init(args);
  args->query = fault_floats(world, 3, wide);
  args->key_pages = fault_floats(world, 4, pages);
  args->value_pages = fault_floats(world, 4, pages);
  args->page_table = fault_ints(world, 2, table_shape, fault_table);
  args->context_lengths = fault_ints(world, 1, length_shape, fault_lengths);
  args->output = fault_floats(world, 3, wide);
  args->scale = 0.25f;
  make_room(world, &args->workspace);
}

static quire_status call_decode(fault_world *world, quire_error *error) {
  return quire_paged_decode(world->device, &world->args.decode, error);
}

static void make_merge(fault_world *world) {
  static const int64_t wide[] = {3, 4, 16};
  quire_merge_attention_states_args *args = &world->args.merge;
  quire_merge_attention_states_args_init(args);
  args->output_a = fault_floats(world, 3, wide);
  args->softmax_lse_a = fault_floats(world, 2, heads_shape);
  args->output_b = fault_floats(world, 3, wide);
  args->softmax_lse_b = fault_floats(world, 2, heads_shape);
  args->output = fault_floats(world, 3, wide);
  args->softmax_lse = fault_floats(world, 2, heads_shape);
  make_room(world, &args->workspace);
}

static quire_status call_merge(fault_world *world, quire_error *error) {
  return quire_merge_attention_states(world->device, &world->args.merge, error);
}

/* ---- recurrent layers ---- */

static const int64_t rows_shape[] = {2, 5, 16}, gate_shape[] = {2, 5, 2},
                     state_shape[] = {2, 2, 8, 8};

static void make_linear(fault_world *world) {
  quire_linear_attention_args *args = &world->args.linear;
  quire_linear_attention_args_init(args);
  args->query = fault_floats(world, 3, rows_shape);
  args->key = fault_floats(world, 3, rows_shape);
  args->value = fault_floats(world, 3, rows_shape);
  args->past_state = fault_floats(world, 4, state_shape);
  args->decay = fault_floats(world, 3, gate_shape);
  args->beta = fault_floats(world, 3, gate_shape);
  args->output = fault_floats(world, 3, rows_shape);
  args->present_state = args->past_state;
  args->q_num_heads = 2;
  args->kv_num_heads = 2;
  make_room(world, &args->workspace);
}

static quire_status call_linear(fault_world *world, quire_error *error) {
  return quire_linear_attention(world->device, &world->args.linear, error);
}

static void make_onnx_linear(fault_world *world) {
  make_linear(world);
  world->args.linear.present_state = fault_floats(world, 4, state_shape);
}

static quire_status call_onnx_linear(fault_world *world, quire_error *error) {
  return quire_onnx_linear_attention(world->device, &world->args.linear, error);
}

static void make_replay(fault_world *world) {
  static const int64_t two[] = {2};
  static const int32_t accepted[] = {3, 5};
  quire_linear_attention_replay_args *args = &world->args.replay;
  quire_linear_attention_replay_args_init(args);
  args->log_key = fault_floats(world, 3, rows_shape);
  args->log_value = fault_floats(world, 3, rows_shape);
  args->log_decay = fault_floats(world, 3, gate_shape);
  args->accepted = fault_ints(world, 1, two, accepted);
  args->past_state = fault_floats(world, 4, state_shape);
  args->present_state = fault_floats(world, 4, state_shape);
  args->kv_num_heads = 2;
  make_room(world, &args->workspace);
}

static quire_status call_replay(fault_world *world, quire_error *error) {
  return quire_linear_attention_replay(world->device, &world->args.replay, error);
}

static void make_conv(fault_world *world) {
  static const int64_t input[] = {2, 6, 5}, weight[] = {6, 1, 4}, bias[] = {6}, past[] = {2, 6, 3};
  quire_causal_conv_with_state_args *args = &world->args.conv;
  quire_causal_conv_with_state_args_init(args);
  args->input = fault_floats(world, 3, input);
  args->weight = fault_floats(world, 3, weight);
  args->bias = fault_floats(world, 1, bias);
  args->past_state = fault_floats(world, 3, past);
  args->output = fault_floats(world, 3, input);
  args->present_state = fault_floats(world, 3, past);
  args->activation = "silu";
  make_room(world, &args->workspace);
}

static quire_status call_conv(fault_world *world, quire_error *error) {
  return quire_causal_conv_with_state(world->device, &world->args.conv, error);
}

static quire_status call_onnx_conv(fault_world *world, quire_error *error) {
  return quire_onnx_causal_conv_with_state(world->device, &world->args.conv, error);
}

/* ---- the second call of a form ---- */

static void make_known(fault_world *world) {
  quire_error error;
  make_decode(world);
  fault_must(call_decode(world, &error), &error);
}

/* A plan that cannot be kept is made again by the next call: that failure is survived. */
#define FIRST_CALL .survived = 1, .drop = fault_forget_plan

static const fault_scenario items[] = {
    {.name = "paged_attention",
     .functions = "quire_paged_attention quire_paged_attention_args_init",
     .make = make_paged,
     .call = call_paged,
     FIRST_CALL},
    {.name = "paged_attention, the device's first call",
     .functions = "quire_paged_attention",
     .make = make_first,
     .call = call_first,
     FIRST_CALL},
    {.name = "paged_attention, refused",
     .functions = "quire_paged_attention",
     .make = make_refused,
     .call = call_paged,
     .expected = QUIRE_BAD_ATTRIBUTE,
     FIRST_CALL},
    {.name = "paged_decode",
     .functions = "quire_paged_decode quire_paged_decode_args_init",
     .make = make_decode,
     .call = call_decode,
     FIRST_CALL},
    {.name = "paged_decode again",
     .functions = "quire_paged_decode",
     .make = make_known,
     .call = call_decode,
     .drop = fault_forget_plan,
     .silent = true},
    {.name = "merge_attention_states",
     .functions = "quire_merge_attention_states quire_merge_attention_states_args_init",
     .make = make_merge,
     .call = call_merge,
     FIRST_CALL},
    {.name = "linear_attention",
     .functions = "quire_linear_attention quire_linear_attention_args_init",
     .make = make_linear,
     .call = call_linear,
     FIRST_CALL},
    {.name = "onnx_linear_attention",
     .functions = "quire_onnx_linear_attention",
     .make = make_onnx_linear,
     .call = call_onnx_linear,
     FIRST_CALL},
    {.name = "linear_attention_replay",
     .functions = "quire_linear_attention_replay quire_linear_attention_replay_args_init",
     .make = make_replay,
     .call = call_replay,
     FIRST_CALL},
    {.name = "causal_conv_with_state",
     .functions = "quire_causal_conv_with_state quire_causal_conv_with_state_args_init",
     .make = make_conv,
     .call = call_conv,
     FIRST_CALL},
    {.name = "onnx_causal_conv_with_state",
     .functions = "quire_onnx_causal_conv_with_state",
     .make = make_conv,
     .call = call_onnx_conv,
     FIRST_CALL},
};

const fault_scenarios fault_operator_scenarios = {items, sizeof items / sizeof *items};
