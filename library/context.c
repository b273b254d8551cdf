/* Contexts: the owner of the built-in operators, shared by everything that is made from it. */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "context_object.h"
#include "embedded_texts.h"
#include "error.h"

void quire_context_options_init(quire_context_options *options) {
  if (options != NULL) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
  }
}

static quire_status check_options(const quire_context_options *options, quire_error *error) {
  if (options == NULL) {
    return QUIRE_OK;
  }
  if (options->struct_size < sizeof *options) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "struct_size is %zu, at least %zu is needed", options->struct_size,
                      sizeof *options);
  }
  if (options->allocator != NULL &&
      (options->allocator->allocate == NULL || options->allocator->deallocate == NULL)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "allocator", "%s is NULL",
                      options->allocator->allocate == NULL ? "allocate" : "deallocate");
  }
  return QUIRE_OK;
}

static void retain(quire_owner *owner) {
  quire_context *context = (quire_context *)owner;
  atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

static void release(quire_owner *owner) {
  quire_context *context = (quire_context *)owner;
  if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1) {
    return;
  }
  for (size_t i = 0; i < context->operator_count; i++) {
    quire_manifest_destroy(context->operators[i].manifest);
  }
  quire_allocator allocator = context->allocator;
  quire_dealloc(&allocator, context, sizeof *context, QUIRE_ALLOC_ALIGNMENT);
}

/* A built-in manifest that does not load is our own fault, whatever is wrong with it. */
static quire_status as_internal(quire_status status, size_t index, quire_error *error) {
  if (status == QUIRE_OUT_OF_MEMORY) {
    return status;
  }
  quire_error cause;
  memset(&cause, 0, sizeof cause);
  if (error != NULL) {
    cause = *error;
  }
  return quire_fail(error, QUIRE_INTERNAL, NULL, "built-in manifests", "number %zu: %s", index,
                    cause.message);
}

static bool find_embedded(const void *user, const char *path, const char **text, size_t *length) {
  (void)user;
  for (size_t i = 0; i < quire_embedded_template_count; i++) {
    if (strcmp(quire_embedded_templates[i].path, path) == 0) {
      *text = quire_embedded_templates[i].data;
      *length = quire_embedded_templates[i].length;
      return true;
    }
  }
  return false;
}

/* The folder of a built-in manifest is where its templates are. */
static void find_templates(quire_context *context, size_t index) {
  const char *path = quire_embedded_manifests[index].path;
  const char *slash = strrchr(path, '/');
  size_t length = slash != NULL ? (size_t)(slash - path) : 0;
  char *folder = context->folders[index];
  (void)snprintf(folder, QUIRE_LONGEST_FOLDER, "%.*s", (int)length, path);
  context->templates[index] = (quire_template_source){.find = find_embedded, .folder = folder};
  context->operators[index].templates = &context->templates[index];
}

static quire_status load_builtin(quire_context *context, quire_error *error) {
  if (quire_embedded_manifest_count > QUIRE_MOST_BUILTIN_OPERATORS) {
    return quire_fail(error, QUIRE_INTERNAL, NULL, "built-in manifests", "%zu, room for %d",
                      quire_embedded_manifest_count, (int)QUIRE_MOST_BUILTIN_OPERATORS);
  }
  for (size_t i = 0; i < quire_embedded_manifest_count; i++) {
    const quire_embedded_text *text = &quire_embedded_manifests[i];
    quire_operator *op = &context->operators[i];
    quire_status status = quire_manifest_load(&context->allocator, text->data, text->length, NULL,
                                              NULL, &op->manifest, error);
    if (status != QUIRE_OK) {
      return as_internal(status, i, error);
    }
    op->built_in = true;
    find_templates(context, i);
    op->owner = &context->owner;
    atomic_init(&op->references, 1);
    context->operator_count = i + 1;
    status = quire_registry_check(&context->registry, op->manifest, error);
    if (status != QUIRE_OK) {
      return as_internal(status, i, error);
    }
  }
  return QUIRE_OK;
}

quire_status quire_context_create(const quire_context_options *options, quire_context **context,
                                  quire_error *error) {
  if (context == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "context", "is NULL");
  }
  *context = NULL;
  QUIRE_TRY(check_options(options, error));
  quire_allocator allocator = quire_default_allocator;
  if (options != NULL && options->allocator != NULL) {
    allocator = *options->allocator;
  }
  quire_context *made = quire_alloc_array(&allocator, 1, sizeof *made);
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  made->allocator = allocator;
  atomic_init(&made->references, 1);
  quire_builtin_kernels(made->kernels);
  made->registry.lists = made->kernels;
  made->registry.count = QUIRE_BUILTIN_KERNEL_LISTS;
  made->owner.allocator = &made->allocator;
  made->owner.registry = &made->registry;
  atomic_init(&made->owner.plan_count, 0);
  made->owner.retain = retain;
  made->owner.release = release;
  quire_status status = load_builtin(made, error);
  if (status != QUIRE_OK) {
    release(&made->owner);
    return status;
  }
  *context = made;
  return QUIRE_OK;
}

void quire_context_release(quire_context *context) {
  if (context != NULL) {
    release(&context->owner);
  }
}

size_t quire_context_operator_count(const quire_context *context) {
  return context == NULL ? 0 : context->operator_count;
}

const quire_operator *quire_context_operator(const quire_context *context, size_t index) {
  return index < quire_context_operator_count(context) ? &context->operators[index] : NULL;
}

const quire_operator *quire_context_find_operator(const quire_context *context, const char *name) {
  if (context == NULL || name == NULL) {
    return NULL;
  }
  const quire_operator *bare = NULL;
  size_t bare_count = 0;
  for (size_t i = 0; i < context->operator_count; i++) {
    const quire_operator *op = &context->operators[i];
    if (strcmp(op->manifest->qualified, name) == 0) {
      return op;
    }
    if (strcmp(op->manifest->name, name) == 0) {
      bare = op;
      bare_count++;
    }
  }
  return bare_count == 1 ? bare : NULL;
}
