/* Reading a package's templates through the caller's function, and checking them. */
#include "operator_package.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "error.h"
#include "manifest_json.h"

enum {
  MOST_CHECKED_BYTES = 64 * 1024 * 1024, /* of all templates with their includes, together */
  MOST_FINDINGS = 200,                   /* reported; the loader's own are counted apart */
  FILE_LISTS = 1024
};

typedef struct package_file package_file;
struct package_file {
  const char *path;
  const char *text; /* NULL: there is no such file */
  size_t length;
  bool checked; /* as a template of its own */
  package_file *next;
};

/* All files that were asked for so far. While it is read, `options` is set. */
typedef struct package {
  quire_template_source source; /* its user is the package */
  quire_arena *arena;
  const quire_package_options *options;
  package_file *files[FILE_LISTS]; /* by the hash of the path */
  size_t checked_bytes;
  quire_status status; /* first failure other than a missing file */
} package;

void quire_package_options_init(quire_package_options *options) {
  if (options != NULL) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
  }
}

static void append_piece(void *user, const char *text, size_t length) {
  quire_text_append(user, text, length);
}

/* The list that a path belongs to (FNV-1a). */
static size_t list_of(const char *path) {
  uint32_t hash = 2166136261u;
  for (; *path != '\0'; ++path) {
    hash = (hash ^ (unsigned char)*path) * 16777619u;
  }
  return hash % FILE_LISTS;
}

static package_file *known_file(const package *all, const char *path) {
  package_file *file = all->files[list_of(path)];
  while (file != NULL && strcmp(file->path, path) != 0) {
    file = file->next;
  }
  return file;
}

/* Asks the caller for a file and keeps what came of it; NULL: see the package's status. */
static package_file *read_file(package *all, const char *path) {
  quire_text text;
  quire_text_init(&text, all->arena->allocator);
  text.limit = (size_t)QUIRE_TEMPLATE_MAX_TEXT + 1; /* one byte more is enough to be refused */
  quire_status status = all->options->read(all->options->user, path, append_piece, &text);
  package_file *file = quire_arena_array(all->arena, 1, sizeof *file);
  const char *kept = quire_arena_copy(all->arena, path, strlen(path));
  const char *bytes = quire_arena_copy(all->arena, quire_text_view(&text), text.length);
  if (file == NULL || kept == NULL || bytes == NULL) {
    status = QUIRE_OUT_OF_MEMORY;
  } else if (text.failed && status == QUIRE_OK) {
    status = text.over_limit ? QUIRE_LIMIT : QUIRE_OUT_OF_MEMORY;
  }
  if (status == QUIRE_OK || status == QUIRE_NOT_FOUND) {
    package_file **list = &all->files[list_of(path)];
    *file = (package_file){.path = kept,
                           .text = status == QUIRE_OK ? bytes : NULL,
                           .length = text.length,
                           .next = *list};
    *list = file;
  } else if (all->status == QUIRE_OK) {
    all->status = status;
  }
  quire_text_release(&text);
  return all->status == QUIRE_OK ? file : NULL;
}

/* Counts what is checked while a package is read: includes make much of few bytes. */
static bool may_check(package *all, size_t length) {
  if (all->options == NULL) {
    return true;
  }
  all->checked_bytes += length;
  if (all->checked_bytes > MOST_CHECKED_BYTES && all->status == QUIRE_OK) {
    all->status = QUIRE_LIMIT;
  }
  return all->status == QUIRE_OK;
}

/* While a package is read, files that are not known yet are read; the finished one is constant. */
static bool find_file(const void *user, const char *path, const char **text, size_t *length) {
  const package *all = user;
  const package_file *file = known_file(all, path);
  if (file == NULL && all->options != NULL && all->status == QUIRE_OK) {
    file = read_file((package *)all, path);
  }
  if (file == NULL || file->text == NULL || !may_check((package *)all, file->length)) {
    return false;
  }
  *text = file->text;
  *length = file->length;
  return true;
}

/* ---- all shaders ---- */

typedef struct lint {
  quire_finding_function *report;
  void *user;
  const char *text; /* of the manifest */
  size_t length;
  quire_error *error;
  quire_status status;
  size_t count; /* of findings */
} lint;

