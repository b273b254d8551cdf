/* Native passes: which implementation of the kernel fits the types, features and precision. */
#include <string.h>

#include "planning.h"

bool quire_native_is_needed(const quire_manifest_variant *variant,
                            const quire_manifest_pass *pass) {
  /* On devices the schedule pass is the host's own check and may be missing. */
  return pass->native != NULL && (!pass->schedule || strcmp(variant->backend, "cpu") == 0);
}

quire_dtype quire_native_dtype(const quire_planning *p, int32_t variant,
                               const quire_manifest_binding *binding) {
  if (binding->kind == QUIRE_BINDING_SCRATCH) {
    return p->manifest->variants[variant].intermediates[binding->source].dtype;
  }
  if (binding->kind == QUIRE_BINDING_UNIFORM) {
    return QUIRE_DTYPE_NONE;
  }
  const quire_plan_tensor *tensor = quire_planning_tensor(p, binding->source);
  return tensor->present ? tensor->dtype : QUIRE_DTYPE_NONE;
}

static bool isa_allowed(quire_isa isa, quire_isa highest) {
  if (highest == QUIRE_ISA_BEST || isa == QUIRE_ISA_BEST || isa == QUIRE_ISA_SCALAR) {
    return true;
  }
  if (highest == QUIRE_ISA_NEON || isa == QUIRE_ISA_NEON) {
    return isa == highest;
  }
  return isa <= highest;
}

/* The first binding whose type the implementation does not take, or NULL. *count: views in all. */
static const quire_manifest_binding *find_type_misfit(const quire_planning *p, int32_t variant,
                                                      const quire_manifest_pass *pass,
                                                      const quire_implementation *implementation,
                                                      size_t *count) {
  size_t view = 0;
  const quire_manifest_binding *misfit = NULL;
  for (size_t i = 0; i < pass->binding_count; i++) {
    const quire_manifest_binding *binding = &pass->bindings[i];
    if (binding->kind == QUIRE_BINDING_UNIFORM) {
      continue;
    }
    quire_dtype dtype = quire_native_dtype(p, variant, binding);
    if (misfit == NULL && view < implementation->binding_count && dtype != QUIRE_DTYPE_NONE &&
        (implementation->bindings[view].dtypes & QUIRE_DTYPE_BIT(dtype)) == 0) {
      misfit = binding;
    }
    view++;
  }
  *count = view;
  return misfit;
}

static bool fits(const quire_planning *p, int32_t variant, const quire_manifest_pass *pass,
                 const quire_implementation *implementation) {
  size_t count = 0;
  return (implementation->features & ~p->target->cpu_features) == 0 &&
         isa_allowed(implementation->isa, p->target->isa) &&
         (implementation->precision != QUIRE_PRECISION_FAST ||
          p->request->precision == QUIRE_PRECISION_FAST) &&
         find_type_misfit(p, variant, pass, implementation, &count) == NULL &&
         count == implementation->binding_count;
}

const quire_implementation *quire_native_choose(const quire_planning *p, int32_t variant,
                                                const quire_manifest_pass *pass) {
  const quire_registry *registry = p->target->registry;
  const quire_implementation *best = NULL;
  for (size_t list = 0; registry != NULL && list < registry->count; list++) {
    for (size_t i = 0; i < registry->lists[list].count; i++) {
      const quire_implementation *item = &registry->lists[list].items[i];
      if ((best == NULL || item->priority > best->priority) &&
          strcmp(item->kernel, pass->native) == 0 && fits(p, variant, pass, item)) {
        best = item;
      }
    }
  }
  return best;
}

/* ---- why not ---- */

static void write_missing_features(quire_text *text, uint32_t missing) {
  quire_text_put(text, "the device lacks");
  for (unsigned bit = 0; bit < QUIRE_CPU_FEATURE_COUNT; bit++) {
    if ((missing & (1u << bit)) != 0) {
      quire_text_format(text, " %s", quire_cpu_features[bit]);
    }
  }
}

static void write_type_misfit(quire_text *text, const quire_planning *p, int32_t variant,
                              const quire_manifest_pass *pass,
                              const quire_implementation *implementation) {
  size_t count = 0;
  const quire_manifest_binding *binding =
      find_type_misfit(p, variant, pass, implementation, &count);
  if (binding == NULL) {
    if (count != implementation->binding_count) {
      quire_text_format(text, "it takes %zu buffers, the pass binds %zu",
                        implementation->binding_count, count);
    }
    return;
  }
  size_t view = 0;
  for (const quire_manifest_binding *b = pass->bindings; b != binding; b++) {
    view += b->kind != QUIRE_BINDING_UNIFORM;
  }
  quire_text_format(text, "%s is %s, it takes", binding->name,
                    quire_dtype_name(quire_native_dtype(p, variant, binding)));
  const char *separator = " ";
  for (int dtype = 1; dtype < QUIRE_DTYPE_COUNT; dtype++) {
    if ((implementation->bindings[view].dtypes & QUIRE_DTYPE_BIT(dtype)) != 0) {
      quire_text_format(text, "%s%s", separator, quire_dtype_name((quire_dtype)dtype));
      separator = ", ";
    }
  }
}

static void write_misfit(quire_text *text, const quire_planning *p, int32_t variant,
                         const quire_manifest_pass *pass,
                         const quire_implementation *implementation) {
  uint32_t missing = implementation->features & ~p->target->cpu_features;
  if (missing != 0) {
    write_missing_features(text, missing);
  } else if (!isa_allowed(implementation->isa, p->target->isa)) {
    quire_text_put(text, "its instruction set is not allowed");
  } else if (implementation->precision == QUIRE_PRECISION_FAST &&
             p->request->precision != QUIRE_PRECISION_FAST) {
    quire_text_put(text, "it is for precision \"fast\" only");
  } else {
    write_type_misfit(text, p, variant, pass, implementation);
  }
}

const char *quire_native_misfit(quire_planning *p, int32_t variant, const quire_manifest_pass *pass,
                                const quire_implementation *implementation) {
  quire_text text;
  quire_text_init(&text, p->scratch->allocator);
  write_misfit(&text, p, variant, pass, implementation);
  return quire_planning_keep(p, &text);
}

const char *quire_native_describe(quire_planning *p, int32_t variant,
                                  const quire_manifest_pass *pass) {
  quire_text text;
  quire_text_init(&text, p->scratch->allocator);
  quire_text_format(&text, "no implementation of kernel %s takes", pass->native);
  const char *separator = " ";
  for (size_t i = 0; i < pass->binding_count; i++) {
    quire_dtype dtype = quire_native_dtype(p, variant, &pass->bindings[i]);
    if (dtype != QUIRE_DTYPE_NONE) {
      quire_text_format(&text, "%s%s %s", separator, pass->bindings[i].name,
                        quire_dtype_name(dtype));
      separator = ", ";
    }
  }
  const quire_registry *registry = p->target->registry;
  size_t known = 0;
  for (size_t list = 0; registry != NULL && list < registry->count; list++) {
    for (size_t i = 0; i < registry->lists[list].count; i++) {
      const quire_implementation *item = &registry->lists[list].items[i];
      if (strcmp(item->kernel, pass->native) == 0) {
        quire_text_format(&text, "; %s: ", item->name);
        write_misfit(&text, p, variant, pass, item);
        known++;
      }
    }
  }
  if (known == 0) {
    quire_text_put(&text, "; there is none of that name");
  }
  return quire_planning_keep(p, &text);
}
