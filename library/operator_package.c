/* Reading a package's templates through the caller's function, and checking them. */
#include "operator_package.h"

#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "error.h"
#include "manifest_json.h"

typedef struct package_file package_file;
struct package_file {
  const char *path;
  const char *text; /* NULL: there is no such file */
  size_t length;
  package_file *next;
};

/* All files that were asked for so far. While it is read, `options` is set. */
typedef struct package {
  quire_template_source source; /* its user is the package */
  quire_arena *arena;
  const quire_package_options *options;
  package_file *files;
  quire_status status; /* first failure other than a missing file */
} package;

void quire_package_options_init(quire_package_options *options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}

static void append_piece(void *user, const char *text, size_t length) {
  quire_text_append(user, text, length);
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
    *file = (package_file){kept, status == QUIRE_OK ? bytes : NULL, text.length, all->files};
    all->files = file;
  } else if (all->status == QUIRE_OK) {
    all->status = status;
  }
  quire_text_release(&text);
  return all->status == QUIRE_OK ? file : NULL;
}

/* While a package is read, files that are not known yet are read; the finished one is constant. */
static bool find_file(const void *user, const char *path, const char **text, size_t *length) {
  const package *all = user;
  const package_file *file = all->files;
  while (file != NULL && strcmp(file->path, path) != 0) {
    file = file->next;
  }
  if (file == NULL && all->options != NULL && all->status == QUIRE_OK) {
    file = read_file((package *)all, path);
  }
  if (file == NULL || file->text == NULL) {
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
} lint;

/* True if an earlier pass has the same template. */
static bool is_known(const quire_manifest *manifest, size_t variant, size_t pass) {
  const char *shader = manifest->variants[variant].passes[pass].shader;
  for (size_t v = 0; v <= variant; v++) {
    size_t count = v < variant ? manifest->variants[v].pass_count : pass;
    for (size_t p = 0; p < count; p++) {
      const char *other = manifest->variants[v].passes[p].shader;
      if (other != NULL && strcmp(other, shader) == 0) {
        return true;
      }
    }
  }
  return false;
}

static void note(lint *found, size_t variant, size_t pass, const quire_error *fault) {
  char path[100];
  (void)snprintf(path, sizeof path, "$.variants[%zu].passes[%zu].shader", variant, pass);
  if (found->report != NULL) {
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

/* Reads and checks every template once. `found` may be NULL. */
static quire_status check_all(package *all, const quire_manifest *manifest, lint *found,
                              quire_error *error) {
  for (size_t v = 0; v < manifest->variant_count; v++) {
    for (size_t p = 0; p < manifest->variants[v].pass_count; p++) {
      const char *shader = manifest->variants[v].passes[p].shader;
      quire_error fault;
      if (shader == NULL || is_known(manifest, v, p)) {
        continue;
      }
      quire_status status =
          quire_template_check(shader, &all->source, all->arena->allocator, &fault);
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
  lint found = {report, user, text, length, error, QUIRE_OK};
  QUIRE_TRY(begin(options, manifest, &all, error));
  QUIRE_TRY(check_all(&all, manifest, &found, error));
  return found.status;
}
