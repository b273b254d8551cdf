/* A call that is described rather than made: what `explain` and `render` have in common. */
#ifndef QUIRE_TOOL_DESCRIBED_CALL_H
#define QUIRE_TOOL_DESCRIBED_CALL_H

#include "call.h"
#include "limits_file.h"

/* Where the call comes from. */
typedef struct quire_described_options {
  const char *request;   /* JSON by manifest keys; "-": standard input; or NULL */
  const char *case_path; /* or NULL */
  const char *limits;    /* JSON to lay over the device's; or NULL */
  const char *package;   /* folder of a manifest file's templates; NULL: the manifest's */
} quire_described_options;

/* Their table; the group writes to a quire_described_options. */
enum { QUIRE_DESCRIBED_OPTION_COUNT = 4 };
extern const quire_option quire_described_option_table[QUIRE_DESCRIBED_OPTION_COUNT];

/* What is done with the call. */
typedef struct quire_described_action {
  void *user;
  quire_status (*json)(void *user, const quire_operator *op, const char *text, size_t length,
                       quire_error *error);
  quire_status (*call)(void *user, const quire_operator *op, quire_device *device,
                       const quire_device_description *description, const quire_request *request,
                       quire_error *error);
  quire_status (*loaded)(void *user, const quire_operator *op); /* neither request nor case */
} quire_described_action;

/*
 * Opens the operator (a built-in one, a manifest file, or the case's own) and the request, and
 * hands them to the action. *where becomes the file that a failure is about.
 */
quire_status quire_described_run(const quire_text_list *positional,
                                 const quire_described_options *options,
                                 const quire_call_options *call_options,
                                 const quire_described_action *action, const char **where,
                                 quire_error *error);

/* Prints the shaders of a call; `pass` as for quire_render(). */
quire_status quire_described_render_json(const char *pass, const quire_operator *op,
                                         const char *text, size_t length, quire_error *error);
quire_status quire_described_render(const char *pass, const quire_operator *op,
                                    quire_device *device,
                                    const quire_device_description *description,
                                    const quire_request *request, quire_error *error);

/* Faults of usage that both commands refuse. `modes`: how many of their modes were asked for. */
quire_status quire_described_check(const quire_text_list *positional,
                                   const quire_described_options *options,
                                   const quire_call_options *call_options, int modes,
                                   const char *wanted, quire_error *error);

#endif
