#include "quire/status.h"

static const struct {
  const char *name;
  const char *description;
} statuses[] = {
    [QUIRE_OK] = {"OK", "success"},
    [QUIRE_BAD_ATTRIBUTE] = {"BAD_ATTRIBUTE",
                             "an attribute is missing, of the wrong kind or out of range"},
    [QUIRE_BAD_PRESENCE] = {"BAD_PRESENCE", "a tensor is missing, or present where it must not be"},
    [QUIRE_BAD_RANK] = {"BAD_RANK", "a tensor has the wrong number of dimensions"},
    [QUIRE_BAD_TYPE] = {"BAD_TYPE", "a tensor has the wrong element type"},
    [QUIRE_BAD_SHAPE] = {"BAD_SHAPE", "a dimension does not fit"},
    [QUIRE_BAD_VALUE] = {"BAD_VALUE", "a length, table entry or slot is out of range"},
    [QUIRE_BAD_ALIAS] = {"BAD_ALIAS", "two buffers overlap that must not"},
    [QUIRE_UNSUPPORTED] = {"UNSUPPORTED", "legal, but there is no implementation on this device"},
    [QUIRE_LIMIT] = {"LIMIT", "a size exceeds 64 bits or a limit of the device"},
    [QUIRE_OUT_OF_MEMORY] = {"OUT_OF_MEMORY", "memory could not be allocated"},
    [QUIRE_NOT_FOUND] = {"NOT_FOUND", "there is no operator, device or file of that name"},
    [QUIRE_BAD_MANIFEST] = {"BAD_MANIFEST", "a kernel manifest does not load"},
    [QUIRE_BAD_REQUEST] = {"BAD_REQUEST", "the caller's request is malformed"},
    [QUIRE_IO] = {"IO", "reading or writing failed"},
    [QUIRE_DEVICE] = {"DEVICE", "the device reported a failure"},
    [QUIRE_INTERNAL] = {"INTERNAL", "an invariant of the library does not hold"},
};

static int is_known(quire_status status) {
  return (int)status >= 0 && (size_t)status < sizeof statuses / sizeof statuses[0];
}

const char *quire_status_name(quire_status status) {
  return is_known(status) ? statuses[status].name : "UNKNOWN";
}

const char *quire_status_description(quire_status status) {
  return is_known(status) ? statuses[status].description : "not a status of this library";
}

int quire_status_is_invalid_argument(quire_status status) {
  return status >= QUIRE_BAD_ATTRIBUTE && status <= QUIRE_BAD_ALIAS;
}