static void note(lint *found, size_t variant, size_t pass, const quire_error *fault) {
  char path[100];
  (void)snprintf(path, sizeof path, "$.variants[%zu].passes[%zu].shader", variant, pass);
  if (found->report != NULL && found->count < MOST_FINDINGS) {
    found->count++;
    quire_json_place root = quire_json_root();
    quire_json_place variants = quire_json_member(&root, "variants");
    quire_json_place one = quire_json_element(&variants, variant);
    quire_json_place passes = quire_json_member(&one, "passes");
    quire_json_place element = quire_json_element(&passes, pass);
    quire_json_place place = quire_json_member(&element, "shader");
    size_t offset = quire_json_locate(found->text, found->length, &place);
    quire_finding finding = {QUIRE_SEVERITY_ERROR, path, quire_json_line(found->text, offset),
                             fault->message};
    found->report(found->user, &finding);
  }
  if (found->status == QUIRE_OK) {
    found->status = quire_fail(found->error, QUIRE_BAD_MANIFEST, NULL, path, "%s", fault->message);
  }
}

/* Checks a template unless an earlier pass has it, under this spelling or another. */
static quire_status check_once(package *all, const char *shader, quire_error *fault) {
  char path[QUIRE_TEMPLATE_MAX_PATH];
  bool is_path = quire_template_path(all->source.folder, shader, path);
  const package_file *earlier = is_path ? known_file(all, path) : NULL;
  if (earlier != NULL && earlier->checked) {
    return QUIRE_OK;
  }
  quire_status status = quire_template_check(shader, &all->source, all->arena->allocator, fault);
  package_file *file = is_path ? known_file(all, path) : NULL;
  if (file != NULL) {
    file->checked = true;
  }
  return status;
}

/* Reads and checks every template once. `found` may be NULL. */
static quire_status check_all(package *all, const quire_manifest *manifest, lint *found,
                              quire_error *error) {
  for (size_t v = 0; v < manifest->variant_count; v++) {
    for (size_t p = 0; p < manifest->variants[v].pass_count; p++) {
      const char *shader = manifest->variants[v].passes[p].shader;
      quire_error fault;
      if (shader == NULL) {
        continue;
      }
      quire_status status = check_once(all, shader, &fault);
      if (all->status == QUIRE_OUT_OF_MEMORY || status == QUIRE_OUT_OF_MEMORY) {
        return quire_fail_memory(error);
      }
      if (all->status != QUIRE_OK) {
        return quire_fail(error, all->status, NULL, shader, "its package cannot be read");
      }
      if (status != QUIRE_OK && found != NULL) {
        note(found, v, p, &fault);
      }
    }
  }
  return QUIRE_OK;
}

/* Fills a package of the manifest's memory, with nothing read yet. */
static quire_status begin(const quire_package_options *options, quire_manifest *manifest,
                          package *all, quire_error *error) {
  if (options->struct_size < sizeof *options) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "struct_size is %zu, at least %zu is needed", options->struct_size,
                      sizeof *options);
  }
  const char *folder = options->folder != NULL ? options->folder : "";
  const char *kept = quire_arena_copy(&manifest->arena, folder, strlen(folder));
  if (kept == NULL) {
    return quire_fail_memory(error);
  }
  all->options = options->read != NULL ? options : NULL;
  all->source = (quire_template_source){find_file, all, kept};
  return QUIRE_OK;
}

quire_status quire_package_read(const quire_package_options *options, quire_manifest *manifest,
                                const quire_template_source **source, quire_error *error) {
  package *all = quire_arena_array(&manifest->arena, 1, sizeof *all);
  if (all == NULL) {
    return quire_fail_memory(error);
  }
  all->arena = &manifest->arena;
  QUIRE_TRY(begin(options, manifest, all, error));
  QUIRE_TRY(check_all(all, manifest, NULL, error));
  all->options = NULL;
  *source = &all->source;
  return QUIRE_OK;
}

quire_status quire_package_lint(const quire_package_options *options, quire_manifest *manifest,
                                const char *text, size_t length, quire_finding_function *report,
                                void *user, quire_error *error) {
  package all = {.arena = &manifest->arena};
  lint found = {report, user, text, length, error, QUIRE_OK, 0};
  QUIRE_TRY(begin(options, manifest, &all, error));
  QUIRE_TRY(check_all(&all, manifest, &found, error));
  return found.status;
}
