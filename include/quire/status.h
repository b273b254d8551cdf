/* Statuses and the error record that explains them. */
#ifndef QUIRE_STATUS_H
#define QUIRE_STATUS_H

#include <stddef.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What became of a call. 0 is success. The statuses whose names begin with BAD_ and end before
 * UNSUPPORTED are together called "invalid argument": see quire_status_is_invalid_argument().
 */
typedef enum quire_status {
  QUIRE_OK = 0,
  QUIRE_BAD_ATTRIBUTE = 1, /* an attribute is missing, of the wrong kind, or out of range */
  QUIRE_BAD_PRESENCE = 2,  /* a tensor is missing, or present where it must not be */
  QUIRE_BAD_RANK = 3,      /* a tensor has the wrong number of dimensions */
  QUIRE_BAD_TYPE = 4,      /* a tensor has the wrong element type */
  QUIRE_BAD_SHAPE = 5,     /* a dimension does not fit */
  QUIRE_BAD_VALUE = 6,     /* a length, table entry or slot is out of range */
  QUIRE_BAD_ALIAS = 7,     /* two buffers overlap that must not */
  QUIRE_UNSUPPORTED = 8,   /* legal, but no implementation on this device */
  QUIRE_LIMIT = 9,         /* a size exceeds 64 bits or a limit of the device */
  QUIRE_OUT_OF_MEMORY = 10,
  QUIRE_NOT_FOUND = 11,    /* no operator, device, variant or file of that name */
  QUIRE_BAD_MANIFEST = 12, /* a kernel manifest does not load */
  QUIRE_BAD_REQUEST = 13,  /* the caller's request is malformed */
  QUIRE_IO = 14,           /* reading or writing failed */
  QUIRE_DEVICE = 15,       /* the device reported a failure */
  QUIRE_INTERNAL = 16      /* an invariant of the library does not hold: please report it */
} quire_status;

enum { QUIRE_RULE_SIZE = 16, QUIRE_SUBJECT_SIZE = 128, QUIRE_MESSAGE_SIZE = 1024 };

/*
 * Why a call was refused. Supplied by the caller, who may always pass NULL instead. Every function
 * that takes one sets it when, and only when, it returns another status than QUIRE_OK. All texts
 * end with a zero byte and are cut where they do not fit; no memory is owned.
 */
typedef struct quire_error {
  quire_status status;
  char rule[QUIRE_RULE_SIZE];       /* rule of the specification, "PA-V7"; empty if none */
  char subject[QUIRE_SUBJECT_SIZE]; /* tensor, attribute or file it is about; may be empty */
  char message[QUIRE_MESSAGE_SIZE]; /* one line: the rule, the subject and the values */
} quire_error;

/* Name of a status without its prefix, such as "BAD_SHAPE"; "UNKNOWN" for any other number. */
QUIRE_API const char *quire_status_name(quire_status status);

/* One line of English that says what the status means; never NULL. */
QUIRE_API const char *quire_status_description(quire_status status);

/* 1 for the seven BAD_ statuses that mean an invalid argument of an operator, else 0. */
QUIRE_API int quire_status_is_invalid_argument(quire_status status);

#ifdef __cplusplus
}
#endif

#endif
